"""Finds out what a server asks of a client: calls what may be called, answers what is asked, and keeps the questions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from twopipes._codes import CAPABILITY_MISSING
from twopipes._protocol.revisions import INPUT_METHODS, LEGACY
from twopipes._tools.check.conversation import ABLE, SILENCE, LiveConversation
from twopipes._tools.check.probe import Case, Features, no_call
from twopipes._tools.check.questions import ELICIT, members
from twopipes._tools.check.server_reply import Answer, Unanswered
from twopipes._tools.check.server_source import Subject
from twopipes._tools.check.verdict import Seen, Skip

__all__ = [
    "Dialogue",
    "Explored",
    "Question",
    "asked_for",
    "askers",
    "converse",
    "explored",
    "is_asking",
    "is_refused_well",
    "retried",
    "wants",
]

# Calls of one exploration, and seconds that it may take in all: a server with hundreds of tools shows what it does by some.
_CALLS = 32
_LONGEST = 15.0
_ROUNDS = 6
_PAGES = 20
# Which tools to try first. Whatever they are called, how they behave decides.
_ASKING_NAME = re.compile(r"ask|elicit|sampl|root|confirm|agent|redeem", re.IGNORECASE)


class Question(Struct, frozen=True, eq=False, kw_only=True):
    """Something that a server asked of a client.

    Attributes:
        method: What it asks for.
        params: With what.
        entry: As it stands on the wire: a request, or an entry of ``inputRequests``.
        key: In ``inputRequests``; ``None`` for a request.
        about: The lines to quote.
        call: The params of the call that led to it.
    """

    method: str
    params: dict[str, Any]
    entry: dict[str, Any]
    key: str | None
    about: Seen
    call: dict[str, Any]


class Dialogue(Struct, eq=False, kw_only=True):
    """One call, what was asked meanwhile, and how it ended.

    Attributes:
        call: The params of the ``tools/call``.
        questions: In their order.
        answers: Of the server: one for each round, the last one included.
        end: The last one, unless the server still asks, or does not answer.
        is_endless: Whether it has asked so often that nobody went on.
    """

    call: dict[str, Any]
    questions: list[Question] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    end: Answer | None = None
    is_endless: bool = False

    @property
    def name(self) -> str:
        """Of the tool."""
        return str(self.call.get("name"))


class Explored(Struct, eq=False, kw_only=True):
    """What a server asks a client that can answer everything."""

    talk: LiveConversation
    dialogues: list[Dialogue] = field(default_factory=list)

    @property
    def questions(self) -> list[Question]:
        """All of them."""
        return [question for dialogue in self.dialogues for question in dialogue.questions]


# By server and revision. Many probes want to know, and every call may take its time.
_KNOWN: WeakKeyDictionary[Subject, dict[str, tuple[asyncio.Lock, list[Explored]]]] = WeakKeyDictionary()


async def explored(case: Case) -> Explored:
    """What the server asks, found out once for each revision.

    Raises:
        Skip: No tool may be called.
    """
    if not case.features.has("tools"):
        raise Skip("the server does not declare tools")
    newest = max((each for each in LEGACY if _is_spoken(case.subject, each)), default=case.revision)
    if case.revision in LEGACY and case.revision < newest:
        # Who asks nothing in the newest of them asks nothing in those before, and is not started to show it.
        overview = await _once(case, newest)
        if not overview.questions:
            return Explored(talk=overview.talk)
    return await _once(case, case.revision)


def _is_spoken(subject: Subject, revision: str) -> bool:
    return revision in subject.attempts and subject.attempts[revision].opening is not None


async def _once(case: Case, revision: str) -> Explored:
    lock, known = _KNOWN.setdefault(case.subject, {}).setdefault(revision, (asyncio.Lock(), []))
    async with lock:
        if not known:
            known.append(await _explore(case, revision))
    return known[0]


async def _explore(case: Case, revision: str) -> Explored:
    talk = await case.fresh_talk(opened=False)
    await talk.open(revision, ABLE)
    found = Explored(talk=talk)
    # Some servers list what asks to those alone who can answer.
    listed = Features(tools=await _tools(found.talk)).safe_calls(case.permissions)
    if not listed:
        raise Skip(no_call())
    calls = [call.params for call in sorted(listed, key=lambda call: not _ASKING_NAME.search(call.name))]
    loop = asyncio.get_running_loop()
    until = loop.time() + _LONGEST
    for call in calls[:_CALLS]:
        if not found.talk.is_usable or loop.time() > until:
            break
        found.dialogues.append(await converse(found.talk, call))
    return found


async def _tools(talk: LiveConversation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    params: dict[str, Any] | None = None
    for _ in range(_PAGES):
        answer = await talk.request("tools/list", params)
        page = answer.result.get("tools")
        found += [each for each in page if isinstance(each, dict)] if isinstance(page, list) else []
        cursor = answer.result.get("nextCursor")
        if not isinstance(cursor, str):
            break
        params = {"cursor": cursor}
    return found


async def askers(case: Case, method: str, *, mode: str | None = None) -> list[Question]:
    """The first questions of each call that asks for something, one for each call.

    Raises:
        Skip: Nothing that may be called asks for that.
    """
    found: dict[str, Question] = {}
    for question in (await explored(case)).questions:
        if wants(question, method, mode):
            found.setdefault(str(question.call.get("name")), question)
    if not found:
        raise Skip(f"no tool that may be called asks for {method}{f' in mode {mode}' if mode else ''}; name one by --allow-tool")
    return list(found.values())


def wants(question: Question, method: str, mode: str | None = None) -> bool:
    """Tells whether a question is of this kind."""
    return question.method == method and mode in {None, question.params.get("mode", "form")}


def is_asking(answer: Answer) -> bool:
    """Tells whether an answer of the stateless wire asks back."""
    return answer.result.get("resultType") == "input_required"


async def is_refused_well(talk: LiveConversation, call: Mapping[str, Any], answer: Answer, mode: str) -> bool:
    """Tells whether a call that asks in one mode was served or refused with -32021 where the client has not got that (stateless).

    What fails for another reason, and would fail for everybody by now, is not held against anybody.
    """
    is_served = answer.is_result and answer.result.get("isError") is not True
    if is_served or answer.code == CAPABILITY_MISSING:
        return True
    again = await talk.request("tools/call", call, can=ABLE)
    return not any(wants(each, ELICIT, mode) for each in _of_result(again, dict(call)))


def asked_for(answer: Answer) -> dict[str, Any]:
    """The entries of ``inputRequests``."""
    return members(answer.result.get("inputRequests"))


async def converse(
    talk: LiveConversation,
    call: Mapping[str, Any],
    *,
    replies: Mapping[str, Any] | None = None,
    rounds: int = _ROUNDS,
    can: Mapping[str, Any] | None = None,
) -> Dialogue:
    """Calls a tool and answers what is asked meanwhile, in either era.

    Args:
        talk: The conversation.
        call: The params of the ``tools/call``.
        replies: By method, what to answer, as in :attr:`LiveConversation.answers`, and laid over it.
        rounds: On the stateless wire, how often it may ask.
        can: On the stateless wire, what to declare instead of what the conversation declares.
    """
    dialogue = Dialogue(call=dict(call))
    usual = dict(talk.answers)
    talk.answers.update(replies or {})
    more: dict[str, Any] = {}
    first = talk.position
    sent = talk.start("tools/call", {**call}, can=can)
    try:
        for _ in range(rounds + 1):
            answer = await talk.answer_to(sent, what="tools/call")
            dialogue.answers.append(answer)
            if not (talk.is_modern and is_asking(answer)):
                dialogue.end = answer
                break
            dialogue.questions += _of_result(answer, dialogue.call)
            if len(dialogue.answers) > rounds:
                dialogue.is_endless = True
                break
            more = {"inputResponses": replied(talk, asked_for(answer)), **_state(answer)}
            sent = talk.start("tools/call", {**call, **more}, can=can)
    except Unanswered:
        talk.notify("notifications/cancelled", {"requestId": sent})
    finally:
        talk.answers.clear()
        talk.answers.update(usual)
    for heard in talk.heard_lines[first:]:
        dialogue.questions += [
            Question(
                method=part["method"], params=members(part.get("params")), entry=part, key=None, about=heard, call=dialogue.call
            )
            for part in heard.parts
            if part.get("method") in INPUT_METHODS and "id" in part
        ]
    dialogue.is_endless |= dialogue.end is None and not talk.is_modern and len(dialogue.questions) > rounds
    return dialogue


def _of_result(answer: Answer, call: dict[str, Any]) -> list[Question]:
    return [
        Question(
            method=str(entry.get("method")),
            params=members(entry.get("params")),
            entry=entry,
            key=key,
            about=answer,
            call=call,
        )
        for key, entry in asked_for(answer).items()
        if isinstance(entry, dict)
    ]


def _state(answer: Answer) -> dict[str, Any]:
    return {"requestState": answer.result["requestState"]} if "requestState" in answer.result else {}


def replied(talk: LiveConversation, asked: Mapping[str, Any]) -> dict[str, Any]:
    """An answer to each of these questions, as :attr:`LiveConversation.answers` has them."""
    found = {}
    for key, entry in asked.items():
        method = members(entry).get("method")
        answer = talk.answers.get(method) if isinstance(method, str) else None
        if callable(answer):
            answer = answer(entry)
        if answer is not None and answer is not SILENCE:
            found[key] = answer
    return found


async def retried(
    talk: LiveConversation, call: Mapping[str, Any], asking: Answer, *, without_state: bool = False, **changed: Any
) -> Answer:
    """Sends a call again with answers to what it asked, with some members changed.

    Args:
        talk: The conversation.
        call: The params of the ``tools/call``.
        asking: Its answer, of type ``input_required``.
        without_state: Leave out the state.
        **changed: Members of the params to set instead.

    Raises:
        Unanswered: There was no answer in time.
    """
    state = {} if without_state else _state(asking)
    params = {**call, "inputResponses": replied(talk, asked_for(asking)), **state, **changed}
    with suppress(KeyError):
        if params["requestState"] is None:
            del params["requestState"]
    return await talk.request("tools/call", params)
