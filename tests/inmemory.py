"""A client in memory for tests of the server: it speaks any of the five revisions, line by line, and answers questions."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import sessions
from twopipes import Server
from twopipes._channels.memory import MemoryChannel, memory_pair
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, MODERN
from twopipes.errors import ChannelBroken, ChannelClosed

__all__ = ["ALL", "ERAS", "LATEST_LEGACY", "LATEST_MODERN", "LEGACY", "MODERN", "Client", "connected", "play", "turn_until"]

ALL = (*LEGACY, *MODERN)
ERAS = (LATEST_LEGACY, LATEST_MODERN)
# Seconds. A net under tests that hang, not an assertion.
NET = 30
ANSWERS = {
    "elicitation/create": sessions.ANNA,
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"},
    "roots/list": {"roots": [{"uri": "file:///home"}]},
}

Answer = Callable[[str, str, Mapping[str, Any]], Any]


def willing(key: str, method: str, params: Mapping[str, Any]) -> Any:
    """Answers whatever it is asked."""
    return ANSWERS[method]


class Client:
    """The other end of a connection.

    Attributes:
        revision: What it speaks.
        can: Its capabilities.
        lines: Every line that has come, read.
        asked: Every question that has come: its key (or id), its method, its params.
        rounds: How often a modern call came back with questions.
    """

    def __init__(self, channel: MemoryChannel, revision: str, can: Mapping[str, Any]) -> None:
        self.channel = channel
        self.revision = revision
        self.can = can
        self.answer: Answer = willing
        self.lines: list[Any] = []
        self.asked: list[tuple[Any, str, Any]] = []
        self.rounds = 0
        self.over = False
        self._rest = b""
        self._answers: dict[tuple[type, Any], list[Any]] = {}
        self._ids = 0
        self._news = asyncio.Condition()
        self._reading: asyncio.Task[None] | None = None

    @property
    def modern(self) -> bool:
        return self.revision in MODERN

    # Reading

    def listen(self) -> None:
        """Begins to read."""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while data := await self.channel.read():
                self._rest += data
                *lines, self._rest = self._rest.split(b"\n")
                for line in lines:
                    read = json.loads(line)
                    for message in read if isinstance(read, list) else [read]:
                        self._take(message)
                await self._tell()
        finally:
            self.over = True
            await self._tell()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    def _take(self, line: Any) -> None:
        self.lines.append(line)
        if "method" not in line:
            self._answers.setdefault(_key(line.get("id")), []).append(line)
        elif "id" in line:
            self.asked.append((line["id"], line["method"], line.get("params")))
            reply = self.answer("", line["method"], line.get("params", {}))
            if reply is not None:
                kind = "error" if "code" in reply else "result"
                self.send({"jsonrpc": "2.0", "id": line["id"], kind: reply})

    async def until(self, happened: Callable[[], Any]) -> Any:
        """Waits until something is true of what has come."""
        async with self._news:
            await self._news.wait_for(lambda: happened() or self.over)
        found = happened()
        assert found, f"the connection ended first; it said {self.lines[-5:]}"
        return found

    async def line_of(self, request_id: Any) -> Any:
        """The answer to a request."""
        return await self.until(lambda: next(iter(self.answers_to(request_id)), None))

    async def note(self, method: str) -> Any:
        """The params of the first notification of this kind."""
        return (await self.until(lambda: self.notes(method)))[0]

    def answers_to(self, request_id: Any) -> list[Any]:
        return self._answers.get(_key(request_id), [])

    def notes(self, method: str) -> list[Any]:
        return [line.get("params", {}) for line in self.lines if line.get("method") == method and "id" not in line]

    # Writing

    def send(self, *messages: Any) -> None:
        for message in messages:
            self.channel.write(json.dumps(message).encode() + b"\n")

    def new_id(self) -> int:
        self._ids += 1
        return self._ids

    def start(self, method: str, *, meta: Mapping[str, Any] | None = None, request_id: Any = None, **params: Any) -> Any:
        """Sends a request and returns its id."""
        request_id = self.new_id() if request_id is None else request_id
        if self.modern:
            self.send(sessions.modern(request_id, method, can=self.can, meta=meta, **params))
        else:
            if meta is not None:
                params["_meta"] = dict(meta)
            self.send(sessions.request(request_id, method, **params))
        return request_id

    def start_tool(self, name: str, *, meta: Mapping[str, Any] | None = None, request_id: Any = None, **arguments: Any) -> Any:
        return self.start("tools/call", meta=meta, request_id=request_id, name=name, arguments=arguments)

    def cancel(self, request_id: Any) -> None:
        self.send(sessions.cancelled(request_id))

    # Both

    async def request(self, method: str, *, meta: Mapping[str, Any] | None = None, **params: Any) -> Any:
        """Sends a request, answers whatever is asked meanwhile in either era, and returns the last answer, the whole line."""
        more: dict[str, Any] = {}
        while True:
            line = await self.line_of(self.start(method, meta=meta, **params, **more))
            result = line.get("result", {})
            if result.get("resultType") != "input_required":
                return line
            self.rounds += 1
            more = self.replies(result)

    def replies(self, result: Any) -> dict[str, Any]:
        """What a retry carries, on top of the params of the request."""
        responses = {}
        for key, question in result["inputRequests"].items():
            self.asked.append((key, question["method"], question.get("params")))
            reply = self.answer(key, question["method"], question.get("params", {}))
            if reply is not None:
                responses[key] = reply
        return {"inputResponses": responses, "requestState": result["requestState"]}

    async def result(self, method: str, **params: Any) -> Any:
        line = await self.request(method, **params)
        assert "result" in line, line
        return line["result"]

    async def error(self, method: str, **params: Any) -> Any:
        line = await self.request(method, **params)
        assert "error" in line, line
        return line["error"]

    async def call(self, name: str, *, meta: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
        """Calls a tool and returns its result."""
        return await self.result("tools/call", meta=meta, name=name, arguments=arguments)

    async def text(self, name: str, **arguments: Any) -> str:
        """Calls a tool and returns its one text."""
        (block,) = (await self.call(name, **arguments))["content"]
        return block["text"]

    async def names(self, method: str, member: str, **params: Any) -> list[str]:
        found = (await self.result(method, **params))[member]
        return [each.get("uri") or each.get("uriTemplate") or each["name"] for each in found]

    async def settle(self) -> list[Any]:
        """Waits for the answer to a last request, which comes after whatever was said before; returns everything."""
        if self.modern:
            await self.result("server/discover")
        else:
            await self.result("ping")
        return self.lines

    async def leave(self) -> None:
        """Closes this client's way out, as a host does that closes stdin."""
        with suppress(ChannelClosed, ChannelBroken):
            await self.channel.close_write()

    async def close(self) -> None:
        await self.channel.close()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)


