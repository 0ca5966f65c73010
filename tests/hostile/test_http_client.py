"""Servers at a URL that do harm: each fails one call in bounded time and memory, and the client goes on."""

import asyncio
import gzip
import json
import tracemalloc
from contextlib import suppress

import pytest

from fake_http import FakeHttp, Http, legacy_http, raw_server, text
from fake_server import scene
from twopipes import Limits, Timeouts, connect
from twopipes.errors import HttpError, RemoteProtocolError, TwopipesError

QUICK = Timeouts(request=0.5, total=5.0)
SMALL = Limits(max_line=100_000)


async def calls_fail(answer, *, limits=SMALL, timeouts=QUICK):
    """Call a tool that is answered with harm, then one that is not. Return the error of the first call."""
    fake = FakeHttp({"tools/call": answer, "prompts/get": {"messages": []}})
    async with fake as url, connect(url, limits=limits, timeouts=timeouts) as client:
        with pytest.raises(TwopipesError) as caught:
            await client.call_tool("harm")
        await client.get_prompt("fine")
    return caught.value


async def endless(exchange, part, kind="text/event-stream"):
    """Send the same bytes until the client closes the connection."""
    exchange.fake.headers_of = lambda of: {"Content-Type": kind} if of is exchange else {}
    while True:
        await exchange.event(raw=part)
        await asyncio.sleep(0)


@scene
async def test_an_endless_response_is_cut_off_at_the_limit():
    error = await calls_fail(lambda exchange: endless(exchange, b" " * 10_000, "application/json"))
    assert isinstance(error, RemoteProtocolError)


@scene
async def test_an_endless_error_page_is_cut_off():
    error = await calls_fail(lambda exchange: endless(exchange, b"<p>" * 10_000, "text/html"))
    assert isinstance(error, HttpError)
    assert error.reason == "HTML"


ENDLESS = {
    "comments": b": comment\n",
    "one line": b"x" * 10_000,
    "one data line": b"data: x",
    "one event": b"data: " + b"x" * 10_000 + b"\n",
    "ids": b"id: 1\n",
    "events of another type": b"event: x\ndata: y\n\n",
    "empty lines": b"\n\n\n",
    "empty events": b"data:\n\n",
}


@pytest.mark.parametrize("part", ENDLESS.values(), ids=ENDLESS)
@scene
async def test_an_endless_stream_does_not_extend_the_timeout(part):
    await calls_fail(lambda exchange: endless(exchange, part))


@scene
async def test_endless_progress_ends_at_the_total_limit():
    async def report(exchange):
        number = 0
        while True:
            number += 1
            await exchange.progress(number)

    async def called(*_):
        pass

    fake = FakeHttp({"tools/call": report})
    async with fake as url, connect(url, timeouts=Timeouts(request=0.5, total=1.0)) as client:
        with pytest.raises(TwopipesError):
            await client.call_tool("harm", on_progress=called)


