"""Where ``_meta`` may stand in a message, and what is wrong with one (section MT)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from twopipes._protocol.meta_keys import meta_key_fault
from twopipes._protocol.revisions import META_KEYS
from twopipes._tools.check.questions import members

__all__ = ["key_faults", "metas", "trace_fault", "traces"]

# The lists whose items may have one. What lies deeper belongs to the author of a tool, and may be called whatever it likes.
_ITEMS = ("tools", "resources", "resourceTemplates", "prompts", "contents", "content", "roots")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_STATE_KEY = r"[a-z0-9][a-z0-9_\-*/@]{0,255}"
_TRACESTATE_MEMBER = re.compile(rf"\s*({_STATE_KEY}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{1,256}})?\s*")
_BAGGAGE_MEMBER = re.compile(r"\s*[!#$%&'*+\-.^_`|~0-9A-Za-z]+\s*=\s*[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*\s*(;.*)?")


def metas(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each ``_meta`` of a message, with the place where it stands; also one that is no object."""
    for name in ("params", "result"):
        part = members(message.get(name))
        yield from _meta_of(part, name)
        for items in _ITEMS:
            found = part.get(items)
            for item in found if isinstance(found, list) else ():
                yield from _meta_of(members(item), f"{name}.{items}[]")
                yield from _meta_of(members(members(item).get("resource")), f"{name}.{items}[].resource")
        messages = part.get("messages")
        for entry in messages if name == "result" and isinstance(messages, list) else ():
            yield from _meta_of(members(members(entry).get("content")), "result.messages[].content")


def _meta_of(part: dict[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    if "_meta" in part:
        yield f"{where}._meta", part["_meta"]


def key_faults(meta: Any, revision: str, *, extensions: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Each key that a revision does not allow: ``grammar`` or ``reserved``, and the key.

    What any revision gives a meaning to is nobody's own key; nor is what begins with the name of an extension that is declared.
    """
    names = tuple(extensions)
    for key in members(meta):
        fault = meta_key_fault(key, revision)
        if fault == "grammar" or (fault == "reserved" and key not in META_KEYS and not (names and key.startswith(names))):
            yield fault, key


def traces(meta: Any) -> dict[str, Any]:
    """What a ``_meta`` says about traces."""
    return {key: value for key, value in members(meta).items() if key in {"traceparent", "tracestate", "baggage"}}


def trace_fault(key: str, value: Any) -> bool:
    """Tells whether ``traceparent``, ``tracestate`` or ``baggage`` is not what the W3C describes."""
    if not isinstance(value, str):
        return True
    if key == "traceparent":
        # The first version has no more than four parts.
        found = _TRACEPARENT.fullmatch(value)
        return found is None or (value.startswith("00-") and found[1] is not None)
    member = _TRACESTATE_MEMBER if key == "tracestate" else _BAGGAGE_MEMBER
    return not all(member.fullmatch(each) for each in value.split(","))
