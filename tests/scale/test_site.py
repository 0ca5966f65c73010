"""Two processes of a server behind nginx, with Redis between them: what docs/howto/scale-out.md promises.

Every request gets exactly one response or one error, also while a process or Redis is killed.
"""

import asyncio
import signal
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from scale.raw_client import LegacySession, answer, ask, raw_client
from scale.services import NET, Worker

pytestmark = [pytest.mark.scale, pytest.mark.timeout(180)]

# Statuses of nginx for a request whose process has gone: it broke off, or refused the connection.
BROKEN = {502, 504}


def run(test, *arguments):
    """Run a test with a client."""

    async def main():
        async with raw_client() as client, asyncio.timeout(4 * NET):
            await test(client, *arguments)

    asyncio.run(main())


async def load(client, url, count, *, midway, at_once=16):
    """Write lines through nginx, each once. Call ``midway`` when a third is done. Return the exchange of each line."""
    exchanges = {}
    numbers = iter(range(count))
    reached = asyncio.Event()

    async def write():
        for number in numbers:
            exchanges[number] = await client.call(url, "write", name="load", line=f"line {number}")
            if len(exchanges) >= count // 3:
                reached.set()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(write())
        await reached.wait()
        await midway()
    assert len(exchanges) == count
    return exchanges


def written(site):
    """Count how often each line was written."""
    with closing(sqlite3.connect(site.folder / "notes.db")) as database:
        return Counter(line for (line,) in database.execute("select text from lines where note = 'load'"))


def workers_of(exchanges):
    """Return the names of the processes that answered."""
    return {exchange.text.split()[1] for exchange in exchanges if exchange.status == 200}


# Questions


def test_a_question_of_one_process_is_answered_at_the_other(site):
    async def test(client):
        for asked_by, answered_by in ((site.a, site.b), (site.b, site.a)):
            question, retry = await ask(client, asked_by.mcp, "x")
            assert question == "Erase the note x?"
            done = await answer(client, answered_by.mcp, "x", retry)
            assert done.text == f"Worker {answered_by.name} erased x."

    run(test)


def test_questions_survive_the_choices_of_nginx(site):
    async def test(client):
        names = [f"note {number}" for number in range(30)]
        asked = {name: await ask(client, site.url, name) for name in names}
        done = [await answer(client, site.url, name, retry) for name, (_, retry) in asked.items()]
        assert [each.text.partition(" erased ")[2] for each in done] == [f"{name}." for name in names]
        assert workers_of(done) == {"a", "b"}

    run(test)


def test_a_process_with_another_key_does_not_accept_the_answer(site, tmp_path):
    stranger = Worker("c", tmp_path, site.redis.url, state_key="another key, also long enough")
    try:
        stranger.start()

        async def test(client):
            _, retry = await ask(client, site.a.mcp, "x")
            assert (await answer(client, stranger.mcp, "x", retry)).error["code"] == -32602
            assert (await answer(client, site.b.mcp, "x", retry)).text == "Worker b erased x."

        run(test)
    finally:
        stranger.end()


# Changes


def test_a_change_in_one_process_reaches_the_subscriptions_of_both_once(site):
    names = [f"n{number}" for number in range(20)]
    uris = [f"note://{name}" for name in names]

    async def test(client):
        async with client.listening(site.a.mcp, *uris) as at_a, client.listening(site.b.mcp, *uris) as at_b:
            done = [await client.call(site.url, "write", name=name, line="hello") for name in names]
            assert workers_of(done) == {"a", "b"}
            for listen in (at_a, at_b):
                assert sorted(await listen.updated(len(uris))) == sorted(uris)
            # Nothing follows: the next change is the next notification.
            await client.call(site.url, "write", name="n0", line="again")
            assert [await at_a.updated(1), await at_b.updated(1)] == [["note://n0"], ["note://n0"]]

    run(test)


def test_a_change_arrives_through_nginx_while_the_stream_is_open(site):
    """A proxy that buffers would hold the event until the stream ends."""

    async def test(client):
        async with client.listening(site.url, "note://x") as listen:
            await client.call(site.url, "write", name="x", line="hello")
            assert await listen.updated(1) == ["note://x"]

    run(test)


def test_both_processes_have_the_same_notes(site):
    async def test(client):
        missing = await client.post(site.url, "resources/read", uri="note://x")
        assert missing.error["code"] == -32602
        await client.call(site.a.mcp, "write", name="x", line="one")
        await client.call(site.b.mcp, "write", name="x", line="two")
        for url in (site.a.mcp, site.b.mcp, site.url):
            (content,) = (await client.post(url, "resources/read", uri="note://x")).result["contents"]
            assert content["text"] == "one\ntwo"

    run(test)