async def turn_until(happened: Callable[[], Any]) -> None:
    """Run the event loop until a condition is true that has no event."""
    while not happened():
        await asyncio.sleep(0)


def _key(request_id: Any) -> tuple[type, Any]:
    """The id with its JSON type: 7 is not "7", and not true."""
    return type(request_id), request_id


@asynccontextmanager
async def connected(
    server: Server,
    revision: str = LATEST_MODERN,
    *,
    can: Mapping[str, Any] = sessions.ABLE,
    reads: bool = True,
    handshake: bool = True,
    lifespan: Any = None,
) -> AsyncIterator[Client]:
    """A client of a server, after the handshake where the revision has one. At the end it leaves, and the server ends with it."""
    ours, theirs = memory_pair()
    serving = asyncio.create_task(server._serve_channel(theirs, lifespan))
    client = Client(ours, revision, can)
    if reads:
        client.listen()
    try:
        if handshake and not client.modern:
            client.send(sessions.initialize("opening", revision=revision, capabilities=can))
            client.send(sessions.note("notifications/initialized"))
            if reads:
                await client.line_of("opening")
                await client.settle()  # so that the server has read the notification, too
        yield client
        await client.leave()
        await serving
    finally:
        await client.close()
        await asyncio.wait([serving])


def play(
    server: Server,
    scenario: Callable[[Client], Awaitable[Any]],
    revision: str = LATEST_MODERN,
    *,
    can: Mapping[str, Any] = sessions.ABLE,
) -> Any:
    """Runs a scenario with one client, in an event loop of its own."""

    async def main() -> Any:
        async with asyncio.timeout(NET), connected(server, revision, can=can) as client:
            return await scenario(client)

    return asyncio.run(main())
