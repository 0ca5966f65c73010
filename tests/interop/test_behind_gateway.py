"""Servers of other authors behind ``twopipes keep`` and ``twopipes bridge``, and clients of other authors in front, in both eras.

The checks are those of the same programs without a gateway. A legacy server can ask outside of a call; a modern host cannot be
asked then, so such a question reaches only a legacy host.
"""

import asyncio
import sys
from typing import Any, NamedTuple

import pytest

from interop import test_everything as everything
from interop import test_published_servers as published
from interop.harness import BY_ITSELF, EXAMPLES, SCRIPTS, TEXT, Launch, connected, visit_of
from interop.test_twins import ABLE, TWINS, use
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform != "linux", reason="looks in /proc for leftover processes"),
]
TWOPIPES = [sys.executable, "-m", "twopipes"]
ERAS = pytest.mark.parametrize(
    ("era", "revision"), [("legacy", LATEST_LEGACY), ("modern", LATEST_MODERN)], ids=["legacy", "modern"]
)
repository = published.repository


@pytest.fixture(params=["bridge", "keep"])
def gateway(request) -> list[str]:
    return [*TWOPIPES, request.param, "--"]


@pytest.fixture
def state(tmp_path) -> dict[str, str]:
    """The environment of a user without manifests."""
    return {"XDG_STATE_HOME": str(tmp_path)}


# Our client, and servers of others


@ERAS
def test_the_time_server(gateway, state, era, revision):
    async def converse():
        command = [*gateway, *published.on_pypi("mcp_server_time", "--local-timezone", "UTC")]
        async with connected(command, era=era, env=state) as connection:
            assert connection.client.revision == revision
            await published.use_time(connection.client)
        assert_ended_by_itself(connection.client)

    asyncio.run(converse())


@ERAS
def test_the_git_server(gateway, state, era, revision, repository):
    async def converse():
        async with connected([*gateway, *published.on_pypi("mcp_server_git")], era=era, env=state) as connection:
            assert connection.client.revision == revision
            await published.use_git(connection.client, repository)
        assert_ended_by_itself(connection.client)

    asyncio.run(converse())


