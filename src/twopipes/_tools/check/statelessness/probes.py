"""Statelessness of servers, by mixed requests and several connections."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation
from twopipes._tools.check.messages import CannotOpen, NoResponse, Response, members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import ELICIT, SAMPLE, filled_form
from twopipes._tools.check.samples import is_complete, walked
from twopipes._tools.check.setups import InputRequired, asking_calls, input_requests
from twopipes._tools.check.verdict import Skip

_LISTED = ("tools", "prompts", "resources")
_ROUNDS = 3
_CALLS = 4


@probe("ST-01", judged=False)
async def nothing_is_remembered(case: Case) -> None:
    """The capabilities and the metadata of one request do not count for the next one."""
    with suppress(Skip):
        await _judge_capabilities(case)
    await _judge_metadata(case)


async def _judge_capabilities(case: Case) -> None:
    calls = await asking_calls(case, case.conversation)
    unused = await case.open_conversation(judged=False)
    for asking in calls:
        if input_requests(await unused.request("tools/call", asking.call.params, client_capabilities={})):
            continue  # the tool asks every client, which breaks another rule
        response = await case.conversation.request("tools/call", asking.call.params, client_capabilities={})
        why = f"a call of {asking.call.name} that declares nothing got questions, after one that declares everything"
        case.expect("ST-01", not input_requests(response), why, about=response)


async def _judge_metadata(case: Case) -> None:
    """A request without metadata that is rejected on a new connection is also rejected after others."""
    method = "tools/list" if case.features.has("tools") else "server/discover"
    conversation = await case.open_conversation(opened=False, judged=False)
    try:
        before = await conversation.request(method, {}, bare=True)
        if not before.error:
            case.give_up("the server serves every request without metadata, so the check cannot tell what it remembers")
        await conversation.open(case.revision)
        await conversation.request(method)
        after = await conversation.request(method, {}, bare=True)
    except (CannotOpen, NoResponse) as error:
        case.give_up(f"a request without metadata breaks the connection: {error}")
    case.expect("ST-01", not after.is_result, f"{method} without metadata was served only after one with metadata", about=after)


def _answers(asking: InputRequired, word: str) -> dict[str, Any] | None:
    """Return an answer with the word to each question; ``None`` if that is not possible."""
    found: dict[str, Any] = {}
    for key, question in asking.requests.items():
        params = members(question.get("params"))
        content = {name: word if value == "text" else value for name, value in filled_form(params).items()}
        if question.get("method") == SAMPLE:
            found[key] = {"role": "assistant", "content": {"type": "text", "text": word}, "model": "none", "stopReason": "endTurn"}
        elif question.get("method") == ELICIT and params.get("mode", "form") == "form" and word in content.values():
            found[key] = {"action": "accept", "content": content}
        else:
            return None
    return found


def _retry(asking: InputRequired, asked: Response, word: str) -> dict[str, Any]:
    state = {"requestState": asked.result["requestState"]} if "requestState" in asked.result else {}
    return {**asking.call.params, "inputResponses": _answers(asking, word), **state}


async def _finishing_call(case: Case) -> InputRequired:
    """Return a call that asks once, and finishes with the answer; skip the probe if there is none."""
    conversation = await case.conversation_with(ALL_CAPABILITIES)
    for asking in await asking_calls(case, conversation):
        if _answers(asking, "word-control") is not None:
            asked = await conversation.request("tools/call", asking.call.params)
            response = await conversation.request("tools/call", _retry(asking, asked, "word-control"))
            if is_complete(response):
                return asking
    raise Skip("no tool that may be called asks something that can be answered without knowing more")


@probe("ST-02", needs="call")
async def requests_may_be_mixed(case: Case) -> None:
    """Two calls that ask are mixed on one connection: each continues with its own answer."""
    asking = await _finishing_call(case)
    conversation = case.conversation
    words = ("word-one", "word-two")
    legs = [await conversation.request("tools/call", asking.call.params) for _ in words]
    if not all(map(input_requests, legs)):
        case.give_up("the second call asks nothing any more")
    started = [conversation.start("tools/call", _retry(asking, leg, word)) for leg, word in zip(legs, words, strict=True)]
    for request_id, word in zip(started, words, strict=True):
        response = await conversation.response_to(request_id)
        others = {"word-control", *words} - {word}
        mixed = next((each for each in others if each.encode() in response.received[0]), None)
        case.expect("ST-02", mixed is None, f"a call that was answered with {word!r} continued with {mixed!r}", about=response)
        case.expect("ST-02", is_complete(response), f"one of two mixed calls did not finish: {response.summary}", about=response)


@probe("ST-03", needs="call")
async def another_process_continues(case: Case) -> None:
    """A call that asks is answered on another connection, to another process if there are processes."""
    asking = await _finishing_call(case)
    asked = await case.conversation.request("tools/call", asking.call.params)
    if not input_requests(asked):
        case.give_up("the second call asks nothing any more")
    other = await case.open_conversation(client_capabilities=ALL_CAPABILITIES)
    response = await other.request("tools/call", _retry(asking, asked, "word-elsewhere"))
    got = "the same questions" if input_requests(response) else response.summary
    why = f"a question of {asking.call.name} was answered on another connection, and the call got {got}"
    case.expect("ST-03", is_complete(response), why, about=response)


@probe("ST-05")
async def lists_are_the_same_everywhere(case: Case) -> None:
    """Two connections, one of which was used with other capabilities and calls, get the same lists."""
    features = [name for name in _LISTED if case.features.has(name)]
    if not features:
        case.give_up("the server has nothing to list")
    for call in [call for call in case.safe_calls if call.is_read_only][:_CALLS]:
        await case.conversation.try_request("tools/call", call.params, client_capabilities=ALL_CAPABILITIES)
    other = await case.open_conversation()
    pairs = []
    for _ in range(_ROUNDS):  # lists may change over time, so one difference proves nothing
        pairs.append((await _listed(case.conversation, features), await _listed(other, features)))
        if pairs[-1][0] == pairs[-1][1]:
            case.expect("ST-05", True)
            return
    if any(pair != pairs[0] for pair in pairs):
        case.give_up("the lists change all the time")
    first, second = pairs[0]
    differing = sorted({item for name in features for item in set(first[name]) ^ set(second[name])})
    case.expect("ST-05", False, f"two connections get different lists; they differ in {', '.join(differing[:5])}")


async def _listed(conversation: LiveConversation, features: list[str]) -> dict[str, list[str]]:
    return {name: sorted(await walked(conversation, name)) for name in features}


@probe("ST-06")
async def declared_features_are_listed(case: Case) -> None:
    """Each declared feature has a list, which may be empty."""
    features = [name for name in _LISTED if case.features.has(name)]
    if not features:
        case.give_up("the server declares neither tools nor prompts nor resources")
    for name in features:
        response = await case.conversation.request(f"{name}/list")
        # An error of another kind is a response; why the server cannot list anything now is another matter.
        if not response.error or response.code == METHOD_NOT_FOUND:
            why = f"the server declares {name}, and {name}/list got {response.summary}"
            case.expect("ST-06", isinstance(response.result.get(name), list), why, about=response)
    case.give_up("every declared list got an error: the server may be able to list it at another time")
