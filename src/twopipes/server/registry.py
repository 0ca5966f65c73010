"""What a server offers: named entries in a stable order, each added once (TL-15, TL-16)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from twopipes.errors import LocalProtocolError

__all__ = ["Postponed", "Registry", "place_of"]


class Entry(Protocol):
    """Anything with a place in the author's code."""

    place: str


E = TypeVar("E", bound=Entry)


def place_of(function: Callable[..., Any] | None) -> str:
    """Where a function stands in the author's code, for error messages: ``server.py:12``."""
    while isinstance(function, functools.partial):
        function = function.func
    plain, seen = function, {id(function)}
    while (inner := getattr(plain, "__wrapped__", None)) is not None and id(inner) not in seen:
        plain = inner
        seen.add(id(inner))
    code = getattr(plain, "__code__", None) or getattr(getattr(plain, "__call__", None), "__code__", None)  # noqa: B004
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "somewhere"


class Postponed(Generic[E]):
    """An entry that is made when somebody asks for it."""

    __slots__ = ("make", "place")

    def __init__(self, make: Callable[[], E], place: str) -> None:
        self.make = make
        self.place = place


class Registry(Generic[E]):
    """Entries by name, in the order in which they were added. Any thread may change it, while others read.

    Args:
        kind: What they are, for error messages.
        changed: Told after every change.

    Attributes:
        used: Whether anything was ever added. A feature that was declared stays, with an empty list if need be (ST-06).
    """

    def __init__(self, kind: str, changed: Callable[[], None]) -> None:
        self._kind = kind
        self._changed = changed
        self._lock = threading.Lock()
        # No name comes or goes, but the whole is replaced: whoever goes through it at the time is not disturbed.
        self._entries: dict[str, E | Postponed[E]] = {}
        self.used = False

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[E]:
        return iter(self.entries.values())

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def entries(self) -> dict[str, E]:
        """All of them, by name."""
        entries = self._entries
        return {name: self._made(name, entry) if isinstance(entry, Postponed) else entry for name, entry in entries.items()}

    def get(self, name: str) -> E | None:
        """The entry of that name, or ``None``."""
        entry = self._entries.get(name)
        return self._made(name, entry) if isinstance(entry, Postponed) else entry

    def _made(self, name: str, postponed: Postponed[E]) -> E:
        entry = postponed.make()
        with self._lock:
            if self._entries.get(name) is postponed:
                self._entries[name] = entry
        return entry

    def add(self, name: str, entry: E | Postponed[E]) -> None:
        """Adds an entry.

        Raises:
            LocalProtocolError: The name is taken; both places are named.
        """
        with self._lock:
            other = self._entries.get(name)
            if other is not None:
                places = f"from {other.place}; this one is from {entry.place}"
                raise LocalProtocolError(f"there is a {self._kind} {name!r} already, {places}")
            self._entries = {**self._entries, name: entry}
            self.used = True
        self._changed()

    def remove(self, name: str) -> None:
        """Takes an entry out.

        Raises:
            LocalProtocolError: There is none of that name.
        """
        with self._lock:
            if name not in self._entries:
                raise LocalProtocolError(f"there is no {self._kind} {name!r} to remove")
            self._entries = {other: entry for other, entry in self._entries.items() if other != name}
        self._changed()
