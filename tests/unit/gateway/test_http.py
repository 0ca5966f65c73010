"""A gateway with HTTP on one side: arguments that are repeated in headers."""

from typing import Annotated

import pytest
from msgspec import Meta

from fake_server import scene
from gateways import gateway_to
from http_server import RawConnection, call_tool, modern_request, serve_asgi
from inmemory import connected
from twopipes import Server

pytestmark = pytest.mark.slow  # real sockets


def new_server():
    server = Server("shop")

    @server.tool
    async def query(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
        return f"all in {region}"

    @server.tool
    async def plain(region: str) -> str:
        return f"also in {region}"

    return server


def test_a_front_compares_headers_with_the_schemas_of_the_server_behind_it():
    """The server itself is not reached over HTTP, so the gateway compares."""
    with serve_asgi(gateway_to(new_server()).asgi()) as port, RawConnection(port) as connection:
        assert connection.request(**modern_request("tools/list")).status == 200
        for headers in ({}, {"Mcp-Param-Region": "us"}):
            refused = connection.request(**call_tool("query", headers, region="eu"))
            assert (refused.status, refused.json["error"]["code"]) == (400, -32020)
        accepted = connection.request(**call_tool("query", {"Mcp-Param-Region": "eu"}, region="eu"))
        assert accepted.json["result"]["content"][0]["text"] == "all in eu"
        assert connection.request(**call_tool("plain", region="eu")).status == 200


def test_a_method_that_the_server_behind_does_not_have_gets_404():
    """HT-56."""
    with serve_asgi(gateway_to(new_server()).asgi()) as port, RawConnection(port) as connection:
        for method in ("prompts/get", "no/such/method"):
            refused = connection.request(**modern_request(method, {"name": "x"} if method == "prompts/get" else {}))
            assert (refused.status, refused.json["error"]["code"]) == (404, -32601)


class Counting:
    """An ASGI application that keeps the headers of each request."""

    def __init__(self, app):
        self.app = app
        self.seen = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            self.seen.append({name.decode().lower(): value.decode() for name, value in scope["headers"]})
        await self.app(scope, receive, send)

    def of(self, method):
        return [headers for headers in self.seen if headers.get("mcp-method") == method]


@pytest.mark.parametrize("front", ["2025-11-25", "2026-07-28"])
@scene
async def test_a_server_behind_gets_the_headers_that_it_asks_for(front):
    app = Counting(new_server().asgi())
    with serve_asgi(app) as port:
        gateway = gateway_to(f"http://127.0.0.1:{port}/mcp")
        async with gateway._running(), connected(gateway, front) as host:
            await host.result("tools/list")
            result = await host.call("query", region="eu")
    assert result["content"][0]["text"] == "all in eu"
    (sent,) = app.of("tools/call")  # not repeated: the list has told which headers it wants
    assert (sent["mcp-name"], sent["mcp-param-region"]) == ("query", "eu")


@scene
async def test_headers_are_learned_from_the_error_of_a_call_without_a_list():
    app = Counting(new_server().asgi())
    with serve_asgi(app) as port:
        gateway = gateway_to(f"http://127.0.0.1:{port}/mcp")
        async with gateway._running(), connected(gateway, "2026-07-28") as host:
            for _ in range(2):
                assert (await host.call("query", region="eu"))["content"][0]["text"] == "all in eu"
    assert [headers.get("mcp-param-region") for headers in app.of("tools/call")] == [None, "eu", "eu"]
