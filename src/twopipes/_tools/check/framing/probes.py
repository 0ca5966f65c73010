"""Framing and streams of servers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from twopipes._tools.check.conversation import ALL_CAPABILITIES
from twopipes._tools.check.messages import NoResponse, ReceivedLine, same_id
from twopipes._tools.check.probe import Case, probe
from twopipes._wire import encode_line

# Every server must return an id unchanged, so ids show how it reads and writes strings, without any tool.
_BREAKS = "a\nb\r\nc\u2028d\u0085e"
_NOT_ASCII = "\u00e9 \u4e2d\u6587 \U0001f600 \u2028"
_PIECE = 7  # bytes
_LARGE = 256 * 1024  # four times the capacity of a pipe
_VERY_LARGE = 64 * 1024 * 1024  # with the newline; two screenshots of a large screen
_MANY = 40
# Requests whose responses are not read for a while, and the length of their ids: a mebibyte, which is more than a pipe holds.
_UNREAD = 64
_LONG_ID = 16 * 1024
_CALLS = 8


@probe("FR-02")
async def newlines_are_escaped(case: Case) -> None:
    """Sends an id with all kinds of line breaks."""
    conversation = case.conversation
    answered = await _answered(case, [conversation.start(case.harmless, request_id=_BREAKS)])
    case.expect("FR-02", answered, "a request whose id contains escaped newlines got no response with that id on one line")


@probe("FR-03")
async def characters_are_utf_8(case: Case) -> None:
    """Sends an id with characters beyond ASCII, as UTF-8 and in escapes."""
    conversation = case.conversation
    answered = await _answered(case, [conversation.start(case.harmless, request_id=_NOT_ASCII)])
    case.expect("FR-03", answered, "a request whose id is not ASCII got no response with that id in UTF-8")
    escaped = "escaped " + _NOT_ASCII
    conversation.send(_as_ascii(encode_line(conversation.message(case.harmless, request_id=escaped))))
    response = await conversation.awaited(escaped)
    case.expect("FR-03", response, "a request whose id has \\u escapes, with surrogate pairs, got no response with that id")


@probe("FR-04")
async def broken_lines_cause_no_other_output(case: Case) -> None:
    """Sends broken lines, and looks for output that is not a message."""
    conversation, since = case.conversation, case.conversation.position
    for broken in (b"{oops\n", b'"text"\n', b"\xff\xfe\n", b'{"jsonrpc":"2.0","method":"notifications/nothing-known"}\n'):
        conversation.send(broken)
    await conversation.quiet()
    noise = [line for line in conversation.received_lines[since:] if not line.parts]
    case.forbid("FR-04", noise, "stdout has a line that is not a message")


@probe("FR-09", needs="call", client_capabilities=ALL_CAPABILITIES)
async def modern_servers_send_no_requests(case: Case) -> None:
    """Calls tools as a client that can answer all questions."""
    conversation, since = case.conversation, case.conversation.position
    for call in case.safe_calls[:_CALLS]:
        await conversation.request("tools/call", call.params)
    await conversation.quiet()
    lines = conversation.received_lines[since:]
    asked = [line for line in lines if any("method" in each and "id" in each for each in line.parts)]
    case.forbid("FR-09", asked, "the server wrote a request to stdout")


@probe("FR-11", "FR-12", needs="socket")
async def sockets_use_the_same_framing(case: Case) -> None:
    """Sends two requests over a socket, joined and split elsewhere."""
    conversation = case.conversation
    requests = [conversation.message(case.harmless) for _ in range(2)]
    joined = b"".join(map(encode_line, requests))
    conversation.send(joined[:_PIECE])
    await conversation.channel.flush()
    conversation.send(joined[_PIECE:])
    answered = await _answered(case, [each["id"] for each in requests])
    for rule in ("FR-11", "FR-12"):
        case.expect(rule, answered, "two requests that were joined and split on a socket did not both get a response")


@probe("FR-13", needs="stream")
async def cut_and_joined_messages_are_read(case: Case) -> None:
    """Sends a request in small pieces, a long one, and many in one piece."""
    conversation = case.conversation
    split = conversation.message(case.harmless)
    line = encode_line(split)
    for start in range(0, len(line), _PIECE):
        conversation.send(line[start : start + _PIECE])
        await asyncio.sleep(0)
    case.expect("FR-13", await _answered(case, [split["id"]]), "a request that was written in small pieces got no response")
    long = conversation.start(case.harmless, {"padding": "x" * _LARGE})
    case.expect("FR-13", await _answered(case, [long]), f"a request of {_LARGE // 1024} KiB got no response")
    many = [conversation.message(case.harmless) for _ in range(_MANY)]
    conversation.send(b"".join(map(encode_line, many)))
    answered = await _answered(case, [each["id"] for each in many])
    case.expect("FR-13", answered, f"{_MANY} requests in one write did not all get a response, each on its own line")


@probe("FR-13", needs="stream", revisions="newest", fresh_conversation=True)
async def very_long_lines_are_answered(case: Case) -> None:
    """Sends a request of 64 MiB, which may be rejected, and a small one after it."""
    conversation = case.conversation
    before, size = conversation.position, f"{_VERY_LARGE // 1024 // 1024} MiB"
    long = conversation.message(case.harmless, {"padding": ""})
    conversation.send(encode_line({**long, "params": {**long["params"], "padding": "x" * (_VERY_LARGE - len(encode_line(long)))}}))
    small = conversation.start(case.harmless)
    if not await conversation.awaited(small, case.timeouts.long):
        how = "the server exited" if conversation.is_over else f"there was no response within {case.timeouts.long:g} s"
        case.expect("FR-13", False, f"after a line of {size}, {how}")
        return

    def is_answer(line: ReceivedLine) -> bool:
        return line.has_error_without_id or any(same_id(part.get("id"), long["id"]) for part in line.parts)

    answered = await conversation.wait_for(is_answer, since=before, within=case.timeouts.long)
    case.expect("FR-13", answered, f"a request of {size} got neither a response nor an error, and the next one got a response")


@probe("FR-13", needs="stream")
async def unread_responses_are_not_lost(case: Case) -> None:
    """Sends requests without reading, until the responses are far more than a pipe holds, and then reads."""
    conversation = case.conversation
    conversation.stop_listening()
    ids = [conversation.start(case.harmless, request_id=f"{number}-{'x' * _LONG_ID}") for number in range(_UNREAD)]
    # A server that waits for its output to be read stops reading: then this takes the whole grace period.
    with suppress(TimeoutError):
        async with asyncio.timeout(case.timeouts.grace):
            await conversation.channel.flush()
    conversation.listen_again()
    why = f"{_UNREAD} requests whose responses were not read for a while did not all get a response, each on its own line"
    case.expect("FR-13", await _answered(case, ids), why)


@probe("FR-15", needs="stream")
async def carriage_returns_and_blank_lines_are_tolerated(case: Case) -> None:
    """Sends requests that end with CRLF, and blank lines between them."""
    conversation, before = case.conversation, case.conversation.position
    requests = [conversation.message(case.harmless) for _ in range(2)]
    conversation.send(b"\r\n\n" + b"\n \n".join(encode_line(each).replace(b"\n", b"\r\n") for each in requests))
    answered = await _answered(case, [each["id"] for each in requests])
    case.expect("FR-15", answered, "requests that end with CRLF, with blank lines between them, got no response")
    lines = [*await conversation.quiet(), *conversation.received_lines[before:]]
    complaints = [line for line in lines if any("error" in part for part in line.parts)]
    case.forbid("FR-15", complaints, "a blank line or a carriage return got an error")
    sent = [line for line in lines if line.raw.endswith(b"\r") or not line.raw.strip()]
    case.forbid("FR-15", sent, "the server writes carriage returns or blank lines")


@probe("FR-15", runs_last=True, needs="process")
async def a_last_line_needs_no_newline(case: Case) -> None:
    """Ends the input after a request, without a newline."""
    conversation = case.conversation
    built = conversation.message(case.harmless)
    conversation.send(encode_line(built)[:-1])
    await conversation.end_input()
    answered = await conversation.awaited(built["id"])
    case.expect("FR-15", answered, "a request at the end of the input, without a newline, got no response")


async def _answered(case: Case, ids: list[Any]) -> bool:
    try:
        for each in ids:
            await case.conversation.response_to(each)
    except NoResponse:
        return False
    return True


def _as_ascii(line: bytes) -> bytes:
    """Return the same JSON with escapes for all characters beyond ASCII."""
    return "".join(
        each if each.isascii() else "".join(f"\\u{unit}" for unit in each.encode("utf-16-be").hex(" ", 2).split())
        for each in line.decode()
    ).encode()
