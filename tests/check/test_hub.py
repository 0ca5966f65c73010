"""Our server behind a hub, beside another one: the hub breaks no rule that the server alone keeps.

The check knows some tools by their names, so the prefix is taken off on the way to the check, and put on again on the way back.
"""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest

from check.healthy import WAITS, new_server, served
from check.mutation import MutatingChannel
from check.runs import of_server, run
from check.test_gateway import check_over_http, kept, new_server_of
from check.test_ours import breaches
from check.time_scale import scaled
from twopipes import Server
from twopipes._channels.memory import memory_pair
from twopipes._gateway.back import BackConfig
from twopipes._gateway.hub.member import MemberSettings
from twopipes._gateway.hub.server import HubServer
from twopipes._protocol.revisions import ALL, MODERN
from twopipes._tools.check.server_source import ChannelTarget

pytestmark = pytest.mark.mutants

PREFIX = "x__"
# The hub has no icons, and it does not announce a tool that is removed before the hub has seen it.
NOT_TRIED = {"CT-06", "SU-10"}
NAMED = ("tools/call", "prompts/get")


def hub_of(server, era="auto", **options):
    other = Server("other")
    other.add_tool(lambda: "other", name="say", description="Says something")
    settings = MemberSettings(config=BackConfig(era=era))
    return HubServer({"x": server, "other": other}, members=settings, **options)


def without_prefix(wire):
    """Hide the prefix from the check."""
    wire.from_subject = lambda line: line.replace(f'"{PREFIX}'.encode(), b'"') + b"\n"
    wire.to_subject = with_prefix


def with_prefix(line):
    try:
        message = json.loads(line)
        params = message["params"]
        named = params if message["method"] in NAMED else params["ref"] if message["method"] == "completion/complete" else {}
        if not isinstance(named.get("name"), str):
            return None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None  # a line that the check has broken on purpose
    named["name"] = PREFIX + named["name"]
    return json.dumps(message).encode() + b"\n"


def behind_hubs(era):
    """What a ``ChannelTarget`` connects with: each connection has a hub of its own, as each host has over stdio."""

    @asynccontextmanager
    async def connect():
        hub = hub_of(new_server(), era, page_size=5)
        ours, theirs = memory_pair()
        async with hub._running():
            serving = asyncio.create_task(hub._serve_channel(theirs, None))
            channel = MutatingChannel(ours, without_prefix, reader_is_check=True)
            try:
                yield channel
            finally:
                await channel.close()
                serving.cancel()
                with suppress(asyncio.CancelledError):
                    await serving

    return connect


@pytest.fixture(scope="module")
def alone():
    return run(of_server(ChannelTarget(served(new_server()), timeouts=scaled(WAITS)), revisions=ALL))


def test_a_modern_server_behind_a_hub(alone):
    outcome = run(of_server(ChannelTarget(behind_hubs("modern"), timeouts=scaled(WAITS)), revisions=ALL))
    assert outcome.revisions == list(ALL)
    assert breaches(outcome) == []
    assert kept(alone) - kept(outcome) - NOT_TRIED == set()


# Some requests of the check declare nothing. A legacy server that was opened by one of these asks nothing later, so less is tried.
def test_a_legacy_server_behind_a_hub():
    outcome = run(of_server(ChannelTarget(behind_hubs("legacy"), timeouts=scaled(WAITS)), revisions=ALL))
    assert outcome.revisions == list(ALL)
    assert breaches(outcome) == []


def test_a_server_behind_a_hub_over_http():
    outcome = check_over_http(hub_of(new_server_of(MODERN), is_shared=True))
    assert outcome.revisions == list(ALL)
    assert breaches(outcome) == []
