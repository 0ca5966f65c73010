"""Requests that stand alone, and discovery, from the side of a client."""

from __future__ import annotations

from typing import Any

from twopipes._codes import INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_REVISION
from twopipes._protocol.revisions import LEGACY, META_CAPABILITIES, META_CLIENT_INFO, META_VERSION
from twopipes._tools.check.conversation import CLIENT_INFO, LiveConversation, NoResponse, ReceivedLine, Response
from twopipes._tools.check.lifecycle.probes import listing
from twopipes._tools.check.probe import Case, probe

_NEVER = "2099-01-01"
_TASKS = "io.modelcontextprotocol/tasks"
# What the stateless revisions have done away with, and the params that it had.
_GONE: dict[str, dict[str, Any]] = {
    "ping": {},
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "file:///nothing"},
    "resources/unsubscribe": {"uri": "file:///nothing"},
    "tasks/list": {},
    "tasks/result": {"taskId": "none"},
}
_GONE_WITHOUT_TASKS: dict[str, dict[str, Any]] = {"tasks/get": {"taskId": "none"}, "tasks/cancel": {"taskId": "none"}}
_NAMES = ("some-editor", "some-agent")
_STEPS = 1000
_STEP = 0.01  # seconds
_WATCHED = 0.25  # seconds: many steps, and no step in all of them means that it has stopped


async def speaks_a_handshake(case: Case) -> bool:
    """Whether this server also is one of the old era."""
    conversation = await case.target.attempt(LEGACY[-1])
    # It may have agreed to another version than that.
    return any("result" in part for line in conversation.received_lines for part in line.parts)


@probe("VN-02", fresh_conversation=True, silence_fails=True)
async def requests_without_metadata_are_refused(case: Case) -> None:
    """After a good request come seven that lack something of what each must carry."""
    conversation = case.conversation
    # A list and not server/discover, where there is one: only that settles for some servers what the connection is for.
    lists = [f"{each}/list" for each in ("tools", "resources", "prompts") if case.features.has(each)]
    await conversation.request((*lists, "server/discover")[0])
    version: dict[str, Any] = {META_VERSION: case.revision}
    able: dict[str, Any] = {META_CAPABILITIES: {}}
    # What names a version is of the new era. The rest a server of both may take for requests of the old one, and refuse as such;
    # and as it may take the whole connection for one of the old era then, those come last.
    named: list[tuple[str, dict[str, Any] | None]] = [
        ("without the client's capabilities", {"_meta": version}),
        ("with a text for capabilities", {"_meta": {**version, META_CAPABILITIES: "none"}}),
        ("with a number for a version", {"_meta": {META_VERSION: 20260728, **able}}),
    ]
    nameless: list[tuple[str, dict[str, Any] | None]] = [
        ("without a version", {"_meta": able}),
        ("with an empty _meta", {"_meta": {}}),
        ("without _meta", {}),
        ("without params", None),
    ]
    has_handshake = await speaks_a_handshake(case)
    for what, params in (*named, *nameless):
        response = await conversation.request("server/discover", params, bare=True)
        strict = not has_handshake or (what, params) in named
        case.expect(
            "VN-02",
            response.code == INVALID_PARAMS if strict else response.error,
            f"server/discover {what} got {response.summary}, and not {'the error -32602' if strict else 'an error'}",
            fix="Look at params._meta of every request by itself; refuse with -32602 what lacks the version or the capabilities.",
            about=response,
        )


@probe("VN-03", silence_fails=True)
async def nobody_has_to_say_who_it_is(case: Case) -> None:
    """Requests that have all that they must have, and no clientInfo, are served like others."""
    conversation = case.conversation
    lists = [f"{each}/list" for each in ("tools", "resources", "prompts") if case.features.has(each)]
    for method in ("server/discover", *lists):
        if not (await conversation.request(method)).is_result:
            continue  # it gets none in any case
        nameless = conversation.message(method)
        del nameless["params"]["_meta"][META_CLIENT_INFO]
        conversation.send(nameless)
        response = await conversation.response_to(nameless["id"], what=f"{method} without clientInfo")
        case.expect(
            "VN-03",
            response.is_result,
            f"{method} without clientInfo in its _meta, which is not required, got {response.summary}; with it, a result",
            fix="Require the version and the capabilities in _meta, and nothing else.",
            about=response,
        )


