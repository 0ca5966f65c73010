"""Setups that several probes need: a slow call, a call during which the server asks something, and a subscription."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from twopipes._protocol.revisions import INPUT_METHODS, META_SUBSCRIPTION_ID
from twopipes._tools.check.conversation import ALL_CAPABILITIES, SILENCE, LiveConversation
from twopipes._tools.check.messages import NoResponse, ReceivedLine, Response, members, same_id
from twopipes._tools.check.probe import Case, SafeCall
from twopipes._tools.check.samples import has_worked
from twopipes._tools.check.verdict import Skip

# The names of tools to try first. Only their behaviour decides.
SLOW_NAME = re.compile(r"slow|long|sleep|wait|delay", re.IGNORECASE)
_ASKING_NAME = re.compile(r"ask|elicit|sampl|root|confirm", re.IGNORECASE)
_TRIES = 8
# Seconds. A faster call cannot be cancelled in time; a slower one would delay the check.
_SLOW = 0.12
_LONGEST = 5.0
# Seconds that an endless call is watched after it was cancelled.
_WHILE = 0.5
# Arguments of the slow tool of test servers: six steps, a quarter of a second.
_FIXTURE = {"steps": 6, "seconds": 0.04}


class SlowCall(Struct, frozen=True, kw_only=True):
    """A slow call."""

    params: dict[str, Any]  # of the tools/call
    took: float  # seconds that it takes if it is not cancelled
    notes: int  # the number of its progress notifications
    ends: bool = True  # whether it ends by itself


class InputRequired(Struct, frozen=True, kw_only=True):
    """A modern call with a result of type ``input_required``."""

    call: SafeCall
    response: Response

    @property
    def requests(self) -> dict[str, Any]:
        """The questions, by key."""
        return input_requests(self.response)


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """An unanswered question of a legacy server, and the id of the call that waits for it."""

    call: Any
    question: ReceivedLine


def progress_of(line: ReceivedLine, token: Any) -> bool:
    """Return whether a line is progress under a token, compared with its type."""
    return line.method == "notifications/progress" and same_id(line.params.get("progressToken"), token)


def about(line: ReceivedLine, *, request_id: Any, token: Any) -> bool:
    """Return whether a line is the response to a request or a progress notification for it."""
    is_response = any("method" not in part and same_id(part.get("id"), request_id) for part in line.parts)
    return is_response or progress_of(line, token)


async def slow_call(case: Case, *, may_be_endless: bool = False) -> SlowCall:
    """Find a slow tool by calling it once, or an endless one if there is no other; raise Skip if there is none."""
    conversation = case.conversation
    endless: SlowCall | None = None
    candidates = [call for call in case.safe_calls if SLOW_NAME.search(call.name)]
    for number, call in enumerate(candidates[:_TRIES]):
        token, since = f"trial-{number}", conversation.position
        properties = members(members(call.tool.get("inputSchema")).get("properties"))
        is_fixture = _FIXTURE.keys() <= properties.keys()
        params = {"name": call.name, "arguments": dict(_FIXTURE)} if is_fixture else call.params
        request_id = conversation.start("tools/call", params, meta={"progressToken": token})
        response = None
        try:
            response = await conversation.response_to(request_id, within=_LONGEST, what="tools/call")
        except NoResponse:
            if not conversation.is_usable:
                raise
            conversation.notify("notifications/cancelled", {"requestId": request_id})
        notes = sum(progress_of(line, token) for line in conversation.received_lines[since:])
        if response is None:
            endless = endless or SlowCall(params=params, took=_WHILE, notes=notes, ends=False)
        elif response.took >= _SLOW and has_worked(response):
            return SlowCall(params=params, took=response.took, notes=notes)
    if endless is not None and may_be_endless:
        return endless
    raise Skip("no slow tool may be called; name one with --call that runs for about a second")


def _likely_first(case: Case) -> list[SafeCall]:
    calls = [call for call in case.safe_calls if not SLOW_NAME.search(call.name)]
    return sorted(calls, key=lambda call: _ASKING_NAME.search(call.name) is None)[:_TRIES]


def input_requests(response: Response) -> dict[str, Any]:
    """Return the questions in a modern result, by key; empty if it asks nothing."""
    asked = members(response.result.get("inputRequests")) if response.result.get("resultType") == "input_required" else {}
    return {key: each for key, each in asked.items() if isinstance(each, dict)}


async def asking_calls(case: Case, conversation: LiveConversation) -> list[InputRequired]:
    """Return the calls that ask something of a client with all capabilities (modern only); raise Skip if there are none."""
    found = []
    for call in _likely_first(case):
        response = await conversation.request("tools/call", call.params, client_capabilities=ALL_CAPABILITIES)
        if input_requests(response):
            found.append(InputRequired(call=call, response=response))
    if not found:
        raise Skip("no tool that may be called asks its client anything")
    return found


async def open_question(case: Case, conversation: LiveConversation) -> OpenQuestion:
    """Call tools until the server asks something, and leave that unanswered (legacy only); raise Skip if it asks nothing."""
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


def acknowledgements(conversation: LiveConversation, since: int = 0) -> list[ReceivedLine]:
    """Return the acknowledgements of listens so far."""
    return [line for line in conversation.received_lines[since:] if line.method == "notifications/subscriptions/acknowledged"]


def acknowledgement(conversation: LiveConversation, request_id: Any) -> ReceivedLine | None:
    """Return the acknowledgement of a listen, if it was received."""
    found = acknowledgements(conversation)
    return next((line for line in found if same_id(line.meta.get(META_SUBSCRIPTION_ID), request_id)), None)


async def opened_listen(conversation: LiveConversation, request_id: Any) -> ReceivedLine | None:
    """Wait for the acknowledgement of a listen, or for a response. Return the acknowledgement."""
    await conversation.until(
        lambda: acknowledgement(conversation, request_id) or conversation.response(request_id), conversation.timeouts.response
    )
    return acknowledgement(conversation, request_id)


async def listening(conversation: LiveConversation, wanted: Mapping[str, Any]) -> Any:
    """Open a listen and return its id; raise Skip if the server does not acknowledge it."""
    request_id = conversation.start("subscriptions/listen", {"notifications": wanted})
    if await opened_listen(conversation, request_id) is None:
        response = conversation.response(request_id)
        raise Skip(f"the server did not acknowledge a listen{f', which got {response.summary}' if response else ''}")
    return request_id


def stop_listening(conversation: LiveConversation, *request_ids: Any) -> None:
    """Cancel listens, so that the next probe gets none of their notifications."""
    for each in request_ids:
        conversation.notify("notifications/cancelled", {"requestId": each})
