"""What a client writes, line by line, and what it makes of the lines it reads (sections FR, JR, ER, MT and CP of the rules)."""

import asyncio
import json
import sys

import jsonschema
import pytest

from fake_server import PREFIX, SILENCE, Bare, FakeServer, Fault, acknowledge, legacy, scene, text
from twopipes import McpError, RequestTimedOut, Timeouts, connect
from twopipes._channels.sockets import listen_tcp, listen_unix
from twopipes._protocol.meta_keys import meta_key_fault
from twopipes._protocol.revisions import ALL, LATEST_LEGACY, LATEST_MODERN, LEGACY
from twopipes.errors import ClientClosed, ConnectionLost, NotFound, RemoteProtocolError
from twopipes.types import ClientOptions
from unit.protocol import official

ERAS = [LATEST_LEGACY, LATEST_MODERN]
SHORT = Timeouts(request=0.05)


async def tour(client):
    """Call every method of a client once."""
    await client.list_tools()
    await client.call_tool("echo", {"said": "a\nb"}, meta={"com.example/trip": 1})
    await client.list_resources()
    await client.list_resource_templates()
    await client.read_resource("x://y")
    await client.list_prompts()
    await client.get_prompt("p", {"a": "b"})
    await client.complete("a", "b", prompt="p")
    await client.set_log_level("info")
    async with client.subscribe(tools=True, resources=["x://y"]) as changes:
        await changes.ready()
    client.set_roots(["/tmp"])
    await client.ping()


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_every_line_is_a_message_of_the_revision(revision):
    """FR-01, FR-05, JR-01, JR-02, JR-03, JR-09, JR-15, VN-01, CM-01, TL-02, PM-02, SU-01, CP-03: by the official schema."""
    fake = FakeServer(speaks=revision)
    async with connect(fake, revision=revision, roots=["/home"], on_elicit=dict, on_sample=str) as client:
        await tour(client)
    definitions = official.definitions(revision)
    unions = [name for name in ("ClientRequest", "ClientNotification") if name in definitions]
    schema = {**official.schema(revision), "anyOf": [{"$ref": f"#/{_place(revision)}/{name}"} for name in unions]}
    validator = jsonschema.Draft202012Validator(schema)
    for raw, line in zip(fake.raw, fake.lines, strict=True):
        assert raw.count(b"\n") == 1
        assert "method" in line
        assert [error.message for error in validator.iter_errors(line)] == [], raw


def _place(revision):
    return "definitions" if "definitions" in official.schema(revision) else "$defs"


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_ids_are_never_used_twice_and_never_strange(revision):
    """JR-02, JR-03, JR-04, JR-05: string or integer, each of them once."""
    fake = FakeServer(speaks=revision)
    async with connect(fake, revision=revision, roots=["/home"]) as client:
        await asyncio.gather(*(client.call_tool("x") for _ in range(500)))
        await tour(client)
    ids = [line["id"] for line in fake.lines if "id" in line]
    assert {type(each) for each in ids} <= {str, int}
    assert len({(type(each), each) for each in ids}) == len(ids) > 500