async def be_served(case: Case) -> None:
    """Asks for something ordinary: whoever remembers of a request what only the next one can say has occasion to do so now."""
    lists = [f"{each}/list" for each in ("tools", "resources", "prompts") if case.features.has(each)]
    await case.conversation.request(lists[0] if lists else "server/discover")


@probe("VN-04", silence_fails=True)
async def a_version_that_nobody_serves_is_refused(case: Case) -> None:
    """Requests of a version from far ahead get -32022, whatever they ask for, also where one of another version was served."""
    await be_served(case)
    methods: list[tuple[str, dict[str, Any]]] = [("server/discover", {}), ("subscriptions/listen", {"notifications": {}})]
    methods += [(f"{each}/list", {}) for each in ("tools", "resources", "prompts") if case.features.has(each)]
    for method, params in methods:
        response = await case.conversation.request(method, params, meta={META_VERSION: _NEVER})
        if method == "subscriptions/listen" and response.code == METHOD_NOT_FOUND:
            continue  # whoever has nothing to tell may leave that out (CON-12), and what is checked first is open (CON-18)
        case.expect(
            "VN-04",
            response.code == UNSUPPORTED_REVISION,
            f"{method} of version {_NEVER} got {response.summary}, and not the error -32022",
            fix="Compare the version of each request with those that you serve, before anything else.",
            about=response,
        )


@probe("VN-06")
async def discovery_tells_all_that_is_needed(case: Case) -> None:
    """The first line of a fresh server is server/discover; its result has every member that it must have."""
    response = case.conversation.opening
    if response is None:
        case.give_up("the server was not discovered")
    result = response.result
    versions, ttl = result.get("supportedVersions"), result.get("ttlMs")
    found = {
        "resultType, a text": isinstance(result.get("resultType"), str),
        "supportedVersions, a list of texts": isinstance(versions, list) and all(isinstance(each, str) for each in versions),
        "capabilities, an object": isinstance(result.get("capabilities"), dict),
        "ttlMs, a number from 0 on": isinstance(ttl, int | float) and not isinstance(ttl, bool) and ttl >= 0,
        "cacheScope, public or private": result.get("cacheScope") in ("public", "private"),
        "instructions, a text where it is there": isinstance(result.get("instructions", ""), str),
    }
    missing = [what for what, is_there in found.items() if not is_there]
    fix = "Answer server/discover with all members that the schema requires."
    case.expect("VN-06", not missing, f"the result of server/discover lacks {'; '.join(missing)}", fix=fix, about=response)


@probe("VN-07", "DE-10", opens_own=True)
async def the_first_request_may_be_any(case: Case) -> None:
    """A fresh server is asked for a list at once, without discovery and without a handshake."""
    method = listing(case)
    conversation = await case.open_conversation(opened=False)
    conversation.revision = case.revision
    response = await conversation.request(method)
    fix = "Serve each request by what it carries; nothing has to come before it."
    case.expect("VN-07", response.is_result, f"{method} as the first request got {response.summary}", fix=fix, about=response)
    case.expect(
        "DE-10",
        isinstance(response.result.get("resultType"), str),
        f"{method} with the _meta of {case.revision} got {response.summary} without a resultType, which all of that revision have",
        fix=fix,
        about=response,
    )


@probe("VN-12", silence_fails=True)
async def what_is_gone_does_not_exist(case: Case) -> None:
    """Methods of the old era, sent as requests that stand alone, get -32601."""
    extensions = case.features.capabilities.get("extensions")
    has_tasks = isinstance(extensions, dict) and _TASKS in extensions
    for method, params in (_GONE if has_tasks else _GONE | _GONE_WITHOUT_TASKS).items():
        response = await case.conversation.request(method, params)
        case.expect(
            "VN-12",
            response.code == METHOD_NOT_FOUND,
            f"{method}, which {case.revision} does not have, got {response.summary}, and not the error -32601",
            fix="Look a method up in the revision that the request names, not in all that you know.",
            about=response,
        )


