"""What a server sent, as a probe sees it: a line, a response to a request, or no response in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import MsgspecError, Struct
from msgspec.json import decode

from twopipes._tools.check.verdict import Skip

__all__ = ["CannotOpen", "NoResponse", "ProbeTimeouts", "ReceivedLine", "Response", "decoded", "id_key", "parts_of", "same_id"]


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


class ReceivedLine(Struct, frozen=True, eq=False):
    """A line from the server.

    Attributes:
        number: The index of the line, from 0.
        at: Seconds since the conversation was opened.
        raw: The bytes without the newline.
        message: The decoded JSON: an object, or the array of a batch; ``None`` if it is not JSON.
    """

    number: int
    at: float
    raw: bytes
    message: Any

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
    def is_question(self) -> bool:
        """Whether the server asks its client something, other than a ping."""
        return any("method" in part and "id" in part and part["method"] != "ping" for part in self.parts)

    @property
    def method(self) -> str | None:
        """The method of a single request or notification."""
        method = self.message.get("method") if isinstance(self.message, dict) else None
        return method if isinstance(method, str) else None

    @property
    def params(self) -> dict[str, Any]:
        """The params; empty if there are none."""
        params = self.message.get("params") if isinstance(self.message, dict) else None
        return params if isinstance(params, dict) else {}

    @property
    def meta(self) -> dict[str, Any]:
        """The members of ``_meta``; empty if there is none."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


class Response(Struct, frozen=True, eq=False, kw_only=True):
    """A response of the server, with its request.

    Attributes:
        id: The id of the request.
        message: The whole response.
        sent: The line of the request.
        received: The line of the response.
        received_line: The same line, with its number and time.
        took: Seconds from the request to the response.
        silence: Why there is no response, if :meth:`.LiveConversation.try_request` got none; ``message`` is empty then.
    """

    id: Any
    message: dict[str, Any]
    sent: Sequence[bytes] = ()
    received: Sequence[bytes] = ()
    received_line: ReceivedLine
    took: float = 0.0
    silence: str = ""

    @property
    def is_result(self) -> bool:
        """Whether the response has a result that is an object."""
        return isinstance(self.message.get("result"), dict)

    @property
    def result(self) -> dict[str, Any]:
        """The result; empty for an error, and if it is not an object."""
        result = self.message.get("result")
        return result if isinstance(result, dict) else {}

    @property
    def error(self) -> dict[str, Any]:
        """The error; empty for a result."""
        error = self.message.get("error")
        return error if isinstance(error, dict) else {}

    @property
    def code(self) -> Any:
        """The code of the error; ``None`` for a result."""
        return self.error.get("code")

    @property
    def summary(self) -> str:
        """A short description for a ``why``."""
        if self.silence:
            return f"nothing: {self.silence}"
        if self.error:
            return f"error {self.code}: {str(self.error.get('message'))[:100]}"
        return "a result" if self.is_result else "neither a result nor an error"


class NoResponse(Skip):
    """A request got no response in time. The rules that the probe has not judged yet are skipped for this reason.

    Attributes:
        request_id: The id of the request; ``None`` if it was not a single request.
    """

    def __init__(self, why: str, *, request_id: Any = None) -> None:
        super().__init__(why)
        self.request_id = request_id


class CannotOpen(Skip):
    """The server did not open a conversation in the requested revision."""


def same_id(one: Any, other: Any) -> bool:
    """Return whether two ids are the same: 7 is not "7", and not true."""
    return type(one) is type(other) and one == other


def decoded(line: bytes) -> Any:
    """Return the decoded JSON of a line; ``None`` if it is not JSON."""
    try:
        return decode(line)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def parts_of(message: Any) -> list[dict[str, Any]]:
    """Return the messages on a line: one, the members of a batch, or none."""
    found = message if isinstance(message, list) else [message]
    return [each for each in found if isinstance(each, dict)]


def id_key(request_id: Any) -> Any:
    """Return a key for an id that includes its JSON type."""
    # Invalid ids, such as an object, have to be found as well.
    return type(request_id), request_id if isinstance(request_id, str | int | float | None) else repr(request_id)
