"""Elicitation, from the side of a client: what is asked, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.json import encode

from twopipes._codes import URLS_REQUIRED
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation
from twopipes._tools.check.explore import Question, askers, converse, explored, is_refused_well, wants
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import (
    ELICIT,
    NUMBER,
    filled_form,
    form_faults,
    kinds_of_fields,
    members,
    number_fields,
    old_form_faults,
    secrets_in,
    shown,
    url_faults,
)
from twopipes._tools.check.server_reply import Response

_TOOLS = 3
_NO_NUMBER = "twopipes-check-no-number"
_MEND_MODE = "Look at what the client declares ({} means forms alone); do without, or refuse (stateless: -32021)."
# In which mode nobody may ask whom; an empty object means forms.
_WRONG_MODES: tuple[tuple[str, dict[str, Any]], ...] = (("url", {}), ("url", {"form": {}}), ("form", {"url": {}}))


@probe("EL-01", "EL-02", "EL-03", "EL-13")
async def forms_are_plain(case: Case) -> None:
    """Forms are flat, of fields that the revision has, and ask for no secrets."""
    for question in await askers(case, ELICIT, mode="form"):
        _expect(
            case, "EL-01", question, form_faults(question.params), "Ask with a message and a flat schema; split what is nested."
        )
        fix = "Use string, number, integer, boolean or a choice of texts for each field."
        _expect(case, "EL-02", question, kinds_of_fields(question.params), fix)
        _expect(case, "EL-03", question, old_form_faults(question.params), "Write the form as the agreed revision has it.")
        _expect(
            case, "EL-13", question, secrets_in(question.params), "Send the user to a page of yours, by a question in url mode."
        )


@probe("EL-10", "EL-13")
async def addresses_are_whole(case: Case) -> None:
    """Questions that send the user to an address have what the revision wants, and carry no secrets."""
    for question in await askers(case, ELICIT, mode="url"):
        fix = "Give mode, url and message; in 2025-11-25 an elicitationId as well, and later none."
        _expect(case, "EL-10", question, url_faults(question.params, case.revision), fix)
        _expect(case, "EL-13", question, secrets_in(question.params), "Let the user log in there; put nothing secret into the URL.")


@probe("EL-08")
async def only_declared_modes_are_used(case: Case) -> None:
    """A client for forms alone is asked for no address, and one for addresses alone is given no form."""
    found = (await explored(case)).questions
    tried = 0
    for mode, declared in _WRONG_MODES:
        asking = [each for each in found if wants(each, ELICIT, mode)]
        calls = {str(each.call.get("name")): each.call for each in asking}
        if not calls:
            continue
        client_capabilities = {**ALL_CAPABILITIES, "elicitation": declared}
        conversation = await case.conversation_with(client_capabilities)
        for call in list(calls.values())[:_TOOLS]:
            tried += 1
            dialogue = await converse(conversation, call)
            broken = next((each for each in dialogue.questions if wants(each, ELICIT, mode)), None)
            case.expect(
                "EL-08",
                broken is None,
                f"the client declared elicitation {shown(declared)}, and was asked in mode {mode}",
                fix=_MEND_MODE,
                about=broken.about if broken else None,
            )
            if case.is_modern and not dialogue.questions and dialogue.end is not None:
                case.expect(
                    "EL-08",
                    await is_refused_well(conversation, call, dialogue.end, mode),
                    f"{dialogue.name!r}, which asks in mode {mode}, got {dialogue.end.summary} for a client with elicitation "
                    f"{shown(declared)}; it is neither served nor refused with -32021",
                    fix=_MEND_MODE,
                    about=dialogue.end,
                )
    if not tried:
        case.give_up(f"no tool that may be called asks for {ELICIT}; name one by --allow-tool")


@probe("EL-12")
async def ends_of_visits_name_a_question(case: Case) -> None:
    """What is told about the end of a visit names a question that was asked in this conversation."""
    found = await explored(case)
    ends = [line for line in found.conversation.received_lines if line.method == "notifications/elicitation/complete"]
    asked = [question.params.get("elicitationId") for question in found.questions if wants(question, ELICIT, "url")]
    asked += [
        each.get("elicitationId")
        for line in found.conversation.received_lines
        for part in line.parts
        for each in _required_by(part)
    ]
    for line in ends:
        named = line.params.get("elicitationId")
        case.expect(
            "EL-12",
            isinstance(named, str) and named in asked,
            f"the end of a visit {shown(named)} is told, and this client was not asked to make it",
            fix="Tell the client that was asked, with the elicitationId of the question.",
            about=line,
        )
    if not ends:
        case.give_up("the server told the end of no visit")


def _required_by(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The visits that an error wants to be made first: a question of another kind."""
    error = members(message.get("error"))
    found = members(error.get("data")).get("elicitations") if error.get("code") == URLS_REQUIRED else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


