"""The handshake of servers."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import CONTENT_TYPES, LEGACY, META_CAPABILITIES, META_VERSION, MODERN
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation, handshake
from twopipes._tools.check.messages import Response
from twopipes._tools.check.probe import Case, probe

# Versions that no server supports.
_UNKNOWN = ("1900-01-01", "2099-01-01")
_CALLS = 8
# Each version costs a process; those between these two hardly ever differ.
_OLDEST_AND_NEWEST = (LEGACY[0], LEGACY[-1])


@probe("LC-03")
async def initialize_has_a_complete_result(case: Case) -> None:
    """The result of initialize has a version, capabilities, and a server with a name and a version."""
    response = case.conversation.opening
    if response is None:
        case.give_up("there was no handshake")
    info, declared = response.result.get("serverInfo"), response.result.get("capabilities")
    named = isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
    case.expect("LC-03", named, f"serverInfo is {info!r}, not an object with name and version", about=response)
    case.expect("LC-03", isinstance(declared, dict), f"capabilities is {declared!r}, not an object", about=response)
    text = response.result.get("instructions", "")
    case.expect("LC-03", isinstance(text, str), f"instructions is {text!r}, not a string", about=response)


@probe("LC-06", opens_own=True)
async def nothing_is_asked_before_initialized(case: Case) -> None:
    """A client with all capabilities withholds notifications/initialized: the server may only ping it."""
    conversation = await case.open_conversation(opened=False)
    await conversation.request("initialize", handshake(case.revision, ALL_CAPABILITIES))
    await conversation.try_request("ping")  # gives the server time to ask
    await conversation.quiet(fence=False)
    asked = [line for line in conversation.received_lines if line.is_question]
    case.forbid("LC-06", asked, lambda line: f"the server sent {line.method} before notifications/initialized")


@probe("LC-08", "LC-09", "LC-16", opens_own=True)
async def versions_are_negotiated(case: Case) -> None:
    """Unknown versions, and one without a handshake, get an offer; the server agrees to every version that it names."""
    named: list[Any] = []
    for version in (*_UNKNOWN, MODERN[-1]):
        response = await _initialized(case, version)
        data = response.error.get("data")
        supported = _list(data.get("supported") if isinstance(data, dict) else None)
        named += [response.result.get("protocolVersion"), *supported]
        await _judge_offer(case, version, response, supported)
    discovered = (await case.target.attempt(MODERN[-1])).opening
    named += [] if discovered is None else _list(discovered.result.get("supportedVersions"))
    case.expect("LC-08", (await case.target.attempt(case.revision)).opening)  # agreed to, or there would be no conversation
    for version in sorted({each for each in named if isinstance(each, str) and each in LEGACY} - {case.revision}):
        response = await _response_to(case, version)
        why = f"the server names {version} as supported, but responds to a request for it with {_version(response)}"
        case.expect("LC-08", response.result.get("protocolVersion") == version, why, about=response)


async def _initialized(case: Case, version: str) -> Response:
    conversation = await case.target.open()  # closed at once, since there are many
    try:
        return await conversation.request("initialize", handshake(version))
    finally:
        await conversation.close()


async def _response_to(case: Case, version: str) -> Response:
    """Return the response to a version, from the first exploration of the server if it was tried then."""
    known = (await case.target.attempt(version)).first_response if version in LEGACY else None
    return known or await _initialized(case, version)


async def _judge_offer(case: Case, version: str, response: Response, supported: list[Any]) -> None:
    offered = response.result.get("protocolVersion")
    why = f"the server responded to a request for {version} with {_version(response)}"
    if version in MODERN:
        if response.is_result:
            case.expect("LC-16", offered not in MODERN, why, about=response)
        else:
            case.skip("LC-16", f"the server rejects the version with an error (see LC-09): {response.summary}")
    elif supported:
        case.skip("LC-09", "the server responds with an error that names its versions, as an example on the page does (CON-08)")
    elif not isinstance(offered, str) or offered == version or offered in MODERN:
        case.expect("LC-09", False, why + (", which has no handshake" if offered in MODERN else ""), about=response)
    elif offered == case.revision:
        case.expect("LC-09", True)
    else:
        again = await _response_to(case, offered)
        why = f"the server offered {offered!r} instead of {version}, but responded to a request for it with {_version(again)}"
        case.expect("LC-09", again.result.get("protocolVersion") == offered, why, about=again)


def _version(response: Response) -> str:
    return repr(response.result.get("protocolVersion")) if response.is_result else response.summary


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@probe("LC-11", revisions=_OLDEST_AND_NEWEST, needs="call")
async def a_client_without_capabilities_is_asked_nothing(case: Case) -> None:
    """Calls by a client without capabilities cause no requests, and no content that the version does not have."""
    conversation, since = case.conversation, case.conversation.position
    for call in case.safe_calls[:_CALLS]:
        response = await conversation.request("tools/call", call.params)
        for block in response.items("content"):
            kind = block.get("type")
            span = CONTENT_TYPES.get(kind) if isinstance(kind, str) else None
            why = f"the result of {call.name} has content of type {kind!r}, which {case.revision} does not have"
            case.expect("LC-11", span is None or span.has(case.revision), why, about=response)
    await conversation.quiet()
    asked = [line for line in conversation.received_lines[since:] if line.is_question]
    case.forbid("LC-11", asked, lambda line: f"the server sent {line.method} to a client without capabilities")


@probe("DE-11", revisions=_OLDEST_AND_NEWEST)
async def requests_of_a_session_need_no_metadata(case: Case) -> None:
    """A plain list request in a session is served, at least if the same request with modern _meta is."""
    method = _declared_lists(case)[0]
    response = await case.conversation.request(method)
    if not response.is_result:
        # A list that also fails with _meta shows nothing about this rule.
        modern = await (await case.open_conversation()).request(method, meta={META_VERSION: MODERN[-1], META_CAPABILITIES: {}})
        if not modern.is_result:
            case.give_up(f"{method} got {response.summary} without _meta, and {modern.summary} with it")
    why = f"after a handshake in {case.revision}, {method} without _meta got {response.summary}, and with it a result"
    case.expect("DE-11", response.is_result, why, about=response)


@probe("LC-13", opens_own=True)
async def a_failed_handshake_ends_nothing(case: Case) -> None:
    """After an initialize without a version, with a number as version, and without params, a valid one is answered."""
    conversation = await case.open_conversation(opened=False, judged=False)
    without = {key: value for key, value in handshake("").items() if key != "protocolVersion"}
    for invalid in (without, handshake(7), None):
        conversation.start("initialize", invalid)
    response = await conversation.try_request("initialize", handshake(case.revision))
    case.expect("LC-13", not response.silence, f"after three invalid handshakes, a valid one got {response.summary}")


@probe("LC-14", opens_own=True)
async def nothing_is_served_before_the_handshake(case: Case) -> None:
    """A request before initialize gets an error, and the handshake is still possible."""
    conversation = await case.open_conversation(opened=False, judged=False)
    await judge_an_early_request(case, conversation, "LC-14")
    response = await conversation.try_request("initialize", handshake(case.revision))
    outcome = f"initialize got {response.summary}" if response.silence else "the server exited"
    case.expect("LC-14", not response.silence and not conversation.is_over, f"after a request that came too early, {outcome}")


async def judge_an_early_request(case: Case, conversation: LiveConversation, rule: str) -> None:
    """Judge by a request outside of any session, which must get an error. Section DE has the same rule."""
    calls = case.safe_calls
    method, params = ("tools/call", calls[0].params) if calls else (listing(case), None)
    response = await conversation.try_request(method, params, bare=True)
    case.expect(rule, response.error, f"{method} before any handshake got {response.summary}, not an error", about=response)


def listing(case: Case) -> str:
    """Return a list method that the server declares and that works; skip the probe if there is none."""
    found = _declared_lists(case)
    working = next((method for method in found if method not in case.features.failed), None)
    return working or case.give_up(f"the server lists nothing: {case.features.failed[found[0]]}")


def _declared_lists(case: Case) -> list[str]:
    found = [f"{each}/list" for each in ("tools", "resources", "prompts") if case.features.has(each)]
    return found or case.give_up("the server declares nothing that could be listed")


@probe("LC-15", runs_last=True, judged=False)
async def a_second_handshake_is_rejected(case: Case) -> None:
    """A second initialize in an open session gets an error, and the session continues."""
    again = await case.conversation.try_request("initialize", handshake(case.revision))
    case.expect("LC-15", again.error, f"a second initialize got {again.summary}, not an error", about=again)
    later = await case.conversation.try_request(case.harmless)
    case.expect("LC-15", later.is_result, f"after a second initialize, {case.harmless} got {later.summary}", about=later)
