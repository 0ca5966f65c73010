"""What an application has while it runs: the lifespan of the server, the session of all modern clients, and legacy sessions.

One task owns it from the first event to the last, so that the lifespan of the author is entered and left in the same task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from msgspec import structs

from twopipes._channels.fork import in_forked_children
from twopipes._codes import INTERNAL_ERROR
from twopipes._http.bus import Bus, LocalBus
from twopipes._http.options import HttpOptions
from twopipes._http.refusal import Refusal
from twopipes._server.call_runner import CallRunner
from twopipes._server.http.asgi import Receive, Send
from twopipes._server.http.bus_link import LOST, BusLink
from twopipes._server.http.connection import HttpServerConnection
from twopipes._server.http.deadlines import HttpDeadlines
from twopipes._server.http.peers import Peers
from twopipes._server.http.sessions import LegacySessions

if TYPE_CHECKING:
    from twopipes._server.app import Server


class Runtime:
    """A running application."""

    def __init__(self, server: Server[Any], options: HttpOptions, bus: Bus, lifespan: Any, peers: Peers | None) -> None:
        self.server = server
        self.options = options
        self.is_ending = False
        self.deadlines = HttpDeadlines(options)
        limits = structs.replace(
            server._limits, max_in_flight=options.max_requests + options.max_streams, max_listens=options.max_streams
        )
        runner = server._runner_options(lifespan)
        self.modern = HttpServerConnection(server._new_session(limits=limits, shared=True), **runner)
        self.sessions = LegacySessions(server, options, self.deadlines, runner, peers=peers)
        self.bus = BusLink(bus, self.connections)

    def connections(self) -> Iterator[CallRunner]:
        """Every connection of the application."""
        yield self.modern
        yield from self.sessions.connections()

    def refuse_listen(self) -> Refusal | None:
        """Return why no subscription can be opened at the moment, if so."""
        if not self.bus.is_connected:
            return Refusal(503, LOST, ((b"retry-after", b"1"),), code=INTERNAL_ERROR)
        if len(self.modern.session.subscriptions) >= self.options.max_streams:
            return Refusal(503, "too many subscriptions are open; try again later", ((b"retry-after", b"5"),), code=INTERNAL_ERROR)
        return None

    async def drain(self, seconds: float) -> None:
        """Refuse new requests, wait for running calls at most ``seconds``, and end the subscriptions."""
        self.is_ending = True
        self.modern.end_input()
        await asyncio.gather(*(connection.finish(seconds) for connection in self.connections()))
        await asyncio.gather(self.modern.stop(), self.sessions.close())


class RuntimeOwner:
    """Starts the runtime of an application once, and ends it."""

    def __init__(self, server: Server[Any], options: HttpOptions, bus: Bus | None, peers: Peers | None = None) -> None:
        self._peers = peers
        self.runtime: Runtime | None = None  # while it runs
        self._server = server
        self._options = options
        self._bus = bus or LocalBus()
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[Runtime] | None = None
        self._stop = asyncio.Event()

    @property
    def is_healthy(self) -> bool:
        """Whether requests and subscriptions are served. An application that waits for its first request is healthy."""
        runtime = self.runtime
        return runtime is None or (not runtime.is_ending and runtime.bus.is_connected)

    async def start(self) -> Runtime:
        """Return the runtime, and start it first if it does not run. If it cannot start, the next call tries again."""
        if self._started is None or (self._started.done() and self.runtime is None):
            self._started = asyncio.get_running_loop().create_future()
            self._stop = asyncio.Event()
            self._task = asyncio.create_task(self._run(self._started), name="twopipes http")
        return await asyncio.shield(self._started)

    async def drain(self, seconds: float) -> None:
        """Let running calls finish, at most ``seconds``, and refuse new ones."""
        if self.runtime is not None and not self.runtime.is_ending:
            await self.runtime.drain(seconds)

    async def stop(self) -> None:
        """End the runtime, and wait for it."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def follow(self, receive: Receive, send: Send) -> None:
        """Start and stop as the lifespan events of ASGI ask for."""
        await receive()
        try:
            await self.start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _run(self, started: asyncio.Future[Runtime]) -> None:
        try:
            async with AsyncExitStack() as stack:
                runtime = await self._enter(stack)
                started.set_result(runtime)
                await self._stop.wait()
                await self.drain(self._server.settings.drain)
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
                return
            raise
        finally:
            self.runtime = None

    async def _enter(self, stack: AsyncExitStack) -> Runtime:
        server = self._server
        lifespan = await stack.enter_async_context(server._running())
        if self._peers is not None:
            stack.push_async_callback(self._peers.close)  # last: the requests of other workers' sessions must end first
        runtime = self.runtime = Runtime(server, self._options, self._bus, lifespan, self._peers)
        server._connections.add(runtime.modern)
        stack.callback(server._connections.discard, runtime.modern)
        stack.callback(in_forked_children(runtime.modern.abandon))
        stack.push_async_callback(runtime.modern.close)
        stack.push_async_callback(runtime.sessions.close)
        await runtime.bus.open()
        stack.push_async_callback(runtime.bus.close)
        server._publishers.add(runtime.bus.publish)
        stack.callback(server._publishers.discard, runtime.bus.publish)
        return runtime