# Losses


def test_a_killed_process_fails_only_its_own_requests(site):
    async def test(client):
        exchanges = await load(client, site.url, 300, midway=lambda: asyncio.to_thread(site.a.kill))
        statuses = Counter(exchange.status for exchange in exchanges.values())
        assert set(statuses) <= {200, *BROKEN}
        assert statuses[200] >= 300 - 16, "only what was in flight may fail"
        assert workers_of(exchanges.values()) == {"a", "b"}
        counts = written(site)
        assert max(counts.values()) == 1, "no request is carried out twice"
        assert all(counts[f"line {number}"] == 1 for number, exchange in exchanges.items() if exchange.status == 200)
        await asyncio.to_thread(site.a.start)
        async with asyncio.timeout(NET):
            while workers_of([await client.call(site.url, "write", name="x", line="y")]) != {"a"}:
                pass

    run(test)


def test_a_process_that_is_taken_out_and_ended_fails_no_request(site):
    async def take_out():
        site.nginx.take_out_first()
        await asyncio.to_thread(site.nginx.reload)
        site.a.send(signal.SIGTERM)
        assert await asyncio.to_thread(site.a.wait) == 0

    async def test(client):
        async with client.listening(site.a.mcp, "note://x") as listen:
            exchanges = await load(client, site.url, 300, midway=take_out)
            assert Counter(exchange.status for exchange in exchanges.values()) == {200: 300}
            assert workers_of(exchanges.values()) == {"a", "b"}
            assert set(written(site).values()) == {1}
            ended = await listen.next()
            assert "result" in ended, "a server that ends closes its subscriptions with a result"
            assert await listen.next() is None

    run(test)


def test_without_redis_subscriptions_end_with_an_error_and_requests_go_on(site):
    async def test(client):
        async with (
            client.listening(site.a.mcp, "note://x") as at_a,
            client.listening(site.b.mcp, "note://x") as at_b,
        ):
            exchanges = await load(client, site.url, 200, midway=lambda: asyncio.to_thread(site.redis.kill))
            assert Counter(exchange.status for exchange in exchanges.values()) == {200: 200}
            for listen in (at_a, at_b):
                assert (await listen.next())["error"]["code"] == -32603
                assert await listen.next() is None
        for worker in (site.a, site.b):
            assert await asyncio.to_thread(worker.health) == 503
            refused = await client.post(worker.mcp, "subscriptions/listen", notifications={})
            assert (refused.status, refused.error["code"]) == (503, -32603)
        await asyncio.to_thread(site.redis.start)
        for worker in (site.a, site.b):
            await asyncio.to_thread(worker.until, worker.is_ready)
        async with (
            client.listening(site.a.mcp, "note://x") as at_a,
            client.listening(site.b.mcp, "note://x") as at_b,
        ):
            await client.call(site.a.mcp, "write", name="x", line="back")
            assert [await at_a.updated(1), await at_b.updated(1)] == [["note://x"], ["note://x"]]

    run(test)


# Legacy sessions


def test_a_legacy_session_stays_with_its_process(site):
    async def test(client):
        opened = [await LegacySession(client, site.url).open() for _ in range(10)]
        assert {session.id.partition(".")[0] for session in opened} == {"a", "b"}
        for session in opened:
            for _ in range(5):
                done = await session.request("tools/call", name="write", arguments={"name": "x", "line": "y"})
                assert done.text == f"Worker {session.id[0]} wrote x."

    run(test)


def test_a_legacy_session_of_a_killed_process_is_not_found_and_can_be_opened_again(site):
    async def test(client):
        opened = [await LegacySession(client, site.url).open() for _ in range(6)]
        await asyncio.to_thread(site.a.kill)
        for session in opened:
            done = await session.request("tools/list")
            assert done.status == (404 if session.id[0] == "a" else 200)
            await session.open()
            assert session.id[0] == "b"
            assert (await session.request("tools/list")).status == 200

    run(test)


def test_a_change_reaches_the_legacy_session_of_the_other_process_also_after_a_loss_of_redis(site):
    async def test(client):
        session = await LegacySession(client, site.b.mcp).open()
        await session.request("resources/subscribe", uri="note://x")
        async with session.stream() as stream:
            await client.call(site.a.mcp, "write", name="x", line="y")
            assert await stream.updated(1) == ["note://x"]
            await asyncio.to_thread(site.redis.kill)
            await asyncio.to_thread(site.redis.start)
            # The session cannot end with an error. It is notified of all that it watches, because changes may have been missed.
            while (await stream.next())["method"] != "notifications/resources/updated":
                pass

    run(test)
