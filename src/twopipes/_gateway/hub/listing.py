"""The lists of one server of a hub: read completely, and adapted to the revision of a host."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import DecodeError, Raw, Struct, defstruct
from msgspec import json as msgspec_json
from msgspec.json import Decoder

from twopipes._gateway import translate
from twopipes._gateway.manifest import LISTS, MAX_SIZE, Fetch, next_cursor
from twopipes._protocol.base import RawResult
from twopipes._protocol.dialect import Dialect
from twopipes._protocol.types import Tool, ToolAnnotations
from twopipes.errors import RemoteProtocolError, TwopipesError

_KEYS: Final = {
    "tools/list": "name",
    "prompts/list": "name",
    "resources/list": "uri",
    "resources/templates/list": "uriTemplate",
}
# Items that are read before other tasks of the event loop run.
_AT_ONCE: Final = 1000
# One decoder for each list: the key is all that is decoded of an item.
_decode_key: Final = {method: Decoder(defstruct(key, [(key, str)])).decode for method, key in _KEYS.items()}
_decode_items = Decoder(list[Raw]).decode
_decode_annotations = Decoder(ToolAnnotations | None).decode
_UNREADABLE: Final = (DecodeError, UnicodeDecodeError, RecursionError)


class Item(Struct, frozen=True):
    """A tool, a prompt, a resource or a template, as its server sent it.

    Attributes:
        key: Its name, its URI or its template.
        raw: The whole object.
    """

    key: str
    raw: bytes

    def tool(self) -> Tool:
        """Return the tool, as far as filters need it. Annotations that are malformed count as absent."""
        members = translate.decode_members(self.raw)
        try:
            annotations = _decode_annotations(members.get("annotations", b"null"))
        except _UNREADABLE:
            annotations = None
        return Tool(self.key, {}, annotations=annotations)


class ReadList(Struct, frozen=True):
    """A list of a server. ``fault`` is what is wrong with it, if some of its items are missing here."""

    items: list[Item]
    fault: str = ""


async def read_list(fetch: Fetch, method: str, *, max_pages: int | None) -> ReadList:
    """Read all pages of a list. An item without a key is left out; a list that is too long is cut.

    Raises:
        TwopipesError: The server refused it, or the connection was lost.
    """
    items: list[Item] = []
    cursor: str | None = None
    fault = ""
    size = pages = 0
    while True:
        page = await fetch(method, {} if cursor is None else {"cursor": cursor})
        try:
            found = _decode_items(translate.decode_members(page).get(LISTS[method][0], b"[]"))
            cursor = next_cursor(page)
        except _UNREADABLE as error:
            raise RemoteProtocolError(f"the result of {method} is not a list: {error}") from None
        for number, raw in enumerate(found, 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # a page may have any number of items
            key = _key_of(method, raw)
            if key is None:
                fault = f"{method} has an item without a valid {_KEYS[method]}; it is left out"
            else:
                items.append(Item(key, bytes(raw)))
        size += len(bytes(page))
        pages += 1
        if cursor is None:
            return ReadList(items, fault)
        if size > MAX_SIZE or pages == max_pages:
            return ReadList(items, f"{method} is too long; only its first {len(items):,} items are used")


def adapted(method: str, items: Sequence[Item], source: Dialect, target: Dialect) -> Iterator[tuple[str, Raw]]:
    """Yield the key of each item and the item for a host that speaks ``target``. One that cannot be expressed there is left out."""
    if source.revision == target.revision:
        yield from ((item.key, Raw(item.raw)) for item in items)
        return
    try:
        whole = _translated(method, items, source, target)
    except TwopipesError:  # one item is invalid, and hides the others
        yield from _adapted_one_by_one(method, items, source, target)
    else:
        yield from zip((item.key for item in items), whole, strict=True)


def _adapted_one_by_one(method: str, items: Sequence[Item], source: Dialect, target: Dialect) -> Iterator[tuple[str, Raw]]:
    for item in items:
        with suppress(TwopipesError):
            (raw,) = _translated(method, [item], source, target)
            yield item.key, raw


def renamed(raw: Raw, name: str) -> Raw:
    """Return an item with another name."""
    return Raw(msgspec_json.encode({**translate.decode_members(raw), "name": name}))


def _translated(method: str, items: Sequence[Item], source: Dialect, target: Dialect) -> list[Raw]:
    member, _ = LISTS[method]
    whole = Raw(msgspec_json.encode({member: [Raw(item.raw) for item in items]}))
    result: Any = translate.result(method, whole, source, target, server=None)
    assert isinstance(result, RawResult)
    return _decode_items(translate.decode_members(result.raw)[member])


def _key_of(method: str, raw: Raw) -> str | None:
    try:
        return getattr(_decode_key[method](raw), _KEYS[method]) or None
    except _UNREADABLE:
        return None
