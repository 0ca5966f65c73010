"""Two workers in one process: each has its own application, port and Unix socket."""

import asyncio
import json
import socket
import tempfile
from contextlib import asynccontextmanager

import aiohttp
import pytest

from twopipes import Context, Server
from twopipes._server.http.app import HttpApp
from twopipes._server.http.peers import Peers
from twopipes._server.http.uvicorn_server import make_uvicorn
from twopipes.http import HttpOptions

pytestmark = pytest.mark.slow  # real sockets

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def a_server(number):
    server = Server("peers", version="1")
    server.started = asyncio.Event()
    server.may_go_on = asyncio.Event()

    @server.tool
    async def which() -> int:
        return number

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.progress(1, 2)
        server.started.set()
        await server.may_go_on.wait()
        return "waited"

    return server


class Worker:
    def __init__(self, folder, number, **options):
        self.peers = Peers(folder, 2, number)
        self.options = HttpOptions(**options)
        self.server = a_server(number)
        self.app = HttpApp(self.server, self.options, peers=self.peers)
        self.uvicorn = make_uvicorn(self.app, self.options, lambda: self.app.drain(0), patience=5)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/mcp"

    async def start(self):
        await self.app.start()
        self.serving = asyncio.create_task(self.uvicorn.serve(sockets=[self.socket, self.peers.listen()]))

    async def stop(self):
        self.uvicorn.should_exit = True
        await self.serving
        await self.app.stop()


@asynccontextmanager
async def workers(**options):
    with tempfile.TemporaryDirectory() as folder:
        pair = [Worker(folder, number, **options) for number in range(2)]
        async with aiohttp.ClientSession() as http, asyncio.timeout(30):
            for worker in pair:
                await worker.start()
            try:
                yield *pair, http
            finally:
                await asyncio.gather(*(worker.stop() for worker in pair))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def post(http, url, message, **headers):
    headers = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    async with http.post(url, data=json.dumps(message), headers=headers) as response:
        return response.status, response.headers, await response.read()


async def open_session(http, url):
    _, headers, _ = await post(http, url, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENING})
    return headers["Mcp-Session-Id"]


def call(name):
    params = {"name": name, "arguments": {}, "_meta": {"progressToken": 1}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def test_a_request_is_passed_to_the_worker_that_has_the_session():
    async def main():
        async with workers(session_prefix="p") as (one, two, http):
            session_id = await open_session(http, one.url)
            assert session_id.startswith("p.0.")
            for worker in (one, two):
                status, headers, body = await post(http, worker.url, call("which"), Mcp_Session_Id=session_id)
                assert (status, headers["Content-Type"]) == (200, "application/json")
                assert len(headers.getall("Date")) == 1
                assert json.loads(body)["result"]["structuredContent"] == {"result": 0}
            assert len(one.app._owner.runtime.sessions) == 1
            assert len(two.app._owner.runtime.sessions) == 0

    asyncio.run(main())


def test_a_stream_is_passed_on_event_by_event():
    async def main():
        async with workers() as (one, two, http):
            session_id = await open_session(http, one.url)
            headers = HEADERS | {"Mcp-Session-Id": session_id}
            async with http.post(two.url, data=json.dumps(call("wait")), headers=headers) as response:
                assert response.headers["X-Accel-Buffering"] == "no"
                while b"progress" not in await response.content.readline():
                    pass
                one.server.may_go_on.set()
                assert b"waited" in await response.content.read()

    asyncio.run(main())


def test_a_client_that_leaves_is_noticed_by_the_worker_that_serves_it():
    async def main():
        async with workers() as (one, two, http):
            session_id = await open_session(http, one.url)
            headers = HEADERS | {"Mcp-Session-Id": session_id}
            (session,) = one.app._owner.runtime.sessions._sessions.values()
            async with http.get(two.url, headers=headers) as response:
                assert response.status == 200
                assert session.open_replies == 1
                response.close()
            while session.open_replies:
                await asyncio.sleep(0.01)

    asyncio.run(main())


@pytest.mark.parametrize("session_id", ["1.unknown", "0.unknown", "2.x", "unknown", "99999.x"])
def test_a_made_up_session_is_unknown(session_id):
    async def main():
        async with workers() as (one, _two, http):
            status, _, body = await post(http, one.url, call("which"), Mcp_Session_Id=session_id)
            assert status == 404
            assert b"send initialize" in body

    asyncio.run(main())


def test_the_session_of_a_worker_that_does_not_run_is_unknown():
    async def main():
        with tempfile.TemporaryDirectory() as folder:
            worker = Worker(folder, 0)
            async with aiohttp.ClientSession() as http:
                await worker.start()
                status, _, _ = await post(http, worker.url, call("which"), Mcp_Session_Id="1.gone")
                assert status == 404
                await worker.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"", 502),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf", None),
    ],
)
def test_a_worker_that_crashes_is_an_error_and_not_a_response(answer, status):
    async def crash(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def main():
        with tempfile.TemporaryDirectory() as folder:
            worker = Worker(folder, 0)
            async with (
                await asyncio.start_unix_server(crash, Peers(folder, 2, 1)._path(1)),
                aiohttp.ClientSession() as http,
            ):
                await worker.start()
                try:
                    given, _, _ = await post(http, worker.url, call("which"), Mcp_Session_Id="1.x")
                except aiohttp.ClientPayloadError:
                    given = None
                assert given == status
                await worker.stop()

    asyncio.run(main())
