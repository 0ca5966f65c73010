"""How servers serve both eras."""

from __future__ import annotations

from twopipes._codes import UNSUPPORTED_REVISION
from twopipes._protocol.revisions import LEGACY, META_CAPABILITIES, META_VERSION, MODERN
from twopipes._tools.check.conversation import ALL_CAPABILITIES, CLIENT_INFO
from twopipes._tools.check.discovery.probes import be_served
from twopipes._tools.check.lifecycle.probes import judge_an_early_request, listing
from twopipes._tools.check.probe import Case, no_call, probe

_CALLS = 16


@probe("DE-09", opens_own=True)
async def initialize_is_rejected_without_a_handshake(case: Case) -> None:
    """Sends initialize to a modern server, and then server/discover."""
    conversation = await case.open_conversation(opened=False)
    conversation.revision = case.revision
    params = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": CLIENT_INFO}
    response = await conversation.try_request("initialize", params, bare=True)
    if response.is_result:
        case.give_up("the server has a handshake")
    if case.expect("DE-09", response.error, f"initialize got {response.summary}", about=response):
        later = await conversation.try_request("server/discover")
        why = f"after initialize was rejected, server/discover got {later.summary}"
        case.expect("DE-09", later.is_result, why, about=later)


@probe("DE-12", "DE-16", needs="stream", revisions=LEGACY[-1:], fresh_conversation=True, client_capabilities=ALL_CAPABILITIES)
async def eras_alternate_in_a_session(case: Case) -> None:
    """Alternates requests of both eras in a session, and calls tools by modern requests."""
    # A legacy-only server does not know the meaning of a modern _meta.
    if (await case.target.attempt(MODERN[-1])).opening is None:
        case.give_up(f"only for servers of both eras; the server does not speak {MODERN[-1]}")
    method, meta = listing(case), {META_VERSION: MODERN[-1], META_CAPABILITIES: {}}
    is_modern = True
    for _ in range(2):
        plain = await case.conversation.request(method)
        why = f"between modern requests, {method} without _meta got {plain.summary}"
        case.expect("DE-12", plain.is_result, why, about=plain)
        modern = await case.conversation.try_request(method, meta=meta)
        is_modern &= isinstance(modern.result.get("resultType"), str)
        why = f"in a session, {method} with the _meta of {MODERN[-1]} got {modern.summary}"
        if not case.expect("DE-12", not modern.silence, why):
            break
    if is_modern:
        await _judge_questions(case)
    else:
        # One sentence of the text requires this, another the opposite.
        case.skip("DE-16", "in a session, the server serves modern requests by the rules of the session, or not at all")


async def _judge_questions(case: Case) -> None:
    conversation = case.conversation
    calls = case.safe_calls[:_CALLS]
    if not calls:
        case.skip("DE-16", no_call())
        return
    # Questions about the session itself, such as its roots, come before the first call.
    await conversation.quiet()
    meta = {META_VERSION: MODERN[-1], META_CAPABILITIES: dict(ALL_CAPABILITIES)}
    for call in calls:
        before = conversation.position
        response = await conversation.request("tools/call", call.params, meta=meta)
        if response.error:
            continue  # which is allowed
        asked = [line for line in conversation.received_lines[before:] if line.is_question]
        case.forbid("DE-16", asked, f"{call.name} was called by a modern request, and the server sent a request")
    case.give_up("the server rejects modern calls in a session")


@probe("DE-13", revisions=MODERN, opens_own=True)
async def requests_of_neither_era_are_not_executed(case: Case) -> None:
    """Sends a request without a handshake and without _meta."""
    conversation = await case.open_conversation(opened=False, judged=False)
    await judge_an_early_request(case, conversation, "DE-13")


@probe("DE-14", silence_fails=True)
async def legacy_versions_in_modern_requests_are_rejected(case: Case) -> None:
    """Sends server/discover with a legacy version in its _meta."""
    await be_served(case)
    for version in (LEGACY[-1], LEGACY[0]):
        response = await case.conversation.request("server/discover", meta={META_VERSION: version})
        case.expect_code("DE-14", response, UNSUPPORTED_REVISION, f"server/discover of the legacy version {version}")
