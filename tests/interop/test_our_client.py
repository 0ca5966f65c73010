"""Our client uses servers built with the other SDKs, each in every era that it supports, and ends all their processes.

The programs ``peers/*_server`` offer the same features. The client runs its tour of each once, and each test checks one part of
the findings. ``test_published_servers.py`` uses published servers.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, NamedTuple

import pytest

from interop.harness import SCRIPTS, TEXT, Connected, connected, node_script, python_of
from twopipes import Change, McpError
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY
from twopipes.errors import NotFound, OpeningFailed
from twopipes.types import ClientOptions

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform != "linux", reason="looks in /proc for leftover processes"),
]

TOOLS = ["echo", "weather", "wait_for_ever", "wait_until_cancelled", "ask", "sample", "roots", "log", "touch", "mutate"]
REVISIONS = {"legacy": LATEST_LEGACY, "modern": LATEST_MODERN}
NOTE = "note://first"


def official_2() -> list[str]:
    return [python_of("official-2"), str(SCRIPTS / "official_2_server.py")]


def official_1() -> list[str]:
    return [python_of("official-1"), str(SCRIPTS / "official_1_server.py")]


def fastmcp() -> list[str]:
    return [python_of("fastmcp-4"), str(SCRIPTS / "fastmcp_server.py")]


def typescript_2() -> list[str]:
    return node_script("typescript_server.mjs")


class Peer(NamedTuple):
    """A server, the era to request, the revision it agrees to, and the changes that it can report."""

    name: str
    command: Callable[[], list[str]]
    era: str
    speaks: str
    changes: set[Change] | None


class Tour(NamedTuple):
    """The findings of our client at a peer."""

    peer: Peer
    found: dict[str, Any]


TOOLS_CHANGED, NOTE_CHANGED = Change("tools"), Change("resource", NOTE)
PEERS = [
    Peer("official-2", official_2, "auto", "modern", {TOOLS_CHANGED, NOTE_CHANGED}),
    # In a session its MCPServer cannot declare changes of lists.
    Peer("official-2", official_2, "legacy", "legacy", {NOTE_CHANGED}),
    # It always declares `subscribe: false`.
    Peer("official-1", official_1, "auto", "legacy", {TOOLS_CHANGED}),
    # On the stateless wire it has no subscriptions/listen at all.
    Peer("fastmcp", fastmcp, "auto", "modern", None),
    Peer("fastmcp", fastmcp, "legacy", "legacy", {TOOLS_CHANGED}),
    Peer("typescript-2", typescript_2, "auto", "modern", {TOOLS_CHANGED, NOTE_CHANGED}),
    Peer("typescript-2", typescript_2, "legacy", "legacy", {TOOLS_CHANGED, NOTE_CHANGED}),
]


async def outcome(awaitable: Any) -> Any:
    """Return the result or the error."""
    try:
        return await awaitable
    except McpError as error:
        return error


async def make_tour(peer: Peer, connecting: Callable[..., AbstractAsyncContextManager[Connected]]) -> dict[str, Any]:
    found: dict[str, Any] = {"logged": [], "asked": [], "notified": []}
    answers: list[dict[str, str] | None] = [{"name": "Ada"}, None]

    def fill_in(question):
        found["asked"].append(question.message)
        answer = answers.pop(0)
        return question.decline() if answer is None else answer

    async with connecting(
        era=peer.era,
        on_elicit=fill_in,
        on_sample=lambda wanted: f"the model heard: {wanted.messages[0].content.text}",
        roots=["file:///home/ada"],
        on_log=lambda params: found["logged"].append((params.level, params.data)),
        options=ClientOptions(on_notification=lambda method, _: found["notified"].append(method)),
    ) as connection:
        client = connection.client
        found["opened"] = (client.era, client.revision, client.server_info.name)
        found["tools"] = [tool.name for tool in await client.list_tools()]
        found["resources"] = [resource.uri for resource in await client.list_resources()]
        found["templates"] = [template.uri_template for template in await client.list_resource_templates()]
        found["prompts"] = [prompt.name for prompt in await client.list_prompts()]

        found["progress"] = []
        found["echo"] = await client.call_tool("echo", {"text": TEXT}, on_progress=found["progress"].append)
        found["weather"] = await client.call_tool("weather", {"city": "Bergen"})
        found["unknown tool"] = await outcome(client.call_tool("no-such-tool", {}))
        found["unknown prompt"] = await outcome(client.get_prompt("no-such-prompt"))
        found["unknown resource"] = await outcome(client.read_resource("nothing://here"))
        found["note"] = await client.read_resource(NOTE)
        found["poem"] = await client.read_resource("poem://rose")
        found["greet"] = await client.get_prompt("greet", {"name": "Ada"})
        found["completed"] = await client.complete("name", "A", prompt="greet")

        found["ask"] = [(await client.call_tool("ask")).text for _ in range(2)]
        found["sample"] = (await client.call_tool("sample")).text
        found["roots"] = (await client.call_tool("roots")).text
        if client.era == "modern" or client.capabilities.allows("logging"):
            await client.set_log_level("info")
        await client.call_tool("log")

        await watch(client, found)
        await cancel(client, found)
        await client.ping()
        found["stray"] = client.stray
    found["closed"] = client.closed
    return found


async def watch(client, found) -> None:
    subscription = client.subscribe(tools=True, resources=[NOTE])
    async with subscription:
        delivers = await outcome(subscription.ready())
        found["subscribed"] = delivers
        await client.call_tool("touch", {"text": "A new note."})
        await client.call_tool("mutate")
        found["touched"] = (await client.read_resource(NOTE)).text
        found["changes"] = set()
        if not isinstance(delivers, McpError):
            expected = bool(delivers.tools_list_changed) + len(delivers.resource_subscriptions or ())
            while len(found["changes"]) < expected:
                found["changes"].add(await anext(subscription))


async def cancel(client, found) -> None:
    # A call that has reported progress is known to be running.
    working = asyncio.Event()
    call = asyncio.create_task(client.call_tool("wait_for_ever", on_progress=lambda _: working.set()))
    await working.wait()
    call.cancel()
    (found["given up"],) = await asyncio.gather(call, return_exceptions=True)
    # The server responds to this only after it has received the cancellation.
    found["heard"] = (await client.call_tool("wait_until_cancelled")).text


@pytest.fixture(scope="module", params=PEERS, ids=lambda peer: f"{peer.name}-{peer.era}")
def tour(request) -> Tour:
    return Tour(request.param, asyncio.run(make_tour(request.param, partial(connected, request.param.command()))))


def test_the_client_uses_the_era_of_the_server(tour):
    assert tour.found["opened"] == (tour.peer.speaks, REVISIONS[tour.peer.speaks], tour.peer.name)


def test_everything_is_listed(tour):
    assert tour.found["tools"] == TOOLS
    assert tour.found["resources"] == [NOTE]
    assert tour.found["templates"] == ["poem://{name}"]
    assert tour.found["prompts"] == ["greet"]


def test_a_tool_is_called_and_reports_progress(tour):
    assert tour.found["echo"].text == TEXT
    assert not tour.found["echo"].is_error
    assert [(report.progress, report.total, report.message) for report in tour.found["progress"]] == [(0.5, 1, "echoing")]


def test_structured_output_matches_the_schema_of_the_tool(tour):
    assert tour.found["weather"].structured == {"city": "Bergen", "celsius": 7.5}
    assert str(tour.found["weather"].validation) == "valid"


def test_resources_are_read(tour):
    assert tour.found["note"].text == "The first note."
    assert [(contents.uri, contents.mime_type, contents.text) for contents in tour.found["poem"].contents] == [
        ("poem://rose", "text/plain", "O rose!")
    ]


def test_a_prompt_is_filled_in_and_its_argument_completed(tour):
    assert [(message.role, message.content.text) for message in tour.found["greet"].messages] == [("user", "Please greet Ada.")]
    assert tour.found["completed"].values == ["Ada", "Alan"]


def test_unknown_names_are_refused(tour):
    tool, prompt, resource = (tour.found[f"unknown {what}"] for what in ("tool", "prompt", "resource"))
    assert isinstance(prompt, McpError)
    if tour.peer.name == "typescript-2":
        assert tool.code == -32602
    else:
        # TL-04 requires a protocol error. The three Python SDKs return a result, as if the tool existed and had failed.
        assert tool.is_error
        assert "Unknown tool" in tool.text
    if tour.peer.name == "official-1":
        # ER-12, PM-04: it responds to both with a meaningless code, so a client cannot know what was wrong.
        assert (resource.code, prompt.code) == (0, 0)
    else:
        # ER-13; in sessions it was -32002 (ER-12), and none of them sends that.
        assert isinstance(resource, NotFound)
        # PM-04: the second generation reports an internal error for an unknown prompt, without a message on the stateless wire.
        assert prompt.code == ({"legacy": 0, "modern": -32603}[tour.peer.speaks] if tour.peer.name == "official-2" else -32602)


def test_questions_of_the_server_are_answered(tour):
    assert tour.found["ask"] == ["Hello, Ada", "the user said decline"]
    assert tour.found["asked"] == ["Who are you?", "Who are you?"]
    assert tour.found["sample"] == "the model heard: hm"
    assert tour.found["roots"] == "file:///home/ada"


def test_log_messages_arrive(tour):
    # FastMCP wraps the author's message. The two official SDKs log without declaring the capability (LG-01).
    said = {"msg": "written down", "extra": None} if tour.peer.name == "fastmcp" else "written down"
    assert tour.found["logged"] == [("info", said)]


def test_changes_arrive_if_the_server_reports_them(tour):
    if tour.peer.changes is None:
        # SU-17 asks for more, and SU-05 forbids what it does instead: it reports changes without a listener.
        assert tour.found["subscribed"].code == -32601
        assert tour.found["notified"] == [NOTE_CHANGED.method, TOOLS_CHANGED.method]
    else:
        assert tour.found["changes"] == tour.peer.changes
        wanted = tour.found["subscribed"]
        assert bool(wanted.tools_list_changed) == (TOOLS_CHANGED in tour.peer.changes)
        assert wanted.resource_subscriptions == ([NOTE] if NOTE_CHANGED in tour.peer.changes else None)
    assert tour.found["touched"] == "A new note."


def test_a_cancelled_call_stops_in_the_server_too(tour):
    assert isinstance(tour.found["given up"], asyncio.CancelledError)
    assert tour.found["heard"] == "cancelled"


def test_the_server_exits_on_eof_and_sent_nothing_else(tour):
    closed = tour.found["closed"]
    assert (closed.ended_by, closed.exit.code) == ("eof", 0)
    assert tour.found["stray"] == ()


# Eras and revisions


@pytest.mark.parametrize("command", [official_2, fastmcp, typescript_2])
def test_a_server_of_both_eras_is_used_in_the_modern_one_only(command):
    async def converse():
        async with connected(command(), era="modern") as connection:
            client = connection.client
            assert (client.era, client.revision) == ("modern", LATEST_MODERN)
            assert (await client.call_tool("echo", {"text": TEXT})).text == TEXT
        assert client.closed.ended_by == "eof"

    asyncio.run(converse())


@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_of_the_handshake_era_supports_all_its_revisions(revision):
    async def converse():
        async with connected(official_1(), revision=revision) as connection:
            client = connection.client
            assert (client.era, client.revision) == ("legacy", revision)
            assert (await client.call_tool("echo", {"text": TEXT})).text == TEXT
        assert client.closed.ended_by == "eof"

    asyncio.run(converse())


def test_a_client_without_the_handshake_reports_an_old_server():
    async def converse():
        async with connected(official_1(), era="modern"):
            pytest.fail("unreachable")

    with pytest.raises(OpeningFailed, match="looks like a legacy server"):
        asyncio.run(converse())
