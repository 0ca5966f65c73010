"""Sampling, from the side of a client: questions to the model, and a model that is stubborn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twopipes._tools.check.conversation import ALL_CAPABILITIES, SILENCE
from twopipes._tools.check.explore import Dialogue, Question, askers, converse, explored
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import SAMPLE, content_faults, members, sampling_faults, shown, tool_sequence_faults

_TOOLS = 3
_CANDIDATES = 6
# Rounds after which the conversation counts as endless. The text has no number: whoever stops after fifty does stop.
_ENDLESS = 100
_TAKES_TOOLS: Mapping[str, Any] = {**ALL_CAPABILITIES, "sampling": {"tools": {}, "context": {}}}
_TEXT = {"type": "text", "text": "Nothing to say."}


@probe("SA-01", "SA-03", revisions="each")
async def questions_to_the_model_are_whole(case: Case) -> None:
    """Tools that ask the model say all that it takes, in content that the revision has."""
    for question in await askers(case, SAMPLE):
        _expect(
            case, "SA-01", question, sampling_faults(question.params), "Give messages, each with role and content, and maxTokens."
        )
        messages = question.params.get("messages")
        faults = [
            fault
            for message in (messages if isinstance(messages, list) else ())
            for fault in content_faults(members(message).get("content"), case.revision)
        ]
        _expect(case, "SA-03", question, faults, "Before 2025-11-25, write one block of text, image or audio for each message.")


@probe("SA-04", "SA-08")
async def nothing_undeclared_goes_to_the_model(case: Case) -> None:
    """A client that declares plain sampling is asked without tools, and without context of servers."""
    for question in await askers(case, SAMPLE):
        offered = sorted({"tools", "toolChoice"} & question.params.keys())
        case.expect(
            "SA-04",
            not offered,
            f"the client declared sampling without tools, and was asked with {' and '.join(offered)}",
            fix="Look at sampling.tools of the client before you offer tools to its model.",
            about=question.about,
        )
        context = question.params.get("includeContext", "none")
        case.expect(
            "SA-08",
            context == "none",
            f"the client did not declare sampling.context, and was asked with includeContext {shown(context)}",
            fix="Leave includeContext out.",
            about=question.about,
        )


@probe("SA-06", "SA-07", "SA-12")
async def a_loop_of_tools_is_in_order_and_ends(case: Case) -> None:
    """A model that uses two tools at a time, again and again, gets all results, and is not asked for ever."""
    asked = 0
    calls = await _who_might_offer_tools(case)
    if not calls:
        case.give_up("no tool that may be called asks the model, or fails where it cannot")
    conversation = await case.conversation_with(_TAKES_TOOLS)
    for call in calls:
        stubborn = _Stubborn()
        dialogue = await converse(conversation, call, replies={SAMPLE: stubborn.response}, rounds=_ENDLESS)
        offers = [each for each in dialogue.questions if each.method == SAMPLE and each.params.get("tools")]
        if not offers:
            continue
        asked += 1
        _judge_a_loop(case, dialogue, offers, stubborn)
        if asked == _TOOLS:
            break
    if not asked:
        case.give_up("no tool that may be called offers tools to the model")


def _judge_a_loop(case: Case, dialogue: Dialogue, offers: list[Question], stubborn: _Stubborn) -> None:
    for question in offers:
        mode = members(question.params.get("toolChoice", {})).get("mode", "auto")
        case.expect(
            "SA-07",
            isinstance(question.params.get("toolChoice", {}), dict) and mode in ("auto", "required", "none"),
            f"toolChoice is {shown(question.params.get('toolChoice'))}",
            fix='Give {"mode": ...} with auto, required or none, or leave it out.',
            about=question.about,
        )
    later = [each for each in offers if len(each.params.get("messages") or ()) > 1]
    for question in later:
        fix = "Put one tool_result for each tool_use into the next user message, and nothing else."
        _expect(case, "SA-06", question, tool_sequence_faults(question.params["messages"]), fix)
    if not later:
        case.skip("SA-06", "the server did not go on with what its tools returned")
    has_ended = len(dialogue.answers) <= _ENDLESS and stubborn.asked <= _ENDLESS
    if has_ended and dialogue.end is None:
        case.skip("SA-12", f"{dialogue.name!r} was not answered in time, after {stubborn.asked} questions to the model")
        return
    case.expect(
        "SA-12",
        has_ended,
        f"a model that always wants to use a tool was asked {max(stubborn.asked, len(offers))} times, and there was no end to it",
        fix="Count the rounds, and stop after some.",
        about=offers[-1].about,
    )


async def _who_might_offer_tools(case: Case) -> list[dict[str, Any]]:
    """Calls that asked the model, and calls that failed for a client whose model takes no tools."""
    dialogues = (await explored(case)).dialogues
    asked = [each.call for each in dialogues if any(question.method == SAMPLE for question in each.questions)]
    failed = [
        each.call for each in dialogues if each.end is not None and (each.end.error or each.end.result.get("isError") is True)
    ]
    # Those that say what they lack come first.
    failed.sort(key=lambda call: not _mentions_sampling(dialogues, call))
    return [*asked, *(call for call in failed if call not in asked)][:_CANDIDATES]


def _mentions_sampling(dialogues: Iterable[Dialogue], call: Mapping[str, Any]) -> bool:
    return any(b"sampling" in each.end.received[0] for each in dialogues if each.call is call and each.end is not None)


class _Stubborn:
    """A model that uses two tools whenever it is offered one, for more rounds than anyone would wait for."""

    def __init__(self) -> None:
        self.asked = 0

    def response(self, question: Mapping[str, Any]) -> Any:
        self.asked += 1
        if self.asked > _ENDLESS:
            return SILENCE
        tools = members(question.get("params")).get("tools")
        base = {"role": "assistant", "model": "none"}
        if not isinstance(tools, list) or not tools:
            return {**base, "content": _TEXT, "stopReason": "endTurn"}
        name = members(tools[0]).get("name")
        uses: list[dict[str, Any]] = [
            {"type": "tool_use", "id": f"use-{self.asked}-{part}", "name": name, "input": {}} for part in "ab"
        ]
        return {**base, "content": uses, "stopReason": "toolUse"}


@probe("SA-11")
async def the_model_is_asked_in_results(case: Case) -> None:
    """Tools that want the model ask for it in a result, and only where there is one."""
    fix = "Answer the call with input_required, with the question in inputRequests, if the request declared sampling."
    asking = await askers(case, SAMPLE)
    for question in asking:
        envelope = sorted({"id", "jsonrpc"} & question.entry.keys())
        case.expect(
            "SA-11",
            question.key is not None and not envelope,
            "the model is asked by a request" if question.key is None else f"the question has an envelope: {', '.join(envelope)}",
            fix=fix,
            about=question.about,
        )
    conversation = await case.conversation_with({key: value for key, value in ALL_CAPABILITIES.items() if key != "sampling"})
    for question in asking[:_TOOLS]:
        found = next((each for each in (await converse(conversation, question.call)).questions if each.method == SAMPLE), None)
        case.expect(
            "SA-11",
            found is None,
            "the model is asked, and the request did not declare sampling",
            fix=fix,
            about=found.about if found else None,
        )


def _expect(case: Case, rule: str, question: Question, faults: Iterable[str], fix: str) -> None:
    found = list(faults)
    case.expect(rule, not found, "; ".join(found), fix=fix, about=question.about)
