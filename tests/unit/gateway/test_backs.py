"""The servers behind a gateway: when they are started and for whom, and what they learn about the host."""

import asyncio

import pytest

import sessions
from fake_server import SILENCE, FakeServer, scene, text
from gateways import REVISIONS, gateway_to, through
from inmemory import connected
from twopipes._channels.memory import MemoryChannel
from twopipes._gateway.back import Back, BackConfig
from twopipes._gateway.backs import Backs
from twopipes._gateway.front import GatewayServer
from twopipes.errors import StartFailed

MODERN = "2026-07-28"


class Failing(FakeServer):
    """A server that ends at once while ``broken`` is true."""

    broken = True

    async def serve(self, *, channel: MemoryChannel) -> None:
        if not self.broken:
            await super().serve(channel=channel)


@scene
async def test_nothing_is_started_before_the_first_request():
    fake = FakeServer()
    gateway = gateway_to(fake)
    async with gateway._running():
        assert list(gateway.backs) == []
        async with connected(gateway, MODERN) as host:
            assert fake.lives == []
            await host.call("x")
            assert len(fake.lives) == 1


@scene
async def test_all_hosts_share_one_server():
    fake = FakeServer()
    gateway = gateway_to(fake)
    async with gateway._running(), connected(gateway, MODERN) as one, connected(gateway, "2025-11-25") as two:
        await asyncio.gather(one.call("x"), two.call("y"))
        assert len(fake.lives) == 1
        (back,) = gateway.backs
        assert back.calls_total == 2
        assert not back.calls


@scene
async def test_an_isolated_host_has_its_own_server_which_ends_with_it():
    fakes: list[FakeServer] = []

    def make() -> Back:
        fakes.append(FakeServer({"tools/call": text(f"server {len(fakes)}")}))
        return Back(fakes[-1])

    gateway = GatewayServer(Backs(make, isolated=True))
    async with gateway._running(), connected(gateway, MODERN) as one:
        async with connected(gateway, "2025-11-25") as two:
            assert await one.text("x") == "server 1"
            assert await two.text("x") == "server 0"  # its handshake came before the first call of the other
            assert len(list(gateway.backs)) == 2
            fakes[0].notify("notifications/message", {"level": "error", "data": "only for two"})
        await fakes[0].gone.wait()
        assert not fakes[1].gone.is_set()
        assert len(list(gateway.backs)) == 1
        assert await one.text("x") == "server 1"
        assert one.notes("notifications/message") == []
    assert fakes[1].gone.is_set()


@pytest.mark.parametrize("front", REVISIONS)
@scene
async def test_a_server_that_cannot_be_opened_is_an_error_and_the_next_request_tries_again(front):
    fake = Failing(speaks="2025-11-25")
    gateway = gateway_to(fake)
    async with gateway._running():
        if front == MODERN:
            async with connected(gateway, front) as host:
                error = await host.error("tools/call", name="x")
                fake.broken = False
                assert await host.text("x") == "done"
        else:
            async with connected(gateway, front, handshake=False) as host:
                error = await host.error(
                    "initialize", protocolVersion=front, capabilities={}, clientInfo={"name": "h", "version": "1"}
                )
                fake.broken = False
                opened = await host.result(
                    "initialize", protocolVersion=front, capabilities={}, clientInfo={"name": "h", "version": "1"}
                )
                assert opened["serverInfo"]["name"] == "fake"
    assert error["code"] == -32603
    assert "exited" in error["message"] or "ended" in error["message"]


@scene
async def test_a_command_that_does_not_exist_is_reported_to_the_host():
    gateway = gateway_to(["/no/such/program", "--option"])
    async with gateway._running(), connected(gateway, MODERN) as host:
        error = await host.error("tools/call", name="x")
        assert "/no/such/program" in error["message"]
        (back,) = gateway.backs
        assert isinstance(back.last_error, StartFailed)


@scene
async def test_hosts_that_wait_for_the_same_opening_get_one_server():
    fake = FakeServer()
    gateway = gateway_to(fake)
    async with gateway._running(), connected(gateway, MODERN) as host:
        ids = [host.start_tool("x") for _ in range(5)]
        for each in ids:
            await host.line_of(each)
        assert len(fake.lives) == 1


@scene
async def test_a_cancelled_host_does_not_stop_the_opening_for_others():
    opening = asyncio.Event()

    async def discover(asked):
        await opening.wait()
        return asked.fake._discover(asked)

    fake = FakeServer({"server/discover": discover})
    gateway = gateway_to(fake)
    async with gateway._running(), connected(gateway, MODERN) as one, connected(gateway, MODERN) as two:
        first = one.start_tool("x")
        await fake.until("server/discover")
        second = two.start_tool("y")
        one.cancel(first)
        opening.set()
        assert "result" in await two.line_of(second)
        assert one.answers_to(first) == []


