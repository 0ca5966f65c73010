"""One server of a group: opens it when it is needed, keeps its list of tools current, and closes it.

Everything about a server happens in tasks of its own, so that a server that hangs, crashes or floods delays no other. Restarts are
those of the client; this only opens a new client where the client does not restart its server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import Literal

from twopipes._client.client import Client
from twopipes._client.subscription import Subscription
from twopipes._error_text import OptionHint
from twopipes._host.group_options import Config, GroupOptions
from twopipes._host.group_tool import GroupTool
from twopipes._protocol.types import Tool
from twopipes.errors import (
    ClientClosed,
    ConnectionLost,
    McpError,
    OpeningFailed,
    RequestTimedOut,
    ServerExited,
    TwopipesError,
)
from twopipes.settings import RestartPolicy

State = Literal["waiting", "opening", "ready", "failed", "closed"]
"""``waiting``: not opened yet. ``failed``: it could not be opened, or it exited; the next call of its tools opens it again."""

# Seconds to wait for the acknowledgement of a subscription before the tools are listed. After a later one they are listed again.
_ACKNOWLEDGEMENT = 1.0
# Seconds between two lists of the same server: a server that reports changes in a loop keeps only itself busy. The pause is longer
# after a list that took long to compare, which blocks the event loop, so that most of the loop is left to the other servers.
_LIST_PAUSE = 0.2
_PAUSE_PER_WORK = 4.0


class GroupServer:
    """One server of a :class:`ServerGroup`.

    Attributes:
        name: The name that you gave it.
        config: How to reach it.
        state: ``waiting``, ``opening``, ``ready``, ``failed`` or ``closed``.
        client: Its client, once it has been opened. It is replaced when the server is opened again.
        problem: The last error: it could not be opened, exited, or did not list its tools. ``None`` if it works.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        prefix: str,
        options: GroupOptions,
        *,
        on_listed: Callable[[GroupServer, Sequence[Tool]], Awaitable[None]],
        on_problem: Callable[[GroupServer, TwopipesError], None],
    ) -> None:
        self.name = name
        self.config = config
        self.state: State = "waiting"
        self.client: Client | None = None
        self.problem: TwopipesError | None = None
        self.offered: dict[str, GroupTool] = {}  # by the name in the group; the group sets it
        self._prefix = prefix
        self._options = options
        self._on_listed = on_listed
        self._on_problem = on_problem
        self._earlier_restarts = 0  # of clients before the current one
        self._stale = asyncio.Event()  # the tools may have changed
        self._applying = asyncio.Lock()  # lists are used in the order in which they came
        self._opening: asyncio.Task[Client] | None = None
        self._following: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<GroupServer {self.name}, {self.state}, tools: {len(self.offered)}>"

    @property
    def tools(self) -> list[GroupTool]:
        """Its tools that are offered, in its order. They stay listed if it exits, because a call opens it again."""
        return list(self.offered.values())

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return self._earlier_restarts + (0 if self.client is None else self.client.restarts)

    @property
    def stderr(self) -> Sequence[str]:
        """The last lines that it wrote to its stderr."""
        if self.client is not None:
            return self.client.stderr
        return getattr(self.problem, "stderr", ())

    # For the group

    async def connected(self) -> Client:
        """Return the client, after opening the server if that is necessary. Raises the error if it cannot be opened."""
        if self._closing is not None:
            raise ClientClosed
        if self.client is None or self._opening is not None or (self._may_reopen and _is_lost(self.client)):
            return await self.open()
        return self.client

    async def open(self) -> Client:
        """Open the server, again if it is open. Callers at the same time share one opening; cancelling one does not stop it."""
        if self._closing is not None:
            raise ClientClosed
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(), name=f"open the server {self.name}")
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except TwopipesError as error:
            raise copy(error) from error.__cause__  # each caller gets its own exception and traceback
        except asyncio.CancelledError:
            if opening.cancelled() and self._closing is not None:
                raise ClientClosed from None
            raise

    def lost(self, client: Client) -> bool:
        """Whether a client has lost its server for good, so that the next call opens a new one."""
        return self._closing is None and self._may_reopen and (client is not self.client or _is_lost(client))

    def works(self, client: Client) -> None:
        """Handle the success of a call: a server that failed may have been restarted by the call."""
        if self.state == "failed" and client is self.client:
            self.state, self.problem = "ready", None
            self._stale.set()

    async def relist(self) -> None:
        """List the tools now. Raises the error if that fails."""
        client = await self.connected()
        try:
            await self._listed(await self._list(client))
        except TwopipesError as error:
            self._report(error)
            raise

    async def close(self) -> None:
        """Shut the server down. Calls in progress end with ``ClientClosed``. Cancelling this does not stop the shutdown."""
        if self._closing is None:
            self.state = "closed"
            if self._opening is not None:
                self._opening.cancel()  # now, so that it changes nothing any more
            self._closing = asyncio.get_running_loop().create_task(self._close(), name=f"close the server {self.name}")
        await asyncio.shield(self._closing)

    # Opening and closing

    async def _open(self) -> Client:
        self.state = "opening"
        try:
            await self._discard()
            self.state = "opening"  # it may have failed meanwhile, if the end of the old server was reported only now
            client = await self._options.connect(self.name, self.config, self._prefix, self._restarting)
            try:
                await self._prepare(client)
            except BaseException:
                await client.close()
                raise
        except Exception as error:
            failure = error if isinstance(error, TwopipesError) else _unexpected("the server cannot be opened", error)
            self._fail(failure)
            raise failure from failure.__cause__
        return client

    async def _prepare(self, client: Client) -> None:
        """List the tools, and begin to follow their changes."""
        changes = await self._subscribe(client)
        tools = await self._list(client)
        client._supervisor.on_over = self._fail  # noqa: SLF001 - a client has no event for its end
        self.client = client
        self.state, self.problem = "ready", None
        await self._listed(tools)
        self._following = asyncio.get_running_loop().create_task(self._follow(client, changes), name=f"the tools of {self.name}")

    def _opened(self, opening: asyncio.Task[Client]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # so that asyncio does not warn if no caller waits any more

    async def _discard(self) -> None:
        """Close the client of an earlier opening."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
            self._following = None
        client = self.client
        if client is not None:
            if _is_lost(client):
                with suppress(TwopipesError):  # its end is reported before it is opened again
                    await client._supervisor.wait(None)  # noqa: SLF001 - see _is_lost
            await client.close()
            self._earlier_restarts += client.restarts + 1
            self.client = None

    async def _close(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
        await self._discard()

    @property
    def _may_reopen(self) -> bool:
        policy = self._options.restart or RestartPolicy()
        return policy.when != "never"

    # The list of tools

    async def _follow(self, client: Client, changes: Subscription | None) -> None:
        """List the tools again after each change and each restart, with a pause in between."""
        loop = asyncio.get_running_loop()
        watching = None if changes is None else asyncio.create_task(self._watch(changes))
        try:
            while True:
                await self._stale.wait()
                self._stale.clear()
                work = 0.0
                try:
                    tools = await self._list(client)
                    begun = loop.time()
                    await self._listed(tools)
                    work = loop.time() - begun
                except (ServerExited, ConnectionLost, ClientClosed):
                    pass  # the supervisor restarts it, or reports its end
                except TwopipesError as error:
                    self._report(error)
                await asyncio.sleep(max(_LIST_PAUSE, _PAUSE_PER_WORK * work))
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.wait([watching])

    async def _subscribe(self, client: Client) -> Subscription | None:
        """Subscribe to changes, and wait briefly for the acknowledgement: a list that is requested then misses no change."""
        if not client.capabilities.allows("tools", "listChanged"):
            return None
        changes = client.subscribe(tools=True)
        with suppress(TwopipesError, TimeoutError):
            async with asyncio.timeout(_ACKNOWLEDGEMENT):
                await changes.ready()
        return changes

    async def _watch(self, changes: Subscription) -> None:
        try:
            if changes.honoured is None:
                await changes.ready()
                self._stale.set()
            async for _ in changes:
                self._stale.set()
        except McpError as error:
            self._report(error)  # the server declared changes, but refuses to report them
        except TwopipesError:
            pass  # the connection is lost for good, which the supervisor reports
        finally:
            changes.close()

    async def _list(self, client: Client) -> list[Tool]:
        """Return all tools. The whole list is bounded: a server could send one page after another."""
        if not client.capabilities.allows("tools"):
            return []
        timeouts = client.timeouts
        limit = min((each for each in (timeouts.connect, timeouts.request) if each is not None), default=None)
        try:
            async with asyncio.timeout(limit):
                return await client.list_tools(fresh=True)
        except (TimeoutError, RequestTimedOut):
            raise OpeningFailed(
                f"the server did not list its tools within {limit or 0:.3g} s",
                hint=OptionHint("connect", 2 * (limit or 0), "to wait longer"),
                stderr=client.stderr,
            ) from None

    async def _listed(self, tools: Sequence[Tool]) -> None:
        async with self._applying:
            if self._closing is not None:
                return
            try:
                await self._on_listed(self, tools)
            except Exception as error:  # for example a schema that is too deeply nested to be compared
                raise _unexpected("the list of tools cannot be used", error) from error
            if self.state == "ready":
                self.problem = None

    # Called by the client

    def _restarting(self, error: TwopipesError) -> object:
        self._stale.set()  # the new process may be another version
        callback = self._options.on_restart
        return None if callback is None else callback(self.name, error)

    def _fail(self, error: TwopipesError) -> None:
        """Handle a failed opening, or the end of a server that the client does not restart."""
        if self._closing is None:
            self.state = "failed"
            self._report(error)

    def _report(self, error: TwopipesError) -> None:
        if self._closing is None:
            self.problem = error
            self._on_problem(self, error)


def _is_lost(client: Client) -> bool:
    """Whether a client has lost its server and does not restart it."""
    supervisor = client._supervisor  # noqa: SLF001 - only the group needs to know it
    return supervisor.connection is None and not supervisor.reopens


def _unexpected(what: str, error: Exception) -> TwopipesError:
    failure = OpeningFailed(f"{what}: {error!r}")
    failure.__cause__ = error
    return failure
