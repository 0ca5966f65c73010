"""Faults on a connection: which line is affected, and what happens to it. Independent of channels and clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import UNSET, MsgspecError, Struct
from msgspec.json import Decoder

from twopipes._trace.message import Direction
from twopipes.errors import LocalProtocolError

What = Literal["drop", "delay", "garble", "truncate", "duplicate", "kill"]
When = Callable[[Any], object]

_OPPOSITE: dict[Direction, Direction] = {">": "<", "<": ">"}
_decode = Decoder().decode


class Fault(Struct, frozen=True, kw_only=True):
    """One fault, made by :func:`drop` or one of the other functions.

    Attributes:
        what: What happens to a line.
        direction: ``>`` from the client to the server, ``<`` from the server to the client.
        method: Only lines of this method: requests, notifications, and responses to such requests.
        nth: The first matching line that is affected, from 1.
        times: How many lines are affected, from that one on; ``None`` for all.
        when: Only lines for whose JSON value this function returns true.
    """

    what: What
    direction: Direction
    method: str | None = None
    nth: int = 1
    times: int | None = 1
    when: When | None = None
    seconds: float = 0.0  # delay
    into: bytes | Callable[[bytes], bytes] | None = None  # garble
    keep: int | None = None  # truncate
    newline: bool = True  # truncate
    copies: int = 2  # duplicate

    def __post_init__(self) -> None:
        if self.direction not in _OPPOSITE:
            raise LocalProtocolError(f"a fault needs a direction, '>' to the server or '<' to the client, got {self.direction!r}")
        if self.nth < 1 or (self.times is not None and self.times < 1):
            raise LocalProtocolError(f"nth and times must be 1 or more, got nth={self.nth!r}, times={self.times!r}")
        if not self.seconds >= 0 or self.copies < 1 or (self.keep is not None and self.keep < 0):
            raise LocalProtocolError(f"{self.what} does not take a negative number")

    def __str__(self) -> str:
        method = f" {self.method}" if self.method else ""
        return f"{self.what} {self.direction}{method}"

    def hits(self, count: int) -> bool:
        """Return whether the matching line with this number is affected."""
        return count >= self.nth and (self.times is None or count < self.nth + self.times)

    def altered(self, line: bytes) -> list[bytes]:
        """Return what is sent instead of a line, including newlines."""
        match self.what:
            case "drop" | "kill":
                return []
            case "garble":
                return [self._garbled(line.removesuffix(b"\n")) + b"\n"]
            case "truncate":
                body = line.removesuffix(b"\n")
                kept = body[: len(body) // 2 if self.keep is None else self.keep]
                return [kept + b"\n" if self.newline else kept]
            case "duplicate":
                return [line] * self.copies
            case _:
                return [line]

    def _garbled(self, body: bytes) -> bytes:
        if callable(self.into):
            return self.into(body)
        if self.into is not None:
            return self.into
        middle = len(body) // 2
        return body[:middle] + b"\xff" + body[middle + 1 :]  # a byte that is never valid in UTF-8


class Strike(Struct, frozen=True):
    """One line that a fault has affected.

    Attributes:
        fault: The fault.
        line: The line, without the newline.
        connection: The number of the connection, from 0. A restarted server has the next number.
    """

    fault: Fault
    line: bytes
    connection: int = 0


class Seen(Struct, frozen=True):
    """A line with the properties that faults match."""

    direction: Direction
    line: bytes
    method: str | None  # its own, or that of the request to which it responds
    value: Any  # its JSON value; UNSET if it is not JSON


class FaultPlan:
    """The faults of one conversation, with their counts, which continue after a restart of the server."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.struck: list[Strike] = []  # the affected lines, in order
        # The first error of a function of the test. It is raised in the test: in the channel it would be another fault.
        self.failure: Exception | None = None
        self._faults: list[Fault] = []
        self._counts: list[int] = []
        self.add(faults)

    def add(self, faults: Iterable[Fault]) -> None:
        """Add faults. They count from now on."""
        for fault in faults:
            if not isinstance(fault, Fault):  # tests are often not type-checked
                raise LocalProtocolError(
                    f"a fault must be made by drop(), delay(), garble(), truncate(), duplicate() or kill(), got {fault!r}"
                )
            self._counts.append(0)  # first, because another thread reads the faults
            self._faults.append(fault)

    @property
    def unused(self) -> list[Fault]:
        """The faults that have affected no line."""
        used = {id(strike.fault) for strike in self.struck}
        return [fault for fault in self._faults if id(fault) not in used]

    def strike(self, seen: Seen, *, connection: int) -> list[Fault]:
        """Count a line, and return the faults that affect it."""
        hit = []
        for number, fault in enumerate(self._faults):
            if fault.direction != seen.direction or (fault.method is not None and fault.method != seen.method):
                continue
            if fault.when is not None and (seen.value is UNSET or not self._matches(fault.when, seen.value)):
                continue
            self._counts[number] += 1
            if fault.hits(self._counts[number]):
                hit.append(fault)
                self.struck.append(Strike(fault, seen.line, connection))
        return hit

    def crossing(self, fault: Fault, lines: Iterable[bytes]) -> list[bytes]:
        """Return what is sent instead of the lines that a fault affects."""
        lines = list(lines)
        try:
            return [altered for line in lines for altered in fault.altered(line)]
        except Exception as error:
            self.failure = self.failure or error
            return lines

    def _matches(self, when: When, value: Any) -> bool:
        try:
            return bool(when(value))
        except (LookupError, TypeError, AttributeError):
            return False  # the line lacks the member that the function reads
        except Exception as error:
            self.failure = self.failure or error
            return False