@probe("EL-15")
async def a_no_is_dealt_with(case: Case) -> None:
    """Whether the user declines or cancels, or the client fails: the call is answered."""
    asking = await askers(case, ELICIT)
    conversation = await case.conversation_with(ALL_CAPABILITIES)
    for what, response in (("decline", {"action": "decline"}), ("cancel", {"action": "cancel"}), ("an error", None)):
        if response is None and case.is_modern:
            continue  # there is no way to send one
        for question in asking[:_TOOLS]:
            dialogue = await converse(conversation, question.call, replies={ELICIT: response})
            if not dialogue.questions:
                continue  # asked once, and not again
            case.expect(
                "EL-15",
                dialogue.end is not None or dialogue.is_endless,  # it nags, which is no hang
                f"the tool {dialogue.name!r} asked, the answer was {what}, and the call was never answered",
                fix="Take decline, cancel and errors for answers, and finish the call with a result that says so.",
                about=question.about,
            )


@probe("EL-16")
async def wrong_content_is_not_accepted(case: Case) -> None:
    """A word in a field for a number is asked for again or refused; it is not taken as if it were one."""
    asking = [each for each in await askers(case, ELICIT, mode="form") if number_fields(each.params)]
    if not asking:
        case.give_up("no form of a tool that may be called has a field for a number")
    judged = 0
    conversation = await case.conversation_with(ALL_CAPABILITIES)
    for question in asking[:_TOOLS]:
        good = await _accepted(conversation, question, {})
        refused = await _accepted(conversation, question, None)
        wrong = await _accepted(conversation, question, dict.fromkeys(number_fields(question.params), _NO_NUMBER))
        if good is None or _is_error(good) or (refused is not None and _essence(refused) == _essence(good)):
            continue  # an acceptance would not show
        if wrong is not None and not _is_error(wrong) and _essence(wrong) != _essence(good):
            continue  # a result that says something else: perhaps that it was no number
        judged += 1
        case.expect(
            "EL-16",
            wrong is None or _is_error(wrong),
            f"a form with {_NO_NUMBER!r} in the place of a number was accepted by {question.call.get('name')!r} like a good one",
            fix="Validate the content against the schema that you sent; ask again, or answer with an error.",
            about=wrong,
        )
    if not judged:
        case.give_up("what the tools say does not tell whether they took the content of the form")


async def _accepted(conversation: LiveConversation, question: Question, changed: Mapping[str, Any] | None) -> Response | None:
    """How a call ends whose form is filled in, with some fields changed; ``None`` as changes: declined."""
    first = True

    def response(asked: Mapping[str, Any]) -> Any:
        nonlocal first
        if changed is None or not first:
            return {"action": "decline"}
        first = False
        return {"action": "accept", "content": {**filled_form(members(asked.get("params"))), **changed}}

    dialogue = await converse(conversation, question.call, replies={ELICIT: response})
    # Asked again after what was no answer: that is how it should be, and what comes after the second one does not count.
    return None if len(dialogue.questions) > 1 else dialogue.end


def _is_error(response: Response) -> bool:
    return not response.is_result or response.result.get("isError") is True


def _essence(response: Response) -> bytes:
    """What a result says, with the number and what was put in its place made the same."""
    message = encode({key: value for key, value in response.result.items() if key != "_meta"})
    for each in (f'"{_NO_NUMBER}"', _NO_NUMBER, str(NUMBER)):
        message = message.replace(each.encode(), b"~")
    return message


def _expect(case: Case, rule: str, question: Question, faults: Iterable[str], fix: str) -> None:
    found = list(faults)
    case.expect(rule, not found, "; ".join(found), fix=fix, about=question.about)
