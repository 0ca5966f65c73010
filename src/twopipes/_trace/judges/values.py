"""The values in messages as judges see them: decoded members, their JSON types, and how they are quoted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, MsgspecError, Raw
from msgspec.json import Decoder, encode

from twopipes._protocol.methods import REQUESTS, MethodRow
from twopipes._trace.message import Side

Members = dict[str, Any]
Faults = Iterable[str]

_decode_members = Decoder(Members).decode
# Several judges look at the same message in turn, so the last few decoded objects are cached.
_kept: list[tuple[Raw, Members]] = []
_KEPT = 3


def members_of(raw: Raw) -> Members:
    """Return the members of a JSON object, or an empty dict for any other value. Do not modify the returned dict."""
    for known, members in _kept:
        if known is raw:
            return members
    try:
        members = _decode_members(raw)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        members = {}
    _kept.insert(0, (raw, members))
    del _kept[_KEPT:]
    return members


def objects_in(members: Members, name: str) -> list[Members]:
    """Return the objects in an array; empty if the member is not an array."""
    found = members.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def has_capability(declared: Members, capability: str) -> bool:
    """Whether a capability is declared. A dot separates a detail: ``resources.subscribe``."""
    found: Any = declared
    for name in capability.split("."):
        if not isinstance(found, dict) or found.get(name) is None or found.get(name) is False:
            return False
        found = found[name]
    return True


def row_of(method: str | None, side: Side) -> MethodRow | None:
    """Return the row of the protocol table for a request of one side."""
    return _ROWS.get((method, side))


_ROWS: dict[tuple[str | None, str], MethodRow] = {
    (row.method, side): row for row in REQUESTS for side in (("client", "server") if row.sender == "both" else (row.sender,))
}

_TYPES: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    dict: "an object",
    list: "an array",
}


def is_json(value: Any, kind: type) -> bool:
    """Whether a value has a JSON type. In Python a boolean is an integer, and an integer is not a float."""
    return isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))


def wrong_types(members: Members, kind: type, *names: str, optional: bool = False) -> Faults:
    """Yield a line for each member that does not have a JSON type."""
    for name in names:
        value = members.get(name, UNSET)
        if not is_json(value, kind) and not (optional and value is UNSET):
            yield f"{name} must be {_TYPES[kind]}, not {shown(value)}"


def shown(value: Any) -> str:
    """Return a value as JSON for a message, shortened if necessary."""
    text = "nothing" if value is UNSET else encode(value).decode()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


_SHOWN = 40
