"""Questions of servers to the user, and how servers handle the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.json import encode

from twopipes._codes import URLS_REQUIRED
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation
from twopipes._tools.check.explore import Question, askers, converse, explored, is_refused_well, wants
from twopipes._tools.check.messages import Response, members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import (
    ELICIT,
    NUMBER,
    filled_form,
    form_faults,
    kinds_of_fields,
    number_fields,
    old_form_faults,
    secrets_in,
    url_faults,
)
from twopipes._trace.judges.values import shown

_TOOLS = 3
_NOT_A_NUMBER = "twopipes-check-no-number"
# Each mode, with client capabilities that do not allow it; an empty object means forms.
_WRONG_MODES: tuple[tuple[str, dict[str, Any]], ...] = (("url", {}), ("url", {"form": {}}), ("form", {"url": {}}))


@probe("EL-01", "EL-02", "EL-03", "EL-13")
async def forms_match_the_schema(case: Case) -> None:
    """Looks at the forms that tools send: their shape, their fields, and whether they ask for secrets."""
    checks = {"EL-01": form_faults, "EL-02": kinds_of_fields, "EL-03": old_form_faults, "EL-13": secrets_in}
    for question in await askers(case, ELICIT, mode="form"):
        for rule, faults_of in checks.items():
            faults = list(faults_of(question.params))
            case.expect(rule, not faults, "; ".join(faults), about=question.about)


@probe("EL-10", "EL-13")
async def url_questions_match_the_schema(case: Case) -> None:
    """Looks at the URLs that tools ask the user to visit."""
    for question in await askers(case, ELICIT, mode="url"):
        for rule, found in (("EL-10", url_faults(question.params, case.revision)), ("EL-13", secrets_in(question.params))):
            faults = list(found)
            case.expect(rule, not faults, "; ".join(faults), about=question.about)


@probe("EL-08")
async def only_declared_modes_are_used(case: Case) -> None:
    """Calls tools that ask the user, as a client that does not support their mode."""
    found = (await explored(case)).questions
    for mode, declared in _WRONG_MODES:
        calls = {str(each.call.get("name")): each.call for each in found if wants(each, ELICIT, mode)}
        if not calls:
            continue
        conversation = await case.conversation_with({**ALL_CAPABILITIES, "elicitation": declared})
        for call in list(calls.values())[:_TOOLS]:
            dialogue = await converse(conversation, call)
            wrong = [each.about for each in dialogue.questions if wants(each, ELICIT, mode)]
            case.forbid("EL-08", wrong, f"the client declared elicitation as {shown(declared)}, and was asked in mode {mode}")
            if case.is_modern and not dialogue.questions and dialogue.end is not None:
                is_right = await is_refused_well(conversation, call, dialogue.end, mode)
                why = f"the client declared elicitation as {shown(declared)}, and {dialogue.name!r}, which asks in mode {mode},"
                case.expect("EL-08", is_right, f"{why} got {dialogue.end.summary}", about=dialogue.end)
    if not any(wants(each, ELICIT) for each in found):
        case.give_up(f"no tool that may be called asks for {ELICIT}; name one with --allow-tool")


@probe("EL-12")
async def ends_of_visits_name_a_question(case: Case) -> None:
    """Looks for notifications about the end of a visit, and compares their ids with the questions."""
    found = await explored(case)
    lines = found.conversation.received_lines
    asked = [question.params.get("elicitationId") for question in found.questions if wants(question, ELICIT, "url")]
    asked += [each.get("elicitationId") for line in lines for part in line.parts for each in _required_visits(part)]
    for line in lines:
        if line.method == "notifications/elicitation/complete":
            named = line.params.get("elicitationId")
            why = f"the server reported the end of the visit {shown(named)}, which it did not ask this client for"
            case.expect("EL-12", isinstance(named, str) and named in asked, why, about=line)
    case.give_up("the server reported the end of no visit")


def _required_visits(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    error = members(message.get("error"))
    found = members(error.get("data")).get("elicitations") if error.get("code") == URLS_REQUIRED else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


@probe("EL-15")
async def declined_questions_are_handled(case: Case) -> None:
    """Declines, cancels, and rejects questions of tools: each call still gets a response."""
    asking = await askers(case, ELICIT)
    conversation = await case.conversation_with(ALL_CAPABILITIES)
    replies: dict[str, Any] = {"decline": {"action": "decline"}, "cancel": {"action": "cancel"}}
    if not case.is_modern:  # modern clients have no way to send an error
        replies["an error"] = None
    for what, reply in replies.items():
        for question in asking[:_TOOLS]:
            dialogue = await converse(conversation, question.call, replies={ELICIT: reply})
            if dialogue.questions:  # a tool may ask only once
                is_right = dialogue.end is not None or dialogue.is_endless  # asking again and again is not a hang
                why = f"the answer to {dialogue.name!r} was {what}, and the call got no response"
                case.expect("EL-15", is_right, why, about=question.about)


@probe("EL-16")
async def invalid_content_is_not_accepted(case: Case) -> None:
    """Answers with a word in a number field."""
    asking = [each for each in await askers(case, ELICIT, mode="form") if number_fields(each.params)]
    if not asking:
        case.give_up("no form of a tool that may be called has a number field")
    conversation = await case.conversation_with(ALL_CAPABILITIES)
    for question in asking[:_TOOLS]:
        good = await _accepted(conversation, question, {})
        declined = await _accepted(conversation, question, None)
        wrong = await _accepted(conversation, question, dict.fromkeys(number_fields(question.params), _NOT_A_NUMBER))
        if good is None or _is_error(good) or (declined is not None and _essence(declined) == _essence(good)):
            continue  # the result does not show whether the form was accepted
        if wrong is not None and not _is_error(wrong) and _essence(wrong) != _essence(good):
            continue  # another result, which may report that it was not a number
        why = f"{question.call.get('name')!r} accepted a form with {_NOT_A_NUMBER!r} instead of a number"
        case.expect("EL-16", wrong is None or _is_error(wrong), why, about=wrong)
    case.give_up("the results of the tools do not show whether they accepted the content of the form")


async def _accepted(conversation: LiveConversation, question: Question, changed: Mapping[str, Any] | None) -> Response | None:
    """Return the response to a call whose form is filled in with these changes; with ``None`` it is declined."""
    first = True

    def reply(asked: Mapping[str, Any]) -> Any:
        nonlocal first
        if changed is None or not first:
            return {"action": "decline"}
        first = False
        return {"action": "accept", "content": {**filled_form(members(asked.get("params"))), **changed}}

    dialogue = await converse(conversation, question.call, replies={ELICIT: reply})
    # A server that asks again is right, and the result of the second round does not count.
    return None if len(dialogue.questions) > 1 else dialogue.end


def _is_error(response: Response) -> bool:
    return not response.is_result or response.result.get("isError") is True


def _essence(response: Response) -> bytes:
    """Return the content of a result, with the same text for the number and its replacement."""
    content = encode({key: value for key, value in response.result.items() if key != "_meta"})
    for each in (f'"{_NOT_A_NUMBER}"', _NOT_A_NUMBER, str(NUMBER)):
        content = content.replace(each.encode(), b"~")
    return content
