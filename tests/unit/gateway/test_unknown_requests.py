"""Requests of a legacy server to the host: those whose method is unknown, and the progress that a host reports about any."""

import asyncio

import pytest

import sessions
from fake_server import FORM, SAMPLE, SILENCE, Fault, legacy, scene, text
from gateways import alone, gateway_to
from inmemory import ANSWERS, LATEST_LEGACY, LATEST_MODERN, LEGACY, connected, turn_until

OWN = "com.example/confirm"


async def asked_during_a_call(fake, host, method, params):
    """Let the server send a request while a call of the host is open. Return the response, after the call has ended."""
    call = host.start_tool("x")
    await fake.until("tools/call")
    answer = await fake.ask(method, params)
    fake.write({"jsonrpc": "2.0", "id": fake.ids_of("tools/call")[-1], "result": text("done")})
    await host.line_of(call)
    return answer


# Unknown methods


@pytest.mark.parametrize("back", LEGACY)
@pytest.mark.parametrize("front", LEGACY)
@pytest.mark.parametrize("result", [{"answer": [1, {"b": None}]}, {}])
@scene
async def test_an_unknown_request_and_its_result_pass_unchanged(front, back, result):
    fake = legacy({"tools/call": SILENCE}, revision=back)
    async with alone(fake, front) as host:
        host.answer = lambda key, method, params: result
        answer = await asked_during_a_call(fake, host, OWN, {"own": {"deep": [1]}, "_meta": {"com.example/x": 1}})
    assert [(method, params) for _, method, params in host.asked] == [(OWN, {"own": {"deep": [1]}, "_meta": {"com.example/x": 1}})]
    assert answer["result"] == result


@scene
async def test_an_unknown_request_without_params_passes_outside_of_a_call():
    fake = legacy()
    async with alone(fake, LATEST_LEGACY) as host:
        await host.result("tools/list")
        host.answer = lambda key, method, params: {"ok": True}
        assert (await fake.ask(OWN))["result"] == {"ok": True}
    assert [(method, params) for _, method, params in host.asked] == [(OWN, None)]


@scene
async def test_an_error_of_the_host_passes():
    fake = legacy()
    async with alone(fake, LATEST_LEGACY) as host:
        await host.result("tools/list")
        host.answer = lambda key, method, params: {"code": -32050, "message": "not now", "data": {"a": 1}}
        assert (await fake.ask(OWN))["error"] == {"code": -32050, "message": "not now", "data": {"a": 1}}


@scene
async def test_a_modern_host_gets_no_request():
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, LATEST_MODERN) as host:
        during = await asked_during_a_call(fake, host, OWN, {})
        outside = await fake.ask(OWN, {})
    assert [answer["error"]["code"] for answer in (during, outside)] == [-32601, -32601]
    assert not host.asked


@scene
async def test_an_unknown_request_that_could_belong_to_two_hosts_is_refused():
    fake = legacy({"tools/call": SILENCE})
    gateway = gateway_to(fake)
    async with gateway._running(), connected(gateway, LATEST_LEGACY) as one, connected(gateway, LATEST_LEGACY) as two:
        calls = [host.start_tool("x") for host in (one, two)]
        await fake.until("tools/call", 2)
        error = (await fake.ask(OWN, {}))["error"]
        assert (error["code"], error["message"]) == (-32601, f"{OWN} was not passed to a host: 2 hosts could be meant")
        fake.write({"jsonrpc": "2.0", "id": fake.ids_of("tools/call")[1], "result": text("done")})
        await two.line_of(calls[1])
        one.answer = lambda key, method, params: {"from": "one"}
        assert (await fake.ask(OWN, {}))["result"] == {"from": "one"}
    assert not two.asked


@scene
async def test_a_request_of_another_revision_or_role_is_not_passed():
    fake = legacy(revision="2024-11-05")
    async with alone(fake, LATEST_LEGACY) as host:
        await host.result("tools/list")
        for method in ("elicitation/create", "tools/list"):
            assert (await fake.ask(method, {}))["error"]["code"] == -32601
    assert not host.asked


@scene
async def test_an_unknown_request_that_the_server_cancels_is_cancelled_at_the_host():
    fake = legacy()
    async with alone(fake, LATEST_LEGACY) as host:
        await host.result("tools/list")
        host.answer = lambda key, method, params: None
        fake.write({"jsonrpc": "2.0", "id": "q", "method": OWN})
        request_id, *_ = (await host.until(lambda: host.asked))[0]
        fake.notify("notifications/cancelled", {"requestId": "q"})
        assert (await host.note("notifications/cancelled"))["requestId"] == request_id


@scene
async def test_a_host_that_leaves_ends_the_request():
    fake = legacy()
    gateway = gateway_to(fake)
    async with gateway._running():
        async with connected(gateway, LATEST_LEGACY) as host:
            await host.result("tools/list")
            host.answer = lambda key, method, params: None
            answer = asyncio.create_task(fake.ask(OWN))
            await host.until(lambda: host.asked)
        assert (await answer)["error"]["code"] == -32603