@scene
async def test_a_listen_keeps_its_id_for_itself():
    """JR-05, PR-01: nor does any token equal that of another open request."""
    fake = FakeServer({"tools/call": SILENCE})
    async with connect(fake) as client:
        async with client.subscribe(tools=True) as changes:
            await changes.ready()
            calls = [asyncio.ensure_future(client.call_tool("x")) for _ in range(5)]
            await fake.until("tools/call", 5)
        ids = fake.ids_of("subscriptions/listen") + fake.ids_of("tools/call")
        tokens = [params["_meta"]["progressToken"] for params in fake.of("tools/call")]
        assert len(set(ids)) == 6
        assert len(set(tokens)) == 5
    assert {type(error) for error in await asyncio.gather(*calls, return_exceptions=True)} == {ClientClosed}


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_text_arrives_as_it_was_given(revision):
    """FR-02, FR-03, FR-13: newlines, every plane of Unicode, and five megabytes of it, each in one line of UTF-8."""
    odd = ["a\nb\r\nc", "\u2028\u2029\x85\x00", "\N{PARTY POPPER}\u6f22\u00e9\ufeff", "x" * 5_000_000]
    fake = FakeServer({"tools/call": lambda asked: text(asked.params["arguments"]["said"])}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        for said in odd:
            assert (await client.call_tool("echo", {"said": said})).text == said
    for raw, params in zip([raw for raw in fake.raw if b"tools/call" in raw], fake.of("tools/call"), strict=True):
        assert raw.decode("utf-8").count("\n") == 1
        assert not raw.startswith("\ufeff".encode())
        assert b"\r" not in raw
        assert params["arguments"]["said"] in odd


@scene
async def test_answers_find_their_callers_whatever_their_order():
    """FR-14, FR-13: the last question is answered first."""
    asked = []
    fake = FakeServer({"tools/call": lambda question: asked.append(question) or SILENCE})
    async with connect(fake) as client:
        calls = [asyncio.ensure_future(client.call_tool("echo", {"number": number})) for number in range(20)]
        await fake.until("tools/call", 20)
        for question in reversed(asked):
            question.answer(text(str(question.params["arguments"]["number"]) + " " * 200_000))
        assert [int((await call).text) for call in calls] == list(range(20))


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_stray_output_and_unexpected_responses_do_no_harm(revision):
    """JR-19, JR-20, FR-15: broken lines, repeated and unknown ids, blank lines, a carriage return."""
    noise = [
        b"Starting server...\n",
        b"{oops\n",
        b"\xff\xfe\n",
        b"\n",
        b"5\n",
        b'{"jsonrpc":"2.0","id":999,"result":{}}\r\n',
        b'{"jsonrpc":"2.0","id":"1","result":{"content":[]}}\n',
        b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}\n',
    ]

    def answer(asked):
        for line in noise:
            asked.fake.write(line)
        asked.answer(text("first"))
        asked.answer(text("second"))
        return SILENCE

    reported = []
    fake = FakeServer({"tools/call": answer}, speaks=revision)
    async with connect(fake, revision=revision, on_stray_output=reported.append) as client:
        for _ in range(3):
            assert (await client.call_tool("x")).text == "first"
        assert client.stray_count == len(reported) == 15
        assert client.stray[0].excerpt == "Starting server..."
        assert "error" not in json.dumps(fake.lines)


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_unknown_members_are_ignored(revision):
    """JR-18, CP-09, AP-01: in results, capabilities, tools and notifications."""
    tool = {"name": "t", "inputSchema": {"type": "object"}, "zz": [1]}
    fake = FakeServer(
        {"tools/call": text("hello", zz={"a": 1}), "tools/list": {"tools": [tool], "zz": None}},
        speaks=revision,
        capabilities={"tools": {"zz": 1}, "x-unknown": {}, "extensions": {"com.example/x": {"a": 1}}},
    )
    async with connect(fake, revision=revision) as client:
        fake.notify("notifications/unheard-of", {"zz": 1})
        fake.notify("notifications/unheard-of-too")
        assert [each.name for each in await client.list_tools()] == ["t"]
        assert (await client.call_tool("t")).text == "hello"
        assert client.capabilities.allows("tools")
    assert not [line for line in fake.lines if "method" not in line]


@scene
async def test_a_request_on_the_stateless_wire_is_never_answered():
    """FR-10, PI-04, JR-10: a ping is stray output there, and the client continues."""
    fake = FakeServer()
    async with connect(fake) as client:
        for ident, method in ((9, "ping"), ("a", "roots/list"), (0, "elicitation/create"), (10, "foo/bar")):
            fake.write({"jsonrpc": "2.0", "id": ident, "method": method, "params": {}})
        fake.write(b'{"jsonrpc":"2.0","id":11,"method":5}\n')
        await client.ping()
        assert client.stray_count == 5
        assert "ping" in client.stray[0].what
    assert all("result" not in line and "error" not in line for line in fake.lines)


