"""Multi round-trip requests of servers: complete, incomplete and changed retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twopipes._protocol.revisions import INPUT_METHODS
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation
from twopipes._tools.check.explore import asked_for, converse, explored, is_asking, retried
from twopipes._tools.check.messages import Response, members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import ELICIT, filled_form
from twopipes._tools.check.samples import has_worked
from twopipes._trace.judges.values import shown

_TOOLS = 3
_ABANDONED = 40
_NO_QUESTION = "no tool that may be called asks for anything; name one with --allow-tool"


@probe("MR-02", "MR-03", "MR-04")
async def questions_are_valid(case: Case) -> None:
    """Tools that ask are called by clients with all capabilities, with one, and with none."""
    asking = [dialogue for dialogue in (await explored(case)).dialogues if dialogue.questions]
    results = [response for dialogue in asking for response in dialogue.answers if is_asking(response)]
    if not results:
        case.give_up(_NO_QUESTION)
    for response in results:
        _judge_question(case, response)
    broken: list[tuple[Response, str]] = []
    for declared in ({}, *({name: ALL_CAPABILITIES[name]} for name in ALL_CAPABILITIES)):
        for dialogue in asking[: 2 * _TOOLS]:
            response = await case.conversation.request("tools/call", dialogue.call, client_capabilities=declared)
            methods = [members(entry).get("method") for entry in asked_for(response).values()]
            stray = [each for each in methods if each in INPUT_METHODS and str(each).partition("/")[0] not in declared]
            what = f"of a request that declares {', '.join(declared) or 'nothing'}"
            broken += [(response, f"{dialogue.name!r} asks for {method} {what}") for method in stray]
    # One verdict for all: the fault is the same, and the trace has the rest.
    case.forbid("MR-04", [response for response, _ in broken], f"{broken[0][1]} ({len(broken)} in total)" if broken else "")


def _judge_question(case: Case, response: Response) -> None:
    why = "a result of type input_required has neither inputRequests nor requestState"
    case.expect("MR-02", {"inputRequests", "requestState"} & response.result.keys(), why, about=response)
    asked = response.result.get("inputRequests", {})
    wrong = [
        key
        for key, entry in (asked.items() if isinstance(asked, dict) else [("inputRequests", asked)])
        if members(entry).get("method") not in INPUT_METHODS or {"id", "jsonrpc"} & members(entry).keys()
    ]
    case.expect("MR-03", not wrong, f"entries with a wrong method or an envelope: {', '.join(map(shown, wrong))}", about=response)


async def _first_rounds(
    case: Case, most: int = _TOOLS, *, prefer: Callable[[Mapping[str, Any]], Any] = bool
) -> list[tuple[dict[str, Any], Response]]:
    """Repeat calls that ask in the conversation of the probe, preferred ones first. Return them with their results."""
    found: list[tuple[dict[str, Any], Response]] = []
    for dialogue in sorted((await explored(case)).dialogues, key=lambda each: not prefer(each.call)):
        if dialogue.questions and len(found) < most:
            response = await case.conversation.request("tools/call", dialogue.call)
            if is_asking(response) and asked_for(response):
                found.append((dialogue.call, response))
    return found or case.give_up(_NO_QUESTION)


@probe("MR-11")
async def rounds_follow_each_other(case: Case) -> None:
    """A tool that asks several times gets the latest answers with the latest state, and finishes."""
    asking = [each for each in (await explored(case)).dialogues if any(question.method == ELICIT for question in each.questions)]
    if not asking:
        case.give_up(f"no tool that may be called asks for {ELICIT}; name one with --allow-tool")
    conversation = await case.conversation_with(ALL_CAPABILITIES)
    reason = "no tool that may be called asks in several rounds"
    for dialogue in asking:
        whole = await converse(conversation, dialogue.call, replies={ELICIT: _accept})
        rounds = sum(map(is_asking, whole.answers))
        if whole.is_endless and rounds > 1:
            # The tool may ask until it has what it needs, and made-up content may not suit it.
            reason = f"{whole.name!r} asks in more rounds than the check answers"
        elif rounds > 1:
            got = whole.end.summary if whole.end else "nothing"
            why = f"round {rounds + 1} of {whole.name!r}, with the latest state and answers, got {got}"
            case.expect("MR-11", whole.end is not None and whole.end.is_result, why, about=whole.end)
    case.give_up(reason)


def _accept(asked: Mapping[str, Any]) -> Any:
    params = members(asked.get("params"))
    return {"action": "accept", **({} if params.get("mode") == "url" else {"content": filled_form(params)})}


@probe("MR-12", "MR-13", "MR-14", client_capabilities=ALL_CAPABILITIES, judged=False)
async def unusual_answers_are_distinguished(case: Case) -> None:
    """Missing answers are requested again, additional ones are ignored, malformed ones are rejected."""
    conversation = case.conversation
    for call, asking in await _first_rounds(case):
        missing = await retried(conversation, call, asking, inputResponses={})
        case.expect("MR-12", not missing.error, f"a retry of {call['name']!r} without answers got {missing.summary}", about=missing)
        await _judge_additional_answers(case, call)
        malformed = await retried(conversation, call, await conversation.request("tools/call", call), inputResponses=5)
        why = f"a retry of {call['name']!r} with inputResponses 5 got {malformed.summary}"
        case.expect("MR-14", malformed.error, why, about=malformed)


async def _judge_additional_answers(case: Case, call: Mapping[str, Any]) -> None:
    conversation = case.conversation
    usual = await retried(conversation, call, await conversation.request("tools/call", call))
    if usual.error:
        return  # the tool rejects the answers themselves
    again = await conversation.request("tools/call", call)
    answers = {key: conversation.answers.get(entry.get("method")) for key, entry in asked_for(again).items()}
    more = await retried(conversation, call, again, inputResponses={**answers, "zz-unknown": {"action": "decline"}})
    why = f"a retry of {call.get('name')!r} with an additional answer got {more.summary}; without it, it was served"
    case.expect("MR-13", more.is_result, why, about=more)


@probe("MR-15", client_capabilities=ALL_CAPABILITIES, judged=False)
async def changed_states_are_rejected(case: Case) -> None:
    """A server that relies on its state rejects one with a changed character, and half of one."""
    reason = "no tool that may be called returns a requestState and relies on it"
    for call, asking in await _first_rounds(case):
        state = asking.result.get("requestState")
        if not isinstance(state, str) or not state or await _ignores_state(case.conversation, call, asking):
            continue
        reason = "the probe found nothing to judge the rule by"
        half = await _accepted(case, call, state[: len(state) // 2])
        places = (len(state) // 4, len(state) // 2, len(state) * 3 // 4)
        changed = [accepted for at in places if (accepted := await _accepted(case, call, _with_change(state, at)))]
        # One character may mean nothing, for example at the end of a part in base64. Two characters do not.
        why = f"{call.get('name')!r} does not continue without its requestState, but continued with a changed one"
        case.forbid("MR-15", half or (changed if len(changed) > 1 else None), why)
    case.give_up(reason)


async def _ignores_state(conversation: LiveConversation, call: Mapping[str, Any], asking: Response) -> bool:
    """Return whether a call with answers continues without its state."""
    response = await retried(conversation, call, asking, without_state=True)
    return response.is_result and not is_asking(response)


async def _accepted(case: Case, call: Mapping[str, Any], state: str) -> Response | None:
    """Return the response to a retry with this state, if the server continued."""
    asking = await case.conversation.request("tools/call", call)
    response = await retried(case.conversation, call, asking, requestState=state)
    return response if has_worked(response) else None


def _with_change(state: str, at: int) -> str:
    return state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]


@probe("MR-16", client_capabilities=ALL_CAPABILITIES, judged=False)
async def states_belong_to_their_calls(case: Case) -> None:
    """The state of one call does not finish another one: of the same tool with another text, or of another tool."""
    conversation = case.conversation
    reason = "no two calls that may be made ask the same and rely on their requestState"
    rounds = await _first_rounds(case, prefer=lambda call: _with_another_text(case, call))
    for call, asking in rounds:
        state = asking.result.get("requestState")
        if not isinstance(state, str) or await _ignores_state(conversation, call, asking):
            continue
        same_tool = _with_another_text(case, call)
        others = [each for each, _ in rounds if each.get("name") != call.get("name")]
        for other in [same_tool, *others] if same_tool is not None else others:
            first = await conversation.request("tools/call", other)
            asks_the_same = is_asking(first) and asked_for(first).keys() == asked_for(asking).keys()
            if asks_the_same and not await _ignores_state(conversation, other, first):
                reason = "the probe found nothing to judge the rule by"
                response = await retried(conversation, other, first, requestState=state)
                why = f"the requestState of the call {shown(call)} was accepted for {shown(other)}"
                case.expect("MR-16", not has_worked(response), why, about=response)
    case.give_up(reason)


def _with_another_text(case: Case, call: Mapping[str, Any]) -> dict[str, Any] | None:
    safe = next((each for each in case.safe_calls if each.name == call.get("name")), None)
    return safe.with_text("Another text, for another call.") if safe is not None else None


@probe("MR-17", fresh_conversation=True, needs="tool:redeem", client_capabilities=ALL_CAPABILITIES)
async def an_action_happens_once(case: Case) -> None:
    """The same retry of a tool named ``redeem``, sent twice, is served once."""
    conversation, call = case.conversation, case.fixture("redeem")
    asking = await conversation.request("tools/call", call)
    if not is_asking(asking):
        case.give_up("the tool 'redeem' does not ask before it acts")
    answers = {key: _accept(entry) for key, entry in asked_for(asking).items() if members(entry).get("method") == ELICIT}
    if not has_worked(await retried(conversation, call, asking, inputResponses=answers)):
        case.give_up("the tool 'redeem' does not even work once")
    second = await retried(conversation, call, asking, inputResponses=answers)
    case.expect("MR-17", not has_worked(second), "the same retry was sent twice, and both were served", about=second)


@probe("MR-18", client_capabilities=ALL_CAPABILITIES)
async def abandoned_calls_cost_nothing(case: Case) -> None:
    """Many calls ask, and are never retried: each gets a response, and the server continues and exits when it should."""
    conversation = case.conversation
    ((call, _),) = await _first_rounds(case, 1)
    sent = [conversation.start("tools/call", call) for _ in range(_ABANDONED)]
    finished = await conversation.until(lambda: all(map(conversation.responses_to, sent)) or None, case.timeouts.response)
    case.expect("MR-18", finished, f"of {_ABANDONED} calls that ask and are not retried, not all got a response")
    continues = await conversation.awaited(conversation.start(case.harmless))
    case.expect("MR-18", continues, f"after {_ABANDONED} calls that were not retried, the server does not respond any more")
    await conversation.end_input()
    why = f"after {_ABANDONED} calls that were not retried, the server does not exit at the end of its input"
    case.expect("MR-18", await conversation.ended(), why)
