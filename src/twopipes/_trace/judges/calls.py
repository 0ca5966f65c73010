"""Judges of calls: cancellation, progress, logging, round trips, subscriptions (sections CA, PR, LG, MR, SU)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from twopipes._protocol.revisions import (
    INPUT_METHODS,
    LEGACY,
    MAY_ASK_BACK,
    META_CAPABILITIES,
    META_LOG_LEVEL,
    META_PROGRESS_TOKEN,
    META_SUBSCRIPTION_ID,
)
from twopipes._trace.conversation import LISTEN, id_key
from twopipes._trace.judges.table import ConnectionState, is_modern_request, rule
from twopipes._trace.judges.values import Faults, Members, is_json, members_of, shown, wrong_types
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


@rule("CA-02", "notification", methods=_CANCELLED, needs_values=True)
def cancels_nothing(message: Message, state: ConnectionState) -> Faults:
    return _unknown(message, state) if state.handshake is not None else ()


@rule("CA-08", "notification", by="client", methods=_CANCELLED, needs_values=True)
def cancels_nothing_stateless(message: Message, state: ConnectionState) -> Faults:
    return _unknown(message, state) if state.is_stateless else ()


def _unknown(message: Message, state: ConnectionState) -> Faults:
    named = members_of(message.raw_params).get("requestId")
    if message.call is None and isinstance(named, str | int) and state.is_certain:
        yield f"cancels request {shown(named)}, which it did not send"


@rule("CA-12", "notification", methods=_CANCELLED, needs_values=True)
def cancels_without_an_id(message: Message, state: ConnectionState) -> Faults:
    named = members_of(message.raw_params).get("requestId", UNSET)
    is_known = state.is_stateless or state.negotiated in LEGACY
    if is_known and not is_json(named, str) and not is_json(named, int):
        yield f"requestId must be a string or an integer, not {shown(named)}"


@rule("CA-09", "notification", by="server", methods=_CANCELLED)
def cancelled_by_the_server(message: Message, state: ConnectionState) -> Faults:
    if state.is_stateless and (message.call is None or not message.call.is_listen):
        yield "the server cancels something that is not a subscription"


@rule("CA-04", "result", "error", "notification", by="server")
def continues_after_the_cancel(message: Message, state: ConnectionState) -> Faults:
    call = message.call
    if call is None or call.direction != ">" or message.method in _CANCELLED:
        return
    if state.revision_of(call) in LEGACY or not is_modern_request(call.request) or state.has_gaps:
        return
    if call.is_listen and message.is_answer:
        return  # SU-13: a server ends a subscription this way, and both sides may end it at once
    # The message may cross the cancellation, so the server must certainly have read it.
    if any(cancel.direction == ">" and _is_before(cancel, message) and state.certainly_read(cancel) for cancel in call.cancels):
        yield f"continues with {call.method} {shown(call.id)}, which was cancelled"


# Progress


@rule("PR-01", "request", needs_values=True)
def tokens(message: Message, state: ConnectionState) -> Faults:
    token = message.meta.get(META_PROGRESS_TOKEN, UNSET)
    if token is UNSET:
        return
    if not is_json(token, str) and not is_json(token, int):
        yield f"a progressToken is a string or an integer, not {shown(token)}"
        return
    call = state.tokens.get((message.direction, *id_key(token)))
    if call is not None and not state.has_gaps and not any(_is_before(cancel, message) for cancel in call.cancels):
        yield f"the progressToken {shown(token)} belongs to request {shown(call.id)}, which is still open"


@rule("PR-02", "notification", methods=_PROGRESS, needs_values=True)
def progress_of_nothing(message: Message, state: ConnectionState) -> Faults:
    if message.call is None and state.is_certain:
        yield f"progress for the token {shown(members_of(message.raw_params).get('progressToken', UNSET))}, which no request has"


@rule("PR-03", "notification", methods=_PROGRESS, needs_values=True)
def progress_increases(message: Message, state: ConnectionState) -> Faults:
    params = members_of(message.raw_params)
    yield from wrong_types(params, float, "progress")
    yield from wrong_types(params, float, "total", optional=True)
    progress: Any = params.get("progress")
    if message.call is None or not is_json(progress, float):
        return
    last = state.progress.get(message.call.number)
    state.progress[message.call.number] = progress
    if last is not None and progress <= last:
        yield f"progress goes from {shown(last)} to {shown(progress)}; it must increase"


@rule("PR-04", "notification", methods=_PROGRESS)
def progress_after_the_end(message: Message, state: ConnectionState) -> Faults:
    call = message.call
    # Progress and response come from the same side, so their order is certain.
    if call is None or not _is_before(call.answer, message) or state.has_gaps:
        return
    if "task" not in members_of(call.request.raw_params):  # PR-06: a task continues
        yield f"progress of {call.method} {shown(call.id)} after its response"


@rule("PR-07", "notification", by="server", methods=_PROGRESS)
def progress_of_a_subscription(message: Message, state: ConnectionState) -> Faults:
    if META_SUBSCRIPTION_ID in message.meta or (message.call and message.call.is_listen):
        yield "progress of a subscription"


# Logging


@rule("LG-01", "notification", by="server", methods=_LOG)
def log_not_declared(message: Message, state: ConnectionState) -> Faults:
    declared = state.server_capabilities
    if declared is not None and state.is_certain and declared.get("logging") is None:
        yield "a log message, but the server did not declare logging"


@rule("LG-02", "notification", by="server", methods=_LOG, needs_values=True)
def shape_of_logs(message: Message, state: ConnectionState) -> Faults:
    params = members_of(message.raw_params)
    if params.get("level") not in _LEVELS:
        yield f"unknown log level {shown(params.get('level', UNSET))}"
    if "data" not in params:
        yield "a log message without data"


@rule("LG-05", "notification", by="server", methods=_LOG)
def log_not_requested(message: Message, state: ConnectionState) -> Faults:
    if not state.is_stateless or META_SUBSCRIPTION_ID in message.meta:
        return
    wanted = [call.request.meta.get(META_LOG_LEVEL) for call in state.loggers.values()]
    if not wanted:
        yield "a log message, but no open request asked for any"
        return
    level = members_of(message.raw_params).get("level")
    if level in _LEVELS and all(lowest in _LEVELS and _LEVELS.index(level) < _LEVELS.index(lowest) for lowest in wanted):
        yield f"a log message of level {level}, which no open request asked for"


@rule("LG-07", "notification", by="server", methods=_LOG)
def log_of_a_subscription(message: Message, state: ConnectionState) -> Faults:
    if META_SUBSCRIPTION_ID in message.meta:
        yield "a log message that belongs to a subscription"


# Round trips


def _asked(message: Message) -> Members:
    """Return a result that asks for input; empty for any other."""
    if message.call is None or not is_modern_request(message.call.request):
        return {}
    result = members_of(message.raw_result)
    return result if result.get("resultType") == "input_required" else {}


@rule("MR-01", "result", by="server")
def asks_where_it_may_not(message: Message, state: ConnectionState) -> Faults:
    if _asked(message) and message.topic not in MAY_ASK_BACK:
        yield f"{message.topic} is answered with input_required"


@rule("MR-02", "result", by="server")
def asks_nothing(message: Message, state: ConnectionState) -> Faults:
    result = _asked(message)
    if result and "inputRequests" not in result and "requestState" not in result:
        yield "input_required with neither inputRequests nor requestState"


@rule("MR-03", "result", by="server")
def shape_of_questions(message: Message, state: ConnectionState) -> Faults:
    result = _asked(message)
    yield from wrong_types(result, dict, "inputRequests", optional=True)
    for key, request in _members_in(result, "inputRequests").items():
        if not isinstance(request, dict) or request.get("method") not in INPUT_METHODS:
            yield f"the question {shown(key)} must have one of the methods {', '.join(INPUT_METHODS)}"
        elif "id" in request or "jsonrpc" in request:
            yield f"the question {shown(key)} has an envelope"


@rule("MR-04", "result", by="server", needs_values=True)
def asks_for_the_undeclared(message: Message, state: ConnectionState) -> Faults:
    declared = _members_in(message.call.request.meta, META_CAPABILITIES) if message.call is not None else {}
    for key, request in _members_in(_asked(message), "inputRequests").items():
        method = request.get("method") if isinstance(request, dict) else None
        if method in INPUT_METHODS and (capability := str(method).partition("/")[0]) not in declared:
            yield f"the question {shown(key)} needs {capability}, which the client did not declare"


def _members_in(members: Members, name: str) -> Members:
    found = members.get(name)
    return found if isinstance(found, dict) else {}


@rule("MR-05", "request", by="client", needs_values=True)
def retry_repeats(message: Message, state: ConnectionState) -> Faults:
    if not is_modern_request(message) or message.call is None or not message.call.is_retry:
        return
    first, again = members_of(message.call.first_round.request.raw_params), members_of(message.raw_params)
    for name in sorted((first.keys() | again.keys()) - {"_meta", "inputResponses", "requestState"}):
        if first.get(name, UNSET) != again.get(name, UNSET):
            yield f"the call is retried with different params: {name}"


@rule("MR-06", "request", by="client", methods=MAY_ASK_BACK, needs_values=True)
def shape_of_replies(message: Message, state: ConnectionState) -> Faults:
    if not is_modern_request(message):
        return
    params = members_of(message.raw_params)
    yield from wrong_types(params, dict, "inputResponses", optional=True)
    for key, reply in _members_in(params, "inputResponses").items():
        if not isinstance(reply, dict) or "jsonrpc" in reply or "resultType" in reply:
            yield f"the answer to {shown(key)} must be a bare result"


@rule("MR-08", "request", by="client")
def retry_has_its_own_id(message: Message, state: ConnectionState) -> Faults:
    call = message.call
    if call is None or not call.is_retry or not is_modern_request(message):
        return
    before = call.rounds[call.rounds.index(call) - 1]
    if id_key(before.id) == id_key(call.id):
        yield f"the call is retried with the same id {shown(message.id)}"


# Subscriptions


@rule("SU-01", "request", by="client", methods=(LISTEN,), needs_values=True)
def shape_of_a_listen(message: Message, state: ConnectionState) -> Faults:
    if not is_modern_request(message):
        return
    params = members_of(message.raw_params)
    yield from wrong_types(params, dict, "notifications")
    wanted = _members_in(params, "notifications")
    yield from wrong_types(wanted, bool, "toolsListChanged", "promptsListChanged", "resourcesListChanged", optional=True)
    uris = wanted.get("resourceSubscriptions", [])
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        yield f"resourceSubscriptions must be an array of URIs, not {shown(uris)}"


@rule("SU-02", "notification", by="server")
def acknowledged_first(message: Message, state: ConnectionState) -> Faults:
    call = message.call
    if call is None or not call.is_listen or message.method in (_ACKNOWLEDGED, *_CANCELLED, *_PROGRESS) or state.has_gaps:
        return
    if call.notifications and call.notifications[0] is message:
        yield f"{message.method} before the subscription {shown(call.id)} was acknowledged"


@rule("SU-04", "notification", by="server", methods=(_ACKNOWLEDGED, *_FILTERS))
def tags(message: Message, state: ConnectionState) -> Faults:
    if not state.is_stateless:
        return
    tag = message.meta.get(META_SUBSCRIPTION_ID, UNSET)
    if tag is UNSET:
        if message.method == _ACKNOWLEDGED or state.listens:
            yield f"{message.method} without {META_SUBSCRIPTION_ID}"
    elif message.call is None:
        yield f"{message.method} for the unknown subscription {shown(tag)}"


@rule("SU-05", "notification", by="server", methods=tuple(_FILTERS))
def announced_and_not_requested(message: Message, state: ConnectionState) -> Faults:
    call = message.call
    if call is None:
        if state.is_stateless and META_SUBSCRIPTION_ID not in message.meta and not state.listens:
            yield f"{message.method}, but there is no listen"
        return
    wanted = members_of(call.request.raw_params).get("notifications")
    if isinstance(wanted, dict) and not state.is_redacted and not wanted.get(_FILTERS[message.method or ""]):
        yield f"{message.method}, which the subscription {shown(call.id)} did not ask for"


@rule("SU-06", "notification", by="server", methods=(_ACKNOWLEDGED,), needs_values=True)
def acknowledges_more(message: Message, state: ConnectionState) -> Faults:
    if message.call is None:
        return
    asked: Any = members_of(message.call.request.raw_params).get("notifications")
    yield from wrong_types(members_of(message.raw_params), dict, "notifications")
    given = _members_in(members_of(message.raw_params), "notifications")
    for name in _FILTERS.values() if isinstance(asked, dict) else ():
        if given.get(name) and not asked.get(name):
            yield f"acknowledges {name}, which was not asked for"


@rule("SU-13", "result", by="server", methods=(LISTEN,))
def end_of_a_subscription(message: Message, state: ConnectionState) -> Faults:
    result = members_of(message.raw_result)
    if message.call is None or not is_modern_request(message.call.request) or "resultType" not in result:
        return
    if id_key(_members_in(result, "_meta").get(META_SUBSCRIPTION_ID)) != id_key(message.call.id):
        yield f"the result of a listen without its {META_SUBSCRIPTION_ID}"
