import asyncio

import pytest

from unit.server.http.asgi_client import Client, run

RESPONSE = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress"}\n'
STREAM = {b"content-type": b"text/event-stream", b"cache-control": b"no-cache", b"x-accel-buffering": b"no"}


def test_a_response_alone_is_a_json_body_in_two_messages():
    async def test(client):
        reply = client.reply(headers=[(b"x-a", b"1")])
        reply.add(RESPONSE, is_last=True)
        await reply.run()
        assert client.status == 200
        assert client.headers == {b"content-type": b"application/json", b"content-length": b"37", b"x-a": b"1"}
        assert [message.get("body") for message in client.sent] == [None, RESPONSE]
        assert client.is_complete
        assert reply.is_closed
        assert client.closed == []

    run(test)


def test_a_response_that_comes_later_is_a_json_body():
    async def test(client):
        reply = client.reply()
        running = asyncio.create_task(reply.run())
        await asyncio.sleep(0)
        reply.add(RESPONSE, is_last=True)
        await running
        assert client.body == RESPONSE
        assert client.headers[b"content-type"] == b"application/json"

    run(test)


def test_a_refusal_has_its_status_even_where_a_stream_was_expected():
    async def test(client):
        reply = client.reply(is_stream=True)
        reply.add(RESPONSE, is_last=True, status=404)
        await reply.run()
        assert client.status == 404
        assert client.headers[b"content-type"] == b"application/json"

    run(test)


def test_a_notification_first_makes_a_stream():
    async def test(client):
        reply = client.reply(headers=[(b"x-a", b"1")])
        running = asyncio.create_task(reply.run())
        reply.add(PROGRESS, is_last=False)
        await client.receives(b"progress")
        assert client.headers == STREAM | {b"x-a": b"1"}
        assert client.body == b"data: " + PROGRESS + b"\n"
        reply.add(RESPONSE, is_last=True)
        await running
        assert client.body == b"data: " + PROGRESS + b"\ndata: " + RESPONSE + b"\n"
        assert client.is_complete

    run(test)


def test_messages_that_are_ready_together_leave_in_one_write():
    async def test(client):
        reply = client.reply()
        reply.add(PROGRESS, is_last=False)
        reply.add(RESPONSE, is_last=True)
        await reply.run()
        assert len(client.sent) == 2
        assert client.body.count(b"data: ") == 2

    run(test)


@pytest.mark.parametrize("given", [{"is_stream": True}, {"responses": "stream"}])
def test_a_stream_that_was_asked_for_is_opened_at_once(given):
    async def test(client):
        reply = client.reply(**given)
        running = asyncio.create_task(reply.run())
        await client.receives(b":\n\n")
        reply.add(RESPONSE, is_last=True)
        await running
        assert client.headers == STREAM
        assert client.body == b":\n\ndata: " + RESPONSE + b"\n"

    run(test)


def test_a_message_that_comes_with_the_end_of_a_silence_needs_no_comment():
    async def test(client):
        reply = client.reply()
        running = asyncio.create_task(reply.run())
        reply.add(PROGRESS, is_last=False)
        await client.receives(b"progress")
        await asyncio.sleep(0)  # it waits for the next message
        reply.expire()
        reply.add(RESPONSE, is_last=True)
        await running
        assert client.body == b"data: " + PROGRESS + b"\ndata: " + RESPONSE + b"\n"

    run(test)


def test_a_silent_call_becomes_a_stream_with_comments():
    # HT-18
    async def test(client):
        reply = client.reply(keep_alive=0.001)
        running = asyncio.create_task(reply.run())
        await client.receives(b":\n\n:\n\n:\n\n")
        reply.add(RESPONSE, is_last=True)
        await running
        assert client.headers == STREAM
        assert client.body.endswith(b"data: " + RESPONSE + b"\n")

    run(test)


