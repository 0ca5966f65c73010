"""Metadata, from the side of a client."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from twopipes._tools.check.metadata.shapes import key_faults, metas, trace_fault, traces
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import members
from twopipes._tools.check.server_reply import NoResponse, ReceivedLine

_CALLS = 4
_FUTURE = {"io.modelcontextprotocol/future": [1, {"deep": None}]}
_JUNK = {"traceparent": "junk", "tracestate": "=,=", "baggage": "", "com.example/own": {"a": [None]}, "unknown": True}


@probe("MT-01", "MT-02", "MT-03", "MT-05", "MT-07")
async def metadata_of_the_server(case: Case) -> None:
    """Lists, calls, contents and prompts are asked for, and every _meta in them is looked at."""
    conversation = case.conversation
    since = conversation.position
    await _see_everything(case)
    extensions = members(conversation.capabilities.get("extensions"))
    found: list[tuple[ReceivedLine, str, Any]] = []
    received_lines = [
        *([conversation.opening.received_line] if conversation.opening is not None else []),
        *conversation.received_lines[since:],
    ]
    for line in received_lines:
        found += [(line, where, meta) for part in line.parts for where, meta in metas(part)]
    if not found:
        case.give_up("nothing that the server said has a _meta")
    traced = False
    for line, where, meta in found:
        case.expect("MT-07", isinstance(meta, dict), f"{where} is {meta!r}, and no object", about=line)
        faults = list(key_faults(meta, case.revision, extensions=extensions))
        _expect_keys(case, line, where, faults)
        for key, value in traces(meta).items():
            traced = True
            why = f"{key} in {where} is {value!r}, which the W3C does not know"
            case.expect("MT-05", not trace_fault(key, value), why, fix="Pass on what the tracing library gives.", about=line)
    if not traced:
        case.skip("MT-05", "the server sends no trace context")


def _expect_keys(case: Case, line: ReceivedLine, where: str, faults: list[tuple[str, str]]) -> None:
    bad = next((key for fault, key in faults if fault == "grammar"), None)
    case.expect("MT-01", bad is None, f"the key {bad!r} of {where} is not well formed", about=line)
    taken = next((key for fault, key in faults if fault == "reserved"), None)
    for rule in ("MT-02", "MT-03"):
        why = f"the key {taken!r} of {where} has a prefix that is the protocol's own"
        case.expect(rule, taken is None, why, fix="Use a prefix of your own domain, as in com.example/key.", about=line)


async def _see_everything(case: Case) -> None:
    conversation, features = case.conversation, case.features
    lists = {"tools": ["tools/list"], "prompts": ["prompts/list"], "resources": ["resources/list", "resources/templates/list"]}
    asked: list[tuple[str, dict[str, Any]]] = [
        (each, {}) for name, methods in lists.items() if features.has(name) for each in methods
    ]
    asked += [("resources/read", {"uri": each.get("uri")}) for each in features.resources[:2]]
    asked += [("prompts/get", {"name": each.get("name")}) for each in features.prompts[:2] if not each.get("arguments")]
    asked += [("tools/call", call.params) for call in features.safe_calls(case.permissions)[:_CALLS]]
    for method, params in [(case.harmless, {}), *asked]:
        with suppress(NoResponse):
            await conversation.request(method, params)


@probe("MT-04")
async def reserved_keys_without_a_meaning_are_let_be(case: Case) -> None:
    """A request with a key of the protocol's own that means nothing yet is served."""
    await _expect_served(case, "MT-04", _FUTURE, "a reserved key that has no meaning yet")


@probe("MT-06")
async def metadata_that_nobody_can_read_is_let_be(case: Case) -> None:
    """A request with broken trace context and unknown keys is served."""
    await _expect_served(case, "MT-06", _JUNK, "trace context that makes no sense")


async def _expect_served(case: Case, rule: str, meta: dict[str, Any], what: str) -> None:
    fix = "Read the keys that are known; leave all others, and what cannot be read, alone."
    try:
        response = await case.conversation.request(case.harmless, meta=meta)
    except NoResponse as error:
        case.expect(rule, False, f"a request with {what} in its _meta got nothing: {error}", fix=fix)
        return
    case.expect(rule, response.is_result, f"a request with {what} in its _meta got {response.summary}", fix=fix, about=response)
