"""The handshake, from the side of a client."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import CONTENT_TYPES, LEGACY, META_CAPABILITIES, META_VERSION, MODERN
from twopipes._tools.check.conversation import ALL_CAPABILITIES, CLIENT_INFO, LiveConversation, NoResponse, Response
from twopipes._tools.check.probe import Case, probe

# Versions that no server supports: one from before there was a protocol, one from far ahead.
_NEVER = ("1900-01-01", "2099-01-01")
_CALLS = 8
# A version costs a process of its own; what lies between these two hardly ever shows anything else.
_OLDEST_AND_NEWEST = (LEGACY[0], LEGACY[-1])


def _opening(version: Any, **more: Any) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT_INFO, **more}


@probe("LC-03")
async def the_handshake_is_answered_in_full(case: Case) -> None:
    """The result of initialize has a version, capabilities, and a server with a name and a version."""
    response = case.conversation.opening
    if response is None:
        case.give_up("there was no handshake")
    info = response.result.get("serverInfo")
    named = isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
    fix = "Answer initialize with protocolVersion, capabilities (an object, even if it is empty) and serverInfo."
    case.expect("LC-03", named, f"serverInfo is {info!r}, and not an object with name and version", fix=fix, about=response)
    declared = response.result.get("capabilities")
    case.expect("LC-03", isinstance(declared, dict), f"capabilities is {declared!r}, and not an object", fix=fix, about=response)
    told = response.result.get("instructions", "")
    case.expect("LC-03", isinstance(told, str), f"instructions is {told!r}, and not a text", fix=fix, about=response)


@probe("LC-06", opens_own=True)
async def before_initialized_the_server_asks_nothing(case: Case) -> None:
    """The client can answer everything, and holds notifications/initialized back: nothing but ping may be asked."""
    conversation = await case.open_conversation(opened=False)
    await conversation.request("initialize", _opening(case.revision, capabilities=dict(ALL_CAPABILITIES)))
    await _or_none(conversation, "ping")  # so that the server has had its turn; who does not answer it breaks another rule
    await conversation.quiet(fence=False)
    asked = next((line for line in conversation.received_lines for part in line.parts if _asks(part)), None)
    case.expect(
        "LC-06",
        asked is None,
        f"the server sent {asked.method if asked else 'a request'} before the client said notifications/initialized",
        fix="Keep requests to the client until notifications/initialized has come.",
        about=asked,
    )


@probe("LC-08", "LC-09", "LC-16", opens_own=True)
async def versions_are_negotiated(case: Case) -> None:
    """Versions of 1900, of 2099 and without a handshake get an offer; what the server offers or lists, it agrees to when asked."""
    named: list[Any] = []
    for version in (*_NEVER, MODERN[-1]):
        response = await _asked_for(case, version)
        data = response.error.get("data")
        supported = _list(data.get("supported") if isinstance(data, dict) else None)
        named += [response.result.get("protocolVersion"), *supported]
        await _judge_offer(case, version, response, supported)
    named += await _listed_by_discovery(case)
    opening = (await case.target.attempt(case.revision)).opening
    case.expect("LC-08", opening, "")  # it was agreed to, or there would be no conversation
    for version in sorted({each for each in named if isinstance(each, str) and each in LEGACY} - {case.revision}):
        response = await _answer_to(case, version)
        case.expect(
            "LC-08",
            response.result.get("protocolVersion") == version,
            f"the server itself says that it supports {version}; asked for it, it answered {_version_told(response)}",
            fix="Give the requested version back unchanged if it is one of those that you support.",
            about=response,
        )


async def _asked_for(case: Case, version: str) -> Response:
    conversation = await case.target.open()  # and closed at once: there are many
    try:
        return await conversation.request("initialize", _opening(version))
    finally:
        await conversation.close()


async def _answer_to(case: Case, version: str) -> Response:
    """What the server says to a version: as it did when it was found out what it speaks, where that was asked for then."""
    if version not in LEGACY:
        return await _asked_for(case, version)
    return (await case.target.attempt(version)).first_response or await _asked_for(case, version)


async def _judge_offer(case: Case, version: str, response: Response, supported: list[Any]) -> None:
    offered = response.result.get("protocolVersion")
    why = f"asked for {version}, the server answered {_version_told(response)}"
    if version in MODERN:
        if response.is_result:
            fix = "That revision has no handshake: answer with the newest version that has one."
            case.expect("LC-16", offered not in MODERN, why, fix=fix, about=response)
        else:
            case.skip("LC-16", f"the server refuses the version with an error (see LC-09): {response.summary}")
    elif supported:
        case.skip("LC-09", "the server refuses with an error that names its versions, as an example of the page does (CON-08)")
    else:
        fix = "Answer with the newest version that you support; whether that will do is for the client to decide."
        if not isinstance(offered, str) or offered == version or offered in MODERN:
            why += ", which has no handshake" if offered in MODERN else ""
            case.expect("LC-09", False, why, fix=fix, about=response)
        elif offered == case.revision:
            case.expect("LC-09", True, "")
        else:
            again = await _answer_to(case, offered)
            why = f"asked for {version}, the server offered {offered!r}; asked for that, it answered {_version_told(again)}"
            case.expect("LC-09", again.result.get("protocolVersion") == offered, why, fix=fix, about=again)


def _version_told(response: Response) -> str:
    return f"with {response.result.get('protocolVersion')!r}" if response.is_result else f"with {response.summary}"


async def _listed_by_discovery(case: Case) -> list[Any]:
    opening = (await case.target.attempt(MODERN[-1])).opening
    return [] if opening is None else _list(opening.result.get("supportedVersions"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@probe("LC-11", revisions=_OLDEST_AND_NEWEST, needs="call")
async def a_client_that_declares_nothing_is_asked_nothing(case: Case) -> None:
    """Tools are called by a client without capabilities: no requests come, and no content that the version does not have."""
    conversation = case.conversation
    before = conversation.position
    for call in case.features.safe_calls(case.permissions)[:_CALLS]:
        response = await conversation.request("tools/call", call.params)
        for block in _list(response.result.get("content")):
            kind = block.get("type") if isinstance(block, dict) else None
            span = CONTENT_TYPES.get(kind) if isinstance(kind, str) else None
            case.expect(
                "LC-11",
                span is None or span.has(case.revision),
                f"the result of {call.name} has content of the type {kind!r}, which {case.revision} does not have",
                fix="Say it in a type that the agreed version has, such as text.",
                about=response,
            )
    await conversation.quiet()
    asked = next((line for line in conversation.received_lines[before:] for part in line.parts if _asks(part)), None)
    case.expect(
        "LC-11",
        asked is None,
        f"the server sent {asked.method if asked else 'a request'} to a client that declared no capabilities",
        fix="Look at the capabilities of the client before you ask it for something.",
        about=asked,
    )


@probe("DE-11", revisions=_OLDEST_AND_NEWEST)
async def after_a_handshake_requests_need_no_metadata(case: Case) -> None:
    """A plain list request in a session is served, at least if the same request with the _meta of the new era is."""
    method = _declared_lists(case)[0]
    response = await case.conversation.request(method)
    if not response.is_result:
        # A list that gets an error with _meta, too, shows nothing about this rule.
        modern = await (await case.open_conversation()).request(method, meta={META_VERSION: MODERN[-1], META_CAPABILITIES: {}})
        if not modern.is_result:
            case.give_up(f"{method} got {response.summary} without _meta, and {modern.summary} with it")
    case.expect(
        "DE-11",
        response.is_result,
        f"after a handshake in {case.revision}, {method} without any _meta got {response.summary}, and with it a result",
        fix="Remember that there was a handshake: what comes after it without the _meta of the new era belongs to the session.",
        about=response,
    )


@probe("LC-13", opens_own=True)
async def a_handshake_that_fails_ends_nothing(case: Case) -> None:
    """After handshakes without a version, with a number for one, and without anything, a good one is still answered."""
    conversation = await case.open_conversation(opened=False, judged=False)
    fix = "Answer a handshake that makes no sense with -32602, and wait for the next one."
    without = {key: value for key, value in _opening("").items() if key != "protocolVersion"}
    for broken in (without, _opening(7), None):
        conversation.start("initialize", broken)
    try:
        await conversation.request("initialize", _opening(case.revision))
    except NoResponse as silence:
        case.expect("LC-13", False, f"after three handshakes that make no sense, a good one got nothing: {silence}", fix=fix)
    else:
        case.expect("LC-13", True, "")


@probe("LC-14", opens_own=True)
async def nothing_is_done_before_the_handshake(case: Case) -> None:
    """A request that comes before initialize gets an error, and the handshake is still possible."""
    conversation = await case.open_conversation(opened=False, judged=False)
    await judge_an_early_request(case, conversation, "LC-14")
    try:
        await conversation.request("initialize", _opening(case.revision))
    except NoResponse as silence:
        case.expect("LC-14", False, f"after a request that came too early, initialize got nothing: {silence}")
    else:
        case.expect("LC-14", not conversation.is_over, "a request that came too early ended the server")


async def judge_an_early_request(case: Case, conversation: LiveConversation, rule: str) -> None:
    """Sends a request that belongs to no session, and wants an error for it. Other sections have the same rule."""
    calls = case.features.safe_calls(case.permissions)
    method, params = ("tools/call", calls[0].params) if calls else (listing(case), None)
    fix = "Look for a handshake, or for the _meta of a stateless request, before you serve anything; answer -32600 otherwise."
    try:
        response = await conversation.request(method, params, bare=True)
    except NoResponse as silence:
        case.expect(rule, False, f"{method}, without a handshake before it, got no error: {silence}", fix=fix)
    else:
        case.expect(
            rule,
            response.error,
            f"{method}, without a handshake before it, was carried out: {response.summary}",
            fix=fix,
            about=response,
        )


def listing(case: Case) -> str:
    """A list that the server has, by what it declared, and that it answered with a result when it was asked for it first.

    Raises:
        Skip: It has none.
    """
    found = _declared_lists(case)
    working = next((method for method in found if method not in case.features.failed), None)
    if working is None:
        case.give_up(f"the server lists nothing: {case.features.failed[found[0]]}")
    return working


def _declared_lists(case: Case) -> list[str]:
    found = [f"{each}/list" for each in ("tools", "resources", "prompts") if case.features.has(each)]
    return found or case.give_up("the server declares nothing that could be listed")


@probe("LC-15", runs_last=True, judged=False)
async def a_second_handshake_is_refused(case: Case) -> None:
    """A second initialize in a live session gets an error, and the session goes on."""
    conversation = case.conversation
    fix = "Refuse initialize with -32600 in a session that is open; change nothing about that."
    again = await _or_none(conversation, "initialize", _opening(case.revision))
    case.expect(
        "LC-15",
        again is not None and again.error,
        f"a second initialize got {again.summary if again else 'no answer'}, and not an error",
        fix=fix,
        about=again,
    )
    later = await _or_none(conversation, case.harmless)
    case.expect(
        "LC-15",
        later is not None and later.is_result,
        f"after a second initialize, {case.harmless} got {later.summary if later else 'no answer'}",
        fix=fix,
        about=later,
    )


async def _or_none(conversation: LiveConversation, method: str, params: dict[str, Any] | None = None) -> Response | None:
    try:
        return await conversation.request(method, params)
    except NoResponse:
        return None


def _asks(part: dict[str, Any]) -> bool:
    return "method" in part and "id" in part and part["method"] != "ping"