@scene
async def test_the_gateway_ends_while_its_server_is_opened():
    fake = FakeServer({"server/discover": SILENCE})
    gateway = gateway_to(fake)
    async with gateway._running(), connected(gateway, MODERN) as host:
        request_id = host.start_tool("x")
        await fake.until("server/discover")
        host.cancel(request_id)
    await fake.gone.wait()


@pytest.mark.parametrize("back", REVISIONS)
@pytest.mark.parametrize("front", REVISIONS)
@scene
async def test_the_server_learns_the_name_of_the_hosts_client(front, back):
    fake = FakeServer(speaks=back)
    info = {"name": "a host", "version": "3"}
    async with through(fake, front) as (host, _, _):
        if front == MODERN:
            await host.call("x", meta={"io.modelcontextprotocol/clientInfo": info})
        else:
            await host.call("x")
            info = {"name": "c", "version": "1"}
    if back == MODERN:
        assert fake.of("tools/call")[0]["_meta"]["io.modelcontextprotocol/clientInfo"] == info
    else:
        assert fake.of("initialize")[0]["clientInfo"] == info


@scene
async def test_a_stopped_server_fails_its_calls_with_an_error_that_says_so():
    fake = FakeServer({"tools/call": SILENCE})
    async with through(fake) as (host, gateway, _):
        request_id = host.start_tool("x")
        await fake.until("tools/call")
        (back,) = gateway.backs
        await back.stop()
        line = await host.line_of(request_id)
    assert line["error"]["message"] == (
        "the connection ended before the response to tools/call: the server was stopped or restarted, and the call had not finished"
    )


@scene
async def test_a_closed_back_is_not_started_again():
    fake = FakeServer()
    back = Back(fake, config=BackConfig())
    gateway = GatewayServer(Backs(lambda: back))
    async with connected(gateway, MODERN) as host:
        await host.call("x")
        await back.close()
        assert "the gateway ended" in (await host.error("tools/call", name="x"))["message"]
        assert len(fake.lives) == 1


@pytest.mark.parametrize("revision", REVISIONS)
@scene
async def test_unknown_capabilities_and_members_of_the_introduction_pass(revision):
    capabilities = {"tools": {"own": 1}, "own": {"x": [1]}, "experimental": {"e": {}}}
    fake = FakeServer(speaks=revision, capabilities=capabilities)
    if revision == MODERN:
        inner = fake._discover
        fake.answers["server/discover"] = lambda asked: {**inner(asked), "ttlMs": 7, "own": True}
    else:
        start = fake._initialize
        fake.answers["initialize"] = lambda asked: {**start(asked), "own": True, "_meta": {"own.example/m": 1}}
    async with through(fake, revision) as (host, _, _):
        if revision == MODERN:
            result = await host.result("server/discover")
            assert result["ttlMs"] == 7
            assert set(result["supportedVersions"]) == {"2024-11-05", "2025-03-26", *REVISIONS}
        else:
            result = host.answers_to("opening")[0]["result"]
            assert result["_meta"] == {"own.example/m": 1}
    assert result["capabilities"] == capabilities
    assert result["own"] is True


@pytest.mark.parametrize("back", REVISIONS)
@scene
async def test_a_host_that_does_not_wait_for_the_handshake_is_served(back):
    fake = FakeServer(speaks=back)
    gateway = gateway_to(fake)
    async with gateway._running(), connected(gateway, "2025-11-25", handshake=False) as host:
        host.send(sessions.initialize("opening"), sessions.note("notifications/initialized"))
        requests = [
            host.start("logging/setLevel", level="error"),
            host.start("resources/subscribe", uri="a:b"),
            host.start_tool("x"),
        ]
        assert "result" in await host.line_of("opening")
        assert ["result" in await host.line_of(each) for each in requests] == [True, True, True]


@pytest.mark.parametrize("back", REVISIONS)
@scene
async def test_a_capability_that_the_server_did_not_declare_does_not_exist(back):
    fake = FakeServer(speaks=back, capabilities={"tools": {}, "resources": {}})
    async with through(fake, "2025-11-25") as (host, _, _):
        errors = [await host.error("logging/setLevel", level="error"), await host.error("resources/subscribe", uri="a:b")]
    assert [each["code"] for each in errors] == [-32601, -32601]
    assert not {"logging/setLevel", "resources/subscribe"} & set(fake.methods)
