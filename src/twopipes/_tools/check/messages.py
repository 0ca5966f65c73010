"""What a peer sent, as probes and scenarios see it: lines, responses to requests, or no response in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import MsgspecError, Struct
from msgspec.json import decode

from twopipes._protocol.revisions import META_VERSION, MODERN
from twopipes._tools.check.verdict import Skip
from twopipes._trace.format import Event, Line

if TYPE_CHECKING:
    from twopipes._tools.check.fake_server import FakeConnection


class ProbeTimeouts(Struct, frozen=True, kw_only=True):
    """Timeouts of the check of a server, in seconds. Every wait uses one of these."""

    start: float = 20.0  # for the first response of a new process
    response: float = 10.0  # for any other response
    long: float = 30.0  # for the response to a line of many megabytes
    grace: float = 0.3  # without output, before the server counts as quiet
    exit: float = 5.0  # from the end of input to the end of the process
    step: float = 1.0  # for each step of the shutdown plan, unless the shutdown itself is judged

    @property
    def lull(self) -> float:
        """For an optional response, once the server has answered a later request."""
        return self.response / 5


def members(value: Any) -> dict[str, Any]:
    """Return an object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


class Message(Struct, frozen=True, eq=False, kw_only=True):
    """The decoded JSON of a message, with defaults for everything that is missing or has a wrong type."""

    message: Any  # an object, or the array of a batch; None if the line is not JSON

    @property
    def members(self) -> dict[str, Any]:
        """The message if it is an object; otherwise empty."""
        return members(self.message)

    @property
    def id(self) -> Any:
        """The id of a request or a response."""
        return self.members.get("id")

    @property
    def method(self) -> str | None:
        """The method of a request or a notification."""
        method = self.members.get("method")
        return method if isinstance(method, str) else None

    @property
    def params(self) -> dict[str, Any]:
        """The params; empty if there are none."""
        return members(self.members.get("params"))

    @property
    def meta(self) -> dict[str, Any]:
        """The ``_meta`` of the params; empty if there is none."""
        return members(self.params.get("_meta"))

    @property
    def is_result(self) -> bool:
        """Whether it is a response with a result that is an object."""
        return isinstance(self.members.get("result"), dict)

    @property
    def result(self) -> dict[str, Any]:
        """The result; empty for an error, and if it is not an object."""
        return members(self.members.get("result"))

    def items(self, member: str) -> list[dict[str, Any]]:
        """Return the objects in an array of the result, such as ``tools``."""
        found = self.result.get(member)
        return parts_of(found) if isinstance(found, list) else []

    @property
    def error(self) -> dict[str, Any]:
        """The error; empty for a result."""
        return members(self.members.get("error"))

    @property
    def code(self) -> Any:
        """The code of the error; ``None`` for a result."""
        return self.error.get("code")

    @property
    def summary(self) -> str:
        """A short description of a response for a ``why``."""
        if self.error:
            text = str(self.error.get("message"))[:100]
            return f"error {self.code}: {text}" if self.code is not None else text
        return "a result" if self.is_result else "neither a result nor an error"


