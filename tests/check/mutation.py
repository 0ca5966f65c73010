"""Mutants: a healthy peer with one fault, which is added on the wire between the peer and the check.

A mutant is in ``mutants/server_<section>.py`` or ``mutants/client_<section>.py`` and is registered by one of these::

    @line_mutant("FR-04")           # each line of the subject, without its newline -> bytes, written as they are; None: as it was
    @message_mutant("JR-06")        # each message of the subject -> a message, several, or None to swallow it
    @wire_mutant("FR-09")           # once for each connection: sees both directions, keeps state, sends messages itself
    @raw_mutant("SD-02")            # a whole Subject (server) or Driver (client), where lines cannot show it
"""

import asyncio
import importlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from twopipes import TwopipesError
from twopipes._channels.base import Channel
from twopipes.errors import ChannelBroken, ChannelClosed

MUTANTS: list["Mutant"] = []
FOLDER = Path(__file__).parent / "mutants"


class Mutant(NamedTuple):
    """One fault."""

    rule: str
    side: str  # server or client
    section: str
    name: str
    kind: str  # wire or raw
    function: Callable[..., Any]
    revision: str | None  # in which it shows; the newest that is tried unless given
    is_slow: bool = False  # it consists of processes that end by themselves: they may take the time that they need

    def __str__(self) -> str:
        return f"{self.rule}-{self.name}"


class Wire:
    """One connection, as a mutant sees it.

    Attributes:
        from_subject: Called with each line of the subject: returns the bytes that the check gets instead, or ``None``.
        to_subject: The same for the lines of the check.
        chunk_to_subject: Called with each chunk that the check writes, before it is split into lines.
    """

    def __init__(self, channel: "MutatingChannel") -> None:
        self._channel = channel
        self.from_subject: Callable[[bytes], bytes | None] = lambda _line: None
        self.to_subject: Callable[[bytes], bytes | None] = lambda _line: None
        self.chunk_to_subject: Callable[[bytes], bytes] = lambda data: data

    @property
    def unread(self) -> int:
        """The number of chunks that the check has not read yet."""
        return self._channel.unread

    def send_to_check(self, message: Any) -> None:
        """Send a message, or bytes unchanged, to the check, as if the subject had sent it."""
        self._channel.to_check(_bytes(message))

    def send_to_subject(self, message: Any) -> None:
        """Send something to the subject, as if the check had sent it."""
        self._channel.to_twin(_bytes(message))


