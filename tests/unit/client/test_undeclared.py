"""A client does not request what the server did not declare (LC-11)."""

import asyncio

import pytest

from fake_server import CAPABILITIES, FakeServer, legacy, scene
from twopipes import RestartPolicy, connect
from twopipes.errors import CapabilityMissing, ClientClosed, LocalProtocolError
from twopipes.types import ClientOptions

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
EMPTY = {
    "tools/list": lambda client: client.list_tools(),
    "prompts/list": lambda client: client.list_prompts(),
    "resources/list": lambda client: client.list_resources(),
    "resources/templates/list": lambda client: client.list_resource_templates(),
}
REFUSED = {
    "tools/call": lambda client: client.call_tool("x"),
    "prompts/get": lambda client: client.get_prompt("x"),
    "resources/read": lambda client: client.read_resource("x://a"),
}


def without(revision, *missing):
    return FakeServer(speaks=revision, capabilities={key: value for key, value in CAPABILITIES.items() if key not in missing})


@pytest.mark.parametrize("method", EMPTY)
@pytest.mark.parametrize("revision", REVISIONS)
@scene
async def test_a_list_that_was_not_declared_is_empty_and_not_asked_for(revision, method):
    """LC-11"""
    fake = without(revision, method.partition("/")[0])
    async with connect(fake, revision=revision) as client:
        assert await EMPTY[method](client) == []
    assert method not in fake.methods


@pytest.mark.parametrize("method", EMPTY)
@pytest.mark.parametrize("revision", REVISIONS)
@scene
async def test_a_list_that_was_declared_is_asked_for(revision, method):
    fake = without(revision)
    async with connect(fake, revision=revision) as client:
        assert await EMPTY[method](client) == []
    assert method in fake.methods


@pytest.mark.parametrize("method", REFUSED)
@scene
async def test_a_call_that_has_no_empty_result_is_refused(method):
    """LC-11"""
    capability = method.partition("/")[0]
    fake = legacy(capabilities={})
    async with connect(fake) as client:
        with pytest.raises(
            CapabilityMissing, match=rf"{method} needs the capability {capability}, which the server did not declare"
        ):
            await REFUSED[method](client)
        assert method not in fake.methods
        await client.request("tools/list")  # request() always sends
    assert fake.methods[-1] == "tools/list"


@scene
async def test_a_user_may_want_an_error_instead_of_an_empty_list():
    fake = legacy(capabilities={})
    async with connect(fake, options=ClientOptions(undeclared="raise")) as client:
        for method, ask in EMPTY.items():
            with pytest.raises(CapabilityMissing, match=method):
                await ask(client)
        with pytest.raises(CapabilityMissing, match="completion/complete"):
            await client.complete("a", "", prompt="p")
        with pytest.raises(CapabilityMissing, match="logging/setLevel"):
            await client.set_log_level("info")
        with pytest.raises(CapabilityMissing, match="subscribe"):
            client.subscribe(tools=True)
    assert fake.methods == ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.parametrize("revision", REVISIONS)
@scene
async def test_completions_have_no_capability_in_the_first_revision(revision):
    fake = without(revision, "completions")
    async with connect(fake, revision=revision) as client:
        assert (await client.complete("a", "", prompt="p")).values == []
    assert ("completion/complete" in fake.methods) == (revision == "2024-11-05")


@scene
async def test_a_log_level_is_not_sent_to_a_server_without_logs_not_even_after_a_restart():
    """LC-11, SD-06"""
    fake = legacy(capabilities={})
    async with connect(fake, restart=RestartPolicy(when="always", first_delay=0)) as client:
        await client.set_log_level("info")
        await fake.hang_up()
        await client.ping()
        await asyncio.sleep(0)
        assert client.restarts == 1
    assert "logging/setLevel" not in fake.methods


@scene
async def test_nothing_is_subscribed_to_that_was_not_declared():
    """LC-11"""
    fake = legacy(capabilities={"resources": {}})
    async with connect(fake) as client, client.subscribe(resources=["x://a"]) as changes:
        with pytest.raises(LocalProtocolError, match="does not report changes"):
            await anext(changes)
    assert "resources/subscribe" not in fake.methods


@scene
async def test_a_closed_client_raises_client_closed_whatever_was_declared():
    client = await connect(legacy(capabilities={}))
    await client.close()
    for ask in (*EMPTY.values(), *REFUSED.values()):
        with pytest.raises(ClientClosed):
            await ask(client)


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(LocalProtocolError, match="undeclared must be 'empty' or 'raise', got 'no'"):
        connect(legacy(), options=ClientOptions(undeclared="no"))
