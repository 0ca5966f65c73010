"""A server that records every line of a client and responds from a table, for tests of the client's messages.

A test defines the responses, connects a real client, and checks the recorded lines:

    fake = FakeServer({"tools/call": text("hello")})
    async with connect(fake) as client:
        await client.call_tool("greet")
    assert fake.methods == ["server/discover", "tools/call"]

It is a server in this process, so each opening is a fresh connection: it can exit and be "launched" again as often as a test needs.
It checks every line, and fails the test when the client is closed if a line was invalid.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from systems import WINE
from twopipes._channels.base import Channel
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN, MODERN
from twopipes.errors import ChannelBroken, ChannelClosed

# Seconds. A limit for tests that hang, not an assertion.
NET = 60 if WINE else 30
PREFIX = "io.modelcontextprotocol/"
TAG = PREFIX + "subscriptionId"
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}
CACHEABLE = {"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
REMOVED = {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}

SILENCE = object()
"""No response."""


class Fault(NamedTuple):
    """An error response."""

    code: int
    message: str = "no"
    data: Any = None


class Bare(NamedTuple):
    """A result that is sent unchanged. Other results on the stateless wire get the members that they need."""

    result: Any


class Asked(NamedTuple):
    """A request, passed to the functions in the table."""

    fake: FakeServer
    channel: Channel
    id: Any
    method: str
    params: Mapping[str, Any]

    def answer(self, answer: Any) -> None:
        """Respond, now or later."""
        self.fake.answer(self, answer)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification over the connection of the request."""
        self.fake.write({"jsonrpc": "2.0", "method": method, "params": params}, self.channel)

    def progress(self, progress: float, **more: Any) -> None:
        """Report progress."""
        token = self.params["_meta"]["progressToken"]
        self.notify("notifications/progress", {"progressToken": token, "progress": progress, **more})


def text(value: str, **more: Any) -> dict[str, Any]:
    """Return the result of a tool with one text block."""
    return {"content": [{"type": "text", "text": value}], **more}


def asks(questions: Mapping[str, Any] | None = None, state: str | None = None) -> dict[str, Any]:
    """Return an input_required result of the stateless wire: for each key a method and its params."""
    result: dict[str, Any] = {"resultType": "input_required"}
    if questions is not None:
        result["inputRequests"] = {key: {"method": method, "params": params} for key, (method, params) in questions.items()}
    return result if state is None else {**result, "requestState": state}


FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
URL = {"mode": "url", "message": "Sign in", "url": "https://example.test/in", "elicitationId": "e1"}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 7}


def acknowledge(asked: Asked) -> object:
    """Acknowledge everything that a listen request asks for, and leave it open."""
    asked.notify(
        "notifications/subscriptions/acknowledged", {"_meta": {TAG: asked.id}, "notifications": asked.params["notifications"]}
    )
    return SILENCE


DEFAULTS: dict[str, Any] = {
    "ping": {},
    "tools/list": {"tools": []},
    "tools/call": text("done"),
    "prompts/list": {"prompts": []},
    "prompts/get": {"messages": []},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": []},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "completion/complete": {"completion": {"values": []}},
    "logging/setLevel": {},
    "subscriptions/listen": acknowledge,
}


