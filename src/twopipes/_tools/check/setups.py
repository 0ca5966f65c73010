"""What several probes need before they can begin: a call that takes its time, and a call during which the server asks something."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from twopipes._protocol.revisions import INPUT_METHODS
from twopipes._tools.check.conversation import ABLE, SILENCE, LiveConversation
from twopipes._tools.check.probe import Case, SafeCall
from twopipes._tools.check.server_reply import Answer, Heard, Unanswered
from twopipes._tools.check.verdict import Skip

__all__ = [
    "Asking",
    "OpenQuestion",
    "SlowCall",
    "about",
    "asking_calls",
    "input_requests",
    "open_question",
    "progress_of",
    "slow_call",
]

# Which tools to try first. Whatever they are called, how they behave decides.
_SLOW_NAME = re.compile(r"slow|long|sleep|wait|delay", re.IGNORECASE)
_ASKING_NAME = re.compile(r"ask|elicit|sampl|root|confirm", re.IGNORECASE)
_TRIES = 8
# Seconds. What is over sooner cannot be cancelled in time; what takes longer would hold up the check.
_SLOW = 0.12
_LONGEST = 5.0
# How long one that never ends is watched after it was cancelled.
_WHILE = 0.5
# Of the fixture that test servers have: six steps, a quarter of a second.
_FIXTURE = {"steps": 6, "seconds": 0.04}


class SlowCall(Struct, frozen=True, kw_only=True):
    """A call that takes its time.

    Attributes:
        params: Of the ``tools/call``.
        took: Seconds that it took when nobody disturbed it.
        notes: How often it told of its progress meanwhile.
        ends: Whether it comes to an end by itself.
    """

    params: dict[str, Any]
    took: float
    notes: int
    ends: bool = True


class Asking(Struct, frozen=True, kw_only=True):
    """A call that the stateless wire answers with questions.

    Attributes:
        call: Which.
        answer: The result that asks.
    """

    call: SafeCall
    answer: Answer

    @property
    def requests(self) -> dict[str, Any]:
        """What it asks, by key."""
        return input_requests(self.answer)


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """A question of a server with a handshake, which waits for its answer, and the call that waits for it.

    Attributes:
        call: The id of the call.
        question: The request of the server.
    """

    call: Any
    question: Heard


def progress_of(heard: Heard, token: Any) -> bool:
    """Tells whether a line is progress under a token, which is compared with its type."""
    named = heard.params.get("progressToken")
    return heard.method == "notifications/progress" and type(named) is type(token) and named == token


def about(heard: Heard, *, request_id: Any, token: Any) -> bool:
    """Tells whether a line is an answer to a request, or tells of its progress."""
    answers = any(
        "method" not in part and type(part.get("id")) is type(request_id) and part.get("id") == request_id for part in heard.parts
    )
    return answers or progress_of(heard, token)


async def slow_call(case: Case, *, may_be_endless: bool = False) -> SlowCall:
    """Finds a tool that may be called and takes its time, by calling it once.

    Args:
        case: Of the probe.
        may_be_endless: Take one that waits for ever, too, if there is no other.

    Raises:
        Skip: There is none.
    """
    talk = case.talk
    endless: SlowCall | None = None
    candidates = [call for call in case.features.safe_calls(case.permissions) if _SLOW_NAME.search(call.name)]
    for number, call in enumerate(candidates[:_TRIES]):
        token, since = f"trial-{number}", talk.position
        params = _stretched(call)
        request_id = talk.start("tools/call", params, meta={"progressToken": token})
        try:
            answer = await talk.answer_to(request_id, within=_LONGEST, what="tools/call")
        except Unanswered:
            if not talk.is_usable:
                raise
            talk.notify("notifications/cancelled", {"requestId": request_id})
            notes = sum(progress_of(heard, token) for heard in talk.heard_lines[since:])
            endless = endless or SlowCall(params=params, took=_WHILE, notes=notes, ends=False)
            continue
        is_done = answer.is_result and answer.result.get("isError") is not True and "inputRequests" not in answer.result
        if is_done and answer.took >= _SLOW:
            notes = sum(progress_of(heard, token) for heard in talk.heard_lines[since:])
            return SlowCall(params=params, took=answer.took, notes=notes)
    if endless is not None and may_be_endless:
        return endless
    raise Skip("no tool is known that may be called and takes its time; name one by --call that runs for about a second")


def _stretched(call: SafeCall) -> dict[str, Any]:
    schema = call.tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    is_fixture = isinstance(properties, dict) and _FIXTURE.keys() <= properties.keys()
    return {"name": call.name, "arguments": dict(_FIXTURE)} if is_fixture else call.params


def _likely_first(case: Case) -> list[SafeCall]:
    calls = [call for call in case.features.safe_calls(case.permissions) if not _SLOW_NAME.search(call.name)]
    return sorted(calls, key=lambda call: _ASKING_NAME.search(call.name) is None)[:_TRIES]


def input_requests(answer: Answer) -> dict[str, Any]:
    """What a result of the stateless wire asks, by key; empty for one that asks nothing."""
    asked = answer.result.get("inputRequests") if answer.result.get("resultType") == "input_required" else None
    return {key: each for key, each in asked.items() if isinstance(each, dict)} if isinstance(asked, dict) else {}


async def asking_calls(case: Case, talk: LiveConversation, *, can: Mapping[str, Any] = ABLE) -> list[Asking]:
    """The calls that a client which can answer everything is asked something about (stateless alone).

    Raises:
        Skip: There are none.
    """
    found = []
    for call in _likely_first(case):
        answer = await talk.request("tools/call", call.params, can=can)
        if input_requests(answer):
            found.append(Asking(call=call, answer=answer))
    if not found:
        raise Skip("no tool that may be called asks its client anything")
    return found


async def open_question(case: Case, talk: LiveConversation) -> OpenQuestion:
    """Calls tools until the server asks something, which is not answered (with a handshake alone).

    Raises:
        Skip: It asks nothing.
    """
    talk.answers.update(dict.fromkeys(INPUT_METHODS, SILENCE))
    for call in _likely_first(case):
        since = talk.position
        request_id = talk.start("tools/call", call.params)

        def asked(since: int = since, request_id: Any = request_id) -> Heard | bool | None:
            question = next((heard for heard in talk.heard_lines[since:] if heard.method in INPUT_METHODS), None)
            return question or bool(talk.answers_to(request_id)) or None

        found = await talk.until(asked, case.waits.answer)
        if isinstance(found, Heard):
            return OpenQuestion(call=request_id, question=found)
    raise Skip("no tool that may be called asks its client anything")
