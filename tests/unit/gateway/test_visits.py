"""A legacy server that refuses a call until the user has visited a page, for hosts of both eras."""

import pytest

from fake_server import URL, Fault, legacy, scene, text
from gateways import alone, gateway_to
from inmemory import LATEST_LEGACY, LATEST_MODERN, connected
from twopipes._gateway import visits

REQUIRED = Fault(-32042, "Sign in first", {"elicitations": [URL]})
COMPLETE = "notifications/elicitation/complete"
DONE = text("done")["content"]


@pytest.mark.parametrize(
    ("method", "params", "result"),
    [
        ("tools/call", {"name": "x", "arguments": {"a": 1}}, text("done")),
        ("prompts/get", {"name": "x"}, {"messages": []}),
        ("resources/read", {"uri": "a:b"}, {"contents": []}),
    ],
)
@scene
async def test_a_modern_host_is_asked_and_the_call_is_sent_again(method, params, result):
    fake = legacy({method: [REQUIRED, result]})
    async with alone(fake, LATEST_MODERN) as host:
        host.answer = lambda key, method, params: {"action": "accept"}
        found = await host.result(method, **params)
    assert found.items() >= result.items()
    assert [(method, params) for _, method, params in host.asked] == [
        ("elicitation/create", {"mode": "url", "message": "Sign in", "url": "https://example.test/in"})
    ]
    first, second = fake.of(method)
    assert first == second
    assert "inputResponses" not in second


@scene
async def test_a_call_that_is_refused_again_waits_for_the_visit():
    fake = legacy({"tools/call": [REQUIRED, REQUIRED, text("done")]})
    async with alone(fake, LATEST_MODERN) as host:
        host.answer = lambda key, method, params: {"action": "accept"}
        first = (await host.line_of(host.start_tool("x")))["result"]
        retry = host.start("tools/call", name="x", arguments={}, **host.replies(first))
        while len(fake.of("tools/call")) < 2:
            await host.result("tools/list")
        fake.notify(COMPLETE, {"elicitationId": "e1"})
        assert (await host.line_of(retry))["result"]["content"] == DONE
        assert host.notes(COMPLETE) == []  # the modern revision does not have it


@scene
async def test_a_visit_that_was_complete_before_the_retry_is_not_waited_for():
    fake = legacy({"tools/call": [REQUIRED, REQUIRED, text("done")]})
    async with alone(fake, LATEST_MODERN) as host:
        host.answer = lambda key, method, params: {"action": "accept"}
        first = (await host.line_of(host.start_tool("x")))["result"]
        fake.notify(COMPLETE, {"elicitationId": "e1"})
        await host.result("tools/list")  # so that the notification has been read
        retry = host.start("tools/call", name="x", arguments={}, **host.replies(first))
        assert (await host.line_of(retry))["result"]["content"] == DONE


@scene
async def test_several_pages_are_asked_for_in_one_round():
    pages = [{**URL, "elicitationId": f"e{number}", "url": f"https://example.test/{number}"} for number in (1, 2)]
    fake = legacy({"tools/call": [Fault(-32042, "Sign in first", {"elicitations": pages}), text("done")]})
    async with alone(fake, LATEST_MODERN) as host:
        host.answer = lambda key, method, params: {"action": "accept"}
        assert await host.text("x") == "done"
    assert host.rounds == 1
    assert {params["url"] for _, _, params in host.asked} == {"https://example.test/1", "https://example.test/2"}


@pytest.mark.parametrize("action", ["decline", "cancel"])
@scene
async def test_a_user_who_does_not_agree_gets_the_error(action):
    fake = legacy({"tools/call": REQUIRED})
    async with alone(fake, LATEST_MODERN) as host:
        host.answer = lambda key, method, params: {"action": action}
        error = await host.error("tools/call", name="x", arguments={})
    assert error == {"code": -32600, "message": "Sign in first", "data": {"elicitations": [URL]}}
    assert len(fake.of("tools/call")) == 1


@scene
async def test_a_server_that_always_refuses_is_given_up(monkeypatch):
    monkeypatch.setattr(visits, "_COMPLETE_WITHIN", 0.0)
    fake = legacy({"tools/call": REQUIRED})
    async with alone(fake, LATEST_MODERN) as host:
        host.answer = lambda key, method, params: {"action": "accept"}
        error = await host.error("tools/call", name="x", arguments={})
    assert error["code"] == -32600
    assert (host.rounds, len(fake.of("tools/call"))) == (2, 5)


@pytest.mark.parametrize(
    ("front", "can", "data", "code"),
    [
        (LATEST_LEGACY, {"elicitation": {"url": {}}}, {"elicitations": [URL]}, -32042),
        ("2025-06-18", {"elicitation": {}}, {"elicitations": [URL]}, -32600),
        (LATEST_MODERN, {"elicitation": {"form": {}}}, {"elicitations": [URL]}, -32600),
        (LATEST_MODERN, {}, {"elicitations": [URL]}, -32600),
        (LATEST_MODERN, {"elicitation": {"url": {}}}, {"elicitations": []}, -32600),
        (LATEST_MODERN, {"elicitation": {"url": {}}}, {"elicitations": [{"mode": "url", "url": "https://a.test"}]}, -32600),
        (LATEST_MODERN, {"elicitation": {"url": {}}}, {"elicitations": [{"mode": "form", "message": "?"}]}, -32600),
    ],
)
@scene
async def test_a_host_that_cannot_be_asked_gets_the_error(front, can, data, code):
    fake = legacy({"tools/call": Fault(-32042, "Sign in first", data)})
    async with alone(fake, front, can=can) as host:
        error = await host.error("tools/call", name="x", arguments={})
    assert error == {"code": code, "message": "Sign in first", "data": data}
    assert not host.asked
    assert len(fake.of("tools/call")) == 1


@scene
async def test_the_end_of_a_visit_reaches_the_host_that_got_the_error():
    fake = legacy({"tools/call": REQUIRED})
    gateway = gateway_to(fake, shared=True)
    async with gateway._running(), connected(gateway, LATEST_LEGACY) as one, connected(gateway, LATEST_LEGACY) as two:
        assert (await one.error("tools/call", name="x", arguments={}))["code"] == -32042
        await two.result("tools/list")
        fake.notify(COMPLETE, {"elicitationId": "e1"})
        await one.note(COMPLETE)
        await two.settle()
    assert two.notes(COMPLETE) == []


@scene
async def test_a_call_that_is_cancelled_while_the_user_is_asked_is_not_sent_again():
    fake = legacy({"tools/call": REQUIRED})
    async with alone(fake, LATEST_MODERN) as host:
        first = (await host.line_of(host.start_tool("x")))["result"]
        assert first["resultType"] == "input_required"
    assert len(fake.of("tools/call")) == 1
