import asyncio

from twopipes._http.event_store import EventStore
from twopipes._server.http.stream import LegacyStream
from unit.server.http.asgi_client import Client, run

RESPONSE = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress"}\n'


def a_stream(**given):
    events = EventStore(max_events=given.pop("max_events", 10), max_bytes=given.pop("max_bytes", 1_000_000))
    return LegacyStream(events, **{"is_primed": True} | given)


def connected(client, stream, **given):
    """Attach a client to a stream, and return its reply and the task that writes it."""
    reply = client.reply(on_closed=stream.detach, opening=stream.opening, **given)
    stream.attach(reply)
    return reply, asyncio.create_task(reply.run())


def ids(client):
    return [line[4:].decode() for line in client.body.split(b"\n") if line.startswith(b"id: ")]


def test_a_response_alone_is_json_and_is_not_kept():
    async def test(client):
        stream = a_stream()
        _, running = connected(client, stream)
        stream.add(RESPONSE, is_last=True)
        await running
        assert client.body == RESPONSE
        assert stream._events.used == 0

    run(test)


def test_a_stream_starts_with_an_id_to_resume_from():
    # HT-32, HT-33
    async def test(client):
        stream = a_stream()
        _, running = connected(client, stream)
        stream.add(PROGRESS, is_last=False)
        stream.add(RESPONSE, is_last=True)
        await running
        assert client.body.startswith(b"id: 1-0\nretry: 1000\ndata: \n\nid: 1-1\ndata: {")
        assert ids(client) == ["1-0", "1-1", "1-2"]
        assert client.is_complete

    run(test)


def test_clients_of_older_revisions_get_no_event_without_data():
    async def test(client):
        stream = a_stream(is_primed=False)
        _, running = connected(client, stream)
        stream.add(PROGRESS, is_last=False)
        stream.add(RESPONSE, is_last=True)
        await running
        assert client.body.startswith(b"id: 1-1\ndata: {")

    run(test)


def test_a_lost_connection_is_resumed_where_it_ended():
    async def test(client):
        stream = a_stream()
        _, running = connected(client, stream)
        stream.add(PROGRESS, is_last=False)
        await client.receives(b"progress")
        client.gone.set()
        await running
        assert not stream.is_attached
        stream.add(b'{"missed":1}\n', is_last=False)
        again = Client()
        reply = again.reply(on_closed=stream.detach, is_stream=True)
        assert stream.resume(reply, ids(client)[-1])
        running = asyncio.create_task(reply.run())
        await again.receives(b"missed")
        stream.add(RESPONSE, is_last=True)
        await running
        assert ids(again) == ["1-2", "1-3"]
        assert again.is_complete

    run(test)


def test_a_stream_that_finished_without_its_client_is_still_delivered():
    async def test(client):
        stream = a_stream()
        _, running = connected(client, stream)
        stream.add(PROGRESS, is_last=False)
        await client.receives(b"progress")
        client.gone.set()
        await running
        stream.add(RESPONSE, is_last=True)
        for last_id, expected in (("1-1", ["1-2"]), ("1-0", ["1-1", "1-2"]), ("1-2", [])):
            again = Client()
            reply = again.reply(on_closed=stream.detach, is_stream=True)
            assert stream.resume(reply, last_id)
            await reply.run()
            assert ids(again) == expected
            assert again.is_complete

    run(test)


def test_a_client_that_missed_events_which_are_gone_is_refused():
    async def test(client):
        stream = a_stream(max_events=2)
        for number in range(4):
            stream.add(b"%d\n" % number, is_last=False)
        reply = client.reply(is_stream=True)
        assert not stream.resume(reply, "1-1")
        assert not stream.is_attached
        assert stream.resume(reply, "1-2")
        stream.end()
        await reply.run()
        assert ids(client) == ["1-3", "1-4"]

    run(test)


def test_without_an_id_a_client_gets_what_no_client_received():
    async def test(client):
        stream = a_stream(max_events=2)
        for number in range(3):
            stream.add(b"%d\n" % number, is_last=False)
        reply = client.reply(on_closed=stream.detach, is_stream=True)
        assert stream.resume(reply)
        running = asyncio.create_task(reply.run())
        await client.receives(b"data: 2\n")
        client.gone.set()
        await running
        again = Client()
        reply = again.reply(on_closed=stream.detach, is_stream=True, opening=stream.opening)
        stream.add(b"3\n", is_last=False)
        assert stream.resume(reply)
        stream.end()
        await reply.run()
        assert ids(client) == ["1-2", "1-3"]
        assert ids(again) == ["1-3", "1-4"]  # the first is the opening

    run(test)


def test_a_second_connection_takes_a_stream_over():
    async def test(client):
        stream = a_stream()
        _, running = connected(client, stream)
        stream.add(PROGRESS, is_last=False)
        await client.receives(b"progress")
        again = Client()
        reply = again.reply(on_closed=stream.detach, is_stream=True)
        assert stream.resume(reply, "1-1")
        await running
        assert client.is_complete
        stream.add(RESPONSE, is_last=True)
        await reply.run()
        assert ids(client) == ["1-0", "1-1"]
        assert ids(again) == ["1-2"]

    run(test)


def test_a_stream_can_be_disconnected_and_goes_on():
    async def test(client):
        stream = a_stream()
        _, running = connected(client, stream)
        stream.add(PROGRESS, is_last=False)
        stream.disconnect()
        await running
        assert client.is_complete
        stream.add(RESPONSE, is_last=True)
        again = Client()
        reply = again.reply(is_stream=True)
        assert stream.resume(reply, "1-1")
        await reply.run()
        assert ids(again) == ["1-2"]

    run(test)


def test_nothing_is_kept_for_a_client_that_left_without_an_id():
    async def test(client):
        stream = a_stream()
        _, running = connected(client, stream)
        client.gone.set()
        await running
        stream.add(PROGRESS, is_last=False)
        stream.add(RESPONSE, is_last=True)
        assert stream._events.used == 0

    run(test)


def test_many_missed_events_do_not_look_like_a_client_that_does_not_read():
    async def test(client):
        stream = a_stream(max_events=100, max_bytes=10_000_000)
        for _ in range(100):
            stream.add(b"x" * 50_000, is_last=False)
        reply = client.reply(is_stream=True)
        assert stream.resume(reply, "1-0")
        stream.end()
        await reply.run()
        assert len(ids(client)) == 100

    run(test)


def test_a_cancelled_call_ends_its_stream():
    async def test(client):
        stream = a_stream()
        _, running = connected(client, stream)
        stream.end()
        stream.add(RESPONSE, is_last=True)
        await running
        assert client.is_complete
        assert b"result" not in client.body

    run(test)
