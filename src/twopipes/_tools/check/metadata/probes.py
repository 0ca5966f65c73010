"""Metadata of servers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from twopipes._tools.check.messages import NoResponse, members
from twopipes._tools.check.metadata.shapes import FUTURE, JUNK, judge_metas, metas
from twopipes._tools.check.probe import Case, probe

_CALLS = 4
_LISTS = {"tools": ["tools/list"], "prompts": ["prompts/list"], "resources": ["resources/list", "resources/templates/list"]}


@probe("MT-01", "MT-02", "MT-03", "MT-05", "MT-07")
async def metadata_of_the_server(case: Case) -> None:
    """Lists, calls, contents and prompts are requested, and each _meta in the responses is judged."""
    conversation, since = case.conversation, case.conversation.position
    await _request_everything(case)
    extensions = members(conversation.capabilities.get("extensions"))
    lines = [*([conversation.opening.received_line] if conversation.opening else []), *conversation.received_lines[since:]]
    found = [(line, where, meta, extensions) for line in lines for part in line.parts for where, meta in metas(part)]
    judge_metas(case, found, "server")


async def _request_everything(case: Case) -> None:
    features = case.features
    wanted: list[tuple[str, dict[str, Any]]] = [(case.harmless, {})]
    wanted += [(method, {}) for name, methods in _LISTS.items() if features.has(name) for method in methods]
    wanted += [("resources/read", {"uri": each.get("uri")}) for each in features.resources[:2]]
    wanted += [("prompts/get", {"name": each.get("name")}) for each in features.prompts[:2] if not each.get("arguments")]
    wanted += [("tools/call", call.params) for call in features.safe_calls(case.permissions)[:_CALLS]]
    for method, params in wanted:
        with suppress(NoResponse):
            await case.conversation.request(method, params)


@probe("MT-04")
async def reserved_keys_without_a_meaning_are_ignored(case: Case) -> None:
    """A request with a reserved key that has no meaning yet is served."""
    response = await case.conversation.try_request(case.harmless, meta=FUTURE)
    case.expect("MT-04", response.is_result, f"a request with an undefined reserved key got {response.summary}", about=response)


@probe("MT-06")
async def unreadable_metadata_is_ignored(case: Case) -> None:
    """A request with invalid trace context and unknown keys is served."""
    response = await case.conversation.try_request(case.harmless, meta=JUNK)
    case.expect("MT-06", response.is_result, f"a request with invalid trace context got {response.summary}", about=response)
