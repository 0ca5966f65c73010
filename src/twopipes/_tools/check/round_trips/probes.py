"""Multi round-trip requests, from the side of a client: retries that are complete, wanting, strange and changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twopipes._protocol.revisions import INPUT_METHODS
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation
from twopipes._tools.check.explore import asked_for, converse, explored, is_asking, retried
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import ELICIT, filled_form, members, shown
from twopipes._tools.check.server_reply import Response

_TOOLS = 3
_ABANDONED = 40


@probe("MR-02", "MR-03", "MR-04")
async def questions_are_in_order(case: Case) -> None:
    """Tools that ask are called by clients that can answer everything, one thing, and nothing."""
    asking = [dialogue for dialogue in (await explored(case)).dialogues if dialogue.questions]
    results = [response for dialogue in asking for response in dialogue.answers if is_asking(response)]
    if not results:
        case.give_up("no tool that may be called asks for anything; name one by --allow-tool")
    for response in results:
        _judge_a_question(case, response)
    broken: list[tuple[str, Response]] = []
    for declared in ({}, *({name: ALL_CAPABILITIES[name]} for name in ALL_CAPABILITIES)):
        for dialogue in asking[: 2 * _TOOLS]:
            response = await case.conversation.request("tools/call", dialogue.call, client_capabilities=declared)
            broken += [
                (
                    f"{dialogue.name!r} asked for {entry['method']} of a request that declared {', '.join(declared) or 'nothing'}",
                    response,
                )
                for entry in asked_for(response).values()
                if members(entry).get("method") in INPUT_METHODS and str(entry["method"]).partition("/")[0] not in declared
            ]
    # One for all: the fault is the same, and the recording has the rest.
    case.expect(
        "MR-04",
        not broken,
        f"{broken[0][0]}, and so {len(broken)} times in all" if broken else "",
        fix="Look at clientCapabilities of the request itself; answer -32021 where you cannot do without.",
        about=broken[0][1] if broken else None,
    )


def _judge_a_question(case: Case, response: Response) -> None:
    case.expect(
        "MR-02",
        {"inputRequests", "requestState"} & response.result.keys(),
        "a result of type input_required has neither inputRequests nor requestState",
        fix="Say what you want to know, or give a state to come back with.",
        about=response,
    )
    asked = response.result.get("inputRequests", {})
    wrong = [
        key
        for key, entry in (asked.items() if isinstance(asked, dict) else [("inputRequests", asked)])
        if members(entry).get("method") not in INPUT_METHODS or {"id", "jsonrpc"} & members(entry).keys()
    ]
    case.expect(
        "MR-03",
        not wrong,
        f"these are no questions of a known method without an envelope: {', '.join(map(shown, wrong))}",
        fix=f"Give each entry a method ({', '.join(INPUT_METHODS)}) and params, and neither id nor jsonrpc.",
        about=response,
    )


async def _first_rounds(
    case: Case, conversation: LiveConversation, most: int = _TOOLS, *, prefer: Callable[[Mapping[str, Any]], Any] | None = None
) -> list[tuple[dict[str, Any], Response]]:
    """Calls that ask, and the results that do: each made anew in this conversation, those that are preferred first."""
    found: list[tuple[dict[str, Any], Response]] = []
    dialogues = (await explored(case)).dialogues
    for dialogue in dialogues if prefer is None else sorted(dialogues, key=lambda each: not prefer(each.call)):
        if dialogue.questions and len(found) < most:
            response = await conversation.request("tools/call", dialogue.call)
            if is_asking(response) and asked_for(response):
                found.append((dialogue.call, response))
    if not found:
        case.give_up("no tool that may be called asks for anything; name one by --allow-tool")
    return found


@probe("MR-11")
async def rounds_follow_each_other(case: Case) -> None:
    """A tool that asks more than once gets the latest answers with the latest state, and comes to its end."""
    asking = [each for each in (await explored(case)).dialogues if any(question.method == ELICIT for question in each.questions)]
    if not asking:
        case.give_up(f"no tool that may be called asks for {ELICIT}; name one by --allow-tool")
    conversation = await case.conversation_with(ALL_CAPABILITIES)
    judged, reason = 0, "no tool that may be called asks in several rounds"
    for dialogue in asking:
        whole = await converse(conversation, dialogue.call, replies={ELICIT: _willing})
        rounds = sum(map(is_asking, whole.answers))
        if rounds < 2:
            continue
        if whole.is_endless:
            # It may ask until it has what it needs, and the content of the forms may not suit it.
            reason = f"{whole.name!r} asks in several rounds, and has asked for more than is answered here"
            continue
        judged += 1
        case.expect(
            "MR-11",
            whole.end is not None and whole.end.is_result,
            f"round {rounds + 1} of {whole.name!r} brought the latest state and answers, and was answered with "
            f"{whole.end.summary if whole.end else 'nothing'}",
            fix="Keep in requestState what you learned in earlier rounds; clients send only the latest answers.",
            about=whole.end,
        )
    if not judged:
        case.give_up(reason)


def _willing(asked: Mapping[str, Any]) -> Any:
    params = members(asked.get("params"))
    return {"action": "accept", **({} if params.get("mode") == "url" else {"content": filled_form(params)})}


@probe("MR-12", "MR-13", "MR-14", client_capabilities=ALL_CAPABILITIES, judged=False)
async def strange_answers_are_told_apart(case: Case) -> None:
    """Answers that are missing are asked for again, unrequested ones are ignored, those that are none are refused."""
    conversation = case.conversation
    for call, asking in await _first_rounds(case, conversation):
        missing = await retried(conversation, call, asking, inputResponses={})
        case.expect(
            "MR-12",
            not missing.error,
            f"a retry of {call.get('name')!r} without the answers got {missing.summary}",
            fix="Answer with input_required again, and ask for what is missing.",
            about=missing,
        )
        await _judge_unknown_keys(case, conversation, call)
        malformed = await retried(conversation, call, await conversation.request("tools/call", call), inputResponses=5)
        case.expect(
            "MR-14",
            malformed.error,
            f"a retry of {call.get('name')!r} with inputResponses 5 got {malformed.summary}",
            fix="Refuse inputResponses that is no object with -32602.",
            about=malformed,
        )


async def _judge_unknown_keys(case: Case, conversation: LiveConversation, call: Mapping[str, Any]) -> None:
    usual = await retried(conversation, call, await conversation.request("tools/call", call))
    if usual.error:
        return  # it does not like the answers as such
    again = await conversation.request("tools/call", call)
    answers = {key: conversation.answers.get(entry.get("method")) for key, entry in asked_for(again).items()}
    more = await retried(conversation, call, again, inputResponses={**answers, "zz-nobody-asked": {"action": "decline"}})
    case.expect(
        "MR-13",
        more.is_result,
        f"a retry of {call.get('name')!r} with an answer that was not requested got {more.summary}; without it, it was served",
        fix="Take the answers to your own questions, and pass over all others.",
        about=more,
    )


@probe("MR-15", client_capabilities=ALL_CAPABILITIES, judged=False)
async def changed_states_are_refused(case: Case) -> None:
    """States with a character changed, and half of one, are not believed by servers that rely on them."""
    conversation = case.conversation
    reason = "no tool that may be called gives a requestState and relies on it"
    for call, asking in await _first_rounds(case, conversation):
        state = asking.result.get("requestState")
        if not isinstance(state, str) or not state or await _does_without_state(conversation, call, asking):
            continue
        half = await _believed(conversation, call, state[: len(state) // 2])
        flipped = [
            await _believed(conversation, call, _flipped(state, at))
            for at in (len(state) // 4, len(state) // 2, len(state) * 3 // 4)
        ]
        taken = [response for response in flipped if response is not None]
        # One character may lie where nothing is written, at the end of a part in base64, say. Two do not.
        believed = half or (taken[0] if len(taken) > 1 else None)
        case.expect(
            "MR-15",
            believed is None,
            f"{call.get('name')!r} does not go on without its requestState, and went on with a changed one",
            fix="Sign the state (an HMAC over state, user and call), and refuse with -32602 what does not verify.",
            about=believed,
        )
        reason = "the probe found nothing to judge the rule by"
    case.give_up(reason)


async def _does_without_state(conversation: LiveConversation, call: Mapping[str, Any], asking: Response) -> bool:
    """Whether a call with answers and no state goes on all the same: then nothing hangs on the state."""
    response = await retried(conversation, call, asking, without_state=True)
    return response.is_result and not is_asking(response)


async def _believed(conversation: LiveConversation, call: Mapping[str, Any], state: str) -> Response | None:
    """The answer to a retry with this state, if the server went on."""
    response = await retried(conversation, call, await conversation.request("tools/call", call), requestState=state)
    went_on = response.is_result and not is_asking(response) and response.result.get("isError") is not True
    return response if went_on else None


def _flipped(state: str, at: int) -> str:
    return state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]


@probe("MR-16", client_capabilities=ALL_CAPABILITIES, judged=False)
async def states_belong_to_their_calls(case: Case) -> None:
    """The state of one call does not finish another one: of the same tool with another text, or of another tool."""
    conversation = case.conversation
    reason = "no two calls that may be made ask the same way and rely on their requestState"
    rounds = await _first_rounds(case, conversation, prefer=lambda call: _with_another_text(case, call))
    for call, asking in rounds:
        state = asking.result.get("requestState")
        if not isinstance(state, str) or await _does_without_state(conversation, call, asking):
            continue
        for other in _others(case, call, [each for each, _ in rounds]):
            first = await conversation.request("tools/call", other)
            alike = is_asking(first) and asked_for(first).keys() == asked_for(asking).keys()
            if not alike or await _does_without_state(conversation, other, first):
                continue
            response = await retried(conversation, other, first, requestState=state)
            reason = "the probe found nothing to judge the rule by"
            case.expect(
                "MR-16",
                not response.is_result or is_asking(response) or response.result.get("isError") is True,
                f"the requestState of the call {shown(call)} was taken for {shown(other)}",
                fix="Bind the state to the method and the params that it was made for, and to a time.",
                about=response,
            )
    case.give_up(reason)


def _with_another_text(case: Case, call: Mapping[str, Any]) -> dict[str, Any] | None:
    safe = next((each for each in case.features.safe_calls(case.permissions) if each.name == call.get("name")), None)
    return safe.with_text("Another text, for another call.") if safe is not None else None


def _others(case: Case, call: Mapping[str, Any], calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    same = _with_another_text(case, call)
    return [*([same] if same is not None else []), *(each for each in calls if each.get("name") != call.get("name"))]


@probe("MR-17", fresh_conversation=True, needs="tool:redeem", client_capabilities=ALL_CAPABILITIES)
async def once_is_once(case: Case) -> None:
    """Of a tool by the name of ``redeem``, the same retry sent twice does it once."""
    conversation = case.conversation
    call = case.fixture("redeem")
    asking = await conversation.request("tools/call", call)
    if not is_asking(asking):
        case.give_up("the tool 'redeem' does not ask before it does something")
    answers = {key: _willing(entry) for key, entry in asked_for(asking).items() if members(entry).get("method") == ELICIT}
    first = await retried(conversation, call, asking, inputResponses=answers)
    if not first.is_result or is_asking(first) or first.result.get("isError") is True:
        case.give_up("the tool 'redeem' did not do it even once")
    second = await retried(conversation, call, asking, inputResponses=answers)
    case.expect(
        "MR-17",
        not second.is_result or is_asking(second) or second.result.get("isError") is True,
        "the same retry was sent twice, and both were served",
        fix="Remember what was redeemed; a state can be sent again by anybody who has it.",
        about=second,
    )


@probe("MR-18", client_capabilities=ALL_CAPABILITIES)
async def nobody_waits_for_retries(case: Case) -> None:
    """Many calls ask, and are never sent again: each was answered, the server goes on, and ends when it should."""
    conversation = case.conversation
    fix = "Keep nothing for a call that was answered with input_required: all that is needed comes back with the retry."
    ((call, _),) = await _first_rounds(case, conversation, 1)
    sent = [conversation.start("tools/call", call) for _ in range(_ABANDONED)]
    finished = await conversation.until(lambda: all(map(conversation.responses_to, sent)) or None, case.timeouts.response)
    case.expect("MR-18", finished, f"of {_ABANDONED} calls that ask and are not sent again, not all were answered", fix=fix)
    fence = conversation.start(case.harmless)
    goes_on = await conversation.until(lambda: conversation.responses_to(fence) or None, case.timeouts.response)
    case.expect(
        "MR-18", goes_on, f"after {_ABANDONED} calls that were not sent again, the server does not answer any more", fix=fix
    )
    await conversation.end_input()
    case.expect(
        "MR-18",
        await conversation.ended(),
        f"after {_ABANDONED} calls that were not sent again, the server does not end with its input",
        fix=fix,
    )
