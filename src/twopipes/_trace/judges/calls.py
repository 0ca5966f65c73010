"""Judges of calls: cancellation, progress, logging, round trips, subscriptions (sections CA, PR, LG, MR, SU)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from twopipes._protocol.revisions import (
    INPUT_METHODS,
    LEGACY,
    MAY_ASK_BACK,
    META_CAPABILITIES,
    META_LOG_LEVEL,
    META_SUBSCRIPTION_ID,
)
from twopipes._trace.conversation import Call
from twopipes._trace.judges.table import ConnectionState, is_modern_request, members_of, rule, shown
from twopipes._trace.message import Message

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_CANCELLED = ("notifications/cancelled",)
_PROGRESS = ("notifications/progress",)
_LOG = ("notifications/message",)
_FILTERS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions",
}
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def _is_before(earlier: Message | None, message: Message) -> bool:
    return earlier is not None and earlier.index < message.index


# Cancellation


@rule("CA-02", "notification", methods=_CANCELLED)
def cancels_nothing(message: Message, state: ConnectionState) -> Iterator[str]:
    """In a session each side cancels only its own requests."""
    if state.handshake is not None:
        yield from _unknown(message, state)


@rule("CA-08", "notification", by="client", methods=_CANCELLED)
def cancels_nothing_stateless(message: Message, state: ConnectionState) -> Iterator[str]:
    """The same, without a session."""
    if state.is_stateless and message.direction == ">":
        yield from _unknown(message, state)


def _unknown(message: Message, state: ConnectionState) -> Iterator[str]:
    named = members_of(message.raw_params).get("requestId")
    if message.call is None and isinstance(named, str | int) and state.is_certain and not state.is_redacted:
        yield f"cancels request {shown(named)}, which it did not send"


@rule("CA-12", "notification", methods=_CANCELLED)
def cancels_without_an_id(message: Message, state: ConnectionState) -> Iterator[str]:
    """A cancellation names its request."""
    named = members_of(message.raw_params).get("requestId", UNSET)
    is_known = state.is_stateless or state.negotiated in LEGACY
    if is_known and not state.is_redacted and (isinstance(named, bool) or not isinstance(named, str | int)):
        yield f"requestId must be a string or an integer, not {shown(named)}"


@rule("CA-09", "notification", by="server", methods=_CANCELLED)
def cancelled_by_the_server(message: Message, state: ConnectionState) -> Iterator[str]:
    """In modern revisions a server cancels only subscriptions."""
    if message.direction == "<" and state.is_stateless and (message.call is None or not message.call.is_listen):
        yield "the server cancels something that is not a subscription"


@rule("CA-04", "result", "error", "notification", by="server")
def goes_on_after_the_cancel(message: Message, state: ConnectionState) -> Iterator[str]:
    """A message may cross the cancellation, so the server must certainly have read it."""
    call = message.call
    if message.direction != "<" or call is None or call.direction != ">" or message.method == "notifications/cancelled":
        return
    if state.revision_of(call) in LEGACY or not is_modern_request(call.request) or state.has_gaps:
        return
    if call.is_listen and message.is_answer:
        return  # SU-13: a server ends a subscription this way, and both sides may end it at once
    if any(cancel.direction == ">" and _is_before(cancel, message) and state.certainly_read(cancel) for cancel in call.cancels):
        yield f"continues with {call.method} {shown(call.id)}, which was cancelled"


# Progress


@rule("PR-01", "request")
def tokens(message: Message, state: ConnectionState) -> Iterator[str]:
    """A progress token is a string or an integer, and unique among open requests."""
    token = message.meta.get("progressToken", UNSET)
    if token is UNSET or state.is_redacted:
        return
    if isinstance(token, bool) or not isinstance(token, str | int):
        yield f"a progressToken is a string or an integer, not {shown(token)}"
        return
    if state.has_gaps:
        return
    call = state.tokens.get((message.direction, type(token), token))
    if call is not None and not any(_is_before(cancel, message) for cancel in call.cancels):
        yield f"the progressToken {shown(token)} belongs to request {shown(call.id)}, which is still open"


@rule("PR-02", "notification", methods=_PROGRESS)
def progress_of_nothing(message: Message, state: ConnectionState) -> Iterator[str]:
    """Progress needs a token."""
    if message.call is None and state.is_certain and not state.is_redacted:
        yield f"progress for the token {shown(members_of(message.raw_params).get('progressToken', UNSET))}, which no request has"


@rule("PR-03", "notification", methods=_PROGRESS)
def progress_rises(message: Message, state: ConnectionState) -> Iterator[str]:
    """Progress increases with every notification."""
    params = members_of(message.raw_params)
    if state.is_redacted:
        return
    progress = params.get("progress", UNSET)
    if not _is_number(progress):
        yield f"progress must be a number, not {shown(progress)}"
        return
    if not _is_number(params.get("total", 0)):
        yield f"total must be a number, not {shown(params['total'])}"
    last = state.progress.get(id(message.call)) if message.call is not None else None
    if message.call is not None:
        state.progress[id(message.call)] = progress
    if last is not None and progress <= last:
        yield f"progress goes from {shown(last)} to {shown(progress)}; it must increase"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@rule("PR-04", "notification", methods=_PROGRESS)
def progress_after_the_end(message: Message, state: ConnectionState) -> Iterator[str]:
    """Progress and response come from the same side, so their order is certain."""
    call = message.call
    if call is None or not _is_before(call.answer, message) or state.has_gaps:
        return
    if "task" in members_of(call.request.raw_params):
        return  # PR-06: a task continues
    yield f"progress of {call.method} {shown(call.id)} after its response"


@rule("PR-07", "notification", by="server", methods=_PROGRESS)
def progress_of_a_subscription(message: Message, state: ConnectionState) -> Iterator[str]:
    """Subscriptions have no progress."""
    if message.direction == "<" and (META_SUBSCRIPTION_ID in message.meta or (message.call and message.call.is_listen)):
        yield "progress of a subscription"


# Logging


@rule("LG-01", "notification", by="server", methods=_LOG)
def log_not_declared(message: Message, state: ConnectionState) -> Iterator[str]:
    """A server that logs declares logging."""
    declared = state.server_capabilities
    if message.direction == "<" and declared is not None and state.is_certain and declared.get("logging") is None:
        yield "a log message, but the server did not declare logging"


@rule("LG-02", "notification", by="server", methods=_LOG)
def shape_of_logs(message: Message, state: ConnectionState) -> Iterator[str]:
    """A log message has a level and data."""
    params = members_of(message.raw_params)
    if message.direction != "<" or state.is_redacted:
        return
    if params.get("level") not in _LEVELS:
        yield f"unknown log level {shown(params.get('level', UNSET))}"
    if "data" not in params:
        yield "a log message without data"


@rule("LG-05", "notification", by="server", methods=_LOG)
def log_not_requested(message: Message, state: ConnectionState) -> Iterator[str]:
    """In modern revisions a request asks for log messages."""
    if message.direction != "<" or not state.is_stateless or META_SUBSCRIPTION_ID in message.meta:
        return
    wanted = [call.request.meta.get(META_LOG_LEVEL) for call in state.loggers.values()]
    if not wanted:
        yield "a log message, but no open request asked for any"
        return
    level = members_of(message.raw_params).get("level")
    if level in _LEVELS and all(lowest in _LEVELS and _LEVELS.index(level) < _LEVELS.index(lowest) for lowest in wanted):
        yield f"a log message of level {level}, which no open request asked for"


@rule("LG-07", "notification", by="server", methods=_LOG)
def log_of_a_subscription(message: Message, state: ConnectionState) -> Iterator[str]:
    """Log messages belong to requests, not to subscriptions."""
    if message.direction == "<" and META_SUBSCRIPTION_ID in message.meta:
        yield "a log message that belongs to a subscription"


# Round trips


def _asked(message: Message, state: ConnectionState) -> dict[str, Any] | None:
    """Return the result if it asks for input."""
    call = message.call
    if message.direction != "<" or call is None or not is_modern_request(call.request):
        return None
    result = members_of(message.raw_result)
    return result if result.get("resultType") == "input_required" else None


@rule("MR-01", "result", by="server")
def asks_where_it_may_not(message: Message, state: ConnectionState) -> Iterator[str]:
    """Only three methods may return questions."""
    if _asked(message, state) is not None and message.call is not None and message.call.method not in MAY_ASK_BACK:
        yield f"{message.call.method} is answered with input_required"


@rule("MR-02", "result", by="server")
def asks_nothing(message: Message, state: ConnectionState) -> Iterator[str]:
    """A result that asks for input has questions or a state."""
    result = _asked(message, state)
    if result is not None and "inputRequests" not in result and "requestState" not in result:
        yield "input_required with neither inputRequests nor requestState"


@rule("MR-03", "result", by="server")
def shape_of_questions(message: Message, state: ConnectionState) -> Iterator[str]:
    """Questions are requests without an envelope."""
    result = _asked(message, state)
    if result is None or "inputRequests" not in result:
        return
    requests = result["inputRequests"]
    if not isinstance(requests, dict):
        yield f"inputRequests must be an object, not {shown(requests)}"
        return
    for key, request in requests.items():
        if not isinstance(request, dict) or request.get("method") not in INPUT_METHODS:
            yield f"the question {shown(key)} must have one of the methods {', '.join(INPUT_METHODS)}"
        elif "id" in request or "jsonrpc" in request:
            yield f"the question {shown(key)} has an envelope"


@rule("MR-04", "result", by="server")
def asks_for_the_undeclared(message: Message, state: ConnectionState) -> Iterator[str]:
    """Each request declares what its client can answer."""
    result = _asked(message, state)
    requests = result.get("inputRequests") if result is not None else None
    if not isinstance(requests, dict) or message.call is None or state.is_redacted:
        return
    declared = message.call.request.meta.get(META_CAPABILITIES)
    declared = declared if isinstance(declared, dict) else {}
    for key, request in requests.items():
        method = request.get("method") if isinstance(request, dict) else None
        if method in INPUT_METHODS and (capability := str(method).partition("/")[0]) not in declared:
            yield f"the question {shown(key)} needs {capability}, which the client did not declare"


def _round_before(call: Call | None) -> Call | None:
    if call is None or not call.is_retry:
        return None
    return call.rounds[call.rounds.index(call) - 1]


@rule("MR-05", "request", by="client")
def retry_repeats(message: Message, state: ConnectionState) -> Iterator[str]:
    """A retry repeats the method and the params."""
    if not is_modern_request(message) or message.call is None or not message.call.is_retry or state.is_redacted:
        return
    first, again = members_of(message.call.first_round.request.raw_params), members_of(message.raw_params)
    for name in sorted((first.keys() | again.keys()) - {"_meta", "inputResponses", "requestState"}):
        if first.get(name, UNSET) != again.get(name, UNSET):
            yield f"the call is retried with different params: {name}"


@rule("MR-06", "request", by="client")
def shape_of_replies(message: Message, state: ConnectionState) -> Iterator[str]:
    """Answers are bare results."""
    if not is_modern_request(message) or message.method not in MAY_ASK_BACK or state.is_redacted:
        return
    replies = members_of(message.raw_params).get("inputResponses", {})
    if not isinstance(replies, dict):
        yield f"inputResponses must be an object, not {shown(replies)}"
        return
    for key, reply in replies.items():
        if not isinstance(reply, dict) or "jsonrpc" in reply or "resultType" in reply:
            yield f"the answer to {shown(key)} must be a bare result"


@rule("MR-08", "request", by="client")
def retry_has_its_own_id(message: Message, state: ConnectionState) -> Iterator[str]:
    """A retry has a new id."""
    before = _round_before(message.call) if is_modern_request(message) else None
    if before is not None and type(before.id) is type(message.id) and before.id == message.id:
        yield f"the call is retried with the same id {shown(message.id)}"


# Subscriptions


@rule("SU-01", "request", by="client", methods=("subscriptions/listen",))
def shape_of_a_listen(message: Message, state: ConnectionState) -> Iterator[str]:
    """A listen names what to listen for."""
    wanted = members_of(message.raw_params).get("notifications", UNSET)
    if not is_modern_request(message) or state.is_redacted:
        return
    if not isinstance(wanted, dict):
        yield f"notifications must be an object, not {shown(wanted)}"
        return
    for name in ("toolsListChanged", "promptsListChanged", "resourcesListChanged"):
        if not isinstance(wanted.get(name, False), bool):
            yield f"{name} must be a boolean, not {shown(wanted[name])}"
    uris = wanted.get("resourceSubscriptions", [])
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        yield f"resourceSubscriptions must be an array of URIs, not {shown(uris)}"


@rule("SU-02", "notification", by="server")
def acknowledged_first(message: Message, state: ConnectionState) -> Iterator[str]:
    """The acknowledgement is the first message of a subscription."""
    call = message.call
    if call is None or not call.is_listen or message.method in (_ACKNOWLEDGED, *_CANCELLED, *_PROGRESS) or state.has_gaps:
        return
    if call.notifications and call.notifications[0] is message:
        yield f"{message.method} before the subscription {shown(call.id)} was acknowledged"


@rule("SU-04", "notification", by="server", methods=(_ACKNOWLEDGED, *_FILTERS))
def tags(message: Message, state: ConnectionState) -> Iterator[str]:
    """Messages of a subscription carry its id."""
    if message.direction != "<" or not state.is_stateless:
        return
    tag = message.meta.get(META_SUBSCRIPTION_ID, UNSET)
    if tag is UNSET:
        if message.method == _ACKNOWLEDGED or state.listens:
            yield f"{message.method} without {META_SUBSCRIPTION_ID}"
    elif message.call is None:
        yield f"{message.method} for the unknown subscription {shown(tag)}"


@rule("SU-05", "notification", by="server", methods=tuple(_FILTERS))
def announced_and_not_requested(message: Message, state: ConnectionState) -> Iterator[str]:
    """Changes are announced only to listens that ask for them."""
    call = message.call
    if message.direction != "<":
        return
    if call is None:
        if state.is_stateless and META_SUBSCRIPTION_ID not in message.meta and not state.listens:
            yield f"{message.method}, but there is no listen"
        return
    wanted = members_of(call.request.raw_params).get("notifications")
    if isinstance(wanted, dict) and not state.is_redacted and not wanted.get(_FILTERS[message.method or ""]):
        yield f"{message.method}, which the subscription {shown(call.id)} did not ask for"


@rule("SU-06", "notification", by="server", methods=(_ACKNOWLEDGED,))
def acknowledges_more(message: Message, state: ConnectionState) -> Iterator[str]:
    """Only what was asked for is acknowledged."""
    if message.call is None or state.is_redacted:
        return
    asked = members_of(message.call.request.raw_params).get("notifications")
    given = members_of(message.raw_params).get("notifications", UNSET)
    if not isinstance(given, dict):
        yield f"notifications must be an object, not {shown(given)}"
    elif isinstance(asked, dict):
        for name in _FILTERS.values():
            if given.get(name) and not asked.get(name):
                yield f"acknowledges {name}, which was not asked for"


@rule("SU-13", "result", by="server", methods=("subscriptions/listen",))
def end_of_a_subscription(message: Message, state: ConnectionState) -> Iterator[str]:
    """The result of a listen has its id."""
    if message.call is None or not is_modern_request(message.call.request) or "resultType" not in members_of(message.raw_result):
        return
    meta = members_of(message.raw_result).get("_meta")
    tag = meta.get(META_SUBSCRIPTION_ID, UNSET) if isinstance(meta, dict) else UNSET
    if type(tag) is not type(message.call.id) or tag != message.call.id:
        yield f"the result of a listen without its {META_SUBSCRIPTION_ID}"
