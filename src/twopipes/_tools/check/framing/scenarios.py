"""Framing and streams, from the side of a server."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.json import decode

from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import SILENCE, text
from twopipes._tools.check.verdict import Quote
from twopipes._trace.format import Line
from twopipes._wire import encode_line

_FLOOD = 1024 * 1024
_PARTS = 5
_VERY_LARGE = 64 * 1024 * 1024  # with the newline
_MEND = "Collect bytes until a newline comes; never take one read for one message."
_NOTIFICATION = encode_line({"jsonrpc": "2.0", "method": "notifications/twopipes-check-unknown"})


@scenario("FR-07", needs_process=True)
async def floods_stderr(fake: FakeServer) -> None:
    """A mebibyte on stderr before the list of tools: far more than a pipe holds."""

    def flood(_said: ClientMessage) -> None:
        fake.stderr(b"a line of noise, one of very many\n" * (_FLOOD // 34))

    fake.on["tools/list"] = flood
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect(
        "FR-07",
        not fake.what_differs,
        f"the client did not go on while the server wrote {_FLOOD // 1024} KiB to stderr: {fake.what_differs}",
        fix="Read the server's stderr all the time, or discard it; an unread pipe stops the server.",
    )


@scenario("FR-08", needs_process=True)
async def says_error_on_stderr(fake: FakeServer) -> None:
    """Words on stderr that look bad mean nothing."""

    def complain(_said: ClientMessage) -> None:
        fake.stderr(b"ERROR: something\nFATAL: something else\nTraceback (most recent call last):\n")

    fake.on["tools/list"] = complain
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect(
        "FR-08",
        not fake.what_differs,
        f"after lines such as ERROR on stderr, {fake.what_differs}",
        fix="Judge a server by its answers and its end, not by what it logs.",
    )


@scenario("FR-10", judged=False)
async def asks_on_the_stateless_wire(fake: FakeServer) -> None:
    """A request of the server, which the stateless wire does not know, gets no response."""

    def ask(message: ClientMessage) -> None:
        message.connection.send({"jsonrpc": "2.0", "id": "stray", "method": "ping"})

    fake.on["tools/list"] = ask
    await fake.wait_for("tools/list")
    await fake.client_exited()
    answered = next(iter(fake.responses()), None)
    fake.expect(
        "FR-10",
        answered is None,
        "the client wrote a response to the server's stdin",
        fix="Drop requests of the server on the stateless wire; questions come as results of type input_required.",
        about=answered,
    )


@scenario("FR-13")
async def cuts_its_lines(fake: FakeServer) -> None:
    """The list of tools comes in small pieces."""

    async def piecemeal(message: ClientMessage) -> Any:
        line = fake.line_for(message)
        for start in range(0, len(line), _PARTS):
            message.connection.send(line[start : start + _PARTS])
            await asyncio.sleep(0)
        return SILENCE

    fake.on["tools/list"] = piecemeal
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect(
        "FR-13",
        not fake.what_differs,
        f"when an answer came in small pieces, {fake.what_differs}",
        fix=_MEND,
    )


@scenario("FR-13")
async def joins_its_lines(fake: FakeServer) -> None:
    """The list of tools comes in one piece with other messages, before it and behind it."""

    def joined(message: ClientMessage) -> Any:
        message.connection.send(_NOTIFICATION * 2 + fake.line_for(message) + _NOTIFICATION)
        return SILENCE

    fake.on["tools/list"] = joined
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect(
        "FR-13", not fake.what_differs, f"when an answer came in one piece with other messages, {fake.what_differs}", fix=_MEND
    )


@scenario("FR-13", revisions="newest")
async def gives_a_very_long_answer(fake: FakeServer) -> None:
    """The first call of a tool is answered with 64 MiB: whatever becomes of that, the client does the rest as ever."""

    def swell(message: ClientMessage) -> Any:
        del fake.on["tools/call"]
        padding = _VERY_LARGE - len(fake.line_for(message, text("")))
        message.connection.send(fake.line_for(message, text("x" * padding)))
        return SILENCE

    fake.on["tools/call"] = swell
    await fake.wait_for("tools/call")
    await fake.client_exited()
    fake.expect(
        "FR-13",
        not fake.what_differs,
        f"when an answer was a line of {_VERY_LARGE // 1024 // 1024} MiB, {fake.what_differs}",
        fix="Read lines of any length in linear time. A client that sets a limit fails the one call, and reads the next line.",
    )


@scenario("FR-14", judged=False)
async def answers_somebody_else_first(fake: FakeServer) -> None:
    """Before the list of tools comes one under an id that the client never used, with another tool in it."""

    def stray(message: ClientMessage) -> None:
        line = fake.line_for(message, {"tools": [{**fake.healthy.tools[0], "name": "stray"}]})
        message.connection.send({**decode(line), "id": "not-yours"})

    fake.on["tools/list"] = stray
    await fake.wait_for("tools/list")
    await fake.client_exited()
    taken = next((message for message in fake.requests("tools/call") if message.params.get("name") == "stray"), None)
    called = fake.requests("tools/call")
    if not called:
        fake.skip("FR-14", "the client calls no tool, so the check cannot tell which list it took")
        return
    fake.expect(
        "FR-14",
        taken is None,
        "the client took an answer with another id for its own: it called a tool that only that one lists",
        fix="Look up the request by the id of the answer; drop what belongs to none.",
        about=taken,
    )


@scenario("FR-15")
async def ends_lines_with_a_carriage_return(fake: FakeServer) -> None:
    """The list of tools ends in CRLF, between blank lines."""

    def windows(message: ClientMessage) -> Any:
        message.connection.send(b"\n" + fake.line_for(message).replace(b"\n", b"\r\n") + b"\r\n")
        return SILENCE

    fake.on["tools/list"] = windows
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect("FR-15", not fake.what_differs, f"when an answer ended in a carriage return and a newline, {fake.what_differs}")
    # Carriage returns show in every conversation. Whoever had to be ended may have been in the middle of a line.
    torn = [entry for each in fake.connections for entry in each.entries if isinstance(entry, Line) and not entry.is_whole]
    fake.expect(
        "FR-15",
        fake.left_at is None or not torn,
        "the last line of the client had no newline",
        fix="End each line with a newline, also the last one.",
        about=Quote(received=tuple(entry.data for entry in torn)),
    )
