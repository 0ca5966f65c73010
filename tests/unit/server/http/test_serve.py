"""``await server.serve(http=...)`` inside a running event loop."""

import asyncio
import json
import logging
from contextlib import asynccontextmanager, suppress

import pytest

from http_server import PATIENCE, RawConnection, request_bytes
from twopipes import Context, Server
from twopipes.errors import LocalProtocolError
from twopipes.http import HttpOptions

pytestmark = pytest.mark.slow  # real sockets

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Address(logging.Handler):
    """Learns the port from the message that the server logs."""

    def __init__(self):
        super().__init__()
        self.port = asyncio.get_running_loop().create_future()

    def emit(self, record):
        _, found, url = record.getMessage().partition(" listens on http://")
        if found:
            self.port.set_result(int(url.partition("/")[0].rpartition(":")[2]))


@asynccontextmanager
async def serving(server, **options):
    """Serve in a task, and return it with the port."""
    logger = logging.getLogger("twopipes.server")
    address = Address()
    logger.addHandler(address)
    task = asyncio.create_task(server.serve(http=0, **options))
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({task, address.port}, return_when=asyncio.FIRST_COMPLETED)
            yield task, address.port.result() if address.port.done() else None
    finally:
        logger.removeHandler(address)
        task.cancel()
        address.port.cancel()
        await asyncio.wait({task})


def listen(port):
    """Open a subscription in a thread, and return what it receives up to its end."""
    params = {"_meta": META, "notifications": {"toolsListChanged": True}}
    body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params}).encode()
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
    with RawConnection(port) as connection:
        connection.send(request_bytes("POST", "/mcp", headers, body, host=f"127.0.0.1:{port}"))
        connection.read_head()
        received = [connection.read_event()]
        yield received[0]
        with suppress(ConnectionError):
            while True:
                received.append(connection.read_event())
        yield received


def run(main):
    async def checked():
        await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(checked())


def test_a_cancelled_server_ends_its_subscriptions_and_leaves_nothing():
    events = []

    @asynccontextmanager
    async def lifespan(server):
        events.append("begin")
        yield "value"
        events.append("end")

    async def main():
        async with serving(Server("s", version="1", lifespan=lifespan)) as (task, port):
            stream = listen(port)
            acknowledged = await asyncio.to_thread(next, stream)
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            task.cancel()
            received = await asyncio.to_thread(next, stream)
            assert received[-1]["id"] == 5
            assert received[-1]["result"]["resultType"] == "complete"
            stream.close()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert events == ["begin", "end"]

    run(main)


def test_the_error_of_a_lifespan_is_raised():
    @asynccontextmanager
    async def lifespan(server):
        raise ConnectionError("no database")
        yield

    async def main():
        async with serving(Server("s", version="1", lifespan=lifespan)) as (task, port):
            assert port is None
            with pytest.raises(ConnectionError, match="no database"):
                await task

    run(main)


def test_a_cancelled_server_does_not_wait_for_handlers():
    started = asyncio.Event()

    async def main():
        server = Server("s", version="1")

        @server.tool
        async def forever(ctx: Context) -> str:
            started.set()
            await asyncio.Event().wait()
            return ""

        async with serving(server) as (task, port):
            params = {"_meta": META, "name": "forever", "arguments": {}}
            body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}).encode()
            headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "forever"}

            def call():
                with RawConnection(port) as connection:
                    return connection.request("POST", "/mcp", headers, body)

            calling = asyncio.create_task(asyncio.to_thread(call))
            await started.wait()
            task.cancel()
            response = await calling
            assert response.json["error"]["message"] == "the handler was cancelled"

    run(main)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"http": "nonsense"}, "http= must be a port or HOST:PORT"),
        ({"http": "0.0.0.0:0"}, "refused to serve on 0.0.0.0:0 without auth="),
        ({"http": 0, "tcp": ("127.0.0.1", 0)}, "http= and tcp= exclude each other; give one of them"),
        ({"http": 0, "trace": "1"}, "trace= is not possible with http="),
        ({"http_options": HttpOptions()}, "http_options= needs http=, such as http=8000"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, why):
    with pytest.raises(LocalProtocolError, match=why):
        asyncio.run(Server("s", version="1").serve(**options))
