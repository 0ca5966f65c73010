"""A client and a server object, joined by memory: with await and without."""

import asyncio

import pytest

from fake_server import FakeServer, scene, text
from inmemory import turn_until
from twopipes import Client, RestartPolicy, Server, Timeouts, blocking
from twopipes._protocol.revisions import ALL
from twopipes.errors import LocalProtocolError, OpeningFailed
from twopipes.testing import ExpectationFailed, LiveConversation, child, pair
from unit.testing.sums import sums


def test_without_await_the_client_is_the_blocking_one():
    with pair(sums()) as talk:
        assert isinstance(talk.client, blocking.Client)
        assert talk.client.call_tool("add", {"a": 1, "b": 2}).structured == {"result": 3}
    assert talk.client.closed is not None


@scene
async def test_with_await_it_is_the_other_one():
    async with pair(sums()) as talk:
        assert isinstance(talk.client, Client)
        assert (await talk.client.call_tool("add", {"a": 1, "b": 2})).structured == {"result": 3}
    assert talk.client.closed is not None


@pytest.mark.parametrize("revision", ALL)
def test_every_revision_can_be_chosen(revision):
    with pair(sums(), revision=revision) as talk:
        assert talk.client.revision == revision
        talk.client.call_tool("add", {"a": 1, "b": 2})
    talk.expect_rules_kept(should=True)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_both_eras_can_be_chosen(era):
    with pair(sums(), era=era) as talk:
        assert talk.client.era == era


def test_the_options_are_those_of_connect():
    with pair(sums(), on_elicit=lambda _: {"value": True}, timeouts=Timeouts(request=5)) as talk:
        assert talk.client.timeouts.request == 5
        talk.client.call_tool("ask")
    talk.expect_all_answered()


def test_what_crossed_the_wire_is_there_as_lines_messages_and_calls():
    with pair(sums(), era="legacy") as talk:
        talk.client.call_tool("add", {"a": 1, "b": 2})
        assert [line.kind for line in talk.lines] == [">", "<", ">", ">", "<"]
    assert all(line.data.startswith(b'{"jsonrpc":"2.0"') for line in talk.lines)
    assert [message.method for message in talk.messages if message.direction == ">"] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert [(call.method, call.state) for call in talk.calls] == [("initialize", "answered"), ("tools/call", "answered")]
    assert talk.stderr == []
    assert "5 lines" in repr(talk)


def test_a_conversation_is_entered_once():
    opening = pair(sums())
    with opening:
        pass
    with pytest.raises(LocalProtocolError, match="again for another one"), opening:
        pass


def test_there_is_no_client_before_the_block():
    with pytest.raises(LocalProtocolError, match="there is no client"):
        _ = pair(sums()).conversation.client


def test_a_failed_opening_keeps_the_conversation():
    fake = FakeServer({"server/discover": {"supportedVersions": ["1999-01-01"]}})
    opening = pair(fake, era="modern", timeouts=Timeouts(connect=5))
    with pytest.raises(OpeningFailed), opening:
        pass
    assert opening.conversation.calls[0].method == "server/discover"
    assert isinstance(opening.conversation, LiveConversation)


@scene
async def test_a_server_that_fails_before_it_serves_is_not_waited_for():
    class Broken(Server):
        async def serve(self, **_):
            raise ZeroDivisionError("in the lifespan")

    async with asyncio.timeout(4):  # less than the patience of a probe
        with pytest.raises(ZeroDivisionError, match="in the lifespan"):
            async with pair(Broken("broken")):
                pass


@pytest.mark.parametrize("given", ["server.py", Server, None])
def test_what_is_no_server_is_refused(given):
    with pytest.raises(LocalProtocolError, match=r"pair\(\) takes a Server object"):
        pair(given)


def test_options_of_a_process_are_refused():
    with pytest.raises(LocalProtocolError, match=r"does not take cwd= and env=, because it starts no process"):
        pair(sums(), env={}, cwd="/")


