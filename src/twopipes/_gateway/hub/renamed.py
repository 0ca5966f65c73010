"""The tools and prompts of each server with their public names, for hosts of each revision."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Raw

from twopipes._gateway.hub.listing import Item, adapted, renamed
from twopipes._gateway.hub.member import Member
from twopipes._host.names import NameTable
from twopipes._protocol.dialect import Dialect, dialect

# Items that are renamed before other tasks of the event loop run: a few milliseconds.
_AT_ONCE: Final = 250
# How often preparing starts again because the list changes meanwhile.
_MAX_ATTEMPTS: Final = 3


class _Source(NamedTuple):
    """What a renamed list was made from. All of it is replaced, and never changed."""

    items: list[Item]
    names: Mapping[str, str]  # own names by public names
    revision: str | None  # that the server speaks

    def is_still(self, other: _Source) -> bool:
        return self.items is other.items and self.names is other.names and self.revision == other.revision


class RenamedLists:
    """Renames the items of a server once for each revision, and again only when its own list changes.

    Args:
        tables: The public names, by list method.
    """

    def __init__(self, tables: Mapping[str, NameTable]) -> None:
        self._tables = tables
        self._made: dict[tuple[str, str, str], tuple[_Source, dict[str, Raw]]] = {}  # by server, method and revision

    def get(self, member: Member, method: str, target: Dialect) -> Mapping[str, Raw]:
        """Return the items by their public names."""
        source = self._source(member, method)
        made = self._known(member, method, target, source)
        return self._keep(member, method, target, source, dict(_renamed(method, source, target))) if made is None else made

    async def prepare(self, member: Member, method: str, target: Dialect) -> None:
        """Do the work of the next :meth:`get` in portions, so that a long list does not block the event loop."""
        for _ in range(_MAX_ATTEMPTS):
            source = self._source(member, method)
            if len(source.items) <= _AT_ONCE or self._known(member, method, target, source) is not None:
                return
            items, made = _renamed(method, source, target), dict[str, Raw]()
            while portion := list(islice(items, _AT_ONCE)):
                made.update(portion)
                await asyncio.sleep(0)
            if source.is_still(self._source(member, method)):
                self._keep(member, method, target, source, made)
                return

    def forget(self, member: Member) -> None:
        """Forget the lists of a server that was removed."""
        for key in [key for key in self._made if key[0] == member.name]:
            del self._made[key]

    def _source(self, member: Member, method: str) -> _Source:
        names = self._tables[method].names(member.name)
        return _Source(member.offered(method), names, None if member.opened is None else member.opened.revision)

    def _known(self, member: Member, method: str, target: Dialect, source: _Source) -> dict[str, Raw] | None:
        made = self._made.get((member.name, method, target.revision))
        return made[1] if made is not None and made[0].is_still(source) else None

    def _keep(self, member: Member, method: str, target: Dialect, source: _Source, made: dict[str, Raw]) -> dict[str, Raw]:
        self._made[member.name, method, target.revision] = (source, made)
        return made


def _renamed(method: str, source: _Source, target: Dialect) -> Iterator[tuple[str, Raw]]:
    """Yield the items with their public names, in the order of the server. Of two with one name the first is used."""
    if source.revision is None:
        return
    first: dict[str, Item] = {}
    for item in source.items:
        first.setdefault(item.key, item)
    public_of = {name: public for public, name in source.names.items()}
    items = [item for name, item in first.items() if name in public_of]
    for start in range(0, len(items), _AT_ONCE):
        for name, raw in adapted(method, items[start : start + _AT_ONCE], dialect(source.revision), target):
            yield public_of[name], renamed(raw, public_of[name])
