"""The end of the ASGI server: every connection that it accepted gets its response."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest

from sessions import modern
from twopipes import Server
from twopipes._http.headers import request_headers
from twopipes._protocol.revisions import LATEST_MODERN
from twopipes._server.http import uvicorn_server
from twopipes.http import HttpOptions

pytestmark = pytest.mark.slow  # real sockets

NET = 30


async def until(happened):
    async with asyncio.timeout(NET):
        while not happened():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def serving():
    app = Server("s").asgi()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn_server.make_uvicorn(app, HttpOptions(), lambda: app.drain(NET), patience=NET)
        await app.start()
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await until(lambda: server.started)
        yield server, listener.getsockname()[1]
        server.should_exit = True
        await asyncio.wait_for(task, NET)
        await app.stop()


def request_bytes():
    message = modern(1, "server/discover")
    body = json.dumps(message).encode()
    headers = request_headers("server/discover", message["params"], LATEST_MODERN) | {
        "Host": "127.0.0.1",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    return b"POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode() + b"\r\n" + body


def test_a_connection_that_was_accepted_before_the_end_gets_its_response(monkeypatch):
    monkeypatch.setattr(uvicorn_server, "FIRST_REQUEST", NET)

    async def main():
        async with serving() as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda: server.server_state.connections)
            server.should_exit = True
            await until(lambda: not server.servers[0].is_serving())
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            writer.write(request_bytes())
            response = await asyncio.wait_for(reader.read(), NET)  # to the end: the connection is closed after it
            assert response.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b'"supportedVersions"' in response
            writer.close()

    asyncio.run(main())


def test_connections_that_wait_to_be_accepted_at_the_end_get_their_responses():
    """Python 3.13 prints a traceback if a listening socket is closed between accepting a connection and making its transport."""

    async def main():
        async with serving() as (server, port):
            # Without a turn of the loop: the system has these connections, and nothing has accepted them yet.
            waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
            for sock in waiting:
                sock.sendall(request_bytes())
            await server._stop_accepting()
            for sock in waiting:
                reader, writer = await asyncio.open_connection(sock=sock)
                assert await asyncio.wait_for(reader.readline(), NET) == b"HTTP/1.1 200 OK\r\n"
                writer.close()

    asyncio.run(main())


def test_a_connection_without_a_request_does_not_hold_the_end(monkeypatch):
    monkeypatch.setattr(uvicorn_server, "FIRST_REQUEST", 0.05)

    async def main():
        async with serving() as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda: server.server_state.connections)
            server.should_exit = True
            assert await asyncio.wait_for(reader.read(), NET) == b""
            writer.close()

    asyncio.run(main())
