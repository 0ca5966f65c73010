"""Self-contained requests and discovery."""

from __future__ import annotations

from typing import Any

from twopipes._codes import INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_REVISION
from twopipes._protocol.revisions import LEGACY, META_CAPABILITIES, META_CLIENT_INFO, META_VERSION
from twopipes._tools.check.conversation import CLIENT_INFO, LiveConversation
from twopipes._tools.check.lifecycle.probes import listing
from twopipes._tools.check.messages import NoResponse, Response, members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import progress_of

_CANCELLED = "notifications/cancelled"
_NO_REVISION = "2099-01-01"
_TASKS = "io.modelcontextprotocol/tasks"
# The methods that modern revisions removed, with their params.
_REMOVED: dict[str, dict[str, Any]] = {
    "ping": {},
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "file:///nothing"},
    "resources/unsubscribe": {"uri": "file:///nothing"},
    "tasks/list": {},
    "tasks/result": {"taskId": "none"},
}
_REMOVED_WITHOUT_TASKS: dict[str, dict[str, Any]] = {"tasks/get": {"taskId": "none"}, "tasks/cancel": {"taskId": "none"}}
# Seconds. A call that reports no progress for so long, which is many of its steps, has stopped.
_WATCHED = 0.25


@probe("VN-02", fresh_conversation=True, silence_fails=True)
async def requests_without_metadata_are_rejected(case: Case) -> None:
    """Sends a valid request, and then seven whose _meta lacks something or is malformed."""
    conversation = case.conversation
    await be_served(case)
    version: dict[str, Any] = {META_VERSION: case.revision}
    # A request that names a version is modern. A server of both eras may treat the others as legacy requests, and even the whole
    # connection as legacy from then on, so those come last, and any error will do.
    malformed: list[tuple[str, dict[str, Any] | None, bool]] = [
        ("without the client's capabilities", {"_meta": version}, True),
        ("with a string as capabilities", {"_meta": {**version, META_CAPABILITIES: "none"}}, True),
        ("with a number as the version", {"_meta": {META_VERSION: 20260728, META_CAPABILITIES: {}}}, True),
        ("without a version", {"_meta": {META_CAPABILITIES: {}}}, False),
        ("with an empty _meta", {"_meta": {}}, False),
        ("without _meta", {}, False),
        ("without params", None, False),
    ]
    legacy = await case.target.attempt(LEGACY[-1])
    # The server may have agreed to another version than the requested one.
    has_handshake = any("result" in part for line in legacy.received_lines for part in line.parts)
    for what, params, names_version in malformed:
        response = await conversation.request("server/discover", params, bare=True)
        is_right = response.code == INVALID_PARAMS if names_version or not has_handshake else response.error
        case.expect("VN-02", is_right, f"server/discover {what} got {response.summary}", about=response)


@probe("VN-03", silence_fails=True)
async def client_info_is_optional(case: Case) -> None:
    """Sends requests without clientInfo."""
    conversation = case.conversation
    for method in ("server/discover", *case.list_methods):
        if (await conversation.request(method)).is_result:
            nameless = conversation.message(method)
            del nameless["params"]["_meta"][META_CLIENT_INFO]
            conversation.send(nameless)
            response = await conversation.response_to(nameless["id"], what=f"{method} without clientInfo")
            why = f"{method} without clientInfo got {response.summary}; with it, a result"
            case.expect("VN-03", response.is_result, why, about=response)


async def be_served(case: Case) -> None:
    """Send an ordinary request, so that a server that remembers what only the next request may contain does so.

    A list, if there is one: for some servers only that settles the era of the connection.
    """
    await case.conversation.request((*case.list_methods, "server/discover")[0])


@probe("VN-04", silence_fails=True)
async def unsupported_versions_are_rejected(case: Case) -> None:
    """Sends requests of a version that does not exist, after one of a supported version."""
    await be_served(case)
    for method in ("server/discover", "subscriptions/listen", *case.list_methods):
        params: dict[str, Any] = {"notifications": {}} if method == "subscriptions/listen" else {}
        response = await case.conversation.request(method, params, meta={META_VERSION: _NO_REVISION})
        if method == "subscriptions/listen" and response.code == METHOD_NOT_FOUND:
            continue  # a server without notifications may leave it out (CON-12), and the order of the checks is open (CON-18)
        case.expect_code("VN-04", response, UNSUPPORTED_REVISION, f"{method} of version {_NO_REVISION}")


@probe("VN-06")
async def discovery_is_complete(case: Case) -> None:
    """Looks at the result of server/discover."""
    response = case.conversation.opening
    if response is None:
        case.give_up("the server was not discovered")
    result = response.result
    versions, ttl = result.get("supportedVersions"), result.get("ttlMs")
    is_right = {
        "resultType (a string)": isinstance(result.get("resultType"), str),
        "supportedVersions (an array of strings)": isinstance(versions, list) and all(isinstance(each, str) for each in versions),
        "capabilities (an object)": isinstance(result.get("capabilities"), dict),
        "ttlMs (a number of at least 0)": isinstance(ttl, int | float) and not isinstance(ttl, bool) and ttl >= 0,
        "cacheScope (public or private)": result.get("cacheScope") in ("public", "private"),
        "instructions (a string, optional)": isinstance(result.get("instructions", ""), str),
    }
    wrong = ", ".join(what for what, is_there in is_right.items() if not is_there)
    case.expect("VN-06", not wrong, f"missing or malformed in the result of server/discover: {wrong}", about=response)