def test_an_opening_and_ids_are_part_of_a_stream_only():
    async def test(client):
        reply = client.reply(opening=b"id: s-0\ndata: \n\n")
        reply.add(PROGRESS, is_last=False, event_id="s-1")
        reply.add(RESPONSE, is_last=True, event_id="s-2")
        await reply.run()
        assert client.body == b"id: s-0\ndata: \n\nid: s-1\ndata: " + PROGRESS + b"\nid: s-2\ndata: " + RESPONSE + b"\n"
        other = Client()
        reply = other.reply(opening=b"id: s-0\ndata: \n\n")
        reply.add(RESPONSE, is_last=True)
        await reply.run()
        assert other.body == RESPONSE

    run(test)


def test_a_stream_can_end_without_a_response():
    async def test(client):
        reply = client.reply(is_stream=True)
        running = asyncio.create_task(reply.run())
        await client.receives(b":")
        reply.end()
        reply.add(PROGRESS, is_last=False)
        await running
        assert client.is_complete
        assert b"progress" not in client.body
        assert client.closed == []

    run(test)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_client_that_disconnects_is_reported_once(is_stream):
    async def test(client):
        reply = client.reply(is_stream=is_stream)
        running = asyncio.create_task(reply.run())
        client.gone.set()
        await running
        assert client.closed == [reply]
        assert reply.is_closed
        reply.add(RESPONSE, is_last=True)
        reply.lose()
        await reply.drain()
        assert client.closed == [reply]
        assert not client.is_complete

    run(test)


def test_a_connection_that_breaks_while_writing_is_reported():
    async def test(client):
        async def send(message):
            raise ConnectionResetError

        reply = client.reply(send=send)
        reply.add(RESPONSE, is_last=True)
        await reply.run()
        assert client.closed == [reply]

    run(test)


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_client_that_does_not_read_is_given_up(is_stream, size):
    async def test(client):
        reply = client.reply(is_stream=is_stream, write_timeout=0.01)
        client.reads.clear()
        reply.add(b"x" * size, is_last=True)
        await reply.run()
        assert client.closed == [reply]

    run(test)


def test_handlers_wait_while_a_client_does_not_read():
    async def test(client):
        reply = client.reply()
        running = asyncio.create_task(reply.run())
        client.reads.clear()
        reply.add(b"x" * 65_000, is_last=False)
        assert not reply.is_blocked
        reply.add(b"x" * 1_000, is_last=False)
        assert reply.is_blocked
        waiting = [asyncio.create_task(reply.drain()) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in waiting)
        waiting.pop().cancel()  # does not end the others
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
        client.reads.set()
        await asyncio.gather(*waiting)
        assert not reply.is_blocked
        reply.end()
        await running

    run(test)


def test_a_stream_with_too_many_unread_events_ends():
    async def test(client):
        reply = client.reply(is_stream=True)
        running = asyncio.create_task(reply.run())
        await client.receives(b":")
        client.reads.clear()
        while not client.closed:
            reply.add(b"x" * 100_000, is_last=False)
            assert reply._buffered < 1_300_000
        assert reply._pending == []
        client.reads.set()
        await running

    run(test)


def test_one_large_message_is_always_accepted():
    async def test(client):
        reply = client.reply()
        reply.add(b"x" * 3_000_000, is_last=False)
        reply.add(b"y" * 3_000_000, is_last=True)
        await reply.run()
        assert client.is_complete
        assert len(client.body) > 6_000_000

    run(test)


def test_a_large_body_waits_for_the_client_before_it_is_complete():
    async def test(client):
        reply = client.reply()
        reply.add(b"x" * 100_000, is_last=True)
        await reply.run()
        assert [len(message.get("body", b"")) for message in client.sent] == [0, 100_000, 0]
        assert client.headers[b"content-length"] == b"100000"
        assert client.is_complete

    run(test)


def test_a_cancelled_call_is_reported_and_leaves_no_task():
    async def test(client):
        reply = client.reply(is_stream=True)
        running = asyncio.create_task(reply.run())
        await client.receives(b":")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert client.closed == [reply]

    run(test)


def test_a_response_in_the_turn_in_which_the_first_wait_ends_is_not_missed():
    async def test(client):
        reply = client.reply()
        running = asyncio.create_task(reply.run())
        await asyncio.sleep(0)
        reply._waiting.set_result(False)  # as its timer does
        reply.add(RESPONSE, is_last=True)
        async with asyncio.timeout(5):
            await running
        assert client.body == RESPONSE

    run(test)
