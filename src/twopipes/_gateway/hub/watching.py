"""Subscriptions to resources through a hub: each is made at the server that owns the URI, also if that becomes known later."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from twopipes._gateway.back import Back
from twopipes._gateway.hub.member import Member
from twopipes._server.call_runner import CallRunner
from twopipes._session.subscriptions import with_parents
from twopipes.errors import TwopipesError

# Seconds that a listen waits for the servers of its resources.
_PATIENCE: Final = 5.0


class Watching:
    """The resources that hosts watch.

    Args:
        owner_of: Returns the server of a URI.
        report: Called with a server and a sentence if it refuses a subscription that was made later.
    """

    def __init__(self, owner_of: Callable[[str], Member | None], report: Callable[[Member, str], None]) -> None:
        self._owner_of = owner_of
        self._report = report
        self._counts: Counter[str] = Counter()
        self._watched: dict[str, Back] = {}  # where each URI is watched
        self._sessions: dict[CallRunner, set[str]] = {}  # what legacy hosts watch
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, uri: str) -> None:
        """Watch a URI. Each call needs one of :meth:`remove`, unless it raises.

        Raises:
            TwopipesError: Its server refused it. A URI without a server is watched once there is one.
        """
        self._counts[uri] += 1
        try:
            if uri not in self._watched:
                await self._begin(uri)
        except BaseException:
            self.remove(uri)
            raise

    async def add_all(self, uris: Iterable[str]) -> None:
        """Watch several URIs. Each needs one :meth:`remove`. A server that refuses or does not respond affects only its own."""
        tasks = []
        for uri in uris:
            self._counts[uri] += 1
            if uri not in self._watched:
                tasks.append(self._spawn(uri))
        if tasks:
            await asyncio.wait(tasks, timeout=_PATIENCE)

    def remove(self, uri: str) -> None:
        """Undo one :meth:`add`."""
        self._counts[uri] -= 1
        if self._counts[uri] <= 0:
            del self._counts[uri]
            back = self._watched.pop(uri, None)
            if back is not None:
                back.watches.remove(uri)

    async def subscribe(self, runner: CallRunner, uri: str) -> None:
        """Watch a URI for a legacy session, once. Raises as :meth:`add`."""
        watched = self._sessions.setdefault(runner, set())
        if uri not in watched:
            await self.add(uri)
            watched.add(uri)

    def unsubscribe(self, runner: CallRunner, uri: str) -> None:
        """Undo :meth:`subscribe`, if there was one."""
        watched = self._sessions.get(runner, set())
        if uri in watched:
            watched.remove(uri)
            self.remove(uri)

    def forget(self, runner: CallRunner) -> None:
        """Undo everything for a session that has ended."""
        for uri in self._sessions.pop(runner, ()):
            self.remove(uri)

    def concerns(self, back: Back, uri: str) -> bool:
        """Whether a host watches this resource, or one that contains it, at this server."""
        return any(self._watched.get(each) is back for each in with_parents(uri))

    def renew(self) -> None:
        """Move the subscriptions whose server is another one now, and make those whose server was not known."""
        for uri in self._counts:
            owner = self._owner_of(uri)
            back = None if owner is None else owner.back
            if self._watched.get(uri) is not back:
                old = self._watched.pop(uri, None)
                if old is not None:
                    old.watches.remove(uri)
                if back is not None:
                    self._spawn(uri)

    async def close(self) -> None:
        """Wait for what :meth:`renew` has started."""
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, uri: str) -> asyncio.Task[None]:
        task = asyncio.create_task(self._begin_later(uri), name=f"watch {uri}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _begin_later(self, uri: str) -> None:
        owner = self._owner_of(uri)
        try:
            if uri in self._counts and uri not in self._watched:
                await self._begin(uri)
        except TwopipesError as error:
            if owner is not None:
                self._report(owner, f"it refused a subscription to {uri}: {error}")

    async def _begin(self, uri: str) -> None:
        owner = self._owner_of(uri)
        if owner is None or owner.back is None:
            return  # renew() is called when there is one
        back = self._watched[uri] = owner.back
        try:
            await owner.wake()
            await back.watches.add(uri)
        except BaseException:
            if self._watched.get(uri) is back:
                del self._watched[uri]
            raise
