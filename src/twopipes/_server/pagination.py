"""Pages of a list: opaque cursors that stay valid while the list changes, and are refused if they are not ours (section PG)."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64, crc32
from collections.abc import Mapping, Sequence
from typing import TypeVar

from twopipes.errors import InvalidParams

T = TypeVar("T")
# Base64 for URLs, without the module base64: importing it would delay the start of every server.
_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


def page_of(items: Mapping[str, T], cursor: str | None, size: int | None, kind: str) -> tuple[Sequence[T], str | None]:
    """Return one page and the cursor of the next, or ``None`` after the last (PG-05).

    A cursor names the last item of its page, so it stays valid when others are added or removed. If that item itself is gone,
    the cursor is refused and the client starts again (CH-09).
    """
    if size is None and cursor is None:
        return list(items.values()), None
    names = list(items)
    start = 0
    if cursor is not None:
        last = name_in(cursor, kind)
        if last not in names:
            raise InvalidParams("Invalid cursor: it does not belong to this list, or its item was removed; start without a cursor")
        start = names.index(last) + 1
    end = len(names) if size is None else start + size
    page = [items[name] for name in names[start:end]]
    return page, cursor_of(names[end - 1], kind) if end < len(names) else None


def cursor_of(name: str, kind: str) -> str:
    """Return the cursor of the items after the one with this name."""
    text = f"{crc32(f'{kind} {name}'.encode()):08x}{name}"
    return b2a_base64(text.encode(), newline=False).translate(_TO_URL).decode("ascii")


def name_in(cursor: str, kind: str) -> str | None:
    """Return the name in a cursor; ``None`` if the cursor does not belong to such a list."""
    try:
        name = a2b_base64(cursor.encode("ascii").translate(_FROM_URL)).decode()[8:]
    except ValueError:
        return None
    return name if cursor_of(name, kind) == cursor else None
