"""Servers at a URL in a group, beside others."""

import asyncio
import socket
import threading

import pytest

from fake_server import FakeServer, scene
from http_server import serve_asgi
from twopipes import Server, blocking
from twopipes.errors import HttpError, LocalProtocolError
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


class Gate:
    """An ASGI application that lets only requests with the current token pass, and counts the others."""

    def __init__(self, app, token):
        self.app = app
        self.token = token
        self.refused = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != f"Bearer {self.token}".encode():
            self.refused += 1
            headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self.app(scope, receive, send)


@pytest.fixture
def gate():
    web = Server("web")
    web.tool(lambda: "found", name="search")
    return Gate(web.asgi(), "one")


class SignIn:
    """Answers a challenge, as a sign-in would."""

    def __init__(self):
        self.challenges = []

    def challenge(self, challenge):
        self.challenges.append((challenge.status, challenge.token))
        return "one"


@pytest.mark.parametrize("place", ["config", "group", "group, for an address"])
def test_a_server_at_a_url_has_its_own_authorization(gate, place):
    @scene
    async def run(url):
        sign_in = SignIn()
        config = ServerConfig(url=url, auth=sign_in if place == "config" else None)
        servers = {"web": url if "address" in place else config, "plain": url}
        async with ServerGroup(servers, auth=None if place == "config" else {"web": sign_in}) as group:
            assert (await group.call("web__search")).text == "found"
            assert sign_in.challenges == [(401, None)]
            assert isinstance(group.problems["plain"], HttpError)  # no server gets the token of another one
            await group.reconnect("web")
            assert (await group.call("web__search")).text == "found"
        assert len(sign_in.challenges) <= 2

    with serve_asgi(gate) as port:
        run(f"http://127.0.0.1:{port}/mcp")


@pytest.mark.parametrize("kind", ["header", "token"])
def test_a_reference_is_resolved_at_each_opening(gate, kind, tmp_path):
    token = tmp_path / "token"
    token.write_text("one\n")
    own = {"headers": {"Authorization": "Bearer ${file:token}"}} if kind == "header" else {"auth": "file:token"}

    @scene
    async def run(url):
        config = ServerConfig(url=url, source=str(tmp_path / "servers.json"), **own)
        assert "one" not in repr(config)
        async with ServerGroup({"web": config}) as group:
            assert (await group.call("web__search")).text == "found"
            gate.token = "two"  # the old one has expired
            with pytest.raises(HttpError):
                await group.call("web__search")
            token.write_text("two\n")
            assert (await group.reconnect("web")).problem is None
            assert (await group.call("web__search")).text == "found"

    with serve_asgi(gate) as port:
        run(f"http://127.0.0.1:{port}/mcp")


def test_a_missing_token_is_a_problem_that_names_the_reference(monkeypatch):
    monkeypatch.delenv("NOT_SET_HERE", raising=False)

    @scene
    async def run():
        async with ServerGroup({"web": ServerConfig(url="http://127.0.0.1:1/mcp", auth="${NOT_SET_HERE}")}) as group:
            assert "auth refers to ${NOT_SET_HERE}" in str(group.problems["web"])

    run()


def test_a_function_for_a_token_may_block_in_a_blocking_group(gate):
    threads = []

    def token():
        threads.append(threading.current_thread())
        return "one"

    with serve_asgi(gate) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        with blocking.ServerGroup({"a": ServerConfig(url=url, auth=token), "b": url}, auth={"b": token}) as group:
            assert group.problems == {}
            group.add("c", ServerConfig(url=url, auth=token))
            assert [group.call(f"{name}__search").text for name in "abc"] == ["found"] * 3
    assert not any(thread is threading.current_thread() or "loop" in thread.name for thread in threads)


def test_authorization_is_for_urls_and_by_server():
    with pytest.raises(LocalProtocolError, match=r"auth= cannot be used with command="):
        ServerConfig(command=["x"], auth="t")
    with pytest.raises(LocalProtocolError, match="a dict by the names of the servers"):
        ServerGroup({}, auth="t")
    with pytest.raises(LocalProtocolError, match="both auth= and a header Authorization"):
        ServerConfig(url="https://h/mcp", headers={"Authorization": "Bearer x"}, auth="t").target()
    assert repr(ServerConfig(url="https://h/mcp", auth="secret")) == "ServerConfig(url='https://h/mcp', auth='***')"
