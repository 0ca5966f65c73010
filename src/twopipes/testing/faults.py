"""What can go wrong on a wire: which line is hit, and what becomes of it. Nothing here knows of a channel or a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import UNSET, MsgspecError, Struct
from msgspec.json import Decoder

from twopipes._trace.message import Direction
from twopipes.errors import LocalProtocolError

__all__ = ["Fault", "FaultPlan", "Strike", "WireReader", "delay", "drop", "duplicate", "garble", "kill", "truncate"]

What = Literal["drop", "delay", "garble", "truncate", "duplicate", "kill"]
When = Callable[[Any], object]

_OTHER_WAY: dict[Direction, Direction] = {">": "<", "<": ">"}
_decode = Decoder().decode


class Fault(Struct, frozen=True, kw_only=True):
    """One thing that goes wrong: made by :func:`drop` and its like.

    Attributes:
        what: What happens to a line.
        direction: ``>`` from the client to the server, ``<`` from the server to the client.
        method: Only lines that have to do with this method: requests, notifications, and answers to such requests.
        nth: The first line that is hit, of those that fit, from 1.
        times: How many are, from that one on; ``None`` for all.
        when: Only lines whose JSON value this says yes to.
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
        if self.direction not in _OTHER_WAY:
            raise LocalProtocolError(f"a fault has a direction: '>' to the server or '<' to the client, and not {self.direction!r}")
        if self.nth < 1 or (self.times is not None and self.times < 1):
            raise LocalProtocolError(f"lines are counted from 1: nth={self.nth!r}, times={self.times!r} would never hit one")
        if not self.seconds >= 0 or self.copies < 1 or (self.keep is not None and self.keep < 0):
            raise LocalProtocolError(f"{self.what} cannot be done by a negative number")

    def __str__(self) -> str:
        method = f" {self.method}" if self.method else ""
        return f"{self.what} {self.direction}{method}"

    def hits(self, count: int) -> bool:
        """Whether the line with this number, of those that fit, is hit."""
        return count >= self.nth and (self.times is None or count < self.nth + self.times)

    def altered(self, line: bytes) -> list[bytes]:
        """What crosses the wire instead of a line, newlines and all."""
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
        return body[:middle] + b"\xff" + body[middle + 1 :]  # no letter of UTF-8 has it


class Strike(Struct, frozen=True):
    """A fault that has hit.

    Attributes:
        fault: Which.
        line: What it hit, without the newline.
        connection: On which connection, from 0; a server that was started again has the next one.
    """

    fault: Fault
    line: bytes
    connection: int = 0


class Seen(Struct, frozen=True):
    """A line as a fault looks at it."""

    direction: Direction
    line: bytes
    method: str | None  # its own, or that of the request that it answers
    value: Any  # its JSON; UNSET where it is none


class FaultPlan:
    """The faults of one conversation, and how far each has counted. It goes on over the restarts of a server.

    Attributes:
        struck: What was hit, in order.
        failure: The first error that a function of the test's own raised when it was asked about a line. It goes to the test, and
            not to the wire, where it would be one more fault.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.struck: list[Strike] = []
        self.failure: Exception | None = None
        self._faults: list[Fault] = []
        self._counts: list[int] = []
        self.add(faults)

    def add(self, faults: Iterable[Fault]) -> None:
        """Takes more of them; they count from now on."""
        for fault in faults:
            if not isinstance(fault, Fault):  # whoever writes a test has no type checker at hand
                raise LocalProtocolError(
                    f"a fault is what drop(), delay(), garble(), truncate(), duplicate() or kill() makes, not {fault!r}"
                )
            self._counts.append(0)  # first: the other thread looks at the faults
            self._faults.append(fault)

    @property
    def unused(self) -> list[Fault]:
        """Those that have hit nothing."""
        used = {id(strike.fault) for strike in self.struck}
        return [fault for fault in self._faults if id(fault) not in used]

    def strike(self, seen: Seen, *, connection: int) -> list[Fault]:
        """The faults that hit a line, which is counted."""
        hit = []
        for number, fault in enumerate(self._faults):
            if fault.direction != seen.direction or (fault.method is not None and fault.method != seen.method):
                continue
            if fault.when is not None and (seen.value is UNSET or not self._says_yes(fault.when, seen.value)):
                continue
            self._counts[number] += 1
            if fault.hits(self._counts[number]):
                hit.append(fault)
                self.struck.append(Strike(fault, seen.line, connection))
        return hit

    def crossing(self, fault: Fault, lines: Iterable[bytes]) -> list[bytes]:
        """What crosses the wire instead of some lines that a fault has hit."""
        lines = list(lines)
        try:
            return [altered for line in lines for altered in fault.altered(line)]
        except Exception as error:
            self.failure = self.failure or error
            return lines

    def _says_yes(self, when: When, value: Any) -> bool:
        try:
            return bool(when(value))
        except (LookupError, TypeError, AttributeError):
            return False  # the line has not what it is looked at for
        except Exception as error:
            self.failure = self.failure or error
            return False


class WireReader:
    """Reads the lines of one connection as far as a fault must know them: an answer has the method of its request."""

    def __init__(self) -> None:
        self._methods: dict[tuple[Any, ...], str] = {}

    def read(self, direction: Direction, line: bytes) -> Seen:
        """One line, without its newline."""
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
                method = self._methods.get((_OTHER_WAY[direction], type(request_id), request_id))
        return Seen(direction, line, method, value)


def drop(
    direction: Direction, *, method: str | None = None, nth: int = 1, times: int | None = 1, when: When | None = None
) -> Fault:
    """A line that never arrives.

    Args:
        direction: ``>`` from the client to the server, ``<`` from the server to the client.
        method: Only lines that have to do with this method: requests, notifications, and answers to such requests.
        nth: Which of the lines that fit is the first to be hit, from 1.
        times: How many are hit, from that one on; ``None`` for all.
        when: Only lines whose JSON value this says yes to. A line that is no JSON is not asked about, and one in which a key is
            missing that it looks at is not meant.
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
    """A line that arrives later, by the clock of the event loop. Others may overtake it, as if it had been said later.

    What is still held when its direction comes to its end arrives before that.
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
    """A line that arrives as another: as ``into``, or as what that makes of it. By default one byte in its middle is no UTF-8."""
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
    """A line of which only the first ``keep`` bytes arrive, or half of it; without ``newline`` the next one is stuck to it."""
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
    """A line that arrives so many times."""
    return Fault(what="duplicate", direction=direction, copies=copies, method=method, nth=nth, times=times, when=when)


def kill(
    direction: Direction, *, method: str | None = None, nth: int = 1, times: int | None = 1, when: When | None = None
) -> Fault:
    """The server dies when this line is on its way: neither it nor anything after it arrives.

    A child gets SIGKILL, and all of its group. In memory the server is cancelled, and nobody hears what it still says.
    """
    return Fault(what="kill", direction=direction, method=method, nth=nth, times=times, when=when)
