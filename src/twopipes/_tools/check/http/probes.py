"""HTTP in every revision: who may connect, responses to POST, and streams."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._tools.check.http.setups import (
    FORBIDDEN,
    NOT_ALLOWED,
    ask,
    http_of,
    is_refused,
    open_listen,
    sent,
    speaks_legacy,
    streamed_call,
)
from twopipes._tools.check.http.wire import JSON, STREAM, HttpExchange
from twopipes._tools.check.messages import decoded, members, same_id
from twopipes._tools.check.probe import Case, probe

_ACCEPTED = 202
_ERROR = 400
_TOKEN = "twopipes-stream"  # noqa: S105 - of progress
_ORIGIN = "https://twopipes-check.invalid"
_HOST = "twopipes-check.invalid"
# Before this revision the text does not name the status for an invalid Origin.
_FORBIDS_SINCE = "2025-11-25"
# Notifications that belong to no request.
_CHANGES = {
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/updated",
}


@probe("HT-02", needs="http", revisions="each", judged=False)
async def foreign_origins_are_rejected(case: Case) -> None:
    """Sends a request as a page of another site does."""
    found = [await ask(case, case.harmless, headers={"Origin": each}) for each in (_ORIGIN, "null")]
    if not case.is_modern:
        found.append(await sent(case, None, {"Origin": _ORIGIN}, method="GET"))
    for each in found:
        is_right = each.status == FORBIDDEN or (case.revision < _FORBIDS_SINCE and is_refused(each))
        case.expect("HT-02", is_right, f"a {each.method} with a foreign Origin got {each.summary} instead of 403", about=each)


@probe("HT-03", needs="http", revisions="newest", judged=False)
async def foreign_hosts_are_rejected(case: Case) -> None:
    """Sends a request as a browser does after DNS rebinding: to the loopback address, with the name of another host."""
    address = http_of(case).address
    if not address.is_loopback:
        case.give_up("the server is not at the loopback address")
    exchange = await ask(case, case.harmless, headers={"Host": f"{_HOST}:{address.port}"})
    case.expect("HT-03", is_refused(exchange), f"a request with the Host {_HOST} got {exchange.summary}", about=exchange)


@probe("HT-10", "HT-11", needs="http", judged=False)
async def notifications_get_202(case: Case) -> None:
    """Sends valid and malformed notifications, and in legacy revisions a response."""
    valid: list[Any] = [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "twopipes-none"}}]
    if not case.is_modern:
        valid.append({"jsonrpc": "2.0", "id": "twopipes-none", "result": {}})
    for message in valid:
        exchange = await sent(case, message)
        if exchange.status < _ERROR:
            is_right = exchange.status == _ACCEPTED and not exchange.body and not exchange.events
            what = "a notification" if "method" in message else "a response"
            case.expect("HT-10", is_right, f"{what} got {exchange.summary} instead of 202 without a body", about=exchange)
    for malformed in ({"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "method": 5}):
        exchange = await sent(case, malformed)
        case.expect("HT-11", exchange.status >= _ERROR, f"{malformed} got {exchange.summary}", about=exchange)


@probe("HT-12", needs="http")
async def requests_get_json_or_a_stream(case: Case) -> None:
    """Looks at the content type of the responses to a harmless request, a list and a call."""
    asked: list[tuple[str, Any]] = [(case.harmless, None), *((each, None) for each in case.list_methods)]
    asked += [("tools/call", call.params) for call in case.safe_calls[:1]]
    for method, params in asked:
        exchange = await ask(case, method, params)
        if exchange.status < _ERROR:
            is_right = exchange.content_type in {JSON, STREAM} and exchange.response is not None
            kind = exchange.content_type or "no content type"
            case.expect("HT-12", is_right, f"{method} got {exchange.summary} of {kind}", about=exchange)


@probe("HT-14", needs="http", judged=False)
async def bodies_that_are_not_messages_are_rejected(case: Case) -> None:
    """Sends bodies that are not JSON, or not a message, and a valid request afterwards."""
    for body in (b"{", b"twopipes", b"5", b'"text"', b""):
        exchange = await sent(case, body)
        why = f"the body {body.decode()!r} got {exchange.summary} instead of 400"
        case.expect("HT-14", is_refused(exchange), why, about=exchange)
    after = await ask(case, case.harmless)
    case.expect("HT-14", after.is_result, f"after malformed bodies, {case.harmless} got {after.summary}", about=after)


@probe("HT-15", "HT-16", "HT-17", "HT-19", needs=("http", "call"), judged=False)
async def streams_of_calls_end_with_the_response(case: Case) -> None:
    """Calls a tool that reports progress, and reads the whole stream."""
    exchange = await streamed_call(case, _TOKEN)
    last = exchange.messages[-1] if exchange.messages else {}
    can_resume = not exchange.response and exchange.last_event_id
    if not can_resume:
        why = "a stream ended without the response" if exchange.is_complete else "a stream did not end after the response"
        is_right = exchange.is_complete and exchange.response is not None and "method" not in last
        case.expect("HT-15", is_right, why, about=exchange)
    _judge_relation(case, exchange, _TOKEN)
    _judge_stream(case, exchange)


def _judge_stream(case: Case, exchange: HttpExchange) -> None:
    buffering = exchange.header("X-Accel-Buffering")
    case.expect("HT-17", buffering.lower() == "no", f"X-Accel-Buffering of a stream is {buffering or 'missing'}", about=exchange)
    wrong = [event for event in exchange.events if event.data.strip() and not isinstance(decoded(event.data), dict | list)]
    case.expect("HT-19", not wrong, "an event of a stream is not a message", about=exchange)


def _judge_relation(case: Case, exchange: HttpExchange, token: Any) -> None:
    foreign = [
        message
        for message in exchange.messages
        if _is_foreign_progress(message, token) or (case.is_modern and message.get("method") in _CHANGES)
    ]
    what = f"{foreign[0].get('method')} on the stream of a call does not relate to it" if foreign else ""
    case.expect("HT-16", not foreign, what, about=exchange)


def _is_foreign_progress(message: dict[str, Any], token: Any) -> bool:
    found = members(message.get("params")).get("progressToken")
    return message.get("method") == "notifications/progress" and not same_id(found, token)


@probe("HT-17", "HT-19", needs="http", revisions=MODERN, judged=False)
async def listens_are_streams_without_buffering(case: Case) -> None:
    """Opens a listen, and looks at the headers of its stream."""
    exchange = await open_listen(case, {"toolsListChanged": True})
    try:
        if not exchange.is_stream:
            case.give_up(f"a listen got {exchange.summary}, not a stream")
        _judge_stream(case, exchange)
    finally:
        exchange.close()


@probe("HT-47", needs="http", revisions=MODERN, judged=False)
async def only_post_without_legacy_revisions(case: Case) -> None:
    """Sends GET and DELETE to a server without legacy revisions."""
    if await speaks_legacy(case):
        case.give_up(f"only for servers without legacy revisions; the server speaks {LEGACY[-1]}")
    for method in ("GET", "DELETE"):
        exchange = await sent(case, None, method=method)
        why = f"{method} got {exchange.summary} instead of 405"
        case.expect("HT-47", exchange.status == NOT_ALLOWED, why, about=exchange)


@probe("HT-48", "HT-49", needs="http", revisions=MODERN, judged=False)
async def legacy_headers_are_ignored(case: Case) -> None:
    """Sends modern requests with the headers of a legacy session."""
    exchange = await ask(case, case.harmless, headers={"Mcp-Session-Id": "twopipes-none"})
    minted = exchange.header("Mcp-Session-Id")
    what = f" and the Mcp-Session-Id {minted!r}" if minted else ""
    why = f"a modern request with an Mcp-Session-Id got {exchange.summary}{what}"
    case.expect("HT-48", exchange.is_result and not minted, why, about=exchange)
    plain = await ask(case, case.harmless)
    case.expect("HT-48", not plain.header("Mcp-Session-Id"), "a modern request got an Mcp-Session-Id", about=plain)
    exchange = await ask(case, case.harmless, headers={"Last-Event-ID": "twopipes-none"})
    why = f"a modern request with a Last-Event-ID got {exchange.summary}"
    case.expect("HT-49", exchange.is_result, why, about=exchange)
