"""Finds out what a server asks its client: calls permitted tools, answers the questions, and keeps them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from twopipes._codes import CAPABILITY_MISSING
from twopipes._protocol.revisions import INPUT_METHODS, LEGACY
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation
from twopipes._tools.check.messages import NoResponse, Response, members
from twopipes._tools.check.probe import Case, Features, no_call
from twopipes._tools.check.questions import ELICIT
from twopipes._tools.check.server_source import ServerTarget
from twopipes._tools.check.verdict import Quotable, Skip

# Limits of one exploration: calls, and seconds in total. A server may have hundreds of tools.
_CALLS = 32
_LONGEST = 15.0
_ROUNDS = 6
# Calls that are repeated by a client without the capability.
_UNDECLARED = 3
# The names of tools to try first. Only their behaviour decides.
_ASKING_NAME = re.compile(r"ask|elicit|sampl|root|confirm|agent|redeem", re.IGNORECASE)


class Question(Struct, frozen=True, eq=False, kw_only=True):
    """A question of a server to its client."""

    entry: dict[str, Any]  # the question on the wire: a request, or an entry of inputRequests
    key: str | None = None  # the key in inputRequests; None for a request
    about: Quotable  # the lines to quote
    call: dict[str, Any]  # the params of the call that caused the question

    @property
    def method(self) -> str:
        """The method."""
        return str(self.entry.get("method"))

    @property
    def params(self) -> dict[str, Any]:
        """The params; empty if there are none."""
        return members(self.entry.get("params"))


class Dialogue(Struct, eq=False, kw_only=True):
    """One call, the questions during it, and its end."""

    call: dict[str, Any]  # the params of the tools/call
    questions: list[Question] = field(default_factory=list)
    answers: list[Response] = field(default_factory=list)  # the responses of the server, one for each round
    end: Response | None = None  # the final response; None if the server still asks, or does not respond
    is_endless: bool = False  # whether the server asked more often than the limit

    @property
    def name(self) -> str:
        """The name of the tool."""
        return str(self.call.get("name"))


class Explored(Struct, eq=False, kw_only=True):
    """What a server asks a client with all capabilities."""

    conversation: LiveConversation
    dialogues: list[Dialogue] = field(default_factory=list)

    @property
    def questions(self) -> list[Question]:
        """The questions of all calls."""
        return [question for dialogue in self.dialogues for question in dialogue.questions]


# The results by server and revision, since many probes need them and a call may be slow.
_KNOWN: WeakKeyDictionary[ServerTarget, dict[str, tuple[asyncio.Lock, list[Explored]]]] = WeakKeyDictionary()


async def explored(case: Case) -> Explored:
    """Return what the server asks; raise Skip if no tool may be called. It is found out once for each revision."""
    if not case.features.has("tools"):
        raise Skip("the server does not declare tools")
    attempts = case.target.attempts
    newest = max((each for each in LEGACY if each in attempts and attempts[each].opening is not None), default=case.revision)
    if case.revision in LEGACY and case.revision < newest:
        # A server that asks nothing in the newest legacy revision asks nothing in older ones, so it is not started for them.
        overview = await _once(case, newest)
        if not overview.questions:
            return Explored(conversation=overview.conversation)
    return await _once(case, case.revision)


async def _once(case: Case, revision: str) -> Explored:
    lock, known = _KNOWN.setdefault(case.target, {}).setdefault(revision, (asyncio.Lock(), []))
    async with lock:
        if not known:
            known.append(await _explore(case, revision))
    return known[0]


async def _explore(case: Case, revision: str) -> Explored:
    conversation = await case.open_conversation(opened=False)
    await conversation.open(revision, ALL_CAPABILITIES)
    found = Explored(conversation=conversation)
    # Some servers list tools that ask only to clients that can answer.
    tools = [tool async for page in conversation.pages("tools/list") for tool in page.items("tools")]
    calls = Features(tools=tools).safe_calls(case.permissions)
    if not calls:
        raise Skip(no_call())
    loop = asyncio.get_running_loop()
    until = loop.time() + _LONGEST
    for call in sorted(calls, key=lambda call: not _ASKING_NAME.search(call.name))[:_CALLS]:
        if not conversation.is_usable or loop.time() > until:
            break
        found.dialogues.append(await converse(conversation, call.params))
    return found


async def askers(case: Case, method: str, *, mode: str | None = None) -> list[Question]:
    """Return the first question of this kind of each call; raise Skip if there are none."""
    found: dict[str, Question] = {}
    for question in (await explored(case)).questions:
        if wants(question, method, mode):
            found.setdefault(str(question.call.get("name")), question)
    if not found:
        raise Skip(f"no tool that may be called asks for {method}{f' in mode {mode}' if mode else ''}; name one with --allow-tool")
    return list(found.values())


async def judge_asked_in_results(case: Case, rule: str, method: str) -> None:
    """Judge that a modern server asks inside results, and only clients that declare the capability."""
    asking = await askers(case, method)
    for question in asking:
        envelope = sorted({"id", "jsonrpc"} & question.entry.keys())
        fault = f"has an envelope: {', '.join(envelope)}" if question.key is not None else "is a request"
        case.expect(rule, question.key is not None and not envelope, f"the question {method} {fault}", about=question.about)
    capability = method.partition("/")[0]
    conversation = await case.conversation_with({key: value for key, value in ALL_CAPABILITIES.items() if key != capability})
    for question in asking[:_UNDECLARED]:
        found = [each.about for each in (await converse(conversation, question.call)).questions if each.method == method]
        case.forbid(rule, found, f"{method} is asked, and the request does not declare {capability}")


def wants(question: Question, method: str, mode: str | None = None) -> bool:
    """Return whether a question is of this kind."""
    return question.method == method and mode in {None, question.params.get("mode", "form")}


def is_asking(response: Response) -> bool:
    """Return whether a modern response asks for input."""
    return response.result.get("resultType") == "input_required"


async def is_refused_well(conversation: LiveConversation, call: Mapping[str, Any], response: Response, mode: str) -> bool:
    """Return whether a call was served or rejected with -32021 for a client without the mode (modern revisions).

    A call that would fail for every client by now also counts as handled.
    """
    is_served = response.is_result and response.result.get("isError") is not True
    if is_served or response.code == CAPABILITY_MISSING:
        return True
    again = await conversation.request("tools/call", call, client_capabilities=ALL_CAPABILITIES)
    return not any(wants(each, ELICIT, mode) for each in _of_result(again, dict(call)))


def asked_for(response: Response) -> dict[str, Any]:
    """Return the entries of ``inputRequests``."""
    return members(response.result.get("inputRequests"))


async def converse(
    conversation: LiveConversation,
    call: Mapping[str, Any],
    *,
    replies: Mapping[str, Any] | None = None,
    rounds: int = _ROUNDS,
    client_capabilities: Mapping[str, Any] | None = None,
) -> Dialogue:
    """Call a tool and answer its questions, in either era.

    Args:
        conversation: The conversation.
        call: The params of the ``tools/call``.
        replies: Answers by method that replace those in :attr:`LiveConversation.answers`.
        rounds: In modern revisions, how often the server may ask.
        client_capabilities: In modern revisions, what to declare instead of what the conversation declares.
    """
    dialogue = Dialogue(call=dict(call))
    usual = conversation.answers
    conversation.answers = {**usual, **(replies or {})}
    first = conversation.position
    sent = conversation.start("tools/call", {**call}, client_capabilities=client_capabilities)
    try:
        for _ in range(rounds + 1):
            response = await conversation.response_to(sent, what="tools/call")
            dialogue.answers.append(response)
            if not (conversation.is_modern and is_asking(response)):
                dialogue.end = response
                break
            dialogue.questions += _of_result(response, dialogue.call)
            if len(dialogue.answers) > rounds:
                dialogue.is_endless = True
                break
            params = {**call, "inputResponses": conversation.answers_to(asked_for(response)), **_state(response)}
            sent = conversation.start("tools/call", params, client_capabilities=client_capabilities)
    except NoResponse:
        conversation.notify("notifications/cancelled", {"requestId": sent})
    finally:
        conversation.answers = usual
    dialogue.questions += [
        Question(entry=part, about=line, call=dialogue.call)
        for line in conversation.received_lines[first:]
        for part in line.parts
        if part.get("method") in INPUT_METHODS and "id" in part
    ]
    dialogue.is_endless |= dialogue.end is None and not conversation.is_modern and len(dialogue.questions) > rounds
    return dialogue


def _of_result(response: Response, call: dict[str, Any]) -> list[Question]:
    entries = asked_for(response).items()
    return [Question(entry=entry, key=key, about=response, call=call) for key, entry in entries if isinstance(entry, dict)]


def _state(response: Response) -> dict[str, Any]:
    return {"requestState": response.result["requestState"]} if "requestState" in response.result else {}


async def retried(
    conversation: LiveConversation, call: Mapping[str, Any], asking: Response, *, without_state: bool = False, **changed: Any
) -> Response:
    """Retry a call with answers to its questions, without the state, or with some members changed or removed (``None``)."""
    state = {} if without_state else _state(asking)
    params = {**call, "inputResponses": conversation.answers_to(asked_for(asking)), **state, **changed}
    return await conversation.request("tools/call", {key: value for key, value in params.items() if value is not None})