# Progress of a host


@pytest.mark.parametrize("back", LEGACY)
@pytest.mark.parametrize("front", LEGACY)
@pytest.mark.parametrize(("method", "params"), [("sampling/createMessage", SAMPLE), (OWN, {"own": 1})])
@scene
async def test_progress_about_a_request_reaches_the_server_with_its_token(front, back, method, params):
    fake = legacy({"tools/call": SILENCE}, revision=back)
    async with alone(fake, front) as host:
        host.answer = lambda key, method, params: None
        call = host.start_tool("x")
        await fake.until("tools/call")
        answer = asyncio.create_task(fake.ask(method, {**params, "_meta": {"progressToken": "its own", "com.example/x": 1}}))
        request_id, _, received = (await host.until(lambda: host.asked))[0]
        token = received["_meta"]["progressToken"]
        assert token == request_id  # it cannot be taken for the token of another request
        assert received["_meta"]["com.example/x"] == 1
        host.send(sessions.note("notifications/progress", progressToken="unknown", progress=1))
        host.send(sessions.note("notifications/progress", progressToken=token, progress=2, total=3, message="half", own=True))
        reported = (await fake.until("notifications/progress"))["params"]
        host.send({"jsonrpc": "2.0", "id": request_id, "result": ANSWERS.get(method, {})})
        assert "result" in await answer
        host.send(sessions.note("notifications/progress", progressToken=token, progress=3))
        fake.write({"jsonrpc": "2.0", "id": fake.ids_of("tools/call")[0], "result": text("done")})
        await host.line_of(call)
        await host.settle()
    message = {} if back == "2024-11-05" else {"message": "half"}
    assert reported == {"progressToken": "its own", "progress": 2, "total": 3, "own": True, **message}
    assert len(fake.of("notifications/progress")) == 1


@scene
async def test_a_question_outside_of_a_call_carries_progress_too():
    fake = legacy()
    async with alone(fake, LATEST_LEGACY) as host:
        await host.result("tools/list")
        host.answer = lambda key, method, params: None
        answer = asyncio.create_task(fake.ask("elicitation/create", {**FORM, "_meta": {"progressToken": 0}}))
        request_id, _, received = (await host.until(lambda: host.asked))[0]
        host.send(sessions.note("notifications/progress", progressToken=received["_meta"]["progressToken"], progress=1))
        assert (await fake.until("notifications/progress"))["params"] == {"progressToken": 0, "progress": 1}
        host.send({"jsonrpc": "2.0", "id": request_id, "result": {"action": "decline"}})
        assert (await answer)["result"] == {"action": "decline"}


@scene
async def test_without_a_token_a_host_is_not_asked_for_progress():
    fake = legacy()
    async with alone(fake, LATEST_LEGACY) as host:
        await host.result("tools/list")
        await fake.ask("elicitation/create", FORM)
        await turn_until(lambda: host.asked)
    assert "_meta" not in host.asked[0][2]


# Extensions

UI = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}


@pytest.mark.parametrize("back", [*LEGACY, LATEST_MODERN])
@pytest.mark.parametrize("front", [*LEGACY, LATEST_MODERN])
@scene
async def test_extensions_pass_in_both_directions(front, back):
    fake = legacy(revision=back, capabilities={"tools": {}, "extensions": UI})
    async with alone(fake, front, can={"extensions": {**UI, "com.example/x": {}}}) as host:
        await host.result("tools/list")
        if front == LATEST_MODERN:
            introduction = await host.result("server/discover")
        else:
            introduction = (await host.line_of("opening"))["result"]
    assert introduction["capabilities"]["extensions"] == UI
    if back == LATEST_MODERN:
        declared = fake.of("tools/list")[0]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    else:
        declared = fake.of("initialize")[0]["capabilities"]
    assert declared["extensions"] == {**UI, "com.example/x": {}}


@pytest.mark.parametrize("back", [LATEST_LEGACY, LATEST_MODERN])
@pytest.mark.parametrize("front", [LATEST_LEGACY, LATEST_MODERN])
@pytest.mark.parametrize("extensions", [{"mine": {}}, {"com.example/x": True}, {"mine": {}, **UI}])
@scene
async def test_an_invalid_extension_breaks_nothing(front, back, extensions):
    fake = legacy(revision=back, capabilities={"tools": {}, "extensions": extensions})
    async with alone(fake, front, can={"extensions": extensions}) as host:
        assert await host.result("tools/list")
        assert await host.text("x") == "done"


@scene
async def test_an_error_that_names_an_unknown_method_is_the_hosts():
    """A host that does not know the request answers so itself."""
    fake = legacy({"tools/call": Fault(-32000, "no")})
    async with alone(fake, LATEST_LEGACY) as host:
        await host.result("tools/list")
        host.answer = lambda key, method, params: {"code": -32601, "message": "what is that?"}
        assert (await fake.ask(OWN))["error"] == {"code": -32601, "message": "what is that?"}
