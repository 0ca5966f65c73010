"""The ``_meta`` objects of a message, and their faults (section MT)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from twopipes._protocol.meta_keys import meta_key_fault
from twopipes._protocol.revisions import META_KEYS
from twopipes._tools.check.messages import members
from twopipes._tools.check.verdict import Quotable, VerdictRecorder

# The lists whose items may have a _meta. Deeper members belong to the author of a tool, and may have any name.
_ITEMS = ("tools", "resources", "resourceTemplates", "prompts", "contents", "content", "roots")
_TRACE_KEYS = ("traceparent", "tracestate", "baggage")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_STATE_KEY = r"[a-z0-9][a-z0-9_\-*/@]{0,255}"
_TRACESTATE_MEMBER = re.compile(rf"\s*({_STATE_KEY}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{1,256}})?\s*")
_BAGGAGE_MEMBER = re.compile(r"\s*[!#$%&'*+\-.^_`|~0-9A-Za-z]+\s*=\s*[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*\s*(;.*)?")
FUTURE = {"io.modelcontextprotocol/future": [1, {"deep": None}]}
"""A reserved key without a defined meaning."""
JUNK = {"traceparent": "junk", "tracestate": "=,=", "baggage": "", "com.example/own": {"a": [None]}, "unknown": True}
"""Invalid trace context, and unknown keys."""


def metas(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each ``_meta`` of a message with its place, even if it is not an object."""
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


def judge_metas(recorder: VerdictRecorder, found: Sequence[tuple[Quotable, str, Any, Iterable[str]]], sender: str) -> None:
    """Judge MT-01, MT-02, MT-03, MT-05 and MT-07 by each ``_meta`` with its line, place, and declared extensions."""
    if not found:
        recorder.give_up(f"no message of the {sender} has a _meta")
    traced = [(line, where, key, meta[key]) for line, where, meta, _ in found for key in _TRACE_KEYS if key in members(meta)]
    for line, where, meta, extensions in found:
        recorder.expect("MT-07", isinstance(meta, dict), f"{where} is {meta!r}, not an object", about=line)
        faults = dict(reversed(list(key_faults(meta, recorder.revision, extensions=extensions))))
        recorder.expect("MT-01", "grammar" not in faults, f"the key {faults.get('grammar')!r} of {where} is malformed", about=line)
        for rule in ("MT-02", "MT-03"):
            why = f"the key {faults.get('reserved')!r} of {where} has a prefix that is reserved for the protocol"
            recorder.expect(rule, "reserved" not in faults, why, about=line)
    for line, where, key, value in traced:
        recorder.expect("MT-05", not trace_fault(key, value), f"{key} in {where} is not in the W3C format: {value!r}", about=line)
    if not traced:
        recorder.skip("MT-05", f"the {sender} sends no trace context")


def key_faults(meta: Any, revision: str, *, extensions: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield each key that a revision does not allow: ``grammar`` or ``reserved``, and the key.

    Reserved keys are allowed if any revision defines them, or if they begin with the name of a declared extension.
    """
    names = tuple(extensions)
    for key in members(meta):
        fault = meta_key_fault(key, revision)
        if fault == "grammar" or (fault == "reserved" and key not in META_KEYS and not (names and key.startswith(names))):
            yield fault, key


def trace_fault(key: str, value: Any) -> bool:
    """Return whether ``traceparent``, ``tracestate`` or ``baggage`` does not follow its W3C format."""
    if not isinstance(value, str):
        return True
    if key == "traceparent":
        # The first version has exactly four parts.
        found = _TRACEPARENT.fullmatch(value)
        return found is None or (value.startswith("00-") and found[1] is not None)
    member = _TRACESTATE_MEMBER if key == "tracestate" else _BAGGAGE_MEMBER
    return not all(member.fullmatch(each) for each in value.split(","))
