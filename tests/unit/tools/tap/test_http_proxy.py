"""The tap as a reverse proxy: what it forwards, when, and what it records."""

import asyncio
import gzip
import json

import pytest

from twopipes._tools.tap import bodies, http_proxy
from twopipes._tools.tap.http_proxy import Upstream
from unit.tools.doctor.http_peers import certificate
from unit.tools.tap.upstream import EVENTS, NET, chunk, post, respond, run

pytestmark = pytest.mark.slow  # real sockets

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add"}}
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {}}


def line(message):
    return json.dumps(message).encode()


async def exchange(stage, message, response, *headers):
    """Send one request on a connection of its own; return what each side received."""
    client = await stage.client(post(message, *headers))
    server = await stage.server()
    head, body = await server.request()
    server.send(response)
    received = await client.until(b"\r\n\r\n")
    return head, body, received


def test_a_request_and_its_response_pass_unchanged_and_are_recorded():
    async def play(stage):
        client = await stage.client(post(CALL, "Mcp-Method: tools/call", "authorization: Bearer secret", "Origin: http://evil"))
        server = await stage.server()
        head, body = await server.request()
        assert body == line(CALL)
        assert head.split("\r\n")[0] == "POST /mcp HTTP/1.1"
        port = server.writer.get_extra_info("sockname")[1]
        for header in (f"Host: localhost:{port}", "Mcp-Method: tools/call", "authorization: Bearer secret", "Origin: http://evil"):
            assert header in head.split("\r\n")
        server.send(respond(RESULT, "X-Own: 1"))
        assert b"X-Own: 1\r\n" in await client.until(b"\r\n\r\n")
        assert await client.until(b"}}") == line(RESULT)
        assert stage.recorded.entries == [(0, ">", line(CALL)), (0, "<", line(RESULT))]
        assert b"secret" not in repr(stage.recorded.entries).encode()

    run(play)


def test_the_connection_is_kept_for_the_next_request():
    async def play(stage):
        client = await stage.client()
        server = None
        for number in (1, 2):
            client.send(post({**CALL, "id": number}))
            server = server or await stage.server()
            await server.request()
            server.send(respond({**RESULT, "id": number}))
            await client.until(b"}}")
        assert [connection for connection, _, _ in stage.recorded.entries] == [0, 0, 0, 0]

    run(play)


def test_requests_in_one_packet_are_answered_in_order():
    async def play(stage):
        client = await stage.client(post(CALL) + post({**CALL, "id": 2}))
        server = await stage.server()
        for number in (1, 2):
            _, body = await server.request()
            assert json.loads(body)["id"] == number
            server.send(respond({**RESULT, "id": number}))
            assert json.loads((await client.until(b"}}")).rpartition(b"\r\n\r\n")[2])["id"] == number

    run(play)


def test_a_client_that_waits_for_100_gets_it():
    async def play(stage):
        head, _, body = post(CALL, "Expect: 100-continue").partition(b"\r\n\r\n")
        client = await stage.client(head + b"\r\n\r\n")
        server = await stage.server()
        assert b"Expect: 100-continue" in await server.until(b"\r\n\r\n")
        server.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert b" 100 " in await client.until(b"\r\n\r\n")
        client.send(body)
        await server.until(body)
        server.send(respond(RESULT))
        await client.until(b"}}")
        assert stage.recorded.lines == [(0, ">", line(CALL)), (0, "<", line(RESULT))]

    run(play)


def test_connections_that_are_closed_after_a_response():
    async def play(stage):
        client = await stage.client(post(CALL, "Connection: close"))
        server = await stage.server()
        head, _ = await server.request()
        assert "Connection: close" in head
        server.send(respond(RESULT))
        assert (await client.rest()).endswith(line(RESULT))
        client = await stage.client(post(CALL))
        server = await stage.server()
        await server.request()
        server.send(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + line(RESULT))
        server.close()
        assert line(RESULT) in await client.rest()
        assert stage.recorded.lines[-1] == (1, "<", line(RESULT))
        assert stage.recorded.notes == []

    run(play)


def test_a_server_with_tls(tmp_path, monkeypatch):
    tls, path = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", path)

    async def play(stage):
        client = await stage.client(post(CALL))
        server = await stage.server()
        await server.request()
        server.send(EVENTS)
        await client.until(b"\r\n\r\n")
        client.close()  # TLS cannot close one direction, so the connection is closed
        assert await server.rest() == b""

    run(play, tls)


def test_a_certificate_that_is_not_trusted(tmp_path):
    tls, _ = certificate(tmp_path)

    async def play(stage):
        client = await stage.client(post(CALL))
        assert (await client.rest()).startswith(b"HTTP/1.1 502 ")
        assert "certificate verify failed" in stage.recorded.notes[0]

    run(play, tls)


