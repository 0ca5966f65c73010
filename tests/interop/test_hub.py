"""Clients of other authors in front of ``twopipes hub``, and servers of other authors behind it."""

import asyncio
import json
import sys

import pytest

from interop import test_published_servers as published
from interop.harness import BY_ITSELF, ECHO_SERVER, SCRIPTS, TEXT, connected, python_of, visit_of
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform != "linux", reason="looks in /proc for leftover processes"),
]
CLIENTS = {
    "official-2-auto": ("official-2", "official_2_client.py", "auto", LATEST_MODERN),
    "official-2-legacy": ("official-2", "official_2_client.py", "legacy", LATEST_LEGACY),
    "official-1": ("official-1", "official_1_client.py", None, LATEST_LEGACY),
}


@pytest.fixture
def hub(tmp_path) -> list[str]:
    """A hub with our server, one of PyPI, one of npm, and one that does not start."""
    commands = {
        "ours": list(ECHO_SERVER),
        "time": published.on_pypi("mcp_server_time", "--local-timezone", "UTC"),
        "everything": published.on_npm("server-everything", "stdio"),
        "broken": ["/does/not/exist"],
    }
    entries = {name: {"command": command[0], "args": command[1:]} for name, command in commands.items()}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": entries}))
    return [sys.executable, "-m", "twopipes", "hub", str(tmp_path / "servers.json")]


@pytest.mark.parametrize("name", CLIENTS)
def test_an_official_client_uses_the_servers_of_a_hub(name, hub, tmp_path):
    environment, script, mode, revision = CLIENTS[name]
    client = [python_of(environment), str(SCRIPTS / script)]
    found, launches = visit_of(client, mode=mode, folder=tmp_path, server=hub, tool="ours__echo")
    assert found["revision"] == revision
    assert found["server"].startswith("twopipes-hub ")
    assert {"ours__echo", "time__get_current_time", "everything__echo"} <= set(found["tools"])
    assert found["answer"] == TEXT
    assert "not available: 'broken'" in found["refusal"]["message"]
    assert launches == [BY_ITSELF]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_each_server_of_a_hub_is_used(era, hub):
    async def converse():
        async with connected(hub, era=era) as connection:
            client = connection.client
            now = await client.call_tool("time__get_current_time", {"timezone": "UTC"})
            assert now.structured["timezone"] == "UTC"
            assert (await client.call_tool("everything__echo", {"message": TEXT})).text == f"Echo: {TEXT}"
            assert (await client.call_tool("ours__echo", {"text": TEXT})).text == TEXT
        assert client.closed.ended_by == "eof"
        assert client.stray == ()

    asyncio.run(converse())


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_tools_of_others_are_found_by_a_search(era, hub):
    async def converse():
        async with connected([*hub, "--search"], era=era) as connection:
            client = connection.client
            found = await client.call_tool("search_tools", {"query": "current time in a city"})
            assert found.structured["tools"][0]["name"] == "time__get_current_time"
            definition = await client.call_tool("describe_tool", {"name": "time__get_current_time"})
            assert json.loads(definition.text)["inputSchema"]["required"] == ["timezone"]
            arguments = {"name": "time__get_current_time", "arguments": {"timezone": "Asia/Tokyo"}}
            assert (await client.call_tool("call_tool", arguments)).structured["timezone"] == "Asia/Tokyo"

    asyncio.run(converse())