@probe("VN-07", "DE-10", opens_own=True)
async def discovery_is_optional(case: Case) -> None:
    """Requests a list from a new server, without discovery and without a handshake."""
    method = listing(case)
    conversation = await case.open_conversation(opened=False)
    conversation.revision = case.revision
    response = await conversation.request(method)
    case.expect("VN-07", response.is_result, f"{method} as the first request got {response.summary}", about=response)
    has_type = isinstance(response.result.get("resultType"), str)
    why = f"{method} with the _meta of {case.revision} got {response.summary} without a resultType"
    case.expect("DE-10", has_type, why, about=response)


@probe("VN-12", silence_fails=True)
async def removed_methods_do_not_exist(case: Case) -> None:
    """Sends methods of legacy revisions as modern requests."""
    has_tasks = _TASKS in members(case.features.capabilities.get("extensions"))
    for method, params in (_REMOVED if has_tasks else _REMOVED | _REMOVED_WITHOUT_TASKS).items():
        response = await case.conversation.request(method, params)
        case.expect_code("VN-12", response, METHOD_NOT_FOUND, f"{method}, which {case.revision} does not have,")


@probe("VN-13")
async def each_request_is_judged_by_itself(case: Case) -> None:
    """Alternates requests of a supported and an unsupported version, first one by one, then all at once."""
    conversation = case.conversation
    await be_served(case)
    for at_once in (False, True):
        sent: dict[Any, str] = {}
        for version in (case.revision, _NO_REVISION) * 3:
            request_id = conversation.start("server/discover", meta={META_VERSION: version})
            sent[request_id] = version
            if not at_once:
                await conversation.response_to(request_id, what="server/discover")
        for request_id, version in sent.items():
            response = await conversation.response_to(request_id, what="server/discover")
            is_right = response.code == UNSUPPORTED_REVISION if version == _NO_REVISION else response.is_result
            why = f"of requests that alternate between {case.revision} and {_NO_REVISION}, one of {version} got {response.summary}"
            case.expect("VN-13", is_right, why, about=response)


@probe("VN-14")
async def the_name_of_the_client_changes_nothing(case: Case) -> None:
    """Requests the same list under different client names."""
    method = listing(case)
    _, mine = await _contents(case.conversation, method, None)
    others = {name: await _contents(case.conversation, method, name) for name in ("some-editor", "some-agent")}
    _, again = await _contents(case.conversation, method, None)
    if again != mine:
        case.give_up(f"{method} returns something else each time, so the effect of the name is not visible")
    for name, (response, contents) in others.items():
        why = f"a client named {name!r} gets another response to {method} than one named {CLIENT_INFO['name']!r}"
        case.expect("VN-14", contents == mine, why, about=response)


async def _contents(conversation: LiveConversation, method: str, name: str | None) -> tuple[Response, Any]:
    response = await conversation.request(method, meta={} if name is None else {META_CLIENT_INFO: {"name": name, "version": "1"}})
    return response, {key: value for key, value in response.result.items() if key != "_meta"} or response.code


@probe("VN-15", fresh_conversation=True)
async def notifications_need_no_metadata(case: Case) -> None:
    """Sends cancellations without _meta, one of them for a slow call, and ordinary requests after them."""
    conversation = case.conversation
    before = conversation.position
    for method in ("server/discover", listing(case)):
        if method != "server/discover" and not (await conversation.request(method)).is_result:
            case.give_up(f"{method} gets no result in any case")
        before = conversation.position
        # A client may cancel only an open request; whether this one gets a response does not matter.
        conversation.notify(_CANCELLED, {"requestId": conversation.start(method)})
        response = await conversation.request(method)
        why = f"after a notification without _meta, {method} got {response.summary}; before it, a result"
        case.expect("VN-15", response.is_result, why, about=response)
    complaints = [line for line in conversation.received_lines[before:] if line.has_error_without_id]
    case.forbid("VN-15", complaints, "the server sent an error for a notification without _meta")
    params = case.fixture("slow", {"steps": 1000, "seconds": 0.01})
    meta = {"_meta": {META_VERSION: case.revision, META_CAPABILITIES: {}}}
    if not await _stops(conversation, params, {}) and await _stops(conversation, params, meta):
        case.expect("VN-15", False, f"{_CANCELLED} stops a call only if it has _meta")


async def _stops(conversation: LiveConversation, params: dict[str, Any], meta: dict[str, Any]) -> bool:
    """Return whether a cancelled call reports no more progress."""
    token = f"to-be-cancelled-{conversation.position}"
    running = conversation.start("tools/call", params, meta={"progressToken": token})
    if await conversation.wait_for(lambda line: progress_of(line, token)) is None:
        raise NoResponse("the slow call reports no progress, so its end is not visible")
    conversation.notify(_CANCELLED, {"requestId": running, **meta})
    await conversation.request("server/discover")  # after this response, the server has read the cancellation
    last = conversation.position
    return await conversation.wait_for(lambda line: progress_of(line, token), since=last, within=_WATCHED) is None