@pytest.mark.parametrize("revision", LEGACY)
@scene
async def test_every_request_of_a_legacy_server_is_answered(revision):
    """JR-16, PI-01, JR-06, JR-10, CA-05: with its id as it was; an unknown method and a broken request by errors."""
    fake = legacy(revision=revision)
    async with connect(fake, era="legacy") as client:
        assert (await fake.ask("foo/bar", ident="x"))["error"]["code"] == -32601
        for ident in ("1", 1, -7, "a-b", 9007199254740991):
            assert await fake.ask("ping", ident=ident) == {"jsonrpc": "2.0", "id": ident, "result": {}}
        before = len(fake.lines)
        fake.notify("notifications/nope", {"a": 1})
        fake.notify("notifications/cancelled")
        fake.notify("notifications/cancelled", {"requestId": 999})
        await client.ping()
        assert [line["method"] for line in fake.lines[before:]] == ["ping"]


@scene
async def test_a_batch_of_2025_03_26_is_answered_by_a_batch():
    """JR-12, JR-13, JR-14: also with responses among its members; the handshake itself is not a batch."""
    answers = []

    class Batching(FakeServer):
        def _check(self, message):
            if isinstance(message, list):
                answers.append(message)
            else:
                super()._check(message)

        def _take(self, message, channel):
            if not isinstance(message, list):
                super()._take(message, channel)

        @property
        def methods(self):
            return [line["method"] for line in self.lines if isinstance(line, dict)]

    fake = Batching(speaks="2025-03-26")
    async with connect(fake, revision="2025-03-26") as client:
        fake.write(
            [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (10, 11)] + [{"jsonrpc": "2.0", "method": "n/x"}]
        )
        await client.ping()
    assert answers == [[{"jsonrpc": "2.0", "id": number, "result": {}} for number in (10, 11)]]
    assert fake.methods[0] == "initialize"


@pytest.mark.parametrize("revision", [revision for revision in ALL if revision != "2025-03-26"])
@scene
async def test_an_array_is_refused_whole_by_all_other_revisions(revision):
    """JR-15: none of its members is answered, and the connection lives on."""
    fake = FakeServer(speaks=revision)
    async with connect(fake, revision=revision) as client:
        fake.write([{"jsonrpc": "2.0", "id": 10, "method": "ping"}])
        await client.ping() if client.era == "legacy" else await client.list_tools()
        assert client.stray_count == 1
    assert not [line for line in fake.lines if line.get("id") == 10]


# Errors


@scene
async def test_unknown_error_codes_are_reported_unchanged():
    """ER-07, ER-06: nothing is read into the range of old implementations."""
    fake = FakeServer({"tools/call": [Fault(-32001, "odd", {"a": 1}), Fault(-32019, "odd"), Fault(42, "own")]})
    async with connect(fake) as client:
        for code in (-32001, -32019, 42):
            with pytest.raises(McpError) as failed:
                await client.call_tool("x")
            assert type(failed.value) is McpError
            assert failed.value.code == code