@ERAS
def test_the_filesystem_server(gateway, state, era, revision, tmp_path):
    """It asks a legacy host for the roots outside of a call. It works for a modern host with the folders of its arguments."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "note.txt").write_bytes(TEXT.encode())

    async def converse():
        command = [*gateway, *published.on_npm("server-filesystem", str(first))]
        async with connected(command, era=era, env=state) as connection:
            client = connection.client
            assert client.revision == revision
            assert client.server_info.name == "secure-filesystem-server"
            assert {"read_text_file", "list_allowed_directories"} <= {tool.name for tool in await client.list_tools()}
            result = await client.call_tool("read_text_file", {"path": str(first / "note.txt")})
            assert result.text == result.structured["content"] == TEXT
            assert (await client.call_tool("read_text_file", {"path": str(second / "note.txt")})).is_error
            await published.give_up(client, "read_text_file", {"path": str(first / "note.txt")})
            assert (await client.call_tool("read_text_file", {"path": str(first / "note.txt")})).text == TEXT
        assert_ended_by_itself(client)

    asyncio.run(converse())


def test_the_filesystem_server_gets_the_roots_of_a_legacy_host(gateway, state, tmp_path):
    async def converse():
        taken: asyncio.Queue[str] = asyncio.Queue()

        def hear(line):
            if "from MCP roots" in line.text:
                taken.put_nowait(line.text)

        first, second = tmp_path / "first", tmp_path / "second"
        first.mkdir()
        second.mkdir()
        command = [*gateway, *published.on_npm("server-filesystem")]
        async with connected(command, era="legacy", env=state, roots=[first], on_stderr=hear) as connection:
            client = connection.client
            await taken.get()
            assert str(first) in (await client.call_tool("list_allowed_directories")).text
            client.set_roots([second])
            await taken.get()
            assert str(second) in (await client.call_tool("list_allowed_directories")).text
        assert_ended_by_itself(client)

    asyncio.run(converse())


@ERAS
def test_the_everything_server(gateway, state, era, revision):
    """Its questions reach the host: a form, a page, a sample and the roots."""

    async def converse():
        logged: asyncio.Queue[str] = asyncio.Queue()
        visited = []

        def visit(question):
            visited.append(question.url)
            return question.accept()

        async with connected(
            [*gateway, *published.on_npm("server-everything", "stdio")],
            era=era,
            env=state,
            on_elicit=lambda question: {"name": "Ada", "color": "green"},
            on_elicit_url=visit,
            on_sample=lambda wanted: f"the model heard: {wanted.messages[0].content.text}",
            roots=["file:///home/ada"],
            on_log=lambda params: logged.put_nowait(params.data),
        ) as connection:
            client = connection.client
            assert client.revision == revision
            assert client.server_info.name == "mcp-servers/everything"
            await published.list_and_read(client)
            await published.call(client)
            await published.answer(client, visited)
            if era == "legacy":
                await published.refuse(client)
                await published.subscribe(client, logged)
            else:  # that era has no error that names pages to visit; the host is asked, and the call is sent again
                again = await client.call_tool("trigger-url-elicitation", {**published.PAGE, "errorPath": True})
                assert "completed" in again.text
                assert visited[1:] == ["https://modelcontextprotocol.io", published.PAGE["url"]]
            await published.cancel(client)
        assert client.stray == ()

    asyncio.run(converse())


@ERAS
@pytest.mark.parametrize("twin", TWINS)
def test_a_server_of_another_sdk(gateway, state, twin, era, revision):
    """Official Python 1 and 2, FastMCP and TypeScript: with forms, pages, samples, roots, progress and list changes."""

    async def converse():
        async with connected([*gateway, *TWINS[twin]()], era=era, env=state, **ABLE) as connection:
            assert connection.client.revision == revision
            await use(connection.client)

    asyncio.run(converse())


def assert_ended_by_itself(client) -> None:
    assert client.closed.ended_by == "eof"
    assert client.stray == ()


# Clients of others, and our server in each era


class Tour(NamedTuple):
    """The findings of a client, and how the gateways that it launched ended."""

    revision: str
    server_era: str
    found: dict[str, Any]
    launches: list[Launch]


CLIENTS = [
    pytest.param((everything.official_2, "auto", LATEST_MODERN), id="official-2-auto"),
    pytest.param((everything.official_2, "legacy", LATEST_LEGACY), id="official-2-legacy"),
    pytest.param((everything.official_1, None, LATEST_LEGACY), id="official-1"),
    pytest.param((everything.fastmcp, "auto", LATEST_MODERN), id="fastmcp-auto"),
    pytest.param((everything.fastmcp, "legacy", LATEST_LEGACY), id="fastmcp-legacy"),
    pytest.param((everything.typescript, None, LATEST_LEGACY), id="typescript-default"),
    pytest.param((everything.typescript, "auto", LATEST_MODERN), id="typescript-auto"),
]


@pytest.fixture(scope="module", params=["legacy", "modern"], ids=lambda era: f"{era}-server")
def server_era(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=CLIENTS)
def tour(request, server_era, tmp_path_factory) -> Tour:
    client, mode, revision = request.param
    folder = tmp_path_factory.mktemp("tour")
    (folder / "state").mkdir()
    server = [sys.executable, str(SCRIPTS / "one_era.py"), str(EXAMPLES / "everything.py"), server_era]
    command = ["env", f"XDG_STATE_HOME={folder / 'state'}", *TWOPIPES, "keep", "--", *server]
    visit = visit_of(client(), mode=mode, folder=folder, server=command)
    return Tour(revision, server_era, visit.findings, visit.launches)


test_a_client_connects_in_its_preferred_era = everything.test_a_client_connects_in_its_preferred_era
test_a_client_lists_all_pages = everything.test_a_client_lists_all_pages
test_a_client_gets_a_block_of_each_kind = everything.test_a_client_gets_a_block_of_each_kind
test_a_client_reads_texts_bytes_and_templates = everything.test_a_client_reads_texts_bytes_and_templates
test_a_client_gets_prompts_and_completes_their_arguments = everything.test_a_client_gets_prompts_and_completes_their_arguments
test_a_client_answers_the_questions_of_handlers = everything.test_a_client_answers_the_questions_of_handlers
test_a_client_gets_log_messages_from_the_level_it_chose = everything.test_a_client_gets_log_messages_from_the_level_it_chose
test_a_client_is_notified_of_changes_while_it_watches = everything.test_a_client_is_notified_of_changes_while_it_watches
test_a_client_cancels_a_call_and_the_server_continues = everything.test_a_client_cancels_a_call_and_the_server_continues


def test_a_client_calls_tools_and_sees_which_failed(tour):
    calls = tour.found["calls"]
    assert {name for name, result in calls.items() if result.get("isError", False)} == {"fail", "boom"}
    structured = {name: result["structuredContent"] for name, result in calls.items() if "structuredContent" in result}
    # A value that is not an object needs the modern era on both sides.
    both_modern = tour.revision == LATEST_MODERN and tour.server_era == "modern"
    assert structured == {
        "echo": {"result": "h\u00e9llo\n\u2028"},
        "structured": {"city": "Bergen", "celsius": 7.5, "conditions": "sun"},
        **({"numbers": [0, 1, 2]} if both_modern else {}),
    }


def test_a_client_follows_the_progress_of_a_call(tour):
    assert tour.found["slow"] == "3 steps"
    # The TypeScript client complains about a report that it handles later than the response in the same read.
    complaints = len(tour.found.get("complaints", []))
    assert len(tour.found["progress"]) + complaints == 3


def test_a_gateway_exits_when_its_client_does(tour):
    assert tour.launches[-1] == BY_ITSELF
    assert len(tour.launches) <= 2
