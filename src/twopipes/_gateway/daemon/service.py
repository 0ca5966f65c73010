"""One server in the daemon, and the hosts that use it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from twopipes._channels.base import Channel
from twopipes._gateway.daemon.memory import resident_bytes
from twopipes._gateway.daemon.requests import DEFAULT_IDLE, ServeRequest
from twopipes._process.stderr import StderrLine, StderrTail
from twopipes._server.app import Server
from twopipes._server.log import logger
from twopipes._server.shutdown import GRACE, Ending
from twopipes._server.wire_log import Tracing

# Seconds that another host waits for the first start of a server, because only then it is known whether they can share it.
DECIDE_WITHIN: Final = 25.0
# Seconds for the end of a server: of its sessions, and then of its process (ShutdownPlan).
END_WITHIN: Final = 12.0
# Characters of a sharing key that name a server in `keep status`.
ID_LENGTH: Final = 8


class Kept(Protocol):
    """The server behind a gateway, as far as the daemon is concerned."""

    @property
    def era(self) -> Literal["modern", "legacy"] | None:
        """The era of its last start, or of its manifest; ``None`` before that."""

    def on_decided(self, call: Callable[[], object]) -> None:
        """Call a function once :attr:`era` is known, or the first start has failed."""

    def describe(self) -> dict[str, Any]:
        """Return what ``keep status`` shows: name, pid, started, calls, restarts and so on."""

    async def stop(self) -> None:
        """End the process. The next request starts it again."""


class Host(Struct, eq=False):
    """One host that uses a server: the relay, the process that started it, and the time."""

    pid: int
    parent: int
    since: float


class Service:
    """A server of the daemon. It starts with its first host, and ends some time after the last has left.

    Args:
        identity: A short name that no other server of the daemon has.
        request: What the first host asked for.
        open_kept: Makes the front and the back; the second argument receives the lines of stderr.
        on_end: Called when it takes no more hosts.
        on_ended: Called when nothing of it is left.
    """

    def __init__(
        self,
        identity: str,
        request: ServeRequest,
        open_kept: Callable[[ServeRequest, Callable[[StderrLine], object]], tuple[Server, Kept, Tracing | None]],
        *,
        on_end: Callable[[Service], object],
        on_ended: Callable[[Service], object],
    ) -> None:
        self.identity = identity
        self.request = request
        self.hosts: list[Host] = []
        self._log = StderrTail()
        self._on_end = on_end
        self._server, self._kept, self._tracing = open_kept(request, self._take_line)
        self._ending = Ending()
        self._unused = asyncio.Event()
        self._decided = asyncio.Event()
        self._kept.on_decided(self._decided.set)
        self._idle: asyncio.TimerHandle | None = None
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(), name=f"twopipes server {identity}")
        self._life.add_done_callback(self._log_failure)
        self._life.add_done_callback(lambda _: on_ended(self))

    # Hosts

    async def may_be_joined(self) -> bool:
        """Whether another host may use this server. Waits for its first start, because its era decides."""
        if self.request.options.share_all:
            return True
        if self._kept.era is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(DECIDE_WITHIN):
                    await self._decided.wait()
        return self._is_shareable

    @contextmanager
    def used_by(self, request: ServeRequest) -> Iterator[None]:
        """Count a host while the block runs."""
        host = Host(request.pid, request.host, time.time())
        self.hosts.append(host)
        self._unused.clear()
        self._cancel_idle()
        try:
            yield
        finally:
            self.hosts.remove(host)
            if not self.hosts:
                self._unused.set()
                self._decided.set()  # hosts that wait for the first start get a server of their own
                self._end_when_idle()

    async def serve(self, channel: Channel) -> None:
        """Serve one host to the end of its session."""
        lifespan = await asyncio.shield(self._ready)
        watched = channel if self._tracing is None else self._tracing.watch(channel)
        await self._server._serve_channel(watched, lifespan, ending=self._ending)

    @property
    def _is_shareable(self) -> bool:
        return self.request.options.share_all or self._kept.era == "modern"

    # The end

    def _end_when_idle(self) -> None:
        if self._ending.begun.is_set():
            return
        options = self.request.options
        # A server that no other host may use ends with its only host.
        seconds = (DEFAULT_IDLE if options.idle is None else options.idle) if self._is_shareable else 0.0
        self._idle = asyncio.get_running_loop().call_later(seconds, self.end)

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def end(self, *, soon: bool = False) -> None:
        """Begin to end the sessions and the server, and take no more hosts. ``soon``: running calls get less time."""
        if soon:
            self._ending.signalled.set()
        if not self._ending.begun.is_set():
            self._cancel_idle()
            self._ending.begun.set()
            self._on_end(self)
            asyncio.get_running_loop().call_later(END_WITHIN, self._life.cancel)

    async def stop(self) -> None:
        """End the process. The sessions of hosts go on, and the next request starts it again; without hosts it ends for good."""
        if self.hosts:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_WITHIN):
                    await self._kept.stop()
        else:
            self.end(soon=True)
            await self.ended()

    async def ended(self) -> None:
        """Wait until nothing of it is left; see :meth:`end`."""
        await asyncio.wait([self._life], timeout=END_WITHIN + GRACE)

    async def _live(self) -> None:
        """Run the server from its first host to its end."""
        try:
            async with self._server._running() as lifespan:
                self._ready.set_result(lifespan)
                await self._ending.begun.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._server.settings.drain + GRACE):
                        await self._unused.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
                self._ready.exception()  # so that asyncio does not warn if no host waits for it
            raise
        finally:
            self.end()
            if self._tracing is not None and self._tracing.recorder is not None:
                from twopipes._trace.channel import close_recorder  # only if it is requested

                await close_recorder(self._tracing.recorder, 1.0)

    def _log_failure(self, life: asyncio.Task[None]) -> None:
        if not life.cancelled() and (error := life.exception()) is not None:
            logger.error("Error: server %s failed: %r", self.identity, error)

    # For the commands

    @property
    def argv(self) -> list[str]:
        """Its command."""
        return self.request.argv

    def lines(self) -> list[str]:
        """Return the last lines that it wrote to stderr."""
        return self._log.lines()

    def matches(self, name: str) -> bool:
        """Whether a user means this server: by its id, its name, or a part of its command."""
        return name in {self.identity, self._kept.describe().get("name")} or name in self.request.command

    def describe(self) -> dict[str, Any]:
        """Return the row of ``keep status``."""
        found = self._kept.describe()
        pid = found.get("pid")
        return {
            "id": self.identity,
            "command": self.request.argv,
            "cwd": self.request.cwd,
            "era": self._kept.era,
            "shared": self._is_shareable,
            "hosts": [{"pid": each.pid, "host": each.parent, "since": each.since} for each in self.hosts],
            **found,
            "memory": None if pid is None else resident_bytes(pid),
        }

    def _take_line(self, line: StderrLine) -> None:
        self._log.feed(f"{line.text}\n".encode(errors="replace"), line.time)
