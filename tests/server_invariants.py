"""Invariants of a served connection, whatever its handlers raise and whatever the client sends, cancels and does not read.

Bytes are read as a list of steps, so that the fuzzer and the property tests share it. A step calls a tool that ends in one of
many ways, cancels a call, lets the event loop run, or makes the client stop or start reading.
"""

import asyncio
import contextlib
import io
import json
from typing import Any

import sessions
from twopipes import Server, ServerSettings, ToolError
from twopipes._channels.memory import MemoryChannel, memory_pair

# Seconds. A limit for a hang, not an assertion.
LIMIT = 30
MAX_RUNNING = 3
MAX_STEPS = 200
# Larger than the buffer of a pipe, so that a client that does not read is noticed after a few results.
FILLER = "x" * 4096
ENDINGS = (
    "return",
    "value error",
    "tool error",
    "own base",
    "generator exit",
    "exit",
    "stop",
    "cancelled",
    "group",
    "wait",
    "yield",
)


class OwnBase(BaseException):
    """An exception that a library may raise to get past every ``except Exception``."""


def end(how: str) -> str:
    """Return, or raise the exception that the ending names."""
    errors: dict[str, BaseException] = {
        "value error": ValueError("private"),
        "tool error": ToolError("public"),
        "own base": OwnBase("private"),
        "generator exit": GeneratorExit(),
        "exit": SystemExit(3),
        "stop": StopIteration(1),
        "cancelled": asyncio.CancelledError(),
        "group": BaseExceptionGroup("private", [OwnBase("private")]),
    }
    if how in errors:
        raise errors[how]
    return FILLER


def raising_server() -> tuple[Server, list[asyncio.Event]]:
    """Return a server whose tools end as their argument says, and the events that its waiting calls wait for."""
    server = Server("raising", settings=ServerSettings(max_running=MAX_RUNNING, max_threads=1))
    waiting: list[asyncio.Event] = []

    @server.tool
    async def at_once(how: str, filler: str = "") -> str:
        if how == "wait":
            waiting.append(asyncio.Event())
            await waiting[-1].wait()
        elif how == "turn":
            await asyncio.sleep(0)
        return end(how)

    @server.tool
    async def after_a_turn(how: str, filler: str = "") -> str:
        await asyncio.sleep(0)
        return end(how)

    return server, waiting


class Play:
    """One connection, and everything the client has sent and received on it."""

    def __init__(self, channel: MemoryChannel, waiting: list[asyncio.Event]) -> None:
        self.channel = channel
        self.waiting = waiting
        self.sent: list[int] = []
        self.cancelled: set[int] = set()
        self.received: list[Any] = []
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def read(self) -> None:
        rest = b""
        while data := await self.channel.read():
            *lines, rest = (rest + data).split(b"\n")
            self.received += map(json.loads, lines)
            await self.may_read.wait()

    async def step(self, kind: int, value: int) -> None:
        if kind in {0, 1, 2}:
            tool = ("at_once", "after_a_turn", "missing")[kind]
            arguments = {"how": ENDINGS[value % len(ENDINGS)], "filler": FILLER if value & 64 else ""}
            self.sent.append(len(self.sent) + 1)
            self.send(sessions.modern(self.sent[-1], "tools/call", name=tool, arguments=arguments))
        elif kind == 3 and self.sent:
            request_id = self.sent[-1 - value % min(len(self.sent), 8)]
            self.cancelled.add(request_id)
            self.send(sessions.cancelled(request_id))
        elif kind == 4:
            for _ in range(value % 8):
                await asyncio.sleep(0)
        elif kind == 5:
            (self.may_read.clear if value & 1 else self.may_read.set)()
        elif kind == 6:
            for event in self.waiting[-(value % 4) :]:
                event.set()

    def send(self, message: Any) -> None:
        self.channel.write(json.dumps(message).encode() + b"\n")

    def check(self) -> None:
        """Check that every request ended exactly once, and that no response is for something else."""
        responses = [line["id"] for line in self.received if "method" not in line]
        assert len(responses) == len(set(responses)), f"a request got two responses: {sorted(responses)}"
        assert set(responses) <= set(self.sent), f"a response to a request that was not sent: {set(responses) - set(self.sent)}"
        unanswered = set(self.sent) - set(responses) - self.cancelled
        assert not unanswered, f"requests without a response: {sorted(unanswered)}"
        assert "private" not in json.dumps(self.received), "the text of an exception reached the client"


async def play(data: bytes) -> None:
    """Play the steps, let everything finish, close the client's side, and check the responses."""
    server, waiting = raising_server()
    ours, theirs = memory_pair(capacity=2 * len(FILLER), high_water=4 * len(FILLER), low_water=len(FILLER))
    serving = asyncio.create_task(server.serve(channel=theirs))
    played = Play(ours, waiting)
    reading = asyncio.create_task(played.read())
    async with asyncio.timeout(LIMIT):
        for position in range(0, min(len(data), 2 * MAX_STEPS) - 1, 2):
            await played.step(data[position] % 7, data[position + 1])
        played.may_read.set()
        closing = asyncio.create_task(ours.close_write())
        while not serving.done():
            for event in waiting:
                event.set()
            await asyncio.sleep(0)
        await asyncio.gather(serving, reading, closing)
    await ours.close()
    played.check()


def check_steps(data: bytes) -> None:
    """Check every invariant on the steps that these bytes name."""
    with contextlib.redirect_stderr(io.StringIO()) as reported:
        asyncio.run(play(data))
    assert "exception was never retrieved" not in reported.getvalue(), reported.getvalue()