class WireReader:
    """Parses the lines of one connection for faults. A response has the method of its request."""

    def __init__(self) -> None:
        self._methods: dict[tuple[Any, ...], str] = {}

    def read(self, direction: Direction, line: bytes) -> Seen:
        """Parse one line, without its newline."""
        try:
            value = _decode(line)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            return Seen(direction, line, None, UNSET)
        if not isinstance(value, dict):
            return Seen(direction, line, None, value)
        method, request_id = value.get("method"), value.get("id")
        if isinstance(method, str):
            if isinstance(request_id, str | int):
                self._methods[direction, type(request_id), request_id] = method
        else:
            method = None
            if isinstance(request_id, str | int):
                method = self._methods.get((_OPPOSITE[direction], type(request_id), request_id))
        return Seen(direction, line, method, value)


def drop(
    direction: Direction, *, method: str | None = None, nth: int = 1, times: int | None = 1, when: When | None = None
) -> Fault:
    """Drop a line: it never arrives.

    Args:
        direction: ``>`` from the client to the server, ``<`` from the server to the client.
        method: Only lines of this method: requests, notifications, and responses to such requests.
        nth: The first matching line that is affected, from 1.
        times: How many lines are affected, from that one on; ``None`` for all.
        when: Only lines for whose JSON value this function returns true. It is not called for a line that is not JSON, and a line
            without a member that it reads does not match.
    """
    return Fault(what="drop", direction=direction, method=method, nth=nth, times=times, when=when)


def delay(
    direction: Direction,
    seconds: float,
    *,
    method: str | None = None,
    nth: int = 1,
    times: int | None = 1,
    when: When | None = None,
) -> Fault:
    """Delay a line, by the clock of the event loop. Other lines may overtake it.

    If the direction ends first, the line arrives before the end.
    """
    return Fault(what="delay", direction=direction, seconds=seconds, method=method, nth=nth, times=times, when=when)


def garble(
    direction: Direction,
    into: bytes | Callable[[bytes], bytes] | None = None,
    *,
    method: str | None = None,
    nth: int = 1,
    times: int | None = 1,
    when: When | None = None,
) -> Fault:
    """Replace a line by ``into``, or by its return value for the line. By default one byte in the middle becomes invalid UTF-8."""
    return Fault(what="garble", direction=direction, into=into, method=method, nth=nth, times=times, when=when)


def truncate(
    direction: Direction,
    keep: int | None = None,
    *,
    newline: bool = True,
    method: str | None = None,
    nth: int = 1,
    times: int | None = 1,
    when: When | None = None,
) -> Fault:
    """Cut a line after ``keep`` bytes, or in the middle. Without ``newline`` the next line is appended to it."""
    return Fault(what="truncate", direction=direction, keep=keep, newline=newline, method=method, nth=nth, times=times, when=when)


def duplicate(
    direction: Direction,
    copies: int = 2,
    *,
    method: str | None = None,
    nth: int = 1,
    times: int | None = 1,
    when: When | None = None,
) -> Fault:
    """Send a line several times."""
    return Fault(what="duplicate", direction=direction, copies=copies, method=method, nth=nth, times=times, when=when)


def kill(
    direction: Direction, *, method: str | None = None, nth: int = 1, times: int | None = 1, when: When | None = None
) -> Fault:
    """Kill the server when this line is sent: neither it nor anything after it arrives.

    A child and its process group get SIGKILL. In memory the server is cancelled, and what it still sends is dropped.
    """
    return Fault(what="kill", direction=direction, method=method, nth=nth, times=times, when=when)