@pytest.mark.parametrize(("revision", "code"), [(LATEST_LEGACY, -32002), (LATEST_MODERN, -32002), (LATEST_MODERN, -32602)])
@scene
async def test_a_missing_resource_is_not_found_by_either_code(revision, code):
    """ER-12, ER-13, ER-14."""
    fake = FakeServer({"resources/read": Fault(code, "Resource not found", {"uri": "x://y"})}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        with pytest.raises(NotFound):
            await client.read_resource("x://y")


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_what_failed_here_never_looks_like_an_answer(revision):
    """ER-16, SD-03: a timeout, a lost connection, a closed client."""
    fake = FakeServer({"tools/call": SILENCE}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        with pytest.raises(RequestTimedOut) as late:
            await client.call_tool("x", timeouts=SHORT)
        call = asyncio.ensure_future(client.call_tool("x"))
        await fake.until("tools/call", 2)
        await fake.hang_up()
        with pytest.raises(ConnectionLost) as lost:
            await call
    with pytest.raises(ClientClosed) as closed:
        await client.call_tool("x")
    for error in (late.value, lost.value, closed.value):
        assert not isinstance(error, McpError)
        assert not hasattr(error, "code")


@scene
async def test_a_result_of_an_unknown_type_is_not_used():
    """VN-11, VN-10: an absent kind is a complete result, any other a broken rule."""
    fake = FakeServer({"tools/call": [Bare(text("hello")), text("no", resultType="weird"), text("no", resultType=5)]})
    async with connect(fake) as client:
        assert (await client.call_tool("x")).text == "hello"
        for _ in range(2):
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("x")


# Metadata and capabilities


@scene
async def test_keys_of_the_callers_own_go_along_and_nothing_else_does():
    """MT-01, MT-02, MT-05: trace context included; the keys that the client adds are those the specification defines."""
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=b", "baggage": "c=d"}
    fake = FakeServer()
    async with connect(fake) as client:
        await client.call_tool("x", meta={"com.example/trip": [1], **trace})
        await client.call_tool("x")
    first, second = (params["_meta"] for params in fake.of("tools/call"))
    assert {key: first[key] for key in first.keys() - second.keys()} == {"com.example/trip": [1], **trace}
    defined = {PREFIX + key for key in ("protocolVersion", "clientCapabilities", "clientInfo")} | {"progressToken"}
    assert second.keys() == defined
    assert [meta_key_fault(key, LATEST_MODERN) for key in first.keys() - second.keys()] == [None] * 4


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_what_was_given_is_declared_and_nothing_else(revision):
    """CP-02, CP-03, CP-04, CP-07: once in initialize, or with every request; no listChanged of roots on the stateless wire."""
    everything = FakeServer(speaks=revision)
    nothing = FakeServer(speaks=revision)
    rare = ClientOptions(sample_tools=True, extensions={"com.example/x": {}})
    options = {"on_elicit": dict, "on_elicit_url": dict, "on_sample": str, "roots": ["/home"]}
    async with (
        connect(everything, revision=revision, options=rare, **options) as one,
        connect(nothing, revision=revision) as other,
    ):
        await one.list_tools()
        await other.list_tools()
    if revision == LATEST_MODERN:
        for params in [line["params"] for line in everything.lines]:
            assert params["_meta"][PREFIX + "clientCapabilities"] == {
                "elicitation": {"form": {}, "url": {}},
                "sampling": {"tools": {}},
                "roots": {},
                "extensions": {"com.example/x": {}},
            }
        assert nothing.of("tools/list")[0]["_meta"][PREFIX + "clientCapabilities"] == {}
    else:
        declared = everything.of("initialize")[0]["capabilities"]
        assert declared["roots"] == {"listChanged": True}
        assert ("elicitation" in declared) == (revision >= "2025-06-18")
        assert "sampling" in declared
        assert nothing.of("initialize")[0]["capabilities"] == {}


# Other wires


@pytest.mark.parametrize("wire", ["unix", "tcp"])
@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_a_socket_carries_the_same_lines(revision, wire, tmp_path):
    """FR-11, FR-12, SD-08: byte for byte what goes through memory; the end of one connection is not the end of another."""
    if wire == "unix" and sys.platform == "win32":
        pytest.skip("Windows has no Unix sockets in asyncio")
    memory, socket = FakeServer(speaks=revision), FakeServer(speaks=revision)
    async with connect(memory, revision=revision) as client:
        await tour_without_roots(client)

    async def serve(channel):
        await socket.serve(channel=channel)

    listener = await (listen_unix(tmp_path / "s", serve) if wire == "unix" else listen_tcp(0, serve))
    async with listener:
        address = f"unix:{tmp_path / 's'}" if wire == "unix" else f"tcp://127.0.0.1:{listener.port}"
        async with connect(address, revision=revision) as client:
            await tour_without_roots(client)
            async with connect(address, revision=revision) as another:
                await another.ping()
            await client.ping()
    assert socket.raw[: len(memory.raw)] == memory.raw


async def tour_without_roots(client):
    await client.list_tools()
    await client.call_tool("x", {"a": 1})
    await client.read_resource("x://y")
    async with client.subscribe(tools=True) as changes:
        await changes.ready()
    await client.ping()


def test_the_fake_server_notices_what_is_wrong():
    """The checks of every line are themselves checked."""
    fake = FakeServer()
    for bad in ([], {"jsonrpc": "1.0"}, {"jsonrpc": "2.0", "id": None, "method": "x"}, {"jsonrpc": "2.0", "id": 1, "result": {}}):
        with pytest.raises((AssertionError, KeyError)):
            fake._check(bad)
    assert acknowledge is fake.answers["subscriptions/listen"]
