"""One server of a hub: opened, listed, opened again, and reported when it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import copy
from math import inf
from typing import Any, Final, Literal, Protocol

from msgspec import Raw, Struct, structs

from twopipes._client.connect import Given
from twopipes._gateway.back import Back, BackConfig, Opened
from twopipes._gateway.front_call import ClientIdentity
from twopipes._gateway.hub.listing import Item, read_list
from twopipes._gateway.idle import IdleTimer
from twopipes._gateway.manifest import LISTS
from twopipes._host.config import ServerConfig
from twopipes._host.filters import ToolFilter
from twopipes._process.stderr import StderrLine
from twopipes._protocol.types import LoggingLevel
from twopipes._session.subscriptions import Change, ListKind
from twopipes.errors import (
    ClientClosed,
    ConfigError,
    McpError,
    MethodNotFound,
    RemoteProtocolError,
    RequestTimedOut,
    TwopipesError,
)

MemberState = Literal["waiting", "opening", "ready", "restarting", "failed", "closed"]
"""Not started yet or stopped because it was idle; being opened and listed; in use; restarted after a crash; cannot be opened;
removed."""
ReportLevel = Literal["info", "warning", "error"]

# Seconds between two readings of the lists of one server. They double up to the longest while it announces changes all the time,
# and begin again after that time without any.
_SHORTEST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 5.0
# Seconds before another attempt to open a server that could not be opened. They double up to the longest.
_FIRST_RETRY: Final = 5.0
_LONGEST_RETRY: Final = 300.0
# Seconds after which a list is read again for a host, if the server does not announce changes.
_MAX_AGE: Final = 5.0

_UNCOUNTED: Final = nullcontext()
_NO_ITEMS: Final[list[Item]] = []


class MemberSettings(Struct, frozen=True, kw_only=True):
    """What applies to every server of a hub.

    Attributes:
        tools: Which tools are offered, in addition to the filter of each server.
        idle: Seconds without a request after which a server is stopped; ``None`` for never.
        config: How to connect.
        on_stderr: Called with the name of a server and each line that it writes to stderr.
        trace: Returns the file to record the messages of a server in.
        option_names: As for :class:`PassingServer`.
    """

    tools: ToolFilter | None = None
    idle: float | None = None
    config: BackConfig = BackConfig()
    on_stderr: Callable[[str, StderrLine], object] | None = None
    trace: Callable[[str], str | None] | None = None
    option_names: Mapping[str, str] = {}


class MemberOwner(Protocol):
    """What a server of a hub reports to."""

    def observe(self, member: Member, back: Back) -> None:
        """Connect the callbacks of a server that is about to be opened."""

    def state_changed(self, member: Member) -> None:
        """Handle another state of a server."""

    def list_changed(self, member: Member, method: str, *, is_first: bool) -> None:
        """Handle the first list of a server, or another one."""

    def report(self, member: Member, level: ReportLevel, text: str) -> None:
        """Report to people what happened to a server."""


class Member:
    """A server of a hub. Nothing is started before :meth:`start`.

    Attributes:
        name: The name that the user gave it.
        config: How to reach it.
        state: What it is doing.
        since: When the state began, in Unix time.
        back: The connection to it; ``None`` before the first attempt to open it, and after one that failed.
        problem: Why it could not be opened, or was lost for good, the last time; ``None`` if it is fine.
        lists: The items of each list method that was read.
        level: The log level that hosts want.
        after: The end of the server that this one replaces, which is awaited first: both may need the same port or file.
    """

    def __init__(self, name: str, config: ServerConfig | Given, settings: MemberSettings, owner: MemberOwner) -> None:
        self.name = name
        self.config = config
        self.state: MemberState = "waiting"
        self.since = time.time()
        self.back: Back | None = None
        self.problem: TwopipesError | None = None
        self.lists: dict[str, list[Item]] = {}
        self._offered: tuple[list[Item], list[Item]] = (_NO_ITEMS, _NO_ITEMS)  # the tools, and those that pass the filters
        self.level: LoggingLevel | None = None
        self.after: asyncio.Task[None] | None = None
        self._settings = settings
        self._owner = owner
        self._client: ClientIdentity | None = None
        self._began = 0.0
        self._idle = IdleTimer(settings.idle, self._on_idle)
        self._opening: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None  # of what could not be opened
        self._retry: asyncio.TimerHandle | None = None
        self._retry_delay = _FIRST_RETRY
        self._stale: set[ListKind] = set()
        self._refreshing: asyncio.Task[None] | None = None
        self._pause = _SHORTEST_PAUSE
        self._refreshed_at = -inf
        self._read_at = -inf
        self._tasks: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<Member {self.name!r} {self.state}>"

    # State

    @property
    def tools(self) -> list[Item]:
        """The tools that are offered to hosts."""
        return self.offered("tools/list")

    @property
    def opened(self) -> Opened | None:
        """What the server reported when it was opened last."""
        return None if self.back is None else self.back.opened

    @property
    def running(self) -> tuple[Back, Opened] | None:
        """The connection to it and what it reported, if it runs. It may be restarting."""
        back = self.back
        return (back, back.opened) if back is not None and back.is_running and back.opened is not None else None

    @property
    def is_closed(self) -> bool:
        """Whether it was removed from the hub."""
        return self.state == "closed"

    def describe(self, error: TwopipesError) -> str:
        """Return the text of an error, with options as the user of the hub writes them."""
        return error.describe(self._settings.option_names)

    def offered(self, method: str) -> list[Item]:
        """Return the items of a list that pass the filters: the same object until the list changes."""
        items = self.lists.get(method, _NO_ITEMS)
        if method != "tools/list":
            return items
        if self._offered[0] is not items:
            own = self.config.tools if isinstance(self.config, ServerConfig) else None
            filters = [each for each in (own, self._settings.tools) if each is not None]
            allowed = [item for item in items if all(each.allows(item.tool()) for each in filters)] if filters else items
            self._offered = (items, allowed)
        return self._offered[1]

    def is_awaited(self, method: str | None = None) -> bool:
        """Whether it is being opened, and this list (or, without one, what it reports about itself) is not known yet.

        Another attempt after a failure is not waited for; its success is announced.
        """
        if self.state != "opening" or self.problem is not None:
            return False
        return self.opened is None if method is None else method not in self.lists

    def seconds_left(self, limit: float) -> float:
        """Return for how long a host should still wait for it: ``limit`` counts from the start of the opening."""
        return self._began + limit - asyncio.get_running_loop().time()

    def _set(self, state: MemberState) -> None:
        if self.state not in {state, "closed"}:
            self.state = state
            self.since = time.time()
            self._owner.state_changed(self)

    # For the hub

    def start(self, client: ClientIdentity) -> None:
        """Open it for this client, in the background, if it was never opened."""
        self._client = self._client or client
        if self.state == "waiting" and self.back is None:
            self._begin()

    async def ready(self, client: ClientIdentity) -> tuple[Back, Opened]:
        """Open it if necessary, and return its connection.

        Raises:
            TwopipesError: It cannot be opened.
        """
        back = self.back
        if self.running is not None:
            return self.running
        if back is not None and back.opened is not None:  # it was stopped because it was idle
            return back, await self._reopen(back, client)
        if not self.is_closed:
            self._client = self._client or client
            await asyncio.wait([self._opening or self._begin()])
        if self.back is not None and self.back.opened is not None and not self.is_closed:
            return self.back, self.back.opened
        raise ClientClosed if self.problem is None else copy(self.problem)  # each caller gets its own exception

    async def wake(self) -> None:
        """Start it again if it was stopped because it was idle. Raises as :meth:`ready`."""
        if self.state == "waiting" and self._client is not None:
            await self.ready(self._client)

    async def _reopen(self, back: Back, client: ClientIdentity) -> Opened:
        try:
            return await back.ready(client)
        except TwopipesError as error:
            self._failed(error)
            raise

    def used(self) -> AbstractContextManager[None]:
        """Count as a user, for the time of a ``with`` block, so that it is not stopped as idle."""
        return _UNCOUNTED if self._settings.idle is None else self._idle.used()

    def refresh_unannounced(self, method: str) -> None:
        """Read a list again in the background, if the server does not announce changes and the list is old."""
        kind = LISTS[method][1]
        back = self.back
        if self.state != "ready" or back is None or back.opened is None or not back.is_running:
            return
        declared = back.opened.capabilities
        is_old = asyncio.get_running_loop().time() > self._read_at + _MAX_AGE
        if declared.allows(kind) and not declared.allows(kind, "listChanged") and is_old:
            self._refresh_soon({kind})

    def set_level(self, level: LoggingLevel) -> None:
        """Set the lowest level of its log messages. A server that does not respond delays nothing."""
        self.level = level
        if self.back is not None:
            self._spawn(self._set_level(self.back, level), "set the log level of")

    async def _set_level(self, back: Back, level: LoggingLevel) -> None:
        with suppress(TwopipesError):  # hosts get only what they want, whatever the server sends
            await back.set_log_level(level)

    async def close(self) -> None:
        """End it for good. Calls in flight fail."""
        self._set("closed")
        self._idle.stop()
        if self._retry is not None:
            self._retry.cancel()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._ending is not None:
            await asyncio.wait([self._ending])
        if self.back is not None:
            await self.back.close()

    # Opening

    def _begin(self) -> asyncio.Task[None]:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._began = asyncio.get_running_loop().time()
        self._set("opening")
        self._opening = self._spawn(self._open(), "open")
        return self._opening

    async def _open(self) -> None:
        assert self._client is not None
        if self.after is not None:
            await asyncio.wait([self.after])
        try:
            back = self.back = self._make_back()
            if self.level is not None:
                await back.set_log_level(self.level)
            back.watches.lists()
            with self.used():
                await back.ready(self._client)
                await self._read(LISTS)
        except TwopipesError as error:
            await self._open_failed(error)
        else:
            self._retry_delay = _FIRST_RETRY
            self._recovered()
        finally:
            self._opening = None

    async def _open_failed(self, error: TwopipesError) -> None:
        back, self.back = self.back, None
        self._failed(error)
        if not isinstance(error, ConfigError):  # which stays wrong until the file is changed
            self._retry = asyncio.get_running_loop().call_later(self._retry_delay, self._begin)
            self._retry_delay = min(2 * self._retry_delay, _LONGEST_RETRY)
        if back is not None:
            self._ending = asyncio.create_task(back.close(), name=f"end {self.name}")
            await asyncio.shield(self._ending)  # close() cancels this, and waits for the end itself

    def _failed(self, error: TwopipesError) -> None:
        """Report why it cannot be used. Another attempt that fails in the same way is not reported again."""
        is_news = type(error) is not type(self.problem)
        self.problem = error
        self._set("failed")
        if is_news:
            self._owner.report(self, "error", f"it cannot be used: {self.describe(error)}")

    def _make_back(self) -> Back:
        settings = self._settings
        config, given = settings.config, self.config
        if isinstance(given, ServerConfig):
            if given.timeouts is not None:
                config = structs.replace(config, timeouts=given.timeouts)
            given = given.target()
        changes: dict[str, Any] = {}
        if settings.on_stderr is not None:
            on_stderr = settings.on_stderr
            changes["on_stderr"] = lambda line: on_stderr(self.name, line)
        if settings.trace is not None:
            changes["trace"] = settings.trace(self.name)
        back = Back(given, config=structs.replace(config, **changes))
        back.questions.asker = self.name
        back.on_opened.append(self._back_opened)
        back.on_changed.append(self._back_changed)
        back.on_restart.append(lambda error: self._owner.report(self, "warning", f"it is restarted: {self.describe(error)}"))
        back.on_given_up.append(self._given_up)
        back.on_exit.append(lambda: self._set("restarting") if self.state == "ready" else None)
        self._owner.observe(self, back)
        return back

    def _back_opened(self, opened: Opened) -> None:
        if self.state != "opening":  # again, after a crash or a pause
            self._recovered()
            self._refresh_soon({kind for _, kind in LISTS.values()})

    def _recovered(self) -> None:
        self.problem = None
        self._set("ready")

    def _given_up(self, error: TwopipesError) -> None:
        self.problem = error
        self._set("failed")
        self._owner.report(self, "error", f"it is not restarted any more: {self.describe(error)}")

    def _on_idle(self) -> None:
        if self.back is None or not self.back.is_running:
            return
        if self.back.watches.has_resources:  # a host waits for updates of resources, which only a running server sends
            with self._idle.used():
                return
        self._spawn(self._stop_idle(self.back), "stop")

    async def _stop_idle(self, back: Back) -> None:
        if not self._idle.is_used:  # a request may have come since
            self._set("waiting")
            await back.stop()

    # Lists

    def _back_changed(self, change: Change) -> None:
        if change.kind != "resource":
            self._refresh_soon({change.kind})

    def _refresh_soon(self, kinds: set[ListKind]) -> None:
        self._stale |= kinds
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._spawn(self._refresh(), "list")

    async def _refresh(self) -> None:
        """Read the lists that may have changed, until no more changes come."""
        while self._stale:
            await self._wait_between()
            stale, self._stale = self._stale, set()
            with suppress(TwopipesError):  # it was lost; its next opening reads them
                await self._read(method for method, (_, kind) in LISTS.items() if kind in stale)

    async def _wait_between(self) -> None:
        """Wait before the next reading, longer each time if they follow each other."""
        loop = asyncio.get_running_loop()
        age = loop.time() - self._refreshed_at
        self._pause = _SHORTEST_PAUSE if age > _LONGEST_PAUSE else min(2 * self._pause, _LONGEST_PAUSE)
        await asyncio.sleep(self._pause - age)
        self._refreshed_at = loop.time()

    async def _read(self, methods: Iterable[str]) -> None:
        self._read_at = asyncio.get_running_loop().time()
        outcomes = await asyncio.gather(*(self._read_one(method) for method in methods), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _read_one(self, method: str) -> None:
        assert self.opened is not None
        items: list[Item] = []
        if self.opened.capabilities.allows(LISTS[method][1]):
            try:
                found = await read_list(self._fetch, method, max_pages=self._settings.config.limits.max_pages)
            except MethodNotFound:
                pass  # many servers have resources and no templates
            except (McpError, RequestTimedOut, RemoteProtocolError) as error:
                self._owner.report(self, "warning", f"it did not answer {method}: {self.describe(error)}")
                items = self.lists.get(method, [])
            else:
                items = found.items
                if found.fault:
                    self._owner.report(self, "warning", found.fault)
        known = self.lists.get(method)
        if known != items:
            self.lists[method] = items
            self._owner.list_changed(self, method, is_first=known is None)

    async def _fetch(self, method: str, params: Mapping[str, Any]) -> Raw:
        assert self._client is not None
        assert self.back is not None
        page = await self.back.fetch(method, params, self._client)
        if method == "tools/list":
            self.back.tools.add(page)
        return page

    # Internals

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{what} {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
