"""What several probes need before they can begin: a call that takes its time, and a call during which the server asks something."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from twopipes._protocol.revisions import INPUT_METHODS
from twopipes._tools.check.conversation import ALL_CAPABILITIES, SILENCE, LiveConversation
from twopipes._tools.check.probe import Case, SafeCall
from twopipes._tools.check.server_reply import NoResponse, ReceivedLine, Response
from twopipes._tools.check.verdict import Skip

__all__ = [
    "InputRequired",
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


class InputRequired(Struct, frozen=True, kw_only=True):
    """A call that the stateless wire answers with questions.

    Attributes:
        call: Which.
        answer: The result that asks.
    """

    call: SafeCall
    response: Response

    @property
    def requests(self) -> dict[str, Any]:
        """What it asks, by key."""
        return input_requests(self.response)


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """A question of a server with a handshake, which waits for its answer, and the call that waits for it.

    Attributes:
        call: The id of the call.
        question: The request of the server.
    """

    call: Any
    question: ReceivedLine


def progress_of(line: ReceivedLine, token: Any) -> bool:
    """Tells whether a line is progress under a token, which is compared with its type."""
    named = line.params.get("progressToken")
    return line.method == "notifications/progress" and type(named) is type(token) and named == token


def about(line: ReceivedLine, *, request_id: Any, token: Any) -> bool:
    """Tells whether a line is an answer to a request, or tells of its progress."""
    answers = any(
        "method" not in part and type(part.get("id")) is type(request_id) and part.get("id") == request_id for part in line.parts
    )
    return answers or progress_of(line, token)


async def slow_call(case: Case, *, may_be_endless: bool = False) -> SlowCall:
    """Finds a tool that may be called and takes its time, by calling it once.

    Args:
        case: Of the probe.
        may_be_endless: Take one that waits for ever, too, if there is no other.

    Raises:
        Skip: There is none.
    """
    conversation = case.conversation
    endless: SlowCall | None = None
    candidates = [call for call in case.features.safe_calls(case.permissions) if _SLOW_NAME.search(call.name)]
    for number, call in enumerate(candidates[:_TRIES]):
        token, since = f"trial-{number}", conversation.position
        params = _stretched(call)
        request_id = conversation.start("tools/call", params, meta={"progressToken": token})
        try:
            response = await conversation.response_to(request_id, within=_LONGEST, what="tools/call")
        except NoResponse:
            if not conversation.is_usable:
                raise
            conversation.notify("notifications/cancelled", {"requestId": request_id})
            notes = sum(progress_of(line, token) for line in conversation.received_lines[since:])
            endless = endless or SlowCall(params=params, took=_WHILE, notes=notes, ends=False)
            continue
        is_done = response.is_result and response.result.get("isError") is not True and "inputRequests" not in response.result
        if is_done and response.took >= _SLOW:
            notes = sum(progress_of(line, token) for line in conversation.received_lines[since:])
            return SlowCall(params=params, took=response.took, notes=notes)
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


def input_requests(response: Response) -> dict[str, Any]:
    """What a result of the stateless wire asks, by key; empty for one that asks nothing."""
    asked = response.result.get("inputRequests") if response.result.get("resultType") == "input_required" else None
    return {key: each for key, each in asked.items() if isinstance(each, dict)} if isinstance(asked, dict) else {}


async def asking_calls(
    case: Case, conversation: LiveConversation, *, client_capabilities: Mapping[str, Any] = ALL_CAPABILITIES
) -> list[InputRequired]:
    """The calls that a client which can answer everything is asked something about (stateless alone).

    Raises:
        Skip: There are none.
    """
    found = []
    for call in _likely_first(case):
        response = await conversation.request("tools/call", call.params, client_capabilities=client_capabilities)
        if input_requests(response):
            found.append(InputRequired(call=call, response=response))
    if not found:
        raise Skip("no tool that may be called asks its client anything")
    return found


async def open_question(case: Case, conversation: LiveConversation) -> OpenQuestion:
    """Calls tools until the server asks something, which is not answered (with a handshake alone).

    Raises:
        Skip: It asks nothing.
    """
    conversation.answers.update(dict.fromkeys(INPUT_METHODS, SILENCE))
    for call in _likely_first(case):
        since = conversation.position
        request_id = conversation.start("tools/call", call.params)

        def asked(since: int = since, request_id: Any = request_id) -> ReceivedLine | bool | None:
            question = next((line for line in conversation.received_lines[since:] if line.method in INPUT_METHODS), None)
            return question or bool(conversation.responses_to(request_id)) or None

        found = await conversation.until(asked, case.timeouts.response)
        if isinstance(found, ReceivedLine):
            return OpenQuestion(call=request_id, question=found)
    raise Skip("no tool that may be called asks its client anything")