@scene
async def test_a_small_body_does_not_become_a_large_one():
    """A compressed body was not asked for. It is refused, or counted as what it contains."""
    bomb = gzip.compress(b" " * 100_000_000)
    tracemalloc.start()
    try:
        await calls_fail(Http(200, bomb, "application/json", {"Content-Encoding": "gzip"}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 1_000_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 1_000_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999999999999999999\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 200\r\nX\x00: a\r\n\r\n",
        b"\xff" * 10_000,
        b"",
    ],
    ids=lambda head: repr(head[:60]),
)
@scene
async def test_malformed_http_fails_the_opening_with_an_error(head):
    async def handle(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            writer.write(head)
            await writer.drain()

    async with raw_server(handle) as url:
        with pytest.raises(TwopipesError):
            async with connect(url, timeouts=Timeouts(connect=2.0, probe=1.0, request=1.0)):
                pass


@scene
async def test_a_response_that_drips_is_given_up():
    async def drip(exchange):
        while True:
            await exchange.event(raw=b":")
            await asyncio.sleep(0.01)

    await calls_fail(drip)


@scene
async def test_a_server_that_asks_and_never_takes_the_answers_is_not_read_any_further():
    """As on a pipe: a server must not fill our memory with answers that it does not take."""
    sent = 0

    async def ask(exchange):
        nonlocal sent
        while True:
            batch = b"".join(b'data: {"jsonrpc":"2.0","id":%d,"method":"ping"}\n\n' % number for number in range(sent, sent + 1000))
            await exchange.event(raw=batch)
            sent += 1000

    async def stuck(exchange):
        await exchange.until_closed()

    fake = legacy_http({"tools/call": ask, "response": stuck})
    async with fake as url, connect(url, era="legacy", timeouts=Timeouts(request=1.0, total=3.0, shutdown=0.2)) as client:
        with pytest.raises(TwopipesError):
            await client.call_tool("harm")
        # What the sockets on both sides hold is on its way as well: a few megabytes.
        assert sent < 300_000
        assert len(client._supervisor.handle.connection._notices) < 5_000


@pytest.mark.parametrize("retry", ["0", "999999999999999999999", "1" * 5000, "-1", "1e9", "x"], ids=lambda text: text[:12])
@scene
async def test_a_pause_that_the_server_asks_for_does_not_hold_a_call(retry):
    async def lost(exchange):
        await exchange.event(raw=f"id: 1\nretry: {retry}\ndata:\n\n".encode())
        exchange.abort()

    fake = legacy_http({"tools/call": lost})
    async with fake as url, connect(url, era="legacy", timeouts=QUICK) as client:
        with pytest.raises(TwopipesError):
            await client.call_tool("harm")


@pytest.mark.parametrize(
    "event_id",
    [b"x" * 1_000_000, b"\x01", "\u00e9\u4e16".encode(), b"\xff", b"a b", b" ", b"a\x00b"],
    ids=lambda value: repr(value[:12]),
)
@scene
async def test_no_event_id_breaks_the_next_request(event_id):
    async def lost(exchange):
        await exchange.event(raw=b"id: " + event_id + b"\ndata:\n\n")
        exchange.abort()

    fake = legacy_http({"tools/call": lost, "prompts/get": {"messages": []}})
    async with fake as url, connect(url, era="legacy", timeouts=QUICK) as client:
        with pytest.raises(TwopipesError):
            await client.call_tool("harm")
        await client.get_prompt("fine")
    for exchange in fake.seen:
        assert len(exchange.headers.get("Last-Event-ID", "")) < 10_000


@pytest.mark.parametrize("session_id", ["\u00e9", "a b", "x" * 5000, ""], ids=lambda text: text[:12])
@scene
async def test_no_session_id_breaks_the_next_request(session_id):
    fake = legacy_http(session=session_id)
    async with fake as url:
        with suppress(TwopipesError):
            async with connect(url, era="legacy", timeouts=QUICK) as client:
                await client.list_tools()


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/mcp", "//evil.example/mcp", "file:///etc/passwd", "http://[", "javascript:x", "gopher://x"]
)
@scene
async def test_a_redirect_elsewhere_is_not_followed_and_carries_no_token(address):
    fake = FakeHttp({"server/discover": Http(307, headers={"Location": address})})
    async with fake as url:
        with pytest.raises(TwopipesError) as caught:
            async with connect(url, auth="s3cret-token", timeouts=QUICK):
                pass
    assert "s3cret-token" not in str(caught.value)
    assert fake.methods == ["server/discover"]


@scene
async def test_a_cookie_is_not_kept():
    fake = FakeHttp(
        {"tools/call": Http(200, {"jsonrpc": "2.0", "id": 1}, headers={"Set-Cookie": "a=b"}), "prompts/get": {"messages": []}}
    )
    async with fake as url, connect(url, timeouts=QUICK) as client:
        with suppress(TwopipesError):
            await client.call_tool("x")
        await client.get_prompt("y")
    assert all("Cookie" not in each.headers for each in fake.seen)


@scene
async def test_an_error_of_a_server_does_not_show_a_token():
    async def echo(exchange):
        return Http(401, json.dumps(dict(exchange.headers)), "text/plain", {"WWW-Authenticate": 'Bearer error="invalid_token"'})

    fake = FakeHttp({"tools/call": echo})
    async with fake as url, connect(url, auth="s3cret-token", timeouts=QUICK) as client:
        with pytest.raises(HttpError) as caught:
            await client.call_tool("x")
    assert "s3cret-token" not in str(caught.value)


@scene
async def test_a_call_is_answered_once_whatever_else_its_stream_contains():
    async def many(exchange):
        for number in range(5):
            await exchange.result(text(f"answer {number}"))

    fake = FakeHttp({"tools/call": many})
    async with fake as url, connect(url, timeouts=QUICK) as client:
        assert (await client.call_tool("x")).text == "answer 0"
        assert (await client.call_tool("x")).text == "answer 0"
