"""Methods and notifications outside the specification: those of an extension or of one server (JR-18, AP-01)."""

import asyncio

import pytest
from msgspec import Raw

from fake_server import SILENCE, FakeServer, asks, scene, text
from twopipes import McpError, Timeouts, connect
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN
from twopipes.errors import RemoteProtocolError
from twopipes.types import ClientOptions, InputRequired

ERAS = [LATEST_LEGACY, LATEST_MODERN]


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_a_method_of_ones_own_gives_plain_python(revision):
    """JR-18, VN-01: with both methods of the client; the params are sent unchanged, with the metadata of the era."""
    fake = FakeServer({"own/sum": lambda asked: {"sum": sum(asked.params["numbers"])}}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        assert (await client.request("own/sum", {"numbers": [1, 2]}))["sum"] == 3
        assert (await client.request_once("own/sum", {"numbers": [3, 4]}))["sum"] == 7
        with pytest.raises(McpError, match="unknown method own/other"):
            await client.request("own/other")
    assert [params["numbers"] for params in fake.of("own/sum")] == [[1, 2], [3, 4]]


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_a_notification_of_the_servers_own_gives_plain_python(revision):
    """JR-18, JR-10: also one without params."""
    fake, received = FakeServer(speaks=revision), []
    async with connect(
        fake, revision=revision, options=ClientOptions(on_notification=lambda *given: received.append(given))
    ) as client:
        fake.notify("own/news", {"a": [1], "b": None})
        fake.notify("own/quiet")
        await client.ping()
    assert received == [("own/news", {"a": [1], "b": None}), ("own/quiet", None)]


@scene
async def test_endless_nesting_affects_only_its_own_request():
    """JR-20: an error for the caller, an entry in the stray output, and the next line is read."""
    deep = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
    reported, received = [], []

    def answer(asked):
        asked.fake.write(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (asked.id, deep))
        return SILENCE

    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    fake = FakeServer({"own/deep": answer})
    async with connect(fake, options=ClientOptions(on_notification=lambda method, _: received.append(method))) as client:
        with pytest.raises(RemoteProtocolError):
            await client.request("own/deep", timeouts=Timeouts(request=5))
        fake.write(b'{"jsonrpc":"2.0","method":"own/news","params":%s}\n' % deep)
        await client.ping()
        assert client.stray_count >= 1
        # A session may let through what only the last step cannot read.
        client._notified("own/news", Raw(b"[" * 1_000_000), 0)
        assert "own/news" in client.stray[-1].what
    assert received == reported == []


@scene
async def test_a_known_method_may_be_asked_by_hand():
    """MR-05: typed results, and questions for a caller that answers them itself."""
    fake = FakeServer({"tools/call": [text("one"), asks(state="s"), text("two")]})
    async with connect(fake) as client:
        assert (await client.request("tools/call", {"name": "x"})).text == "one"
        asked = await client.request_once("tools/call", {"name": "x"})
        assert isinstance(asked, InputRequired)
        assert (await asked.answer()).text == "two"
