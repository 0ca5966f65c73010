"""Framing and streams of clients."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.json import decode

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE, text
from twopipes._tools.check.messages import ClientMessage
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Quote
from twopipes._trace.format import Line
from twopipes._wire import encode_line

_PIECE = 5  # bytes
_VERY_LARGE = 64 * 1024 * 1024  # with the newline
_NOTIFICATION = encode_line({"jsonrpc": "2.0", "method": "notifications/twopipes-check-unknown"})


@scenario("FR-07", needs_process=True)
async def floods_stderr(fake: FakeServer) -> None:
    """Writes a mebibyte to stderr before the list of tools."""

    def flood(_message: ClientMessage) -> None:
        fake.stderr(b"one of very many lines of noise.\n" * (1024 * 1024 // 33))

    await fake.exited_after("tools/list", flood)
    fake.expect_as_usual("FR-07", "when the server wrote 1024 KiB to stderr")


@scenario("FR-08", needs_process=True)
async def writes_error_to_stderr(fake: FakeServer) -> None:
    """Writes lines to stderr that look like failures."""

    def complain(_message: ClientMessage) -> None:
        fake.stderr(b"ERROR: something\nFATAL: something else\nTraceback (most recent call last):\n")

    await fake.exited_after("tools/list", complain)
    fake.expect_as_usual("FR-08", "after lines such as ERROR on stderr")


@scenario("FR-10", judged=False)
async def sends_a_request_in_a_modern_revision(fake: FakeServer) -> None:
    """Sends a ping, which modern revisions do not have."""

    def ask(message: ClientMessage) -> None:
        message.connection.send({"jsonrpc": "2.0", "id": "stray", "method": "ping"})

    await fake.exited_after("tools/list", ask)
    fake.forbid("FR-10", fake.responses(), "the client wrote a response to the server's stdin")


@scenario("FR-13")
async def splits_its_lines(fake: FakeServer) -> None:
    """Sends the list of tools in small pieces."""

    async def split(message: ClientMessage) -> Any:
        line = fake.line_for(message)
        for start in range(0, len(line), _PIECE):
            message.connection.send(line[start : start + _PIECE])
            await asyncio.sleep(0)
        return SILENCE

    await fake.exited_after("tools/list", split)
    fake.expect_as_usual("FR-13", "when a response came in small pieces")


@scenario("FR-13")
async def joins_its_lines(fake: FakeServer) -> None:
    """Sends the list of tools in one piece with other messages."""

    def join(message: ClientMessage) -> Any:
        message.connection.send(_NOTIFICATION * 2 + fake.line_for(message) + _NOTIFICATION)
        return SILENCE

    await fake.exited_after("tools/list", join)
    fake.expect_as_usual("FR-13", "when a response came in one piece with other messages")


@scenario("FR-13", revisions="newest")
async def sends_a_very_long_response(fake: FakeServer) -> None:
    """Responds to the first call with 64 MiB."""

    def pad(message: ClientMessage) -> Any:
        del fake.on["tools/call"]
        padding = _VERY_LARGE - len(fake.line_for(message, text("")))
        message.connection.send(fake.line_for(message, text("x" * padding)))
        return SILENCE

    await fake.exited_after("tools/call", pad)
    fake.expect_as_usual("FR-13", f"when a response was a line of {_VERY_LARGE // 1024 // 1024} MiB")


@scenario("FR-14", judged=False)
async def sends_a_response_with_another_id(fake: FakeServer) -> None:
    """Sends a list of tools with an id that the client never used before the real one."""

    def send_another(message: ClientMessage) -> None:
        line = fake.line_for(message, {"tools": [{**fake.healthy.tools[0], "name": "stray"}]})
        message.connection.send({**decode(line), "id": "not-yours"})

    await fake.exited_after("tools/list", send_another)
    if not fake.requests("tools/call"):
        fake.give_up("the client calls no tool, so it is not visible which list it used")
    fake.forbid("FR-14", fake.call_of("stray"), "the client called a tool from a list whose response had another id")


@scenario("FR-15")
async def ends_lines_with_a_carriage_return(fake: FakeServer) -> None:
    """Ends the list of tools with CRLF, between blank lines."""

    def end_with_crlf(message: ClientMessage) -> Any:
        message.connection.send(b"\n" + fake.line_for(message).replace(b"\n", b"\r\n") + b"\r\n")
        return SILENCE

    await fake.exited_after("tools/list", end_with_crlf)
    fake.expect_as_usual("FR-15", "when a response ended with CRLF")
    # Carriage returns of the client are judged in every conversation. A killed client may have been writing a line.
    torn = [entry for each in fake.connections for entry in each.entries if isinstance(entry, Line) and not entry.is_whole]
    quote = Quote(received=tuple(entry.data for entry in torn))
    fake.expect("FR-15", fake.left_at is None or not torn, "the last line of the client had no newline", about=quote)
