"""Calls through the gateway, for every combination of revisions."""

import asyncio
import json

import pytest

import sessions
from fake_server import SILENCE, Bare, FakeServer, Fault, scene, text
from gateways import REVISIONS, through

pytestmark = pytest.mark.slow  # every pair of revisions

PAIRS = [(front, back) for front in REVISIONS for back in REVISIONS]
every_pair = pytest.mark.parametrize(("front", "back"), PAIRS)
CACHED = {"ttlMs": 0, "cacheScope": "private"}
INFO = {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1"}}


def envelope(front, back, method="tools/call", meta=None):
    """The members that a result gets besides those of the server."""
    added = {}
    if front == "2026-07-28":
        added["resultType"] = "complete"
        if method != "tools/call":
            added |= CACHED
        if back != front:
            meta = {**(meta or {}), **INFO}
    return added if meta is None else {**added, "_meta": meta}


@every_pair
@scene
async def test_a_call_reaches_the_server_and_its_result_the_host(front, back):
    fake = FakeServer({"tools/call": text("done", own={"a": [1, None]})}, speaks=back)
    async with through(fake, front) as (host, _, _):
        result = await host.call("add", a=1, b={"c": [2.50]})
    assert result == {"content": [{"type": "text", "text": "done"}], "own": {"a": [1, None]}, **envelope(front, back)}
    (params,) = fake.of("tools/call")
    assert params["name"] == "add"
    assert params["arguments"] == {"a": 1, "b": {"c": [2.5]}}
    assert ("io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})) == (back == "2026-07-28")


@every_pair
@scene
async def test_lists_pass_with_their_cursors(front, back):
    tool = {"name": "add", "inputSchema": {"type": "object"}, "own": 1}
    fake = FakeServer({"tools/list": {"tools": [tool], "nextCursor": "opaque=="}}, speaks=back)
    async with through(fake, front) as (host, _, _):
        result = await host.result("tools/list", cursor="before")
    assert result == {"tools": [tool], "nextCursor": "opaque==", **envelope(front, back, "tools/list")}
    assert fake.of("tools/list")[0]["cursor"] == "before"


@every_pair
@scene
async def test_an_error_keeps_its_message_and_its_data(front, back):
    fake = FakeServer({"tools/call": Fault(-32602, "unknown tool", {"own": [1]})}, speaks=back)
    async with through(fake, front) as (host, _, _):
        error = await host.error("tools/call", name="x")
    assert error == {"code": -32602, "message": "unknown tool", "data": {"own": [1]}}


@every_pair
@scene
async def test_a_missing_resource_has_the_code_of_the_hosts_revision(front, back):
    code = -32602 if back == "2026-07-28" else -32002
    fake = FakeServer({"resources/read": Fault(code, "no such resource", {"uri": "a:b"})}, speaks=back)
    async with through(fake, front) as (host, _, _):
        error = await host.error("resources/read", uri="a:b")
    assert error == {
        "code": -32602 if front == "2026-07-28" else -32002,
        "message": "no such resource",
        "data": {"uri": "a:b"},
    }


@every_pair
@scene
async def test_every_progress_report_is_passed_on_with_the_hosts_token(front, back):
    def work(asked):
        for step in range(100):
            asked.progress(step, total=100, message=f"step {step}", _meta={"own": step})
        return text("done")

    fake = FakeServer({"tools/call": work}, speaks=back)
    async with through(fake, front) as (host, _, _):
        await host.call("work", meta={"progressToken": "mine"})
        notes = host.notes("notifications/progress")
    message = {} if front == "2024-11-05" else {"message": "step 99"}
    assert len(notes) == 100
    assert notes[-1] == {"progressToken": "mine", "progress": 99, "total": 100, **message, "_meta": {"own": 99}}


@every_pair
@scene
async def test_without_a_token_no_progress_is_requested(front, back):
    fake = FakeServer(speaks=back)
    async with through(fake, front) as (host, _, _):
        await host.call("work", meta={"own.example/key": 1})
    meta = fake.of("tools/call")[0]["_meta"]
    assert "progressToken" not in meta
    assert meta["own.example/key"] == 1


@every_pair
@scene
async def test_a_cancelled_call_is_cancelled_at_the_server(front, back):
    fake = FakeServer({"tools/call": SILENCE}, speaks=back)
    async with through(fake, front) as (host, _, _):
        request_id = host.start_tool("slow")
        await fake.until("tools/call")
        host.cancel(request_id)
        await fake.until("notifications/cancelled")
        await host.settle()
        assert host.answers_to(request_id) == []
        assert fake.cancelled == fake.ids_of("tools/call")


@every_pair
@scene
async def test_an_unknown_method_passes(front, back):
    fake = FakeServer({"own/method": Bare({"own": {"deep": [True]}})}, speaks=back)
    async with through(fake, front) as (host, _, _):
        result = await host.result("own/method", member={"x": 1})
    assert result["own"] == {"deep": [True]}
    assert fake.of("own/method")[0]["member"] == {"x": 1}


@every_pair
@scene
async def test_the_host_learns_the_name_and_the_capabilities_of_the_server(front, back):
    fake = FakeServer(speaks=back)
    async with through(fake, front) as (host, _, _):
        if front == "2026-07-28":
            result = await host.result("server/discover")
            assert result["_meta"] == INFO
        else:
            result = host.answers_to("opening")[0]["result"]
            assert result["serverInfo"] == {"name": "fake", "version": "1"}
            assert result["protocolVersion"] == front
    assert result["instructions"] == "Ask."
    assert result["capabilities"].keys() >= {"tools", "resources", "prompts"}


@pytest.mark.parametrize("revision", REVISIONS)
@scene
async def test_in_the_same_revision_the_bytes_of_a_result_pass_unchanged(revision):
    body = b'{"content":[],"own":1e2,"text":"\\u00e9","resultType":"complete", "n":12345678901234567890123}'

    def answer(asked):
        asked.fake.write(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (asked.id, body))
        return SILENCE

    fake = FakeServer({"tools/call": answer}, speaks=revision)
    async with through(fake, revision) as (host, _, _):
        assert await host.call("x") == json.loads(body)


@pytest.mark.parametrize("front", REVISIONS)
@scene
async def test_a_lost_server_is_an_error_at_once_and_the_next_call_is_served(front):
    fake = FakeServer({"tools/call": [SILENCE, text("again")]}, speaks=front)
    async with through(fake, front) as (host, _, _):
        request_id = host.start_tool("x")
        await fake.until("tools/call")
        await fake.hang_up()
        line = await host.line_of(request_id)
        assert line["error"]["code"] == -32603
        assert "the connection ended before the response to tools/call" in line["error"]["message"]
        assert await host.text("x") == "again"


@scene
async def test_calls_run_at_the_same_time():
    both = asyncio.Event()
    arrived = []

    async def meet(asked):
        arrived.append(asked.id)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        return text("met")

    async with through(FakeServer({"tools/call": meet})) as (host, _, _):
        ids = [host.start_tool("x"), host.start_tool("y")]
        for each in ids:
            assert (await host.line_of(each))["result"]["content"][0]["text"] == "met"


@pytest.mark.parametrize(("method", "params", "member"), [
    ("resources/list", {"cursor": "c"}, "resources"),
    ("resources/templates/list", {}, "resourceTemplates"),
    ("prompts/list", {}, "prompts"),
    ("resources/read", {"uri": "a:b"}, "contents"),
    ("prompts/get", {"name": "p", "arguments": {"n": "1"}}, "messages"),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "n", "value": "v"}}, "completion"),
])  # fmt: skip
@every_pair
@scene
async def test_every_feature_passes(front, back, method, params, member):
    values = {
        "resources": [{"uri": "a:b", "name": "b", "own": 1}],
        "resourceTemplates": [{"uriTemplate": "a:{x}", "name": "t", "own": 1}],
        "prompts": [{"name": "p", "own": 1}],
        "contents": [{"uri": "a:b", "text": "t", "own": 1}],
        "messages": [{"role": "user", "content": {"type": "text", "text": "t", "own": 1}, "own": 1}],
        "completion": {"values": ["v"], "total": 1, "own": 1},
    }
    fake = FakeServer({method: {member: values[member], "own": 2}}, speaks=back)
    async with through(fake, front) as (host, _, _):
        result = await host.result(method, **params)
    assert (result[member], result["own"]) == (values[member], 2)
    (received,) = fake.of(method)
    received.pop("_meta", None)
    assert received == params


