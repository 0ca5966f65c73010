"""What a server said, as a probe sees it: a line, an answer to a request, or nothing in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import MsgspecError, Struct
from msgspec.json import decode

from twopipes._tools.check.verdict import Skip

__all__ = ["CannotOpen", "NoResponse", "ProbeTimeouts", "ReceivedLine", "Response", "decoded", "id_key", "parts_of", "same_id"]


class ProbeTimeouts(Struct, frozen=True, kw_only=True):
    """How long to wait for what, in seconds. Every wait of a check is one of these."""

    start: float = 20.0  # for the first answer of a fresh process
    response: float = 10.0  # for any other
    long: float = 30.0  # for the answer to a line of many megabytes
    grace: float = 0.3  # of silence, before it counts as silence
    exit: float = 5.0  # from the end of input to the end of the process
    step: float = 1.0  # for each step of the plan that ends it, where that is not what is judged

    @property
    def lull(self) -> float:
        """For what may never come, once the server has answered what was sent after it."""
        return self.response / 5


class ReceivedLine(Struct, frozen=True, eq=False):
    """A line of the server.

    Attributes:
        number: Of the received lines, from 0.
        at: Seconds since the conversation was opened.
        raw: Without its newline.
        message: Decoded: an object, or the array of a batch; ``None`` for what is no JSON.
    """

    number: int
    at: float
    raw: bytes
    message: Any

    @property
    def sent(self) -> Sequence[bytes]:
        """Nothing: a line on its own answers nothing."""
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
    def method(self) -> str | None:
        """Of a request or a notification that stands alone."""
        method = self.message.get("method") if isinstance(self.message, dict) else None
        return method if isinstance(method, str) else None

    @property
    def params(self) -> dict[str, Any]:
        """Its params; empty where there are none."""
        params = self.message.get("params") if isinstance(self.message, dict) else None
        return params if isinstance(params, dict) else {}


class Response(Struct, frozen=True, eq=False, kw_only=True):
    """An answer of the server and the request that it answers.

    Attributes:
        id: Of the request.
        message: The whole answer.
        sent: The line of the request.
        received: The line of the answer.
        received_line: Which of the received lines it was.
        took: Seconds that it took.
    """

    id: Any
    message: dict[str, Any]
    sent: Sequence[bytes] = ()
    received: Sequence[bytes] = ()
    received_line: ReceivedLine
    took: float = 0.0

    @property
    def is_result(self) -> bool:
        """Whether it has a result that is an object."""
        return isinstance(self.message.get("result"), dict)

    @property
    def result(self) -> dict[str, Any]:
        """The result; empty for an error and for what is no object."""
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
        """What it is, in a few words for a ``why``."""
        if self.error:
            return f"error {self.code}: {str(self.error.get('message'))[:100]}"
        return "a result" if self.is_result else "neither a result nor an error"


class NoResponse(Skip):
    """A request got no answer in time. What the probe has not judged yet is skipped with this reason.

    Attributes:
        request_id: Of the request; ``None`` where it was not one request.
    """

    def __init__(self, why: str, *, request_id: Any = None) -> None:
        super().__init__(why)
        self.request_id = request_id


class CannotOpen(Skip):
    """The server did not open a conversation in the revision that was asked for."""


def same_id(one: Any, other: Any) -> bool:
    """Tells whether two ids are one: 7 is not "7", and not true."""
    return type(one) is type(other) and one == other


def decoded(line: bytes) -> Any:
    """What a line says; ``None`` for what is no JSON."""
    try:
        return decode(line)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def parts_of(message: Any) -> list[dict[str, Any]]:
    """The messages on a line: one, the members of a batch, or none."""
    found = message if isinstance(message, list) else [message]
    return [each for each in found if isinstance(each, dict)]


def id_key(request_id: Any) -> Any:
    """An id with its JSON type, to be looked up by."""
    # What is no id at all (an object, for one) has to be found again as well.
    return type(request_id), request_id if isinstance(request_id, str | int | float | None) else repr(request_id)