def _bytes(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode() + b"\n"


class MutatingChannel(Channel):
    """A channel that changes lines. Either end may hold it: the check of a server, or the client that is checked.

    Args:
        inner: The channel to the other end.
        mutate: Given the :class:`Wire` before anything passes.
        reader_is_check: Whether what is read goes to the check.
    """

    def __init__(self, inner: Channel, mutate: Callable[[Wire], object], *, reader_is_check: bool) -> None:
        self._inner = inner
        self._reader_is_check = reader_is_check
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._rest = {"in": b"", "out": b""}
        self._over = False
        self._wire = Wire(self)
        mutate(self._wire)
        self._pumping = asyncio.create_task(self._pump())

    @property
    def unread(self) -> int:
        return self._incoming.qsize()

    def to_check(self, data: bytes) -> None:
        self._deliver(data) if self._reader_is_check else self._pass_on(data)

    def to_twin(self, data: bytes) -> None:
        self._pass_on(data) if self._reader_is_check else self._deliver(data)

    def _deliver(self, data: bytes) -> None:
        if data:
            self._incoming.put_nowait(data)

    def _pass_on(self, data: bytes) -> None:
        with suppress(ChannelBroken, ChannelClosed):
            self._inner.write(data)

    async def _pump(self) -> None:
        change = self._wire.from_subject if self._reader_is_check else self._wire.to_subject
        try:
            while data := await self._inner.read():
                for line in self._lines("in", data if self._reader_is_check else self._wire.chunk_to_subject(data)):
                    self._deliver(_changed(change, line))
        except TwopipesError:
            pass
        self._deliver(self._rest["in"])
        self._incoming.put_nowait(b"")

    def _lines(self, way: str, data: bytes) -> list[bytes]:
        *lines, self._rest[way] = (self._rest[way] + data).split(b"\n")
        return lines

    async def read(self) -> bytes:
        if self._over:
            return b""
        data = await self._incoming.get()
        self._over = not data
        return data

    def write(self, data: bytes) -> None:
        change = self._wire.to_subject if self._reader_is_check else self._wire.from_subject
        for line in self._lines("out", self._wire.chunk_to_subject(data) if self._reader_is_check else data):
            self._inner.write(_changed(change, line))

    async def drain(self) -> None:
        await self._inner.drain()

    async def flush(self) -> None:
        await self._inner.flush()

    async def close_write(self) -> None:
        if self._rest["out"]:
            self._inner.write(self._rest["out"])
            self._rest["out"] = b""
        await self._inner.close_write()

    async def close(self) -> None:
        await self._inner.close()
        self._pumping.cancel()
        await asyncio.gather(self._pumping, return_exceptions=True)
        self._incoming.put_nowait(b"")

    @property
    def buffered(self) -> int:
        return self._inner.buffered

    @property
    def description(self) -> str:
        return f"{self._inner.description}, mutated"


def _changed(change: Callable[[bytes], bytes | None], line: bytes) -> bytes:
    changed = change(line)
    return line + b"\n" if changed is None else changed


def nothing_from(accepts: Callable[[bytes], Any]) -> Callable[[bytes], bytes | None]:
    """Return a function for :attr:`Wire.to_subject`: the subject gets neither the first accepted line nor any later one."""
    dropped: list[bytes] = []

    def receive(line: bytes) -> bytes | None:
        if dropped or accepts(line):
            dropped.append(line)
            return b""
        return None

    return receive


def line_mutant(rule: str, *, revision: str | None = None) -> Callable[[Any], Any]:
    """A function of a line of the subject that returns bytes, or ``None`` to leave it."""

    def enter(function: Callable[[bytes], bytes | None]) -> Any:
        def mutate(wire: Wire) -> None:
            wire.from_subject = function

        return _enter(rule, function, "wire", mutate, revision)

    return enter


def message_mutant(rule: str, *, revision: str | None = None) -> Callable[[Any], Any]:
    """A function of a message of the subject that returns a message, a tuple of several, or ``None`` to swallow it."""

    def enter(function: Callable[[Any], Any]) -> Any:
        def change(line: bytes) -> bytes | None:
            message = json.loads(line)
            before = json.dumps(message)
            found = function(message)
            if found is message and json.dumps(found) == before:
                return None
            several: Iterable[Any] = [] if found is None else found if isinstance(found, tuple) else [found]
            return b"".join(map(_bytes, several))

        def mutate(wire: Wire) -> None:
            wire.from_subject = change

        return _enter(rule, function, "wire", mutate, revision)

    return enter


def wire_mutant(rule: str, *, revision: str | None = None) -> Callable[[Any], Any]:
    """A function of a :class:`Wire`, called once for each connection."""
    return lambda function: _enter(rule, function, "wire", function, revision)


def raw_mutant(rule: str, *, revision: str | None = None, is_slow: bool = False) -> Callable[[Any], Any]:
    """A function that returns a whole ``Subject`` (of a server) or ``Driver`` (of a client)."""
    return lambda function: _enter(rule, function, "raw", function, revision, is_slow=is_slow)


def _enter(rule: str, function: Any, kind: str, apply: Any, revision: str | None, *, is_slow: bool = False) -> Any:
    side, _, section = function.__module__.rpartition(".")[2].partition("_")
    MUTANTS.append(Mutant(rule, side, section.upper(), function.__name__.replace("_", "-"), kind, apply, revision, is_slow))
    return function


def all_mutants(side: str) -> list[Mutant]:
    """The mutants of one side; a file is found by being in the folder."""
    for path in sorted(FOLDER.glob(f"{side}_*.py")):
        importlib.import_module(f"check.mutants.{path.stem}")
    return [mutant for mutant in MUTANTS if mutant.side == side]