@scene
async def test_a_result_that_the_host_cannot_read_is_rewritten_and_keeps_unknown_members():
    tool = {"name": "x", "inputSchema": {"type": "object"}, "title": "X", "outputSchema": {"type": "object"}}
    fake = FakeServer({"tools/list": {"tools": [tool], "own": [1], "nextCursor": "c"}})
    async with through(fake, "2024-11-05") as (host, _, _):
        result = await host.result("tools/list")
    assert result == {"tools": [{"name": "x", "inputSchema": {"type": "object"}}], "own": [1], "nextCursor": "c"}


@every_pair
@scene
async def test_a_result_that_breaks_the_protocol_is_an_error_only_where_it_must_be_translated(front, back):
    fake = FakeServer({"tools/call": [Bare({"content": "no list"}), text("next")]}, speaks=back)
    async with through(fake, front) as (host, _, _):
        line = await host.request("tools/call", name="x")
        if front == back:
            assert line["result"] == {"content": "no list"}
        else:
            assert line["error"]["code"] == -32603
            assert "the result of tools/call is invalid" in line["error"]["message"]
        assert await host.text("x") == "next"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@scene
async def test_params_nested_too_deeply_are_an_error_and_the_next_call_is_served(revision):
    async with through(FakeServer(speaks=revision), revision) as (host, _, _):
        deep = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
        meta = json.dumps({"_meta": sessions.modern(0, "x")["params"]["_meta"]})[1:-1].encode() if host.modern else b'"b":1'
        line = b'{"jsonrpc":"2.0","id":"deep","method":"own/deep","params":{"a":%s,%s}}\n'
        host.channel.write(line % (deep, meta))
        assert "error" in await host.until(lambda: next((each for each in host.lines if "error" in each), None))
        assert await host.text("x") == "done"


@scene
async def test_the_members_of_a_batch_are_served():
    async with through(FakeServer(speaks="2025-03-26"), "2025-03-26") as (host, _, fake):
        batch = [sessions.request(number, "tools/call", name=f"t{number}") for number in (71, 72)]
        host.channel.write(json.dumps(batch).encode() + b"\n")
        await fake.until("tools/call", 2)
        assert [(await host.line_of(each["id"]))["result"]["content"] for each in batch] == [text("done")["content"]] * 2
