"""Framing and streams, from the side of a client."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from twopipes._tools.check.conversation import ALL_CAPABILITIES, NoResponse
from twopipes._tools.check.probe import Case, probe
from twopipes._wire import encode_line

# What breaks a line for those who cut at anything but a newline, and what is no ASCII. Every server has to give an id back as it
# is, so that no tool is needed to hear it again.
_BREAKS = "a\nb\r\nc\u2028d\u0085e"
_FAR = "\u00e9 \u4e2d\u6587 \U0001f600 \u2028"
_PARTS = 7  # bytes at a time; no divisor of anything
_LARGE = 256 * 1024  # four times what a pipe holds
_VERY_LARGE = 64 * 1024 * 1024  # with the newline; two screenshots of a large screen
_CROWD = 40
# Requests whose responses are not read for a while, and the length of their ids: a mebibyte, which is more than a pipe holds.
_UNREAD = 64
_LONG_ID = 16 * 1024
_CALLS = 8


@probe("FR-02")
async def newlines_come_back_as_escapes(case: Case) -> None:
    """An id with every kind of line break in it comes back on one line."""
    response = await _echoed(case, _BREAKS)
    case.expect(
        "FR-02",
        response,
        "a request whose id holds newlines (escaped, as JSON wants it) got no answer with that id on one line",
        fix="Write each message with a JSON encoder that escapes control characters, and add one newline.",
    )


@probe("FR-03")
async def characters_come_back_as_utf8(case: Case) -> None:
    """An id of characters far from ASCII, once as UTF-8 and once in escapes, comes back the same."""
    case.expect(
        "FR-03",
        await _echoed(case, _FAR),
        "a request whose id is not ASCII got no answer with that id, or not in UTF-8",
        fix="Open stdin and stdout as UTF-8, whatever the locale says.",
    )
    escaped = "escaped " + _FAR
    built = case.conversation.message(case.harmless, request_id=escaped)
    case.conversation.send(_as_ascii(encode_line(built)))
    came = await case.conversation.until(lambda: case.conversation.responses_to(escaped) or None, case.timeouts.response)
    case.expect(
        "FR-03", came, "a request whose id was written in \\u escapes, with a pair of surrogates, got no answer with that id"
    )


@probe("FR-04")
async def bad_input_puts_nothing_else_on_stdout(case: Case) -> None:
    """Whatever the server has to say about broken lines, it says in messages."""
    conversation, since = case.conversation, case.conversation.position
    for broken in (b"{oops\n", b'"text"\n', b"\xff\xfe\n", b'{"jsonrpc":"2.0","method":"notifications/nothing-known"}\n'):
        conversation.send(broken)
    await conversation.quiet()
    noise = [line for line in conversation.received_lines[since:] if not line.parts]
    case.expect(
        "FR-04",
        not noise,
        "there is something on its stdout that is no message",
        fix="Print to stderr; give libraries that print no access to file descriptor 1.",
        about=noise[0] if noise else None,
    )


@probe("FR-09", needs="call", client_capabilities=ALL_CAPABILITIES)
async def tools_ask_in_results_alone(case: Case) -> None:
    """Tools are called by a client that can answer everything, and still nothing asks by a request."""
    conversation, since = case.conversation, case.conversation.position
    for call in case.features.safe_calls(case.permissions)[:_CALLS]:
        await conversation.request("tools/call", call.params)
    await conversation.quiet()
    asked = next(
        (line for line in conversation.received_lines[since:] if any("method" in each and "id" in each for each in line.parts)),
        None,
    )
    case.expect(
        "FR-09",
        asked is None,
        "the server wrote a request to its stdout",
        fix="Answer the call with a result of type input_required, with the question in inputRequests.",
        about=asked,
    )


@probe("FR-11", "FR-12", needs="socket")
async def a_socket_carries_the_same_lines(case: Case) -> None:
    """Over a socket, messages that are cut and joined on the way are served as over stdio."""
    conversation = case.conversation
    one, two = (conversation.message(case.harmless) for _ in range(2))
    joined = encode_line(one) + encode_line(two)
    conversation.send(joined[:_PARTS])
    await conversation.channel.flush()
    conversation.send(joined[_PARTS:])
    kept = await _answered(case, [one["id"], two["id"]])
    for rule in ("FR-11", "FR-12"):
        case.expect(
            rule,
            kept,
            "of two requests that were joined and cut on their way through a socket, not both were answered",
            fix="Read a socket as you read stdin: lines, however they are cut.",
        )


@probe("FR-13")
async def cut_and_joined_messages_are_read(case: Case) -> None:
    """A request in pieces, a long one, and many in one piece: each gets its answer."""
    conversation = case.conversation
    fix = "Collect bytes until a newline comes; never take one read for one message."
    cut = conversation.message(case.harmless)
    line = encode_line(cut)
    for start in range(0, len(line), _PARTS):
        conversation.send(line[start : start + _PARTS])
        await asyncio.sleep(0)
    case.expect("FR-13", await _answered(case, [cut["id"]]), "a request that was written in small pieces got no answer", fix=fix)
    long = conversation.start(case.harmless, {"padding": "x" * _LARGE})
    case.expect("FR-13", await _answered(case, [long]), f"a request of {_LARGE // 1024} KiB got no answer", fix=fix)
    crowd = [conversation.message(case.harmless) for _ in range(_CROWD)]
    conversation.send(b"".join(map(encode_line, crowd)))
    came = await _answered(case, [each["id"] for each in crowd])
    case.expect("FR-13", came, f"of {_CROWD} requests in one write, not all were answered, each on a line of its own", fix=fix)


@probe("FR-13", revisions="newest", fresh_conversation=True)
async def a_very_long_line_is_answered_or_refused(case: Case) -> None:
    """A request of 64 MiB and a small one behind it: the first is served, or refused with an error, and the second is served."""
    conversation = case.conversation
    before, size = conversation.position, f"{_VERY_LARGE // 1024 // 1024} MiB"
    fix = "Read lines of any length in linear time. Where there is a limit, drop the line, answer with an error, and read the next."
    long = conversation.message(case.harmless, {"padding": ""})
    conversation.send(encode_line({**long, "params": {**long["params"], "padding": "x" * (_VERY_LARGE - len(encode_line(long)))}}))
    small = conversation.start(case.harmless)
    came = await conversation.until(lambda: conversation.responses_to(small) or None, case.timeouts.long)
    if not came:
        how = "the server was gone" if conversation.is_over else f"nothing was answered within {case.timeouts.long:g} s"
        case.expect("FR-13", False, f"after a line of {size}, {how}", fix=fix)
        return
    told = await conversation.until(
        lambda: conversation.responses_to(long["id"]) or _complaints(case, before) or None, case.timeouts.long
    )
    case.expect("FR-13", told, f"a request of {size} was lost without a word, and the next one was answered", fix=fix)


@probe("FR-13")
async def what_nobody_reads_is_not_lost(case: Case) -> None:
    """Nobody reads while far more is answered than a pipe holds. When somebody does, every answer is there, each on its line."""
    conversation = case.conversation
    conversation.stop_listening()
    asked = [conversation.start(case.harmless, request_id=f"{number}-{'x' * _LONG_ID}") for number in range(_UNREAD)]
    # A server that waits until somebody reads does not read either: then this takes the whole grace, and no less would show it.
    with suppress(TimeoutError):
        async with asyncio.timeout(case.timeouts.grace):
            await conversation.channel.flush()
    conversation.listen_again()
    case.expect(
        "FR-13",
        await _answered(case, asked),
        f"of {_UNREAD} requests whose responses were not read for a while, not all were answered, each on a line of its own",
        fix="When a pipe is full, wait until it takes more; write what is left of a line before the next, and drop nothing.",
    )


@probe("FR-15")
async def carriage_returns_and_blank_lines_are_tolerated(case: Case) -> None:
    """Requests that end in CRLF, with blank lines between them, are served without complaint; none of that comes back."""
    conversation = case.conversation
    before = conversation.position
    requests = [conversation.message(case.harmless) for _ in range(2)]
    conversation.send(b"\r\n\n" + b"\n \n".join(encode_line(each).replace(b"\n", b"\r\n") for each in requests))
    came = await _answered(case, [each["id"] for each in requests])
    case.expect(
        "FR-15", came, "requests that end in a carriage return and a newline, with blank lines between them, were not served"
    )
    message = [*await conversation.quiet(), *conversation.received_lines[before:]]
    complaint = next((line for line in message if any("error" in part for part in line.parts)), None)
    case.expect("FR-15", complaint is None, "a blank line or a carriage return was answered with an error", about=complaint)
    emitted = next((line for line in message if line.raw.endswith(b"\r") or not line.raw.strip()), None)
    case.expect("FR-15", emitted is None, "the server itself writes carriage returns or blank lines", about=emitted)


@probe("FR-15", runs_last=True, needs="process")
async def a_last_line_needs_no_newline(case: Case) -> None:
    """The input ends right behind a request, without a newline: it is served as any other."""
    conversation = case.conversation
    built = conversation.message(case.harmless)
    conversation.send(encode_line(built)[:-1])
    await conversation.end_input()
    came = await conversation.until(lambda: conversation.responses_to(built["id"]) or None, case.timeouts.response)
    case.expect(
        "FR-15",
        came,
        "a request at the end of the input, without a newline behind it, got no answer",
        fix="When the input ends, take what is left of it for a last line.",
    )


def _complaints(case: Case, since: int) -> list[dict[str, Any]]:
    """Errors that name no request, as there are for a line that could not be read."""
    return [
        part
        for line in case.conversation.received_lines[since:]
        for part in line.parts
        if "error" in part and part.get("id") is None
    ]


async def _echoed(case: Case, request_id: str) -> bool:
    try:
        await case.conversation.request(case.harmless, request_id=request_id)
    except NoResponse:
        return False
    return True


async def _answered(case: Case, ids: list[Any]) -> bool:
    for each in ids:
        try:
            await case.conversation.response_to(each)
        except NoResponse:
            return False
    return True


def _as_ascii(line: bytes) -> bytes:
    """The same JSON with everything that is not ASCII in escapes, pairs of surrogates where it takes two."""
    return "".join(
        each if each.isascii() else "".join(f"\\u{unit}" for unit in each.encode("utf-16-be").hex(" ", 2).split())
        for each in line.decode()
    ).encode()
