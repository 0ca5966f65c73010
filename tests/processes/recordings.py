"""Recordings made for a test: our client uses a real server, and their messages are recorded."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from msgspec import structs

from twopipes import CallResult, McpError, connect
from twopipes._process.command import ServerCommand
from twopipes._protocol.types import Implementation, Result
from twopipes._trace.format import Event, Header, Line, encode
from twopipes.types import ClientOptions

_OF_THE_ERA = ("meta", "result_type", "ttl_ms", "cache_scope")
EXAMPLES = Path(__file__).parents[2] / "examples"
EVERYTHING = [sys.executable, str(EXAMPLES / "everything.py")]


async def _person(question) -> dict[str, Any]:
    known = {"name": "Ada", "age": 36, "favourite": "blue", "others": ["red"]}
    # In revisions whose forms have no multiple choice, each option is a question.
    return {name: known.get(name, True) for name in question.params.requested_schema["properties"]}


async def converse(client) -> dict[str, Any]:
    """Use nearly every feature of examples/everything.py, and return the results."""
    legacy = client.revision < "2026-07-28"
    asks = client.revision >= "2025-06-18"
    got: dict[str, Any] = {}

    async def note(name, coroutine):
        try:
            got[name] = plain(await coroutine)
        except McpError as error:
            got[name] = (type(error).__name__, str(error))

    await note("tools", client.list_tools())
    await note("resources", client.list_resources())
    await note("templates", client.list_resource_templates())
    await note("prompts", client.list_prompts())
    await note("echo", client.call_tool("echo", {"text": "héllo\u2028"}))
    await note("add", client.call_tool("add", {"a": 2, "b": 3}))
    await note("structured", client.call_tool("structured", {"city": "Oslo", "celsius": -3.5}))
    await note("blocks", client.call_tool("blocks"))
    await note("numbers", client.call_tool("numbers", {"count": 3}))
    await note("fail", client.call_tool("fail"))
    await note("unknown", client.call_tool("nobody"))
    steps = []
    await note("slow", client.call_tool("slow", {"steps": 3, "seconds": 0.001}, on_progress=steps.append))
    got["steps"] = len(steps)
    if legacy:
        await client.ping()
        await client.set_log_level("warning")
        await note("log", client.call_tool("log"))
    if asks:
        await note("ask", client.call_tool("ask"))
        await note("ask_twice", client.call_tool("ask_twice"))
        await note("ask_at_once", client.call_tool("ask_at_once"))
        await note("gated", client.read_resource("gated://secret"))
    await note("sample", client.call_tool("sample", {"prompt": "Hi"}))
    await note("roots", client.call_tool("roots_tool"))
    await note("pixel", client.read_resource("image://pixel"))
    await note("missing", client.read_resource("note://missing"))
    await note("prompt", client.get_prompt("review", {"code": "x = 1"}))
    await note("complete", client.complete("topic", "topic-1", prompt="dialogue"))
    await _converse_about_changes(client, note, got)
    together = await asyncio.gather(*(client.call_tool("add", {"a": number}) for number in range(5)))
    got["together"] = [plain(result) for result in together]
    return got


async def _converse_about_changes(client, note, got) -> None:
    async with client.subscribe(tools=True, resources=["note://first"]) as changes:
        await changes.ready()
        await note("mutate", client.call_tool("mutate"))
        got["changed"] = (await anext(changes)).kind
        await note("touch", client.call_tool("touch", {"text": "new"}))
        got["updated"] = (await anext(changes)).uri
    await note("extra", client.call_tool("extra"))
    await note("first", client.read_resource("note://first"))
    moving = asyncio.Event()
    blocked = asyncio.create_task(
        client.call_tool("slow", {"steps": 1000, "seconds": 0.01}, on_progress=lambda _progress: moving.set())
    )
    await moving.wait()
    blocked.cancel()
    await asyncio.wait([blocked])


def plain(result: Any) -> Any:
    """Return a result without the members that every result of an era has."""
    if isinstance(result, CallResult):
        return result.is_error, result.content, result.structured
    if isinstance(result, Result):
        return {name: value for name, value in structs.asdict(result).items() if name not in _OF_THE_ERA}
    return result


async def record(path: Path, command: list[str], revision: str, *, talk=converse) -> dict[str, Any]:
    """Record a conversation of our client with a server in a revision, and return its results."""
    # Our whole environment, because it keeps the server's key away from the user's own.
    target = ServerCommand(command, environment="inherit")
    async with connect(target, trace=path, **options(revision)) as client:
        return await talk(client)


def options(revision: str) -> dict[str, Any]:
    """Return the options of the client, here and for a mock."""
    return {
        "revision": revision,
        "on_elicit": _person,
        "on_sample": lambda _question: "a thought",
        "roots": ["file:///home/ada"],
        "options": ClientOptions(client_info=Implementation("test", "1")),
    }


def trace_of(path: Path, *said: tuple[str, Any], redacted: tuple[str, ...] = (), connections: int = 1) -> Path:
    """Write a recording by hand: pairs of a side and a message, or of ``=`` and the side that ended."""
    entries: list[Header | Line | Event] = [Header(version=1, recorder="test", redacted=redacted)]
    for number, (side, message) in enumerate(said):
        connection = number * connections // len(said)
        if side == "=":
            entries.append(Event(at=number / 1000, name="eof", stream=message, connection=connection))
        else:
            data = message.encode() if isinstance(message, str) else json.dumps(message).encode()
            entries.append(Line(number / 1000, side, data, connection=connection))
    path.write_bytes(b"".join(map(encode, entries)))
    return path


def handshake(revision: str = "2025-11-25", **capabilities: Any) -> list[tuple[str, Any]]:
    """Return the first messages of a recorded session."""
    params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}}
    result = {"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    return [
        (">", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
        ("<", {"jsonrpc": "2.0", "id": 0, "result": result}),
        (">", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ]