def test_events_are_forwarded_as_they_arrive():
    async def play(stage):
        client = await stage.client(post(CALL))
        server = await stage.server()
        await server.request()
        server.send(EVENTS + chunk(b": keep-alive\n\n"))
        await client.until(b": keep-alive\n\n")
        for number in range(3):
            progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": number}}
            first, second = b"id: %d\ndata: %s" % (number, line(progress)[:20]), line(progress)[20:] + b"\n\n"
            server.send(chunk(first))
            await client.until(first)
            server.send(chunk(second))
            await client.until(second)
            assert stage.recorded.entries[-1] == (0, "<", line(progress))
        server.send(chunk(b"data:\n\n") + chunk(b"data: " + line(RESULT) + b"\r\n\r\n") + b"0\r\n\r\n")
        await client.until(b"0\r\n\r\n")
        assert stage.recorded.entries[-1] == (0, "<", line(RESULT))
        assert len(stage.recorded.entries) == 5

    run(play)


def test_a_client_that_leaves_ends_the_request_at_the_server():
    async def play(stage):
        client = await stage.client(post(CALL))
        server = await stage.server()
        await server.request()
        server.send(EVENTS)
        await client.until(b"\r\n\r\n")
        client.close()
        assert await server.rest() == b""
        assert stage.recorded.notes == ["tools/call #1: the client closed the connection before the response was complete"]

    run(play)


def test_a_client_that_leaves_after_the_response_is_not_noted():
    async def play(stage):
        client = await stage.client(post(CALL))
        server = await stage.server()
        await server.request()
        server.send(EVENTS + chunk(b"data: " + line(RESULT) + b"\n\n"))
        await client.until(line(RESULT))
        client.close()
        assert await server.rest() == b""
        assert stage.recorded.notes == []

    run(play)


def test_a_session_that_is_named_with_an_error_is_not_one():
    refused = {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "no"}}

    async def play(stage):
        await exchange(stage, CALL, respond(refused, "Mcp-Session-Id: x", status="400 Bad Request"))
        await exchange(stage, {**CALL, "id": 2, "method": "initialize"}, respond({**RESULT, "id": 2}, "Mcp-Session-Id: y"))
        assert {connection for connection, _, _ in stage.recorded.lines} == {0}

    run(play)


def test_a_server_that_breaks_off_is_seen_by_the_client():
    async def play(stage):
        client = await stage.client(post(CALL))
        server = await stage.server()
        await server.request()
        server.send(EVENTS + chunk(b"data: {"))
        server.close()
        assert (await client.rest()).endswith(b"data: {\r\n")
        assert stage.recorded.notes[0].startswith("tools/call #1: the response broke off: ")

    run(play)


def test_a_server_that_closes_an_idle_connection_ends_that_of_the_client():
    async def play(stage):
        client = await stage.client(post(CALL))
        server = await stage.server()
        await server.request()
        server.send(respond(RESULT))
        await client.until(b"}}")
        server.close()
        assert await client.rest() == b""
        assert stage.recorded.notes == []

    run(play)


def test_an_early_response_to_an_unfinished_request():
    async def play(stage):
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
        client = await stage.client(head)
        server = await stage.server()
        await server.until(b"\r\n\r\n")
        server.send(respond(b"too large", status="413 Content Too Large", kind="text/plain"))
        assert b"413" in await client.until(b"too large")
        assert await client.rest() == b""
        assert stage.recorded.notes == ["POST /mcp: HTTP 413 Content Too Large with text/plain"]

    run(play)


