"""Our client session opens real servers of both eras, uses them, and sees them leave."""

import sys

import pytest

from interop.harness import SCRIPTS, TEXT, converse, node, peer, python_of
from twopipes.errors import McpError, OpeningFailed, RequestCancelled
from twopipes.mcp.revisions import ALL, LATEST_LEGACY, LATEST_MODERN, LEGACY, MODERN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX descriptors"),
]


def official(generation: int) -> list[str]:
    return [python_of(f"official-{generation}"), str(SCRIPTS / f"official_{generation}_server.py")]


def everything() -> list[str]:
    return [
        node(),
        str(peer("npm") / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"),
        "stdio",
    ]


async def use(connection):
    """What every server of ours under ``peers/`` can do."""
    tools, _ = await connection.ask("tools/list")
    assert [tool.name for tool in tools.tools] == ["echo", "wait_for_ever", "wait_until_cancelled"]
    result, progress = await connection.ask("tools/call", name="echo", arguments={"text": TEXT})
    assert result.text == TEXT
    assert progress == [0.5]
    cancelled = await connection.cancel_once_it_works("wait_for_ever")
    assert isinstance(cancelled.error, RequestCancelled)
    # The server heard of it, and goes on.
    assert (await connection.call("wait_until_cancelled")).text == "cancelled"


@pytest.mark.parametrize(
    ("generation", "revisions", "agreed"),
    [
        pytest.param(2, ALL, ("modern", LATEST_MODERN), id="2-auto"),
        pytest.param(2, MODERN, ("modern", LATEST_MODERN), id="2-modern"),
        pytest.param(2, LEGACY, ("legacy", LATEST_LEGACY), id="2-legacy"),
        pytest.param(1, ALL, ("legacy", LATEST_LEGACY), id="1-auto"),
        pytest.param(1, LEGACY, ("legacy", LATEST_LEGACY), id="1-legacy"),
    ],
)
def test_an_official_python_server_is_opened_used_cancelled_and_left(generation, revisions, agreed, tmp_path):
    connection = converse(official(generation), use, folder=tmp_path, revisions=revisions)
    opened = connection.opened
    assert (opened.era, opened.revision) == agreed
    assert opened.server_info.name == f"official-{generation}"
    assert connection.rejected == []


@pytest.mark.parametrize("revision", LEGACY)
def test_an_official_python_server_speaks_every_legacy_revision_with_us(revision, tmp_path):
    async def list_tools(connection):
        tools, _ = await connection.ask("tools/list")
        assert len(tools.tools) == 3

    connection = converse(official(1), list_tools, folder=tmp_path, revisions=[revision])
    assert connection.opened.revision == revision


def test_a_client_without_the_handshake_tells_what_is_wrong_with_an_old_server(tmp_path):
    with pytest.raises(OpeningFailed, match="server of the handshake era"):
        converse(official(1), use, folder=tmp_path, revisions=MODERN)


@pytest.mark.parametrize("generation", [1, 2])
def test_an_official_python_server_refuses_an_unknown_tool(generation, tmp_path):
    async def call_nothing(connection):
        refusal = await connection.call("no-such-tool")
        assert refusal.is_error
        assert refusal.text == "Unknown tool: no-such-tool"
        with pytest.raises(McpError):
            await connection.ask("prompts/get", name="no-such-prompt")

    converse(official(generation), call_nothing, folder=tmp_path)


def test_the_time_server_is_opened_used_and_left(tmp_path):
    async def ask_the_time(connection):
        tools, _ = await connection.ask("tools/list")
        assert [tool.name for tool in tools.tools] == ["get_current_time", "convert_time"]
        result = await connection.call("get_current_time", timezone="UTC")
        assert not result.is_error
        assert '"timezone": "UTC"' in result.text

    command = [python_of("official-1"), "-m", "mcp_server_time", "--local-timezone", "UTC"]
    connection = converse(command, ask_the_time, folder=tmp_path)
    assert (connection.opened.era, connection.opened.revision) == ("legacy", LATEST_LEGACY)
    assert connection.opened.server_info.name == "mcp-time"
    assert connection.rejected == []


@pytest.mark.parametrize("revisions", [ALL, LEGACY], ids=["auto", "legacy"])
def test_the_everything_server_is_opened_used_cancelled_and_left(revisions, tmp_path):
    async def use_everything(connection):
        tools, _ = await connection.ask("tools/list")
        assert {"echo", "get-sum", "trigger-long-running-operation"} <= {tool.name for tool in tools.tools}
        assert (await connection.call("echo", message=TEXT)).text == f"Echo: {TEXT}"
        cancelled = await connection.cancel_once_it_works("trigger-long-running-operation", duration=3, steps=6)
        assert isinstance(cancelled.error, RequestCancelled)
        # It goes on working on what nobody wants any more, but the connection is not disturbed by that.
        assert "4" in (await connection.call("get-sum", a=1, b=3)).text

    connection = converse(everything(), use_everything, folder=tmp_path, revisions=revisions)
    assert (connection.opened.era, connection.opened.revision) == ("legacy", LATEST_LEGACY)
    assert connection.opened.server_info.name
    assert connection.rejected == []
