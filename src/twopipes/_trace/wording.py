"""Texts for messages and events in the terminal: pieces of text, each with a style."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

from msgspec import UNSET, json

from twopipes._trace.format import Event, Header
from twopipes._trace.message import Message
from twopipes._trace.summary import is_failure, summary_of
from twopipes._trace.units import cut, size_of

ERAS = {"legacy": "with a handshake", "modern": "stateless", "both": "with a handshake, and stateless"}

_LONGEST_NOISE = 200  # bytes of a noise line that are shown


class Piece(NamedTuple):
    """A text and its rich style."""

    text: str
    style: str = ""


Rendered = list[Piece]


def arrow(message: Message) -> Piece:
    """Return the arrow for the direction of a message."""
    return Piece(message.direction, "bold cyan" if message.direction == ">" else "bold green")


def message_pieces(message: Message) -> Rendered:
    """Describe a message."""
    call = message.call
    summary = summary_of(message)
    after = f" {summary}" if summary else ""
    method = message.method or ""
    match message.shape:
        case "request":
            again = call is not None and call.is_retry
            named = [Piece(method, "bold"), Piece(f" #{shown_id(message.id)}", "dim")]
            return [*named, Piece(" again" if again else "", "italic"), Piece(after)]
        case "notification":
            if call is None:
                return [Piece(method, "italic"), Piece(after)]
            if method == "notifications/cancelled":
                return [Piece("cancelled", "bold yellow"), Piece(f" #{shown_id(call.id)}", "dim"), Piece(after)]
            return [Piece(method.removeprefix("notifications/")), Piece(after, "dim")]
        case "result" | "error":
            is_bad = message.shape == "error" or is_failure(message)
            of = call.method if call is not None else "response without a request"
            style = "red" if is_bad else "" if call is not None else "yellow"
            named = [Piece(of, style), Piece(f" #{shown_id(message.id)}", "dim")]
            mark = "error " if message.shape == "error" else "failed: " if is_bad else ""
            return [*named, Piece(f" {mark}", "bold red" if is_bad else ""), Piece(summary, style)]
        case "blank":
            return [Piece("(a blank line)", "dim")]
        case _:
            text = message.data[:_LONGEST_NOISE].decode(errors="backslashreplace")
            return [Piece(text, "red"), Piece("…" if message.size > _LONGEST_NOISE else "", "red")]


def event_text(event: Event) -> str:
    """Describe an event."""
    match event.name:
        case "spawn":
            return "the server was started" + (f", pid {event.pid}" if event.pid is not None else "")
        case "eof":
            streams: dict[str | None, str] = {
                ">": "the client closed its output",
                "<": "the server closed its output",
                "!": "the server closed its stderr",
            }
            return streams.get(event.stream, "a stream ended") + (f": {event.reason}" if event.reason else "")
        case "signal":
            return f"{event.signal or 'a signal'} was sent to the server"
        case "exit":
            return "the server exited" + (
                f" (signal {event.signal})" if event.signal else f" (exit code {event.code})" if event.code is not None else ""
            )
        case "lost":
            much = [f"{event.lines:,} lines" if event.lines else "", size_of(event.size) if event.size else ""]
            lost = ", ".join(piece for piece in much if piece) or "something"
            return f"the recording is missing {lost} from here" + (f": {event.reason}" if event.reason else "")
        case "note":
            return event.reason or "a note"


def command_of(header: Header) -> str:
    """Return the recorded command or address."""
    return shlex.join(header.argv) if header.argv else header.target or "a conversation"


def moment(started: str) -> str:
    """Format a start time for people, without fractions."""
    day, _, clock = started.partition("T")
    return f"{day} {clock[:8]} UTC" if clock else started


def shown_id(request_id: Any) -> str:
    """Format an id as JSON, to keep a number and a string apart."""
    if request_id is UNSET:
        return "?"
    try:
        text = json.encode(request_id).decode()
    except (TypeError, ValueError, RecursionError):
        text = repr(request_id)
    return cut(text, _LONGEST_ID)


_LONGEST_ID = 40


def json_pieces(line: str) -> Rendered:
    """Split a line of formatted JSON into its name and its value."""
    indent = len(line) - len(line.lstrip())
    end = line.find('": ', indent)
    if line[indent : indent + 1] == '"' and end > 0:
        return [Piece(line[: end + 1], "cyan"), Piece(line[end + 1 :])]
    return [Piece(line)]