class ReceivedLine(Message, frozen=True, eq=False, kw_only=True):
    """A line from the peer."""

    number: int  # the index among the lines of the peer, from 0
    at: float  # seconds since the start of the conversation
    raw: bytes  # without the newline

    @property
    def sent(self) -> Sequence[bytes]:
        """Empty: a single line has no request."""
        return ()

    @property
    def received(self) -> Sequence[bytes]:
        """The line."""
        return (self.raw,)

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The messages on the line: one, the members of a batch, or none."""
        return parts_of(self.message)

    @property
    def has_error_without_id(self) -> bool:
        """Whether it has an error that names no request, as for a line that could not be read."""
        return any("error" in part and part.get("id") is None for part in self.parts)

    @property
    def is_question(self) -> bool:
        """Whether the server asks its client something, other than a ping."""
        return any("method" in part and "id" in part and part["method"] != "ping" for part in self.parts)


class Response(Message, frozen=True, eq=False, kw_only=True):
    """A response of the server, with its request."""

    sent: Sequence[bytes] = ()  # the line of the request
    received_line: ReceivedLine  # the line of the response, which may be a batch
    took: float = 0.0  # seconds from the request to the response
    silence: str = ""  # why there is no response, if LiveConversation.try_request got none; the message is empty then

    @property
    def received(self) -> Sequence[bytes]:
        """The line of the response."""
        return () if self.silence else self.received_line.received

    @property
    def summary(self) -> str:
        """A short description for a ``why``."""
        return f"nothing: {self.silence}" if self.silence else super().summary


class ClientMessage(ReceivedLine, frozen=True, eq=False, kw_only=True):
    """A line from the client. Its number and its time count over all connections of the run."""

    connection: FakeConnection

    @property
    def is_request(self) -> bool:
        """Whether it is a request."""
        return self.method is not None and "id" in self.members

    @property
    def is_response(self) -> bool:
        """Whether it is a response."""
        return bool(self.members) and self.method is None

    @property
    def is_modern(self) -> bool:
        """Whether it is a modern request, with a version in its ``_meta``."""
        return META_VERSION in self.meta

    @property
    def cancellation(self) -> ClientMessage | None:
        """The notification with which the client cancelled this request, if there is one so far."""
        later = (each for each in self.connection.received_lines if each.method == "notifications/cancelled")
        return next((each for each in later if each.params.get("requestId") == self.id), None)


def asked_for(message: ClientMessage) -> str:
    """Return the method of a request and the name or URI in it, to compare two runs."""
    name = message.params.get("name") or message.params.get("uri")
    return f"{message.method} {name}" if isinstance(name, str) else message.method or ""


_OPENING = {"initialize", "server/discover", "ping", "notifications/cancelled"}


def spoken_in(lines: Iterable[ClientMessage], revision: str) -> bool:
    """Return whether a client speaks the revision of the server that it was given."""
    if revision in MODERN:
        return any(message.meta.get(META_VERSION) == revision for message in lines)
    methods = [message.method for message in lines if message.method is not None]
    # A client that forgets notifications/initialized and continues breaks a rule, but it speaks the revision.
    return "initialize" in methods and any(method not in _OPENING for method in methods[methods.index("initialize") :])


class NoResponse(Skip):
    """A request got no response in time. The rules that the probe has not judged yet are skipped for this reason."""

    def __init__(self, why: str, *, request_id: Any = None) -> None:
        super().__init__(why)
        self.request_id = request_id


class CannotOpen(Skip):
    """The server did not open a conversation in the requested revision."""


def same_id(one: Any, other: Any) -> bool:
    """Return whether two ids are the same: 7 is not "7", and not true."""
    return type(one) is type(other) and one == other


def id_key(request_id: Any) -> Any:
    """Return a key for an id that includes its JSON type."""
    # Invalid ids, such as an object, have to be found as well.
    return type(request_id), request_id if isinstance(request_id, str | int | float | None) else repr(request_id)


def decoded(line: bytes) -> Any:
    """Return the decoded JSON of a line; ``None`` if it is not JSON."""
    try:
        return decode(line)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def parts_of(message: Any) -> list[dict[str, Any]]:
    """Return the messages on a line: one, the members of a batch, or none."""
    return [each for each in (message if isinstance(message, list) else [message]) if isinstance(each, dict)]


Found = TypeVar("Found")


class Waiter:
    """Waits for news from a peer."""

    def __init__(self) -> None:
        self.is_over = False  # the peer has closed its output, or has exited
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Wake all that wait."""
        self._news.set()

    async def until(self, look: Callable[[], Found | None], within: float) -> Found | None:
        """Wait until ``look`` returns something, or it is over. Return what it found, or ``None``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while (found := look()) is None and not self.is_over:
                    self._news.clear()
                    await self._news.wait()
                return found
        return look()


class Transcript:
    """Keeps the lines of both directions of a conversation with a server, and matches responses to requests."""

    def __init__(self) -> None:
        self.received_lines: list[ReceivedLine] = []
        self.sent_lines: list[bytes] = []
        self.entries: list[Line | Event] = []  # the lines of both directions and other events, as in a trace
        self.first_response_at: float | None = None
        self._sent_by_id: dict[Any, tuple[bytes, float]] = {}
        self._cancelled: set[Any] = set()
        self._responses_by_id: dict[Any, list[Response]] = {}

    @property
    def position(self) -> int:
        """The number of received lines, for ``since``."""
        return len(self.received_lines)

    @property
    def open_requests(self) -> int:
        """The number of requests that are neither answered nor cancelled."""
        return len(self._sent_by_id.keys() - self._responses_by_id.keys() - self._cancelled)

    def responses_to(self, request_id: Any) -> list[Response]:
        """Return all responses to a request so far. There should be at most one."""
        return self._responses_by_id.get(id_key(request_id), [])

    def response(self, request_id: Any) -> Response | None:
        """Return the first response to a request, if there is one so far."""
        return next(iter(self.responses_to(request_id)), None)

    def add_sent(self, line: bytes, at: float, *, is_whole: bool) -> None:
        """Add a line that was sent."""
        self.sent_lines.append(line)
        self.entries.append(Line(at, ">", line, is_whole))
        for part in parts_of(decoded(line)):
            if "id" in part and "method" in part:
                self._sent_by_id[id_key(part["id"])] = line, at
            elif part.get("method") == "notifications/cancelled" and isinstance(part.get("params"), dict):
                self._cancelled.add(id_key(part["params"].get("requestId")))

    def add_received(self, line: bytes, at: float, *, is_whole: bool) -> ReceivedLine:
        """Add a line from the server."""
        self.entries.append(Line(at, "<", line, is_whole))
        received = ReceivedLine(number=self.position, at=at, raw=line, message=decoded(line))
        self.received_lines.append(received)
        for part in received.parts:
            if "method" not in part:
                self._add_response(part, received)
        return received

    def _add_response(self, message: dict[str, Any], received: ReceivedLine) -> None:
        if self.first_response_at is None:
            self.first_response_at = received.at
        if "id" in message:
            key = id_key(message["id"])
            request, sent_at = self._sent_by_id.get(key, (None, received.at))
            sent, took = () if request is None else (request,), received.at - sent_at
            response = Response(message=message, sent=sent, received_line=received, took=took)
            self._responses_by_id.setdefault(key, []).append(response)
