"""Servers at a URL in a group, beside others."""

import asyncio
import socket

import pytest

from fake_server import FakeServer, scene
from http_server import serve_asgi
from twopipes import Server
from twopipes.errors import HttpError
from twopipes.host import ServerConfig, ServerGroup, ToolFilter

pytestmark = pytest.mark.slow  # real sockets


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_server_at_a_url_is_used_like_any_other(era):
    web = Server("web", eras=era)
    web.tool(lambda: "found", name="search")
    web.tool(lambda: "gone", name="delete")

    @scene
    async def run(port):
        lists = asyncio.Queue()
        config = ServerConfig(url=f"http://127.0.0.1:{port}/mcp", headers={"X-Own": "1"}, tools=ToolFilter(exclude=["delete"]))
        async with ServerGroup({"web": config, "local": FakeServer()}, on_tools=lists.put_nowait) as group:
            assert group.servers["web"].client.era == era
            assert [tool.name for tool in group.tools] == ["web__search"]
            assert (await group.call("web__search")).text == "found"
            web.tool(lambda: "more", name="more")
            assert [tool.name for tool in await lists.get()] == ["web__search", "web__more"]

    with serve_asgi(web.asgi()) as port:
        run(port)


def test_a_url_without_a_server_is_a_problem_and_is_opened_by_a_later_call():
    web = Server("web")
    web.tool(lambda: "found", name="search")
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        closed = reserved.getsockname()[1]

    @scene
    async def run(port):
        async with ServerGroup({"web": f"http://127.0.0.1:{closed}/mcp"}) as group:
            assert isinstance(group.problems["web"], HttpError)
            group.servers["web"].config = f"http://127.0.0.1:{port}/mcp"
            assert (await group.call("web__search")).text == "found"
            assert group.problems == {}

    with serve_asgi(web.asgi()) as port:
        run(port)
