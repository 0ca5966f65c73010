"""How a client detects the era of a server, and what it sends first (sections LC, VN and DE of the rules)."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from fake_server import PREFIX, SILENCE, Bare, FakeServer, Fault, legacy, scene, text
from twopipes import Server, Timeouts, connect
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY
from twopipes._protocol.types import Implementation
from twopipes.errors import MethodNotFound, OpeningFailed
from twopipes.types import ClientOptions

BOTH = (LATEST_MODERN, *LEGACY)
IMPATIENT = Timeouts(probe=0.05)
HANDSHAKE = ["initialize", "notifications/initialized"]


@scene
async def test_the_probe_is_first_and_a_modern_server_never_sees_a_handshake():
    """DE-01, DE-02, VN-01, VN-03: with the newest version, the capabilities and the name of the client."""
    fake = FakeServer()
    async with connect(fake, options=ClientOptions(client_info=Implementation("host", "7"))) as client:
        assert (client.era, client.revision, client.instructions) == ("modern", LATEST_MODERN, "Ask.")
        assert client.server_info == Implementation("fake", "1")
        await client.list_tools()
    assert fake.methods == ["server/discover", "tools/list"]
    for params in fake.of("server/discover") + fake.of("tools/list"):
        assert params["_meta"][PREFIX + "protocolVersion"] == LATEST_MODERN
        assert params["_meta"][PREFIX + "clientInfo"] == {"name": "host", "version": "7"}


@scene
async def test_a_legacy_client_sends_initialize_first_and_initialized_next():
    """LC-01, LC-02, LC-04, LC-07, JR-14: no probe, the newest legacy version, one object and no batch."""
    fake = legacy()
    async with connect(fake, era="legacy", options=ClientOptions(client_info=Implementation("host", "7"))) as client:
        await client.list_tools()
    assert fake.methods == [*HANDSHAKE, "tools/list"]
    first = fake.of("initialize")[0]
    assert first["protocolVersion"] == LATEST_LEGACY
    assert first["capabilities"] == {}
    assert first["clientInfo"] == {"name": "host", "version": "7"}
    assert "id" not in fake.lines[1]


@pytest.mark.parametrize("revision", LEGACY)
@scene
async def test_a_revision_can_be_chosen_and_is_what_the_session_speaks(revision):
    """LC-07, LC-08, LC-11."""
    fake = legacy(revision=revision)
    async with connect(fake, revision=revision) as client:
        assert client.revision == revision
        await client.call_tool("x")
    assert fake.of("initialize")[0]["protocolVersion"] == revision
    assert "_meta" not in fake.of("initialize")[0]
    assert PREFIX + "protocolVersion" not in fake.of("tools/call")[0].get("_meta", {})


@scene
async def test_only_responses_to_pings_are_sent_before_the_handshake_ends():
    """LC-05, PI-02: the client waits for the result of initialize, however long it takes."""
    asked = []
    fake = legacy({"initialize": lambda question: asked.append(question) or SILENCE})
    connecting = asyncio.ensure_future(_connected(fake, era="legacy"))
    await fake.until("initialize")
    assert await fake.ask("ping") == {"jsonrpc": "2.0", "id": "q", "result": {}}
    assert fake.methods == ["initialize"]
    asked[0].answer(fake._initialize)
    client = await connecting
    await client.list_tools()
    await client.close()
    assert fake.methods == [*HANDSHAKE, "tools/list"]


async def _connected(*arguments, **options):
    return await connect(*arguments, **options)


@pytest.mark.parametrize("era", ["auto", "legacy"])
@scene
async def test_an_unsupported_version_ends_the_connection(era):
    """LC-10: closed at once, and nothing more is sent; the error names the versions of both sides."""
    strange = {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    fake = legacy({"initialize": strange})
    with pytest.raises(OpeningFailed, match="1999-01-01") as failed:
        await connect(fake, era=era)
    await fake.gone.wait()
    assert fake.methods[-1] == "initialize"
    assert failed.value.offered == ("1999-01-01",)
    assert LATEST_LEGACY in str(failed.value)


@scene
async def test_a_handshake_that_takes_too_long_is_given_up_and_not_cancelled():
    """LC-12, TO-02: initialize is the one request whose end by timeout is not announced."""
    fake = legacy({"initialize": SILENCE})
    with pytest.raises(OpeningFailed):
        await connect(fake, era="legacy", timeouts=Timeouts(connect=0.05))
    await fake.gone.wait()
    assert fake.methods == ["initialize"]


@scene
async def test_an_error_in_the_handshake_is_raised_and_leaves_nothing_behind():
    """LC-13."""
    fake = legacy({"initialize": Fault(-32602, "Unsupported protocol version", {"supported": ["2024-11-05"]})})
    with pytest.raises(OpeningFailed, match="Unsupported protocol version"):
        await connect(fake)
    await fake.gone.wait()


# Reactions to the probe

CODES = [-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32002, 0, 1]


@pytest.mark.parametrize("code", CODES)
@scene
async def test_any_other_error_to_the_probe_means_a_legacy_server(code):
    """DE-04, DE-05: the fallback is not tied to one code."""
    fake = legacy({"server/discover": Fault(code)})
    async with connect(fake) as client:
        assert (client.era, client.revision) == ("legacy", LATEST_LEGACY)
    assert fake.methods == ["server/discover", *HANDSHAKE]


@pytest.mark.parametrize("answer", [Bare({}), Bare({"tools": []}), Bare({"supportedVersions": 5, "capabilities": {}})])
@scene
async def test_an_unusable_result_of_the_probe_means_a_legacy_server(answer):
    """DE-04."""
    fake = legacy({"server/discover": answer})
    async with connect(fake) as client:
        assert client.era == "legacy"
    assert fake.methods == ["server/discover", *HANDSHAKE]


@scene
async def test_no_response_to_the_probe_means_a_legacy_server_and_a_late_one_is_dropped():
    """DE-04, DE-17, JR-04, JR-19: the reply to the probe is dropped, and its id is not used again."""
    asked = []
    fake = legacy({"server/discover": lambda question: asked.append(question) or SILENCE, "tools/call": text("hello")})
    async with connect(fake, timeouts=IMPATIENT) as client:
        asked[0].answer(Bare({"resultType": "complete", "supportedVersions": [LATEST_MODERN], "capabilities": {}}))
        assert (await client.call_tool("x")).text == "hello"
        assert client.era == "legacy"
    ids = [line["id"] for line in fake.lines if "id" in line]
    assert len(set(ids)) == len(ids) == 3
    assert fake.cancelled == []


@scene
async def test_a_modern_refusal_does_not_cause_a_fallback():
    """DE-03, VN-05: the version is taken from the list, with a new id."""
    refusal = Fault(-32022, "Unsupported protocol version", {"supported": [LATEST_MODERN], "requested": "x"})
    fake = FakeServer()
    fake.answers["server/discover"] = [refusal, fake._discover]
    async with connect(fake) as client:
        assert client.era == "modern"
    assert fake.methods == ["server/discover"] * 2
    assert len(set(fake.ids_of("server/discover"))) == 2


@scene
async def test_a_server_that_refuses_every_version_is_asked_only_twice():
    """VN-05: one retry for each offer, no loop."""
    refusal = Fault(-32022, "no", {"supported": [LATEST_MODERN], "requested": LATEST_MODERN})
    fake = FakeServer({"server/discover": refusal})
    with pytest.raises(OpeningFailed) as failed:
        await connect(fake)
    await fake.gone.wait()
    assert fake.methods == ["server/discover"] * 2
    assert LATEST_MODERN in str(failed.value)


@scene
async def test_no_common_version_is_reported_with_those_of_both_sides():
    """VN-05, LC-13: nothing else is tried."""
    fake = FakeServer({"server/discover": Fault(-32022, "no", {"supported": ["2099-01-01"], "requested": LATEST_MODERN})})
    with pytest.raises(OpeningFailed) as failed:
        await connect(fake)
    await fake.gone.wait()
    assert fake.methods == ["server/discover"]
    assert failed.value.offered == ("2099-01-01",)
    assert LATEST_MODERN in failed.value.supported
    assert "2099-01-01" in str(failed.value)
    assert LATEST_MODERN in str(failed.value)


@pytest.mark.parametrize("as_error", [False, True])
@scene
async def test_a_list_of_legacy_dates_alone_leads_to_the_handshake(as_error):
    """DE-15: by a dual-era client; one that is modern alone says what is wrong."""
    listed = ["2025-11-25", "2025-06-18"]
    found = Bare({"resultType": "complete", "supportedVersions": listed, "capabilities": {}, "ttlMs": 0, "cacheScope": "public"})
    answer = Fault(-32022, "no", {"supported": listed, "requested": LATEST_MODERN}) if as_error else found
    fake = legacy({"server/discover": answer})
    async with connect(fake) as client:
        assert client.revision == "2025-11-25"
    assert fake.methods == ["server/discover", *HANDSHAKE]
    with pytest.raises(OpeningFailed, match="2025-11-25") as failed:
        await connect(legacy({"server/discover": answer}), era="modern")
    assert LATEST_MODERN in str(failed.value)


@scene
async def test_legacy_dates_beside_a_modern_one_are_passed_over():
    """DE-15."""
    fake = FakeServer(speaks=["2025-11-25", LATEST_MODERN])
    async with connect(fake) as client:
        assert client.revision == LATEST_MODERN


@scene
async def test_a_server_that_dies_of_the_probe_is_opened_again_as_a_legacy_one():
    """DE-06, SD-06: the fresh process sees initialize first."""

    async def die(asked):
        await asked.fake.hang_up()
        return SILENCE

    fake = legacy({"server/discover": die})
    async with connect(fake) as client:
        assert client.era == "legacy"
        await client.list_tools()
    assert [[line["method"] for line in life] for life in fake.lives] == [["server/discover"], [*HANDSHAKE, "tools/list"]]


@scene
async def test_one_probe_is_enough_and_a_later_failure_does_not_demote_a_modern_server():
    """DE-07, PI-04, LG-09, ST-04: two conversations, one connection, no handshake whatever happens."""
    fake = FakeServer({"tools/call": [text("first"), Fault(-32601, "there is no such method")]})
    async with connect(fake) as client:
        await client.call_tool("x")
        with pytest.raises(MethodNotFound):
            await client.call_tool("x")
        await client.list_tools()
    assert fake.methods == ["server/discover", "tools/call", "tools/call", "tools/list"]
    assert len(fake.lives) == 1


@scene
async def test_a_modern_client_finds_a_legacy_server_out_by_the_probe():
    """DE-08: nothing else was sent, and the message says which version is missing."""
    fake = legacy()
    with pytest.raises(OpeningFailed, match=r"a legacy server.*2026-07-28"):
        await connect(fake, era="modern")
    await fake.gone.wait()
    assert fake.methods == ["server/discover"]


# The nine cells: client by server

SERVERS = {"legacy": LEGACY, "both": BOTH, "modern": (LATEST_MODERN,)}
OUTCOMES = {
    ("legacy", "legacy"): ("legacy", HANDSHAKE),
    ("legacy", "both"): ("legacy", HANDSHAKE),
    ("legacy", "modern"): (None, ["initialize"]),
    ("auto", "legacy"): ("legacy", ["server/discover", *HANDSHAKE]),
    ("auto", "both"): ("modern", ["server/discover"]),
    ("auto", "modern"): ("modern", ["server/discover"]),
    ("modern", "legacy"): (None, ["server/discover"]),
    ("modern", "both"): ("modern", ["server/discover"]),
    ("modern", "modern"): ("modern", ["server/discover"]),
}


@pytest.mark.parametrize(("client_era", "server"), OUTCOMES)
@scene
async def test_every_kind_of_client_with_every_kind_of_server(client_era, server):
    """DE-01, DE-02, DE-04, DE-08, DE-09: the table of the specification; where it fails, the error names the versions."""
    era, said = OUTCOMES[client_era, server]
    fake = FakeServer(speaks=SERVERS[server])
    if era is None:
        with pytest.raises(OpeningFailed) as failed:
            await connect(fake, era=client_era)
        await fake.gone.wait()
        assert LATEST_MODERN in str(failed.value)
        assert failed.value.supported == (LEGACY if client_era == "legacy" else (LATEST_MODERN,))
        if client_era == "legacy":
            assert failed.value.offered == (LATEST_MODERN,)
            assert LATEST_LEGACY in str(failed.value)
    else:
        async with connect(fake, era=client_era) as client:
            assert client.era == era
            assert (await client.call_tool("x")).text == "done"
    assert fake.methods == [*said, "tools/call"][: len(said) + (era is not None)]


@scene
async def test_a_server_in_this_process_that_cannot_start_fails_at_once():
    @asynccontextmanager
    async def lifespan(_server):
        raise RuntimeError("the database is not there")
        yield

    with pytest.raises(RuntimeError, match="the database is not there"):
        async with asyncio.timeout(20):  # and not only after the connect timeout
            await connect(Server("s", lifespan=lifespan))
