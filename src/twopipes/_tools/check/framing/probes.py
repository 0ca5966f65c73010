"""Framing and streams, from the side of a client."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from twopipes._tools.check.conversation import ABLE, Unanswered
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
# Requests whose answers nobody reads for a while, and the length of their ids: a mebibyte, which is more than a pipe holds.
_UNREAD = 64
_LONG_ID = 16 * 1024
_CALLS = 8


@probe("FR-02")
async def newlines_come_back_as_escapes(case: Case) -> None:
    """An id with every kind of line break in it comes back on one line."""
    answer = await _echoed(case, _BREAKS)
    case.expect(
        "FR-02",
        answer,
        "a request whose id holds newlines (escaped, as JSON wants it) got no answer with that id on one line",
        mend="Write each message with a JSON encoder that escapes control characters, and add one newline.",
    )


@probe("FR-03")
async def characters_come_back_as_utf8(case: Case) -> None:
    """An id of characters far from ASCII, once as UTF-8 and once in escapes, comes back the same."""
    case.expect(
        "FR-03",
        await _echoed(case, _FAR),
        "a request whose id is not ASCII got no answer with that id, or not in UTF-8",
        mend="Open stdin and stdout as UTF-8, whatever the locale says.",
    )
    escaped = "escaped " + _FAR
    built = case.talk.message(case.harmless, request_id=escaped)
    case.talk.send(_as_ascii(encode_line(built)))
    came = await case.talk.until(lambda: case.talk.answers_to(escaped) or None, case.waits.answer)
    case.expect(
        "FR-03", came, "a request whose id was written in \\u escapes, with a pair of surrogates, got no answer with that id"
    )


@probe("FR-04")
async def bad_input_puts_nothing_else_on_stdout(case: Case) -> None:
    """Whatever the server has to say about broken lines, it says in messages."""
    talk, since = case.talk, case.talk.position
    for line in (b"{oops\n", b'"text"\n', b"\xff\xfe\n", b'{"jsonrpc":"2.0","method":"notifications/nothing-known"}\n'):
        talk.send(line)
    await talk.quiet()
    noise = [heard for heard in talk.heard_lines[since:] if not heard.parts]
    case.expect(
        "FR-04",
        not noise,
        "there is something on its stdout that is no message",
        mend="Print to stderr; give libraries that print no access to file descriptor 1.",
        about=noise[0] if noise else None,
    )


@probe("FR-09", needs="call", can=ABLE)
async def tools_ask_in_results_alone(case: Case) -> None:
    """Tools are called by a client that can answer everything, and still nothing asks by a request."""
    talk, since = case.talk, case.talk.position
    for call in case.features.safe_calls(case.permissions)[:_CALLS]:
        await talk.request("tools/call", call.params)
    await talk.quiet()
    asked = next(
        (heard for heard in talk.heard_lines[since:] if any("method" in each and "id" in each for each in heard.parts)), None
    )
    case.expect(
        "FR-09",
        asked is None,
        "the server wrote a request to its stdout",
        mend="Answer the call with a result of type input_required, with the question in inputRequests.",
        about=asked,
    )


@probe("FR-11", "FR-12", needs="socket")
async def a_socket_carries_the_same_lines(case: Case) -> None:
    """Over a socket, messages that are cut and joined on the way are served as over stdio."""
    talk = case.talk
    one, two = (talk.message(case.harmless) for _ in range(2))
    joined = encode_line(one) + encode_line(two)
    talk.send(joined[:_PARTS])
    await talk.channel.flush()
    talk.send(joined[_PARTS:])
    kept = await _answered(case, [one["id"], two["id"]])
    for rule in ("FR-11", "FR-12"):
        case.expect(
            rule,
            kept,
            "of two requests that were joined and cut on their way through a socket, not both were answered",
            mend="Read a socket as you read stdin: lines, however they are cut.",
        )


@probe("FR-13")
async def cut_and_joined_messages_are_read(case: Case) -> None:
    """A request in pieces, a long one, and many in one piece: each gets its answer."""
    talk = case.talk
    mend = "Collect bytes until a newline comes; never take one read for one message."
    cut = talk.message(case.harmless)
    line = encode_line(cut)
    for start in range(0, len(line), _PARTS):
        talk.send(line[start : start + _PARTS])
        await asyncio.sleep(0)
    case.expect("FR-13", await _answered(case, [cut["id"]]), "a request that was written in small pieces got no answer", mend=mend)
    long = talk.start(case.harmless, {"padding": "x" * _LARGE})
    case.expect("FR-13", await _answered(case, [long]), f"a request of {_LARGE // 1024} KiB got no answer", mend=mend)
    crowd = [talk.message(case.harmless) for _ in range(_CROWD)]
    talk.send(b"".join(map(encode_line, crowd)))
    came = await _answered(case, [each["id"] for each in crowd])
    case.expect("FR-13", came, f"of {_CROWD} requests in one write, not all were answered, each on a line of its own", mend=mend)


@probe("FR-13", revisions="newest", fresh=True)
async def a_very_long_line_is_answered_or_refused(case: Case) -> None:
    """A request of 64 MiB and a small one behind it: the first is served, or refused with an error, and the second is served."""
    talk = case.talk
    before, size = talk.position, f"{_VERY_LARGE // 1024 // 1024} MiB"
    mend = (
        "Read lines of any length in linear time. Where there is a limit, drop the line, answer with an error, and read the next."
    )
    long = talk.message(case.harmless, {"padding": ""})
    talk.send(encode_line({**long, "params": {**long["params"], "padding": "x" * (_VERY_LARGE - len(encode_line(long)))}}))
    small = talk.start(case.harmless)
    came = await talk.until(lambda: talk.answers_to(small) or None, case.waits.long)
    if not came:
        how = "the server was gone" if talk.is_over else f"nothing was answered within {case.waits.long:g} s"
        case.expect("FR-13", False, f"after a line of {size}, {how}", mend=mend)
        return
    told = await talk.until(lambda: talk.answers_to(long["id"]) or _complaints(case, before) or None, case.waits.long)
    case.expect("FR-13", told, f"a request of {size} was lost without a word, and the next one was answered", mend=mend)


@probe("FR-13")
async def what_nobody_reads_is_not_lost(case: Case) -> None:
    """Nobody reads while far more is answered than a pipe holds. When somebody does, every answer is there, each on its line."""
    talk = case.talk
    talk.stop_listening()
    asked = [talk.start(case.harmless, request_id=f"{number}-{'x' * _LONG_ID}") for number in range(_UNREAD)]
    # A server that waits until somebody reads does not read either: then this takes the whole grace, and no less would show it.
    with suppress(TimeoutError):
        async with asyncio.timeout(case.waits.grace):
            await talk.channel.flush()
    talk.listen_again()
    case.expect(
        "FR-13",
        await _answered(case, asked),
        f"of {_UNREAD} requests whose answers nobody read for a while, not all were answered, each on a line of its own",
        mend="When a pipe is full, wait until it takes more; write what is left of a line before the next, and drop nothing.",
    )


@probe("FR-15")
async def carriage_returns_and_blank_lines_are_tolerated(case: Case) -> None:
    """Requests that end in CRLF, with blank lines between them, are served without complaint; none of that comes back."""
    talk = case.talk
    before = talk.position
    requests = [talk.message(case.harmless) for _ in range(2)]
    talk.send(b"\r\n\n" + b"\n \n".join(encode_line(each).replace(b"\n", b"\r\n") for each in requests))
    came = await _answered(case, [each["id"] for each in requests])
    case.expect(
        "FR-15", came, "requests that end in a carriage return and a newline, with blank lines between them, were not served"
    )
    said = [*await talk.quiet(), *talk.heard_lines[before:]]
    complaint = next((heard for heard in said if any("error" in part for part in heard.parts)), None)
    case.expect("FR-15", complaint is None, "a blank line or a carriage return was answered with an error", about=complaint)
    emitted = next((heard for heard in said if heard.line.endswith(b"\r") or not heard.line.strip()), None)
    case.expect("FR-15", emitted is None, "the server itself writes carriage returns or blank lines", about=emitted)


@probe("FR-15", last=True, needs="process")
async def a_last_line_needs_no_newline(case: Case) -> None:
    """The input ends right behind a request, without a newline: it is served as any other."""
    talk = case.talk
    built = talk.message(case.harmless)
    talk.send(encode_line(built)[:-1])
    await talk.end_input()
    came = await talk.until(lambda: talk.answers_to(built["id"]) or None, case.waits.answer)
    case.expect(
        "FR-15",
        came,
        "a request at the end of the input, without a newline behind it, got no answer",
        mend="When the input ends, take what is left of it for a last line.",
    )


def _complaints(case: Case, since: int) -> list[dict[str, Any]]:
    """Errors that name no request, as there are for a line that could not be read."""
    return [part for heard in case.talk.heard_lines[since:] for part in heard.parts if "error" in part and part.get("id") is None]


async def _echoed(case: Case, request_id: str) -> bool:
    try:
        await case.talk.request(case.harmless, request_id=request_id)
    except Unanswered:
        return False
    return True


async def _answered(case: Case, ids: list[Any]) -> bool:
    for each in ids:
        try:
            await case.talk.answer_to(each)
        except Unanswered:
            return False
    return True


def _as_ascii(line: bytes) -> bytes:
    """The same JSON with everything that is not ASCII in escapes, pairs of surrogates where it takes two."""
    return "".join(
        each if each.isascii() else "".join(f"\\u{unit}" for unit in each.encode("utf-16-be").hex(" ", 2).split())
        for each in line.decode()
    ).encode()
