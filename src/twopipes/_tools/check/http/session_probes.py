"""HTTP in legacy revisions: sessions, the stream of GET, and resumption."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from twopipes._protocol.revisions import LEGACY
from twopipes._tools.check.http.channel import HttpChannel
from twopipes._tools.check.http.setups import (
    BAD_REQUEST,
    NOT_ALLOWED,
    NOT_FOUND,
    ask,
    encoded,
    http_of,
    is_refused,
    open_get,
    opened,
    read_event,
    read_for,
    sent,
    streamed_call,
    streaming_calls,
)
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.verdict import Quote, Skip

_SESSIONS = 3
# Characters. 96 random bits in base64; shorter ids can be guessed, or are counted.
_SHORTEST = 16
_MADE_UP = "twopipes-made-up-session-id"
_ERROR = 400
_SUCCESS = range(200, 300)


def _session_id(channel: Any) -> str:
    session_id = channel.session_id if isinstance(channel, HttpChannel) else ""
    if not session_id:
        raise Skip("the server uses no sessions")
    return session_id


@probe("HT-36", "HT-37", needs="http", opens_own=True)
async def session_ids_are_random(case: Case) -> None:
    """Opens some sessions, and compares their ids."""
    found = [_session_id((await case.open_conversation()).channel) for _ in range(_SESSIONS)]
    case.expect("HT-36", len(set(found)) == len(found), f"two sessions have the same id {found[0]!r}")
    shortest = min(found, key=len)
    case.expect("HT-36", len(shortest) >= _SHORTEST, f"the session id {shortest!r} is too short to be random")
    wrong = [each for each in found if not all("\x21" <= character <= "\x7e" for character in each)]
    case.expect("HT-37", not wrong, f"the session id {wrong[:1]} has other characters than visible ASCII")


@probe("HT-40", "HT-41", needs="http", judged=False)
async def sessions_are_required(case: Case) -> None:
    """Sends requests without a session id, and with one that was made up."""
    _session_id(case.conversation.channel)
    exchange = await ask(case, case.harmless, headers={"Mcp-Session-Id": None})
    why = f"a request without a session id got {exchange.summary} instead of 400"
    case.expect("HT-40", exchange.status == BAD_REQUEST, why, about=exchange)
    exchange = await ask(case, case.harmless, headers={"Mcp-Session-Id": _MADE_UP})
    case.expect("HT-41", is_refused(exchange), f"a made-up session id got {exchange.summary} instead of 404", about=exchange)


@probe("HT-41", "HT-44", needs="http", fresh_conversation=True, judged=False)
async def ended_sessions_are_not_found(case: Case) -> None:
    """Ends a session with DELETE, and sends a request with its id."""
    _session_id(case.conversation.channel)
    ended = await sent(case, None, method="DELETE")
    is_right = ended.status in _SUCCESS or ended.status == NOT_ALLOWED
    case.expect("HT-44", is_right, f"DELETE got {ended.summary} instead of a 2xx status or 405", about=ended)
    if ended.status not in _SUCCESS:
        case.give_up(f"the server does not end sessions by DELETE ({ended.status})")
    for message, method in ((case.conversation.message(case.harmless), "POST"), (None, "GET")):
        exchange = await sent(case, message, method=method)
        why = f"after DELETE, {method} with the id of the session got {exchange.summary} instead of 404"
        case.expect("HT-41", exchange.status == NOT_FOUND, why, about=exchange)


@probe("HT-25", needs="http", fresh_conversation=True, judged=False)
async def get_is_a_stream_or_405(case: Case) -> None:
    """Sends GET."""
    exchange = await open_get(case)
    exchange.close()
    # A second stream of a session may be refused; the first one is that of the conversation.
    is_right = (exchange.is_stream and exchange.status in _SUCCESS) or exchange.status in {NOT_ALLOWED, 409}
    why = f"GET got {exchange.status} of {exchange.content_type or 'no content type'} instead of a stream or 405"
    case.expect("HT-25", is_right, why, about=exchange)


@probe("HT-26", "HT-27", "HT-28", needs=("http", "call"), fresh_conversation=True, judged=False)
async def messages_have_one_stream(case: Case) -> None:
    """Calls tools while several streams of GET are open, and compares what arrives on each stream."""
    await http_of(case).flush()  # the stream of the conversation itself is the first one
    first = http_of(case).get_stream
    if first is None:
        case.give_up("the server has no stream of GET")
    others = [await open_get(case) for _ in range(2)]
    gets = [first, *(each for each in others if each.is_stream)]
    reading = [asyncio.create_task(each.read_all()) for each in others]
    try:
        posts = [await ask(case, "tools/call", params, meta={"progressToken": str(params)}) for params in _calls(case)]
        await case.conversation.quiet()
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        for each in others:
            each.close()
    for each in gets:
        responses = [message for message in each.messages if "method" not in message]
        case.expect("HT-26", not responses, "a response was sent on the stream of GET", about=each)
        progress = [message for message in each.messages if message.get("method") == "notifications/progress"]
        case.expect("HT-27", not progress, "the progress of a call was sent on the stream of GET", about=each)
    _judge_copies(case, [each.payloads for each in (*gets, *posts) if each.is_stream])


def _calls(case: Case) -> list[dict[str, Any]]:
    """Return calls that may send progress, and one of test servers that changes a list."""
    return streaming_calls(case)[:2] + [call.params for call in case.safe_calls if call.name == "mutate"]


def _judge_copies(case: Case, streams: list[list[bytes]]) -> None:
    sent_once = [each for stream in streams for each in stream if b"notifications/" in each]
    if not sent_once:
        case.skip("HT-28", "no tool that may be called made the server send a notification")
        return
    copied = next((each for each in sent_once if sum(each in stream for stream in streams) > 1), None)
    quote = Quote(received=() if copied is None else (copied,))
    case.expect("HT-28", copied is None, "the same notification was sent on two streams", about=quote)


@probe("HT-29", "HT-31", "HT-32", needs=("http", "call"), judged=False)
async def event_ids_identify_one_event(case: Case) -> None:
    """Calls a tool twice, compares the ids of the events, and resumes the first stream after its first event."""
    one, other = [await streamed_call(case, token) for token in ("twopipes-one", "twopipes-other")]
    ids = [event.id for exchange in (one, other) for event in exchange.events if event.id]
    if not ids:
        case.give_up("the events of the server have no ids")
    case.expect("HT-29", len(set(ids)) == len(ids), "two events of a session have the same id", about=other)
    first = one.events[0]
    why = "the first event of a stream has data, or no id"
    case.expect("HT-32", first.id and not first.data.strip(), why, about=one)
    resumed = await open_get(case, {"Last-Event-ID": first.id or ids[0]})
    try:
        if not resumed.is_stream:
            case.skip("HT-31", f"the server did not resume a stream that has ended ({resumed.status})")
            return
        await read_for(resumed, case.timeouts.lull)
        foreign = [each for each in resumed.payloads if each not in one.payloads]
        case.expect("HT-31", not foreign, "a resumed stream contains a message of another stream", about=resumed)
    finally:
        resumed.close()


@probe("HT-22", needs=("http", "call"), judged=False)
async def lost_connections_do_not_cancel(case: Case) -> None:
    """Closes the connection of a call after its first event, and resumes the stream."""
    http = http_of(case)
    for params in streaming_calls(case):
        message = case.conversation.message("tools/call", params, meta={"progressToken": "twopipes-lost"})
        exchange = await opened(case, http.exchange("POST", http.headers_for(message), encoded(message)))
        if exchange.is_stream and await read_event(case, exchange) and exchange.last_event_id and not exchange.response:
            exchange.close()
            resumed = await open_get(case, {"Last-Event-ID": exchange.last_event_id})
            with suppress(TimeoutError):
                async with asyncio.timeout(case.timeouts.response):
                    while resumed.response is None and await resumed.read_more() is not None:
                        pass
            resumed.close()
            if not resumed.is_stream:
                case.give_up(f"the server does not resume streams ({resumed.status})")
            why = "the connection of a call was lost, and the resumed stream has no response"
            case.expect("HT-22", resumed.response is not None, why, about=resumed)
            return
        exchange.close()
    case.give_up("no stream of the server can be resumed")


@probe("HT-52", "HT-53", needs="http", revisions=LEGACY, judged=False)
async def legacy_versions_are_checked(case: Case) -> None:
    """Sends requests of a session with a version that does not exist, and without a version."""
    exchange = await ask(case, case.harmless, headers={"MCP-Protocol-Version": "1999-12-31"})
    why = f"a request with the version 1999-12-31 got {exchange.summary} instead of 400"
    case.expect("HT-52", exchange.status == BAD_REQUEST, why, about=exchange)
    exchange = await ask(case, case.harmless, headers={"MCP-Protocol-Version": None})
    why = f"a request of a session without MCP-Protocol-Version got {exchange.summary}"
    case.expect("HT-53", exchange.is_result, why, about=exchange)
