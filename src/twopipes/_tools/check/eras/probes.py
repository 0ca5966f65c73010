"""Two eras side by side, from the side of a client."""

from __future__ import annotations

from typing import Any

from twopipes._codes import UNSUPPORTED_REVISION
from twopipes._protocol.revisions import LEGACY, META_CAPABILITIES, META_VERSION, MODERN
from twopipes._tools.check.conversation import ALL_CAPABILITIES, CLIENT_INFO, NoResponse
from twopipes._tools.check.discovery.probes import be_served
from twopipes._tools.check.lifecycle.probes import judge_an_early_request, listing
from twopipes._tools.check.probe import Case, no_call, probe

_CALLS = 16


async def _need_the_new_era(case: Case) -> None:
    """A server of the old era alone does not know what the _meta of the new one means."""
    if (await case.target.attempt(MODERN[-1])).opening is None:
        case.give_up(f"it is about servers of both eras, and the server does not speak {MODERN[-1]}")


@probe("DE-09", opens_own=True)
async def a_handshake_that_there_is_not_is_refused(case: Case) -> None:
    """A handshake with a server of the new era gets an error, and the server goes on."""
    conversation = await case.open_conversation(opened=False)
    conversation.revision = case.revision
    params = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": CLIENT_INFO}
    fix = "Answer initialize with an error (-32022, with your versions in data.supported), and go on."
    try:
        response = await conversation.request("initialize", params, bare=True)
    except NoResponse as silence:
        case.expect("DE-09", False, f"initialize got neither a session nor an error: {silence}", fix=fix)
        return
    if response.is_result:
        case.give_up("the server has a handshake")
    case.expect("DE-09", response.error, f"initialize got {response.summary}", fix=fix, about=response)
    try:
        later = await conversation.request("server/discover")
    except NoResponse as silence:
        case.expect("DE-09", False, f"after initialize was refused, server/discover got nothing: {silence}", fix=fix)
    else:
        why = f"after initialize was refused, server/discover got {later.summary}"
        case.expect("DE-09", later.is_result, why, fix=fix, about=later)


@probe("DE-12", "DE-16", revisions=LEGACY[-1:], fresh_conversation=True, client_capabilities=ALL_CAPABILITIES)
async def each_message_is_of_its_own_era(case: Case) -> None:
    """In a session, requests of both eras take turns: each gets an answer, and what is of the new era asks by results alone."""
    await _need_the_new_era(case)
    if await _judge_turns(case, listing(case)):
        await _judge_questions(case)
    else:
        # One sentence of the text has it so, and another otherwise.
        case.skip("DE-16", "in a session, the server serves requests of the new era by the rules of the session, or not at all")


async def _judge_turns(case: Case, method: str) -> bool:
    """Whether requests of the new era are answered by its own rules."""
    conversation = case.conversation
    fix = "Decide by the _meta of each message which era it is of, or let the session have them all."
    is_of_both = True
    for _ in range(2):
        plain = await conversation.request(method)
        why = f"between requests of the new era, {method} without _meta got {plain.summary}"
        case.expect("DE-12", plain.is_result, why, fix=fix, about=plain)
        try:
            modern = await conversation.request(method, meta={META_VERSION: MODERN[-1], META_CAPABILITIES: {}})
        except NoResponse as silence:
            case.expect("DE-12", False, f"in a session, {method} with the _meta of {MODERN[-1]}: {silence}", fix=fix)
            return False
        is_of_both &= isinstance(modern.result.get("resultType"), str)
    return is_of_both


async def _judge_questions(case: Case) -> None:
    """Tools are called by requests of the new era, in a session with a client that can answer everything."""
    conversation = case.conversation
    calls = case.features.safe_calls(case.permissions)[:_CALLS]
    if not calls:
        case.skip("DE-16", no_call())
        return
    # What the server asks for the session's own sake (roots, when that begins) is over before the first call.
    await conversation.quiet()
    meta = {META_VERSION: MODERN[-1], META_CAPABILITIES: dict(ALL_CAPABILITIES)}
    refused = 0
    for call in calls:
        before = conversation.position
        response = await conversation.request("tools/call", call.params, meta=meta)
        if response.error:
            refused += 1  # as it may
            continue
        asked = next((line for line in conversation.received_lines[before:] for part in line.parts if _asks(part)), None)
        case.expect(
            "DE-16",
            asked is None,
            f"{call.name} was called by a request of the new era, and the server sent {asked.method if asked else 'a request'}",
            fix="Ask by a result of type input_required if the call is of the new era, whatever else the connection has.",
            about=asked,
        )
    if refused == len(calls):
        case.skip("DE-16", "the server refuses calls of the new era in a session")


@probe("DE-13", revisions=MODERN, opens_own=True)
async def what_belongs_to_no_era_is_not_carried_out(case: Case) -> None:
    """A call without a handshake before it and without any _meta gets an error."""
    conversation = await case.open_conversation(opened=False, judged=False)
    await judge_an_early_request(case, conversation, "DE-13")


@probe("DE-14", silence_fails=True)
async def a_version_of_the_old_era_is_refused(case: Case) -> None:
    """server/discover that names a version with a handshake in its _meta gets -32022."""
    await be_served(case)
    for version in (LEGACY[-1], LEGACY[0]):
        response = await case.conversation.request("server/discover", meta={META_VERSION: version})
        case.expect(
            "DE-14",
            response.code == UNSUPPORTED_REVISION,
            f"server/discover of version {version}, which has no requests that stand alone, got {response.summary} and not -32022",
            fix="Serve requests that carry a version for versions of the new era alone.",
            about=response,
        )


def _asks(part: dict[str, Any]) -> bool:
    return "method" in part and "id" in part and part["method"] != "ping"
