"""Multi round-trip requests, from the side of a client: retries that are complete, wanting, strange and changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twopipes._protocol.revisions import INPUT_METHODS
from twopipes._tools.check.conversation import ABLE, LiveConversation
from twopipes._tools.check.explore import asked_for, converse, explored, is_asking, retried
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import ELICIT, filled_form, members, told
from twopipes._tools.check.server_reply import Answer

_TOOLS = 3
_ABANDONED = 40


@probe("MR-02", "MR-03", "MR-04")
async def questions_are_in_order(case: Case) -> None:
    """Tools that ask are called by clients that can answer everything, one thing, and nothing."""
    asking = [dialogue for dialogue in (await explored(case)).dialogues if dialogue.questions]
    results = [answer for dialogue in asking for answer in dialogue.answers if is_asking(answer)]
    if not results:
        case.give_up("no tool that may be called asks for anything; name one by --allow-tool")
    for answer in results:
        _judge_a_question(case, answer)
    broken: list[tuple[str, Answer]] = []
    for can in ({}, *({name: ABLE[name]} for name in ABLE)):
        for dialogue in asking[: 2 * _TOOLS]:
            answer = await case.talk.request("tools/call", dialogue.call, can=can)
            broken += [
                (f"{dialogue.name!r} asked for {entry['method']} of a request that declared {', '.join(can) or 'nothing'}", answer)
                for entry in asked_for(answer).values()
                if members(entry).get("method") in INPUT_METHODS and str(entry["method"]).partition("/")[0] not in can
            ]
    # One for all: the fault is the same, and the recording has the rest.
    case.expect(
        "MR-04",
        not broken,
        f"{broken[0][0]}, and so {len(broken)} times in all" if broken else "",
        mend="Look at clientCapabilities of the request itself; answer -32021 where you cannot do without.",
        about=broken[0][1] if broken else None,
    )


def _judge_a_question(case: Case, answer: Answer) -> None:
    case.expect(
        "MR-02",
        {"inputRequests", "requestState"} & answer.result.keys(),
        "a result of type input_required has neither inputRequests nor requestState",
        mend="Say what you want to know, or give a state to come back with.",
        about=answer,
    )
    asked = answer.result.get("inputRequests", {})
    wrong = [
        key
        for key, entry in (asked.items() if isinstance(asked, dict) else [("inputRequests", asked)])
        if members(entry).get("method") not in INPUT_METHODS or {"id", "jsonrpc"} & members(entry).keys()
    ]
    case.expect(
        "MR-03",
        not wrong,
        f"these are no questions of a known method without an envelope: {', '.join(map(told, wrong))}",
        mend=f"Give each entry a method ({', '.join(INPUT_METHODS)}) and params, and neither id nor jsonrpc.",
        about=answer,
    )


async def _first_rounds(
    case: Case, talk: LiveConversation, most: int = _TOOLS, *, prefer: Callable[[Mapping[str, Any]], Any] | None = None
) -> list[tuple[dict[str, Any], Answer]]:
    """Calls that ask, and the results that do: each made anew in this conversation, those that are preferred first."""
    found: list[tuple[dict[str, Any], Answer]] = []
    dialogues = (await explored(case)).dialogues
    for dialogue in dialogues if prefer is None else sorted(dialogues, key=lambda each: not prefer(each.call)):
        if dialogue.questions and len(found) < most:
            answer = await talk.request("tools/call", dialogue.call)
            if is_asking(answer) and asked_for(answer):
                found.append((dialogue.call, answer))
    if not found:
        case.give_up("no tool that may be called asks for anything; name one by --allow-tool")
    return found


@probe("MR-11")
async def rounds_follow_each_other(case: Case) -> None:
    """A tool that asks more than once gets the latest answers with the latest state, and comes to its end."""
    asking = [each for each in (await explored(case)).dialogues if any(question.method == ELICIT for question in each.questions)]
    if not asking:
        case.give_up(f"no tool that may be called asks for {ELICIT}; name one by --allow-tool")
    talk = await case.talk_for(ABLE)
    judged, reason = 0, "no tool that may be called asks in several rounds"
    for dialogue in asking:
        whole = await converse(talk, dialogue.call, replies={ELICIT: _willing})
        rounds = sum(map(is_asking, whole.answers))
        if rounds < 2:
            continue
        if whole.is_endless:
            # It may ask until it has what it needs, and nobody knows whether it likes what the forms were filled in with.
            reason = f"{whole.name!r} asks in several rounds, and has asked for more than is answered here"
            continue
        judged += 1
        case.expect(
            "MR-11",
            whole.end is not None and whole.end.is_result,
            f"round {rounds + 1} of {whole.name!r} brought the latest state and answers, and was answered with "
            f"{whole.end.told if whole.end else 'nothing'}",
            mend="Keep in requestState what you learned in earlier rounds; clients send only the latest answers.",
            about=whole.end,
        )
    if not judged:
        case.give_up(reason)


def _willing(asked: Mapping[str, Any]) -> Any:
    params = members(asked.get("params"))
    return {"action": "accept", **({} if params.get("mode") == "url" else {"content": filled_form(params)})}


@probe("MR-12", "MR-13", "MR-14", can=ABLE, judged=False)
async def strange_answers_are_told_apart(case: Case) -> None:
    """Answers that are missing are asked for again, those that nobody wanted are ignored, those that are none are refused."""
    talk = case.talk
    for call, asking in await _first_rounds(case, talk):
        missing = await retried(talk, call, asking, inputResponses={})
        case.expect(
            "MR-12",
            not missing.error,
            f"a retry of {call.get('name')!r} without the answers got {missing.told}",
            mend="Answer with input_required again, and ask for what is missing.",
            about=missing,
        )
        await _judge_unknown_keys(case, talk, call)
        malformed = await retried(talk, call, await talk.request("tools/call", call), inputResponses=5)
        case.expect(
            "MR-14",
            malformed.error,
            f"a retry of {call.get('name')!r} with inputResponses 5 got {malformed.told}",
            mend="Refuse inputResponses that is no object with -32602.",
            about=malformed,
        )


async def _judge_unknown_keys(case: Case, talk: LiveConversation, call: Mapping[str, Any]) -> None:
    usual = await retried(talk, call, await talk.request("tools/call", call))
    if usual.error:
        return  # it does not like the answers as such
    again = await talk.request("tools/call", call)
    answers = {key: talk.answers.get(entry.get("method")) for key, entry in asked_for(again).items()}
    more = await retried(talk, call, again, inputResponses={**answers, "zz-nobody-asked": {"action": "decline"}})
    case.expect(
        "MR-13",
        more.is_result,
        f"a retry of {call.get('name')!r} with an answer to what nobody asked got {more.told}; without it, it was served",
        mend="Take the answers to your own questions, and pass over all others.",
        about=more,
    )


@probe("MR-15", can=ABLE, judged=False)
async def changed_states_are_refused(case: Case) -> None:
    """States with a character changed, and half of one, are not believed by servers that rely on them."""
    talk = case.talk
    reason = "no tool that may be called gives a requestState and relies on it"
    for call, asking in await _first_rounds(case, talk):
        state = asking.result.get("requestState")
        if not isinstance(state, str) or not state or await _does_without_state(talk, call, asking):
            continue
        half = await _believed(talk, call, state[: len(state) // 2])
        flipped = [
            await _believed(talk, call, _flipped(state, at)) for at in (len(state) // 4, len(state) // 2, len(state) * 3 // 4)
        ]
        taken = [answer for answer in flipped if answer is not None]
        # One character may lie where nothing is written, at the end of a part in base64, say. Two do not.
        believed = half or (taken[0] if len(taken) > 1 else None)
        case.expect(
            "MR-15",
            believed is None,
            f"{call.get('name')!r} does not go on without its requestState, and went on with a changed one",
            mend="Sign the state (an HMAC over state, user and call), and refuse with -32602 what does not verify.",
            about=believed,
        )
        reason = "the probe found nothing to judge it by"
    case.give_up(reason)


async def _does_without_state(talk: LiveConversation, call: Mapping[str, Any], asking: Answer) -> bool:
    """Whether a call with answers and no state goes on all the same: then nothing hangs on the state."""
    answer = await retried(talk, call, asking, without_state=True)
    return answer.is_result and not is_asking(answer)


async def _believed(talk: LiveConversation, call: Mapping[str, Any], state: str) -> Answer | None:
    """The answer to a retry with this state, if the server went on."""
    answer = await retried(talk, call, await talk.request("tools/call", call), requestState=state)
    went_on = answer.is_result and not is_asking(answer) and answer.result.get("isError") is not True
    return answer if went_on else None


def _flipped(state: str, at: int) -> str:
    return state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]


@probe("MR-16", can=ABLE, judged=False)
async def states_belong_to_their_calls(case: Case) -> None:
    """The state of one call does not finish another one: of the same tool with another text, or of another tool."""
    talk = case.talk
    reason = "no two calls that may be made ask the same way and rely on their requestState"
    rounds = await _first_rounds(case, talk, prefer=lambda call: _with_another_text(case, call))
    for call, asking in rounds:
        state = asking.result.get("requestState")
        if not isinstance(state, str) or await _does_without_state(talk, call, asking):
            continue
        for other in _others(case, call, [each for each, _ in rounds]):
            first = await talk.request("tools/call", other)
            alike = is_asking(first) and asked_for(first).keys() == asked_for(asking).keys()
            if not alike or await _does_without_state(talk, other, first):
                continue
            answer = await retried(talk, other, first, requestState=state)
            reason = "the probe found nothing to judge it by"
            case.expect(
                "MR-16",
                not answer.is_result or is_asking(answer) or answer.result.get("isError") is True,
                f"the requestState of the call {told(call)} was taken for {told(other)}",
                mend="Bind the state to the method and the params that it was made for, and to a time.",
                about=answer,
            )
    case.give_up(reason)


def _with_another_text(case: Case, call: Mapping[str, Any]) -> dict[str, Any] | None:
    safe = next((each for each in case.features.safe_calls(case.permissions) if each.name == call.get("name")), None)
    return safe.with_text("Another text, for another call.") if safe is not None else None


def _others(case: Case, call: Mapping[str, Any], calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    same = _with_another_text(case, call)
    return [*([same] if same is not None else []), *(each for each in calls if each.get("name") != call.get("name"))]


@probe("MR-17", fresh=True, needs="tool:redeem", can=ABLE)
async def once_is_once(case: Case) -> None:
    """Of a tool by the name of ``redeem``, the same retry sent twice does it once."""
    talk = case.talk
    call = case.fixture("redeem")
    asking = await talk.request("tools/call", call)
    if not is_asking(asking):
        case.give_up("the tool 'redeem' does not ask before it does something")
    answers = {key: _willing(entry) for key, entry in asked_for(asking).items() if members(entry).get("method") == ELICIT}
    first = await retried(talk, call, asking, inputResponses=answers)
    if not first.is_result or is_asking(first) or first.result.get("isError") is True:
        case.give_up("the tool 'redeem' did not do it even once")
    second = await retried(talk, call, asking, inputResponses=answers)
    case.expect(
        "MR-17",
        not second.is_result or is_asking(second) or second.result.get("isError") is True,
        "the same retry was sent twice, and both were served",
        mend="Remember what was redeemed; a state can be sent again by anybody who has it.",
        about=second,
    )


@probe("MR-18", can=ABLE)
async def nobody_waits_for_retries(case: Case) -> None:
    """Many calls ask, and are never sent again: each was answered, the server goes on, and ends when it should."""
    talk = case.talk
    mend = "Keep nothing for a call that was answered with input_required: all that is needed comes back with the retry."
    ((call, _),) = await _first_rounds(case, talk, 1)
    sent = [talk.start("tools/call", call) for _ in range(_ABANDONED)]
    finished = await talk.until(lambda: all(map(talk.answers_to, sent)) or None, case.waits.answer)
    case.expect("MR-18", finished, f"of {_ABANDONED} calls that ask and are not sent again, not all were answered", mend=mend)
    fence = talk.start(case.harmless)
    goes_on = await talk.until(lambda: talk.answers_to(fence) or None, case.waits.answer)
    case.expect(
        "MR-18", goes_on, f"after {_ABANDONED} calls that were not sent again, the server does not answer any more", mend=mend
    )
    await talk.end_input()
    case.expect(
        "MR-18",
        await talk.ended(),
        f"after {_ABANDONED} calls that were not sent again, the server does not end with its input",
        mend=mend,
    )