class FakeServer:
    """The server.

    Args:
        answers: By method: a result; a :class:`Fault`; ``SILENCE``; a function of the :class:`Asked`, plain or async, that
            returns one of these; or a list of them, used in turn, the last one repeatedly.
        speaks: Its revisions: legacy ones, the modern one, or both.
        capabilities: The capabilities that it declares.

    Attributes:
        lines: The messages of all connections.
        raw: The same lines as bytes, each with its newline.
        lives: The messages of each connection.
        gone: Set when a client has closed its end.
    """

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        speaks: str | Sequence[str] = LATEST_MODERN,
        capabilities: Mapping[str, Any] = CAPABILITIES,
    ) -> None:
        self.speaks = (speaks,) if isinstance(speaks, str) else tuple(speaks)
        self.capabilities = capabilities
        self.answers: dict[str, Any] = {
            "server/discover": self._discover,
            "initialize": self._initialize,
            **DEFAULTS,
            **(answers or {}),
        }
        self.lines: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.lives: list[list[dict[str, Any]]] = []
        self.gone = asyncio.Event()
        self._channel: Channel | None = None
        self._changed = asyncio.Condition()
        self._turns: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # Reading

    async def serve(self, *, channel: Channel) -> None:
        """Serve one connection until its end."""
        self._channel = channel
        self.gone.clear()
        life: list[dict[str, Any]] = []
        self.lives.append(life)
        pieces: list[bytes] = []  # since the last newline
        try:
            with suppress(ChannelBroken, ChannelClosed):
                while data := await channel.read():
                    pieces.append(data)
                    if b"\n" not in data:
                        continue
                    *complete, rest = b"".join(pieces).split(b"\n")
                    pieces = [rest]
                    for line in complete:
                        self.raw.append(line + b"\n")
                        message = json.loads(line)
                        self.lines.append(message)
                        life.append(message)
                        self._check(message)
                        self._take(message, channel)
                    await self._notify_waiters()
            assert not any(pieces), f"half a line: {pieces!r}"  # FR-01
        finally:
            self.gone.set()
            await channel.close()

    def _check(self, message: Any) -> None:
        """Check what must hold for every line of every client (FR-05, JR-01 to JR-03, JR-07, JR-09, JR-11, JR-15)."""
        assert isinstance(message, dict), f"not an object: {message!r}"
        assert message["jsonrpc"] == "2.0"
        assert "id" not in message or type(message["id"]) in {str, int}
        assert isinstance(message.get("params", {}), dict)
        if "method" not in message:
            assert ("result" in message) != ("error" in message)
            assert self.speaks != MODERN, f"a response on the stateless wire: {message}"  # FR-10
        elif self.speaks == MODERN and "id" in message and message["method"] != "initialize":
            meta = message["params"]["_meta"]  # VN-01
            assert meta[PREFIX + "protocolVersion"] in MODERN
            assert isinstance(meta[PREFIX + "clientCapabilities"], dict)
            assert meta[PREFIX + "clientInfo"].keys() >= {"name", "version"}  # VN-03

    def _take(self, message: dict[str, Any], channel: Channel) -> None:
        if "method" in message and "id" in message:
            asked = Asked(self, channel, message["id"], message["method"], message.get("params", {}))
            self.answer(asked, self.answers.get(asked.method, Fault(-32601, f"unknown method {asked.method}")))

    def answer(self, asked: Asked, answer: Any) -> None:
        """Respond to a request from the table."""
        if isinstance(answer, list):
            turn = self._turns.get(asked.method, 0)
            self._turns[asked.method] = turn + 1
            answer = answer[min(turn, len(answer) - 1)]
        if callable(answer):
            answer = answer(asked)
        if inspect.iscoroutine(answer):
            task = asyncio.get_running_loop().create_task(self._answer_later(asked, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif answer is not SILENCE:
            self.write({"jsonrpc": "2.0", "id": asked.id, **self._outcome(asked, answer)}, asked.channel)

    async def _answer_later(self, asked: Asked, answer: Coroutine[Any, Any, Any]) -> None:
        self.answer(asked, await answer)

    def _outcome(self, asked: Asked, answer: Any) -> dict[str, Any]:
        if isinstance(answer, Fault):
            data = {} if answer.data is None else {"data": answer.data}
            return {"error": {"code": answer.code, "message": answer.message, **data}}
        if isinstance(answer, Bare):
            return {"result": answer.result}
        if not self._is_modern(asked):
            return {"result": answer}
        hints = {"ttlMs": 0, "cacheScope": "private"} if asked.method in CACHEABLE else {}
        return {"result": {"resultType": "complete", **hints, **answer}}

    @staticmethod
    def _is_modern(asked: Asked) -> bool:
        return PREFIX + "protocolVersion" in asked.params.get("_meta", {})

    def _discover(self, asked: Asked) -> Any:
        if LATEST_MODERN not in self.speaks:
            return Fault(-32601, "unknown method server/discover")
        info = {PREFIX + "serverInfo": {"name": "fake", "version": "1"}}
        return {"supportedVersions": list(self.speaks), "capabilities": self.capabilities, "instructions": "Ask.", "_meta": info}

    def _initialize(self, asked: Asked) -> Any:
        spoken = [revision for revision in self.speaks if revision not in MODERN]
        wanted = asked.params["protocolVersion"]
        if not spoken:
            return Fault(-32022, "no handshake here", {"supported": list(self.speaks), "requested": wanted})
        return {
            "protocolVersion": wanted if wanted in spoken else spoken[0],
            "capabilities": self.capabilities,
            "serverInfo": {"name": "fake", "version": "1"},
            "instructions": "Ask.",
        }

    # Sending

    def write(self, message: Any, channel: Channel | None = None) -> None:
        """Send a message, or bytes unchanged, over the newest connection or the given one."""
        data = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode() + b"\n"
        channel = channel or self._channel
        assert channel is not None
        with suppress(ChannelBroken, ChannelClosed):
            channel.write(data)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self.write({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, *, ident: Any = "q") -> dict[str, Any]:
        """Send a request, as legacy servers do, and return the response."""
        before = len(self.lines)
        self.write({"jsonrpc": "2.0", "id": ident, "method": method, **({} if params is None else {"params": params})})
        return await self._find(
            lambda: next((line for line in self.lines[before:] if line.get("id") == ident and "method" not in line), None)
        )

    async def hang_up(self) -> None:
        """End the connection, as a server that exits does."""
        assert self._channel is not None
        await self._channel.close()

    # The recording

    @property
    def methods(self) -> list[str]:
        """The methods of all requests and notifications, in order."""
        return [line["method"] for line in self.lines if "method" in line]

    def of(self, method: str) -> list[dict[str, Any]]:
        """The params of all requests and notifications of that method, in order."""
        return [line.get("params", {}) for line in self.lines if line.get("method") == method]

    def ids_of(self, method: str) -> list[Any]:
        """The ids of all requests of that method, in order."""
        return [line["id"] for line in self.lines if line.get("method") == method]

    @property
    def cancelled(self) -> list[Any]:
        """The ids that were cancelled, in order."""
        return [params["requestId"] for params in self.of("notifications/cancelled")]

    async def until(self, method: str, count: int = 1) -> dict[str, Any]:
        """Wait for the n-th line of a method, and return it."""
        return await self._find(
            lambda: ([line for line in self.lines if line.get("method") == method][count - 1 : count] or [None])[0]
        )

    async def _find(self, look: Callable[[], Any]) -> Any:
        async with self._changed:
            await self._changed.wait_for(lambda: look() is not None)
        return look()

    async def _notify_waiters(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def legacy(answers: Mapping[str, Any] | None = None, *, revision: str = LATEST_LEGACY, **options: Any) -> FakeServer:
    """Return a legacy server."""
    return FakeServer(answers, speaks=revision, **options)


def scene(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that is a coroutine, and check that no task remains."""

    @functools.wraps(test)
    def run(*arguments: Any, **options: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(NET):
                await test(*arguments, **options)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            if left:
                _, left = await asyncio.wait(left, timeout=2)
            assert not left, f"left behind: {left}"

        asyncio.run(bounded())

    return run
