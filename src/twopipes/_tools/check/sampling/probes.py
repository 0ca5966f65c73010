"""Sampling requests of servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twopipes._tools.check.conversation import ALL_CAPABILITIES, SILENCE
from twopipes._tools.check.explore import Dialogue, Question, askers, converse, explored, judge_asked_in_results
from twopipes._tools.check.messages import members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import SAMPLE, content_faults, sampling_faults, tool_sequence_faults
from twopipes._trace.judges.values import shown

_TOOLS = 3
_CANDIDATES = 6
# Rounds after which a loop counts as endless. The text has no number.
_ENDLESS = 100
_TAKES_TOOLS: Mapping[str, Any] = {**ALL_CAPABILITIES, "sampling": {"tools": {}, "context": {}}}


@probe("SA-01", "SA-03", revisions="each")
async def sampling_requests_are_complete(case: Case) -> None:
    """Sampling requests have all required members, and content that the revision has."""
    for question in await askers(case, SAMPLE):
        _judge_faults(case, "SA-01", question, sampling_faults(question.params))
        messages = question.params.get("messages")
        contents = [members(message).get("content") for message in (messages if isinstance(messages, list) else ())]
        faults = [fault for content in contents for fault in content_faults(content, case.revision)]
        _judge_faults(case, "SA-03", question, faults)


def _judge_faults(case: Case, rule: str, question: Question, faults: Iterable[str]) -> None:
    found = list(faults)
    case.expect(rule, not found, "; ".join(found), about=question.about)


@probe("SA-04", "SA-08")
async def undeclared_features_of_sampling_are_not_used(case: Case) -> None:
    """A client that declares plain sampling is asked without tools, and without the context of servers."""
    for question in await askers(case, SAMPLE):
        offered = sorted({"tools", "toolChoice"} & question.params.keys())
        why = f"the client declares sampling without tools, and was asked with {' and '.join(offered)}"
        case.expect("SA-04", not offered, why, about=question.about)
        context = question.params.get("includeContext", "none")
        why = f"the client does not declare sampling.context, and was asked with includeContext {shown(context)}"
        case.expect("SA-08", context == "none", why, about=question.about)


@probe("SA-06", "SA-07", "SA-12")
async def a_loop_of_tools_is_in_order_and_ends(case: Case) -> None:
    """A model that always uses two tools gets all results, and is not asked endlessly."""
    calls = await _candidates(case)
    if not calls:
        case.give_up("no tool that may be called asks the model, or fails without it")
    conversation = await case.conversation_with(_TAKES_TOOLS)
    judged = 0
    for call in calls:
        model = _StubbornModel()
        dialogue = await converse(conversation, call, replies={SAMPLE: model.answer}, rounds=_ENDLESS)
        offers = [each for each in dialogue.questions if each.method == SAMPLE and each.params.get("tools")]
        if offers:
            _judge_loop(case, dialogue, offers, model)
            judged += 1
        if judged == _TOOLS:
            break
    if not judged:
        case.give_up("no tool that may be called offers tools to the model")


def _judge_loop(case: Case, dialogue: Dialogue, offers: list[Question], model: _StubbornModel) -> None:
    for question in offers:
        choice = question.params.get("toolChoice", {})
        is_valid = isinstance(choice, dict) and choice.get("mode", "auto") in ("auto", "required", "none")
        case.expect("SA-07", is_valid, f"toolChoice is {shown(choice)}", about=question.about)
    later = [each for each in offers if len(each.params.get("messages") or ()) > 1]
    for question in later:
        _judge_faults(case, "SA-06", question, tool_sequence_faults(question.params["messages"]))
    if not later:
        case.skip("SA-06", "the server did not continue with the results of its tools")
    has_ended = len(dialogue.answers) <= _ENDLESS and model.asked <= _ENDLESS
    if has_ended and dialogue.end is None:
        case.skip("SA-12", f"{dialogue.name!r} got no response in time, after {model.asked} questions to the model")
        return
    why = f"a model that always uses a tool was asked {max(model.asked, len(offers))} times, without an end"
    case.expect("SA-12", has_ended, why, about=offers[-1].about)


async def _candidates(case: Case) -> list[dict[str, Any]]:
    """Return calls that asked the model, then calls that failed for a client whose model takes no tools."""
    dialogues = (await explored(case)).dialogues
    asked = [each.call for each in dialogues if any(question.method == SAMPLE for question in each.questions)]
    ends = [(each.call, each.end) for each in dialogues if each.end is not None and each.call not in asked]
    failed = [(call, end) for call, end in ends if end.error or end.result.get("isError") is True]
    failed.sort(key=lambda each: b"sampling" not in each[1].received[0])  # those that mention it come first
    return [*asked, *(call for call, _ in failed)][:_CANDIDATES]


class _StubbornModel:
    """A model that uses two tools whenever it is offered one, until the loop counts as endless."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, question: Mapping[str, Any]) -> Any:
        self.asked += 1
        if self.asked > _ENDLESS:
            return SILENCE
        tools = members(question.get("params")).get("tools")
        if not isinstance(tools, list) or not tools:
            content: Any = {"type": "text", "text": "Nothing to say."}
            return {"role": "assistant", "model": "none", "content": content, "stopReason": "endTurn"}
        name = members(tools[0]).get("name")
        content = [{"type": "tool_use", "id": f"use-{self.asked}-{part}", "name": name, "input": {}} for part in "ab"]
        return {"role": "assistant", "model": "none", "content": content, "stopReason": "toolUse"}


@probe("SA-11")
async def the_model_is_asked_in_results(case: Case) -> None:
    """Tools that need the model ask for it in a result, and only a client that declares sampling."""
    await judge_asked_in_results(case, "SA-11", SAMPLE)
