"""Statelessness, from the side of a client that mixes up everything it may."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._tools.check.conversation import ALL_CAPABILITIES, CannotOpen, LiveConversation, NoResponse
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import members
from twopipes._tools.check.server_reply import Response
from twopipes._tools.check.setups import InputRequired, asking_calls, input_requests
from twopipes._tools.check.verdict import Skip

_LISTS = {"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list"}
_PAGES = 20
_ROUNDS = 3
_CALLS = 4


@probe("ST-01", judged=False)
async def nothing_is_remembered(case: Case) -> None:
    """What one request said about its client does not count for the next, which says less."""
    with suppress(Skip):
        await _capabilities_are_forgotten(case)
    await _metadata_is_forgotten(case)


async def _capabilities_are_forgotten(case: Case) -> None:
    conversation = case.conversation
    calls = await asking_calls(case, conversation)
    untouched = await case.open_conversation(judged=False)
    for asking in calls:
        if input_requests(await untouched.request("tools/call", asking.call.params, client_capabilities={})):
            continue  # it asks whoever comes, which is another rule, and shows nothing of what it remembers
        response = await conversation.request("tools/call", asking.call.params, client_capabilities={})
        case.expect(
            "ST-01",
            not input_requests(response),
            f"a call of {asking.call.name} by a client that declares nothing was answered with questions, after one by a client "
            "that declares everything",
            fix="Look at the capabilities in the _meta of the request itself, and at no others.",
            about=response,
        )


async def _metadata_is_forgotten(case: Case) -> None:
    """A request without metadata that is refused on a fresh connection is refused after others, too."""
    method = "tools/list" if case.features.has("tools") else "server/discover"
    conversation = await case.open_conversation(opened=False, judged=False)
    try:
        before = await conversation.request(method, {}, bare=True)
        if not before.error:
            case.give_up("the server serves requests without metadata in any case, so that nothing shows what it remembers")
        await conversation.open(case.revision)
        await conversation.request(method)
        after = await conversation.request(method, {}, bare=True)
    except (CannotOpen, NoResponse) as error:
        case.give_up(f"a request without metadata spoils the connection: {error}")
    case.expect(
        "ST-01",
        not after.is_result,
        f"{method} without metadata was refused at first, and served after a request that had some",
        fix="Read the version and the capabilities from each request; keep none of it.",
        about=after,
    )


def _filled(schema: dict[str, Any], word: str) -> dict[str, Any] | None:
    """A form with the word in each text; ``None`` for one that nobody can fill in without knowing more."""
    content: dict[str, Any] = {}
    for name, field in members(schema.get("properties")).items():
        kind = members(field).get("type")
        if "enum" in members(field) or "oneOf" in members(field) or "format" in members(field) or "pattern" in members(field):
            return None
        if kind == "string":
            content[name] = word
        elif kind in {"integer", "number"}:
            content[name] = members(field).get("minimum", 1)
        elif kind == "boolean":
            content[name] = True
        else:
            return None
    return content if word in content.values() else None


def _answers(asking: InputRequired, word: str) -> dict[str, Any] | None:
    """An answer to each question, with the word in it; ``None`` where that cannot be done."""
    found: dict[str, Any] = {}
    for key, question in asking.requests.items():
        params = members(question.get("params"))
        if question.get("method") == "sampling/createMessage":
            found[key] = {"role": "assistant", "content": {"type": "text", "text": word}, "model": "none", "stopReason": "endTurn"}
        elif question.get("method") == "elicitation/create" and params.get("mode", "form") == "form":
            content = _filled(members(params.get("requestedSchema")), word)
            if content is None:
                return None
            found[key] = {"action": "accept", "content": content}
        else:
            return None
    return found


def _retry(asking: InputRequired, asked: Response, word: str) -> dict[str, Any]:
    state = {"requestState": asked.result["requestState"]} if "requestState" in asked.result else {}
    return {**asking.call.params, "inputResponses": _answers(asking, word), **state}


async def _flow(case: Case) -> InputRequired:
    """A call that asks once, and that is known to end when it is answered.

    Raises:
        Skip: There is none.
    """
    for asking in await asking_calls(case, case.conversation):
        if _answers(asking, "word-control") is not None:
            asked = await case.conversation.request("tools/call", asking.call.params, client_capabilities=ALL_CAPABILITIES)
            response = await case.conversation.request(
                "tools/call", _retry(asking, asked, "word-control"), client_capabilities=ALL_CAPABILITIES
            )
            if response.result.get("resultType") == "complete":
                return asking
    raise Skip("no tool that may be called asks something that can be answered without knowing more")


@probe("ST-02", needs="call")
async def conversations_may_be_mixed(case: Case) -> None:
    """Two calls that ask are mixed on one connection and answered differently: each goes on with its own answer."""
    conversation = case.conversation
    asking = await _flow(case)
    words = ("word-one", "word-two")
    legs = [await conversation.request("tools/call", asking.call.params, client_capabilities=ALL_CAPABILITIES) for _ in words]
    if not all(map(input_requests, legs)):
        case.give_up("the second call asks nothing any more")
    started = [
        conversation.start("tools/call", _retry(asking, leg, word), client_capabilities=ALL_CAPABILITIES)
        for leg, word in zip(legs, words, strict=True)
    ]
    fix = "Keep what belongs to a call in its requestState, or under a handle that the client passes each time."
    for request_id, word in zip(started, words, strict=True):
        response = await conversation.response_to(request_id)
        others = {"word-control", *words} - {word}
        mixed = next((each for each in others if each.encode() in response.received[0]), None)
        case.expect(
            "ST-02", mixed is None, f"a call that was answered with {word!r} went on with {mixed!r}", fix=fix, about=response
        )
        done = response.result.get("resultType") == "complete"
        case.expect(
            "ST-02",
            done,
            f"one of two calls that were mixed did not end as it does alone: {response.summary}",
            fix=fix,
            about=response,
        )


@probe("ST-03", needs="call")
async def another_process_goes_on(case: Case) -> None:
    """A call that asks is answered on another connection, to another process where there are processes."""
    asking = await _flow(case)
    asked = await case.conversation.request("tools/call", asking.call.params, client_capabilities=ALL_CAPABILITIES)
    if not input_requests(asked):
        case.give_up("the second call asks nothing any more")
    other = await case.open_conversation()
    response = await other.request("tools/call", _retry(asking, asked, "word-elsewhere"), client_capabilities=ALL_CAPABILITIES)
    why = "the same questions" if input_requests(response) else response.summary
    case.expect(
        "ST-03",
        response.result.get("resultType") == "complete",
        f"a question of {asking.call.name} that was answered on another connection led to {why}",
        fix="Put all that is needed to go on into requestState, and seal it with a key that all processes share.",
        about=response,
    )


@probe("ST-05")
async def lists_are_the_same_everywhere(case: Case) -> None:
    """Of two connections one has a history: other capabilities, calls of tools. Both are given the same lists."""
    one = case.conversation
    features = [name for name in _LISTS if case.features.has(name)]
    if not features:
        case.give_up("the server has nothing that it could list")
    harmless = [call for call in case.features.safe_calls(case.permissions) if call.why == "readOnlyHint"]
    for call in [*harmless, *_read_only(case)][:_CALLS]:
        with suppress(NoResponse):
            await one.request("tools/call", call.params, client_capabilities=ALL_CAPABILITIES)
    other = await case.open_conversation()
    pairs = []
    # They may change over time, so that once proves nothing.
    for _ in range(_ROUNDS):
        pairs.append((await _listed(one, features), await _listed(other, features)))
        if pairs[-1][0] == pairs[-1][1]:
            case.expect("ST-05", True, "")
            return
    if any(pair != pairs[0] for pair in pairs):
        case.give_up("the lists change all the time")
    first, second = pairs[0]
    differ = sorted({item for name in features for item in set(first[name]) ^ set(second[name])})
    case.expect(
        "ST-05",
        False,
        f"two connections are given different lists; they differ in {', '.join(differ[:5])}",
        fix="Let the lists depend on the server and on who may see what, and not on the connection.",
    )


def _read_only(case: Case) -> list[Any]:
    # Tools that were named by a person may be read-only as well.
    calls = case.features.safe_calls(case.permissions)
    return [
        call for call in calls if members(call.tool.get("annotations")).get("readOnlyHint") is True and call.why != "readOnlyHint"
    ]


async def _listed(conversation: LiveConversation, features: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in features:
        items: list[Any] = []
        params: dict[str, Any] = {}
        for _ in range(_PAGES):
            response = await conversation.request(_LISTS[name], params)
            page = response.result.get(name)
            items += page if isinstance(page, list) else []
            if not isinstance(response.result.get("nextCursor"), str):
                break
            params = {"cursor": response.result["nextCursor"]}
        found[name] = sorted(str(members(item).get("uri" if name == "resources" else "name")) for item in items)
    return found


@probe("ST-06")
async def what_is_declared_is_listed(case: Case) -> None:
    """Each feature that is declared has a list, be it empty."""
    features = [name for name in _LISTS if case.features.has(name)]
    if not features:
        case.give_up("the server declares neither tools nor prompts nor resources")
    for name in features:
        response = await case.conversation.request(_LISTS[name])
        if response.error and response.code != METHOD_NOT_FOUND:
            # It responds to the request; why it cannot list anything now is no matter of what it declared.
            continue
        case.expect(
            "ST-06",
            isinstance(response.result.get(name), list),
            f"the server declares {name}, and {_LISTS[name]} got {response.summary}",
            fix="Answer with an empty array where there is nothing, or do not declare it.",
            about=response,
        )
    case.give_up("every list that is declared got an error: the server may be able to list it at another time")