@probe("VN-13")
async def each_request_is_judged_by_itself(case: Case) -> None:
    """Requests of a version that is served and of one that is not, in turns: first one by one, then all at once."""
    conversation = case.conversation
    await be_served(case)
    for at_once in (False, True):
        sent: list[tuple[Any, bool]] = []
        for number in range(6):
            good = number % 2 == 0
            sent.append((conversation.start("server/discover", meta={} if good else {META_VERSION: _NEVER}), good))
            if not at_once:
                await conversation.response_to(sent[-1][0], what="server/discover")
        for request_id, good in sent:
            response = await conversation.response_to(request_id, what="server/discover")
            version = case.revision if good else _NEVER
            case.expect(
                "VN-13",
                response.is_result if good else response.code == UNSUPPORTED_REVISION,
                f"of requests that are in turns of {case.revision} and of {_NEVER}, one of {version} got {response.summary}",
                fix="Keep nothing of what a request says of its client for the next one.",
                about=response,
            )


@probe("VN-14")
async def the_name_of_the_client_changes_nothing(case: Case) -> None:
    """The same list is asked for under different names."""
    method = listing(case)
    _, mine = await _contents(case.conversation, method, None)
    others = {name: await _contents(case.conversation, method, name) for name in _NAMES}
    _, again = await _contents(case.conversation, method, None)
    if again != mine:
        case.give_up(f"{method} gives something else each time, so the check cannot tell what the name has to do with it")
    for name, (response, contents) in others.items():
        case.expect(
            "VN-14",
            contents == mine,
            f"a client that calls itself {name!r} gets another answer to {method} than one called {CLIENT_INFO['name']!r}",
            fix="Use clientInfo for logs; what a client can do stands in its capabilities.",
            about=response,
        )


async def _contents(conversation: LiveConversation, method: str, name: str | None) -> tuple[Response, Any]:
    response = await conversation.request(method, meta={} if name is None else {META_CLIENT_INFO: {"name": name, "version": "1"}})
    return response, {key: value for key, value in response.result.items() if key != "_meta"} or response.code


@probe("VN-15", fresh_conversation=True)
async def notifications_need_no_metadata(case: Case) -> None:
    """Notifications without _meta are taken without complaint, also right after discovery, and one that cancels a call does so."""
    conversation = case.conversation
    fix = "Ask for _meta in requests alone, and let no notification decide what the next request is taken for."
    # A request that is still under way, since a client may cancel no others; whether it is answered does not matter.
    conversation.notify("notifications/cancelled", {"requestId": conversation.start("server/discover")})
    again = await conversation.request("server/discover")
    told = f"after server/discover and a notification without _meta, server/discover got {again.summary}; before it, a result"
    case.expect("VN-15", again.is_result, told, fix=fix, about=again)
    method = listing(case)
    if not (await conversation.request(method)).is_result:
        case.give_up(f"{method} gets no result in any case")
    before = conversation.position
    conversation.notify("notifications/cancelled", {"requestId": conversation.start(method)})
    after = await conversation.request(method)
    told = f"after a notification without _meta, {method} got {after.summary}; before it, a result"
    case.expect("VN-15", after.is_result, told, fix=fix, about=after)
    complaint = next(
        (line for line in conversation.received_lines[before:] if any(_is_stray_error(part) for part in line.parts)), None
    )
    case.expect("VN-15", complaint is None, "a notification without _meta was answered with an error", fix=fix, about=complaint)
    params = case.fixture("slow", {"steps": _STEPS, "seconds": _STEP})
    if not await _stops(conversation, params, {}) and await _stops(
        conversation, params, {META_VERSION: case.revision, META_CAPABILITIES: {}}
    ):
        why = "notifications/cancelled stops a call if it has _meta, and does not if it has none"
        case.expect("VN-15", False, why, fix=fix)


def _is_stray_error(part: dict[str, Any]) -> bool:
    return "error" in part and part.get("id") is None


async def _stops(conversation: LiveConversation, params: dict[str, Any], meta: dict[str, Any]) -> bool:
    """Whether a call ends that is cancelled: no more progress is heard of it."""
    token = f"to-be-cancelled-{conversation.position}"
    running = conversation.start("tools/call", params, meta={"progressToken": token})

    def is_progress(line: ReceivedLine) -> bool:
        return line.method == "notifications/progress" and line.params.get("progressToken") == token

    if await conversation.wait_for(is_progress) is None:
        raise NoResponse("the slow call reports no progress, so the check cannot tell when it stops")
    conversation.notify("notifications/cancelled", {"requestId": running, **({"_meta": meta} if meta else {})})
    await conversation.request("server/discover")  # by now it has read that
    return await conversation.wait_for(is_progress, since=conversation.position, within=_WATCHED) is None
