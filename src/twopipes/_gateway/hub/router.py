"""Finds the server of a name or a URI, after those that are being opened had their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from twopipes._gateway.front_call import ClientIdentity
from twopipes._gateway.hub.catalogue import Catalogue
from twopipes._gateway.hub.clients import client_of
from twopipes._gateway.hub.member import Member
from twopipes._host.names import NameTable
from twopipes._server.context import Context
from twopipes.errors import NotFound


class Router:
    """Starts the servers of a hub, and waits for them as long as a request needs one that is not known yet.

    Args:
        members: The servers.
        catalogue: What they offer.
        is_lazy: Whether they are started by the first request that needs them.
        start_timeout: Seconds that a request waits for each server, from the start of its opening.
    """

    def __init__(self, members: Mapping[str, Member], catalogue: Catalogue, *, is_lazy: bool, start_timeout: float) -> None:
        self._members = members
        self._catalogue = catalogue
        self._is_lazy = is_lazy
        self._start_timeout = start_timeout
        self._client: ClientIdentity | None = None  # of the first host
        self._are_started = False  # every server that is there now
        self._updated = asyncio.Event()  # set, and replaced, when something about a server has changed

    # Starting

    def meet(self, context: Context) -> None:
        """Remember the client of the first host, with whose capabilities the servers are opened, and start them."""
        if self._client is None:
            self._client = client_of(context)
        if not self._is_lazy:
            self.start_all()

    def start_all(self) -> None:
        """Start every server that was never started."""
        if not self._are_started:
            assert self._client is not None
            self._are_started = True
            for member in self._members.values():
                member.start(self._client)

    def added(self, member: Member) -> None:
        """Start a new server, if the others are started."""
        if self._client is not None and not self._is_lazy:
            member.start(self._client)
        else:
            self._are_started = False

    def updated(self) -> None:
        """Wake what waits for a server."""
        self._updated.set()
        self._updated = asyncio.Event()

    # Finding

    async def find(self, table: NameTable, kind: str, name: str) -> tuple[Member, str]:
        """Return the server of a tool or prompt, and its own name there.

        Raises:
            NotFound: There is none.
        """
        method = f"{kind}s/list"
        if table.find(name) is None:
            self.start_all()
            await self.until_known(method, found=partial(table.find, name))
        named = table.find(name)
        if named is None:
            similar = table.suggestions(name)
            hint = f"; similar names: {', '.join(similar)}" if similar else ""
            raise NotFound(kind, name, message=f"Unknown {kind}: {name}{hint}{self._missing(method)}")
        return self._members[named.server], named.name

    async def owner_of(self, uri: str) -> Member:
        """Return the server of a resource or a template.

        Raises:
            NotFound: There is none.
        """
        self.start_all()
        for method in ("resources/list", "resources/templates/list"):
            await self.until_known(method, found=partial(self._catalogue.listed_owner_of, uri))
        owner = self._catalogue.owner_of(uri)
        if owner is None:
            names = ", ".join(repr(member.name) for member in self._catalogue.with_resources())
            unknown = "no server lists it, has a template for it or had it in a result"
            hint = f"; {unknown}. Servers with resources: {names}" if names else ""
            raise NotFound(
                "resource", uri, message=f"Unknown resource: {uri}{hint}{self._missing('resources/list')}", data={"uri": uri}
            )
        return owner

    async def until_known(
        self, method: str | None, seconds: float | None = None, *, found: Callable[[], Any] = lambda: None
    ) -> None:
        """Wait until each server that is being opened has this list (or, for ``None``, is open), or ``found`` returns something.

        A server delays this by ``seconds`` at most, from the start of its opening.
        """
        limit = self._start_timeout if seconds is None else seconds
        while found() is None:
            awaited = [member.seconds_left(limit) for member in self._members.values() if member.is_awaited(method)]
            left = max(awaited, default=0.0)
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    await self._updated.wait()
            except TimeoutError:
                return

    def missing(self, method: str) -> list[str]:
        """Return the names of the servers that are not available, or have not sent this list yet."""
        members = self._members.values()
        return [member.name for member in members if member.state == "failed" or member.is_awaited(method)]

    def _missing(self, method: str) -> str:
        """Name the servers that are not available, because what was asked for may be theirs."""
        names = [repr(name) for name in self.missing(method)]
        return f"; not available: {', '.join(names)}" if names else ""
