"""Each handler runs in a task of its own, with context variables of its own."""

import asyncio
from contextvars import ContextVar

import pytest

from inmemory import ERAS, play
from twopipes import Server, ToolError
from twopipes.errors import LocalProtocolError


@pytest.mark.parametrize("revision", ERAS)
def test_a_handler_runs_in_a_task_of_its_own(revision):
    server = Server("s")
    variable = ContextVar("variable", default="clean")
    tasks = []

    @server.tool
    async def instant(text: str) -> str:
        assert variable.get() == "clean"
        tasks.append(asyncio.current_task())
        variable.set("dirty")  # must not be visible to the next call
        if text == "cancelled":
            raise asyncio.CancelledError
        if text == "wrong":
            raise ToolError("wrong")
        return text

    async def scenario(client):
        for text in ("right", "wrong", "cancelled", "right"):
            line = await client.line_of(client.start_tool("instant", text=text))
            if text == "cancelled":
                assert line["error"]["code"] == -32603
            else:
                assert line["result"].get("isError", False) == (text == "wrong")
        assert [task.get_name() for task in tasks] == ["twopipes handler"] * 4
        assert len({id(task) for task in tasks}) == 4
        (connection,) = server._connections
        assert connection._contexts == {}

    play(server, scenario, revision)


def test_a_tool_is_described_when_it_is_registered():
    """TL-01, TL-15: the author sees at registration what is wrong."""
    server = Server("s")

    @server.tool
    def plain(text: str) -> str:
        return text

    assert server.tools.entries.get("plain").tool.input_schema["required"] == ["text"]
    with pytest.raises(
        LocalProtocolError,
        match=r"the tool 'plain' is already registered \(.*test_handler_tasks\.py:\d+\); rename",
    ):
        server.tool(plain)
    server.remove_tool("plain")
    assert len(server.tools) == 0
    assert "plain" not in server.tools
    server.tool(plain)
    assert "plain" in server.tools
    with pytest.raises(LocalProtocolError, match="cannot be the name of a tool"):
        server.tool(name="not a name")(plain)