def test_a_session_is_one_conversation_beside_others():
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    async def play(stage):
        for name in ("a", "b"):
            await exchange(stage, hello, respond(RESULT, f"Mcp-Session-Id: {name}"))
        for name in ("a", "b"):
            await exchange(stage, notification, b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", f"Mcp-Session-Id: {name}")
        client = await stage.client(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: a\r\n\r\n")
        server = await stage.server()
        await server.until(b"\r\n\r\n")
        server.send(EVENTS + chunk(b"data: " + line(notification) + b"\n\n"))
        await client.until(b"\n\n\r\n")
        ending = await stage.client(b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: b\r\n\r\n")
        server = await stage.server()
        await server.until(b"\r\n\r\n")
        server.send(b"HTTP/1.1 204 No Content\r\n\r\n")
        await ending.until(b"\r\n\r\n")
        assert stage.recorded.lines == [
            (0, ">", line(hello)),
            (0, "<", line(RESULT)),
            (1, ">", line(hello)),
            (1, "<", line(RESULT)),
            (0, ">", line(notification)),
            (1, ">", line(notification)),
            (0, "<", line(notification)),
        ]
        assert stage.recorded.entries[-2:] == [(1, "eof", ">"), (1, "eof", "<")]

    run(play)


def test_refusals_are_noted_and_errors_of_the_protocol_are_recorded():
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32020, "message": "no"}}

    async def play(stage):
        await exchange(stage, CALL, respond(error, status="400 Bad Request"))
        await exchange(stage, CALL, respond({"detail": "no"}, status="401 Unauthorized"))
        await exchange(stage, CALL, respond(b"<html>", status="502 Bad Gateway", kind="text/html; charset=utf-8"))
        await exchange(stage, CALL, respond(b"", status="299 Own"))
        assert (0, "<", line(error)) in stage.recorded.lines
        assert stage.recorded.notes == [
            "tools/call #1: HTTP 401 Unauthorized with JSON that is not a message",
            "tools/call #1: HTTP 502 Bad Gateway with text/html",
        ]

    run(play)


def test_messages_on_several_lines_and_compressed_ones_become_one_line():
    pretty = json.dumps(RESULT, indent=1).encode()

    async def play(stage):
        await exchange(stage, CALL, respond(gzip.compress(pretty), "Content-Encoding: gzip"))
        assert stage.recorded.lines[-1] == (0, "<", pretty.replace(b"\n", b" "))
        await exchange(stage, CALL, respond(b"??", "Content-Encoding: br"))
        assert stage.recorded.notes == ["tools/call #1: the response is not recorded: its Content-Encoding is br"]

    run(play)


def test_other_paths_pass_and_are_only_noted():
    async def play(stage):
        client = await stage.client(b"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server = await stage.server()
        await server.until(b"\r\n\r\n")
        server.send(respond({"resource": "x"}))
        await client.until(b'"x"}')
        assert stage.recorded.entries == [(0, "note", "GET /.well-known/oauth-protected-resource: HTTP 200 OK")]

    run(play)


def test_a_message_that_is_too_long_is_omitted_but_forwarded(monkeypatch):
    monkeypatch.setattr(bodies, "MAX_QUEUED", 100)
    long = {**CALL, "method": "x" * 200}

    async def play(stage):
        _, body, _ = await exchange(stage, long, respond(RESULT))
        assert body == line(long)
        assert [kind for _, kind, _ in stage.recorded.entries] == ["note", "<"]
        assert stage.recorded.notes == [f"POST /mcp: a message of {len(line(long))} bytes was omitted"]

    run(play)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "[", ""])
def test_another_host_is_refused(host):
    async def play(stage):
        client = await stage.client(post(CALL, host=host))
        assert (await client.rest()).startswith(b"HTTP/1.1 403 ")
        assert stage.recorded.notes == [f"refused a request for the host {host!r}"]

    run(play)


def test_garbage_is_answered_and_the_next_client_is_served():
    async def play(stage):
        client = await stage.client(b"\x16\x03\x01 not HTTP\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 400 ")
        await exchange(stage, CALL, respond(RESULT))
        assert stage.recorded.lines == [(0, ">", line(CALL)), (0, "<", line(RESULT))]

    run(play)


def test_a_server_that_does_not_speak_http():
    async def play(stage):
        client = await stage.client(post(CALL))
        server = await stage.server()
        await server.request()
        server.send(b"SSH-2.0-OpenSSH\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 502 ")
        assert stage.recorded.notes[0].startswith("tools/call #1: the server sent no HTTP response: ")

    run(play)


def test_a_server_that_is_not_there(monkeypatch):
    async def refuse(_upstream):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(Upstream, "connect", refuse)

    async def play(stage):
        client = await stage.client(post(CALL))
        assert (await client.rest()).startswith(b"HTTP/1.1 502 ")
        assert stage.recorded.notes == ["POST /mcp: the server cannot be reached: [Errno 111] Connection refused"]

    run(play)


def test_a_slow_client_slows_the_server_down():
    size = 64 * 1024 * 1024

    async def play(stage):
        client = await stage.client(post(CALL))
        server = await stage.server()
        await server.request()
        server.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % size)
        server.send(b"x" * size)
        with pytest.raises(TimeoutError):  # sockets and buffers hold some megabytes, not everything
            await asyncio.wait_for(server.writer.drain(), 0.2)
        await client.until(b"\r\n\r\n")
        async with asyncio.timeout(NET):
            assert len(await client.reader.readexactly(size)) == size

    run(play)


def test_connections_are_limited(monkeypatch):
    monkeypatch.setattr(http_proxy, "MAX_CONNECTIONS", 1)

    async def play(stage):
        await stage.client(post(CALL))
        await (await stage.server()).request()
        second = await stage.client()
        assert (await second.rest()).startswith(b"HTTP/1.1 503 ")

    run(play)


def test_urls():
    assert Upstream.parse("https://user:pw@example.com?x=1") == ("https", "example.com", 443, "example.com", "/")
    assert Upstream.parse("http://[::1]:8000/mcp") == ("http", "::1", 8000, "[::1]:8000", "/mcp")
    for wrong in ("ftp://x", "http://", "http://x:99999/"):
        with pytest.raises(ValueError):
            Upstream.parse(wrong)
