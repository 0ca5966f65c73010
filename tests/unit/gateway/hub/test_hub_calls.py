"""Calls through a hub: names, URIs, and which server gets what."""

import pytest

from fake_server import FakeServer, Fault, legacy, scene, text
from gateways import combinations, fronts, through_hub

NAMES = ("alpha", "beta")


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def said(text_, **more):
    """A server with one tool, which returns this text."""
    return {"tools/list": {"tools": [tool("say", own=1)]}, "tools/call": text(text_), **more}


def two(back, **more):
    return {name: FakeServer(said(f"from {name}", **more), speaks=back) for name in NAMES}


@combinations
@scene
async def test_tools_are_listed_with_the_names_of_their_servers(front, back):
    async with through_hub(two(back), front) as (host, _):
        listed = await host.result("tools/list")
    assert [each["name"] for each in listed["tools"]] == ["alpha__say", "beta__say"]
    assert all(each["own"] == 1 for each in listed["tools"])


@combinations
@scene
async def test_a_call_reaches_the_server_of_the_name(front, back):
    servers = two(back)
    async with through_hub(servers, front) as (host, _):
        assert await host.text("beta__say", a=1) == "from beta"
        assert await host.text("alpha__say") == "from alpha"
    (params,) = servers["beta"].of("tools/call")
    assert params["name"] == "say"
    assert params["arguments"] == {"a": 1}


@fronts
@scene
async def test_servers_of_both_eras_are_merged(front):
    servers = {"old": legacy(said("old")), "new": FakeServer(said("new"))}
    async with through_hub(servers, front) as (host, _):
        assert await host.names("tools/list", "tools") == ["old__say", "new__say"]
        assert [await host.text("old__say"), await host.text("new__say")] == ["old", "new"]


@fronts
@scene
async def test_an_unknown_tool_is_an_error_with_similar_names(front):
    async with through_hub(two("2026-07-28"), front) as (host, _):
        error = await host.error("tools/call", name="say")
    assert error["code"] == -32602
    assert error["message"] == "Unknown tool: say; similar names: alpha__say, beta__say"


@combinations
@scene
async def test_an_error_of_a_server_passes_as_it_is(front, back):
    servers = two(back, **{"tools/call": Fault(-32602, "no", {"own": [1]})})
    async with through_hub(servers, front) as (host, _):
        error = await host.error("tools/call", name="alpha__say")
    assert error == {"code": -32602, "message": "no", "data": {"own": [1]}}


@fronts
@scene
async def test_a_method_that_names_no_server_is_not_found(front):
    async with through_hub(two("2026-07-28"), front) as (host, _):
        error = await host.error("vendor/own")
    assert error["code"] == -32601


@fronts
@scene
@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read", "completion/complete"])
async def test_invalid_params_are_refused_by_the_hub(front, method):
    servers = two("2026-07-28")
    async with through_hub(servers, front) as (host, _):
        error = await host.error(method)
    assert error["code"] == -32602
    assert servers["alpha"].of(method) == []