def test_a_server_object_is_not_a_command():
    with pytest.raises(LocalProtocolError, match=r"use pair\(\)"):
        child(sums())


# What one may expect


def test_expect_result_gives_the_last_result_and_looks_at_its_members():
    with pair(sums()) as talk:
        talk.client.call_tool("add", {"a": 1, "b": 1})
        talk.client.call_tool("add", {"a": 1, "b": 2})
    result = talk.expect_result("tools/call", {"structuredContent": {"result": 3}, "content": ["..."]})
    assert result["content"][0]["type"] == "text"
    with pytest.raises(ExpectationFailed) as caught:
        talk.expect_result("tools/call", {"structuredContent": {"result": 4}, "isError": True})
    assert "result.structuredContent.result: expected 4, found 3" in str(caught.value)
    assert "result.isError: expected true, found nothing" in str(caught.value)
    assert '\n> {"jsonrpc":"2.0","id":1,"method":"server/discover"' in str(caught.value)


def test_expect_result_shows_the_actual_response():
    with pair(sums()) as talk:
        with pytest.raises(ExpectationFailed, match="did not send tools/call; it sent: server/discover"):
            talk.expect_result("tools/call")
        with pytest.raises(Exception, match="nothing"):
            talk.client.call_tool("nothing")
        with pytest.raises(ExpectationFailed, match="failed with an error"):
            talk.expect_result("tools/call")
        assert talk.expect_error("tools/call", -32602)["code"] == -32602
        with pytest.raises(ExpectationFailed, match="got the error code -32602 instead of -1"):
            talk.expect_error("tools/call", -1)
        with pytest.raises(ExpectationFailed, match="got a result instead"):
            talk.expect_error("server/discover")


@scene
async def test_expect_all_answered_names_the_open_requests():
    async with pair(sums()) as talk:
        waiting = asyncio.create_task(talk.client.call_tool("wait", {"seconds": 3600}))
        await turn_until(lambda: len(talk.calls) == 2)
        with pytest.raises(ExpectationFailed, match=r"1 without a response: > tools/call \(id 2, open\)"):
            talk.expect_all_answered()
        with pytest.raises(ExpectationFailed, match=r"has no response: it is open"):
            talk.expect_result("tools/call")
        waiting.cancel()
        await asyncio.wait([waiting])
        await turn_until(lambda: talk.calls[1].cancels)
        talk.expect_all_answered()


class Chatty:
    """A server that says more than messages."""

    async def serve(self, *, channel):
        channel.write(b"Welcome!\n\n")
        await sums().serve(channel=channel)


def test_expect_only_messages_shows_the_other_lines():
    with pair(Chatty()) as talk:
        pass
    with pytest.raises(ExpectationFailed, match="2 lines of the server are not messages") as caught:
        talk.expect_only_messages()
    assert "'Welcome!'" in str(caught.value)
    with pair(sums()) as talk:
        pass
    talk.expect_only_messages()


def test_expect_rules_kept_names_the_rules():
    with pair(FakeServer({"tools/call": {"content": "no list"}})) as talk, pytest.raises(Exception, match="content"):
        talk.client.call_tool("x")
    with pytest.raises(ExpectationFailed, match="rules were broken") as caught:
        talk.expect_rules_kept()
    assert "by the server" in str(caught.value)


def test_expect_ended_by_eof_is_for_after_the_block():
    with pair(sums()) as talk, pytest.raises(ExpectationFailed, match="after the block"):
        talk.expect_ended_by_eof()
    talk.expect_ended_by_eof()


@scene
async def test_a_server_in_memory_that_left_and_came_again_was_there_to_the_end():
    fake = FakeServer({"tools/call": text("hello")})
    async with pair(fake, restart=RestartPolicy(first_delay=0)) as talk:
        await talk.client.call_tool("x")
        await fake.hang_up()
        await talk.client.list_tools()
        assert talk.client.restarts == 1
    talk.expect_ended_by_eof()
    assert "= the server is started again" in talk.transcript()
