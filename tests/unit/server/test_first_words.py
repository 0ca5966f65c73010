"""The first answer, before there is an event loop."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress

import pytest

from twopipes import Server
from twopipes._channels.pipes import PipeChannel
from twopipes._server.early_response import respond_early
from twopipes._session.events import CallReceived

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}}


def lines(*messages):
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def echoing(**options):
    async def echo(text: str) -> str:
        return text

    return Server("early", tools=[echo], **options)


class Streams:
    """What a host and a server hold of two pipes."""

    def __init__(self):
        self.server_reads, self.host_writes = os.pipe()
        self.host_reads, self.server_writes = os.pipe()

    def close(self):
        for fd in (self.server_reads, self.host_writes, self.host_reads, self.server_writes):
            with suppress(OSError):  # closed by a test
                os.close(fd)


@pytest.fixture
def streams():
    streams = Streams()
    yield streams
    streams.close()


def begin(server, streams, *, is_traced=False):
    begun = respond_early(server, streams.server_reads, streams.server_writes, is_traced=is_traced)
    if begun is not None:
        begun.put_back_signals()
    return begun


def test_a_handshake_is_answered_at_once(streams):
    os.write(streams.host_writes, lines(INITIALIZE))
    begun = begin(echoing(), streams)
    answer = json.loads(os.read(streams.host_reads, 65536))
    assert (answer["id"], answer["result"]["serverInfo"]["name"]) == (0, "early")
    assert (begun.events, begun.unsent) == ([], b"")


def test_what_takes_a_handler_is_left_for_the_loop(streams):
    os.write(streams.host_writes, lines(INITIALIZE, INITIALIZED, CALL))
    begun = begin(echoing(), streams)
    assert json.loads(os.read(streams.host_reads, 65536))["id"] == 0
    assert [event.call.id for event in begun.events if isinstance(event, CallReceived)] == [1]


def test_the_loop_goes_on_where_it_stopped(streams):
    """Half a message before, half of it after: one call, one answer."""
    whole = lines(INITIALIZE, INITIALIZED, CALL)
    os.write(streams.host_writes, whole[:-20])
    server = echoing()
    begun = begin(server, streams)
    os.read(streams.host_reads, 65536)

    async def serve():
        channel = PipeChannel(os.dup(streams.server_reads), os.dup(streams.server_writes))
        serving = asyncio.create_task(server.serve_channel(channel, begun=begun))
        os.write(streams.host_writes, whole[-20:])
        os.close(streams.host_writes)
        async with asyncio.timeout(30):
            await serving

    asyncio.run(serve())
    answer = json.loads(os.read(streams.host_reads, 65536))
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (1, "hello")


def test_what_the_host_does_not_take_is_kept(streams):
    os.set_blocking(streams.server_writes, False)
    filled = 0
    try:
        while True:
            filled += os.write(streams.server_writes, b"x" * 4096)
    except BlockingIOError:
        pass
    os.write(streams.host_writes, lines(INITIALIZE))
    begun = begin(echoing(), streams)
    assert json.loads(begun.unsent)["id"] == 0


def test_it_waits_for_nobody(streams):
    assert begin(echoing(), streams) is None


def test_the_end_of_input_is_left_for_the_loop(streams):
    os.close(streams.host_writes)
    assert begin(echoing(), streams) is None


@asynccontextmanager
async def lifespan(server):
    yield


async def middleware(context, call_next):
    return await call_next(context)


@pytest.mark.parametrize(
    ("options", "is_traced"), [({"lifespan": lifespan}, False), ({"middleware": middleware}, False), ({}, True)]
)
def test_what_comes_before_an_answer_is_not_passed_over(options, is_traced, streams):
    os.write(streams.host_writes, lines(INITIALIZE))
    assert begin(echoing(**options), streams, is_traced=is_traced) is None


def test_signals_wait_until_somebody_handles_them(streams):
    """Whoever has an answer may send one, and the server still ends as it should."""
    os.write(streams.host_writes, lines(INITIALIZE))
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        begun = respond_early(echoing(), streams.server_reads, streams.server_writes, is_traced=False)
        signal.raise_signal(signal.SIGTERM)
        assert seen == []
        begun.put_back_signals()
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_handlers_that_were_set_meanwhile_stay(streams):
    os.write(streams.host_writes, lines(INITIALIZE))
    before = signal.getsignal(signal.SIGTERM)
    begun = respond_early(echoing(), streams.server_reads, streams.server_writes, is_traced=False)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        begun.put_back_signals()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


PROGRAM = """
import sys

class NoLoop:
    def find_spec(self, name, path=None, target=None):
        if name == "asyncio":
            raise SystemExit(7)

sys.meta_path.insert(0, NoLoop())
from twopipes import Server

server = Server("early")

@server.tool
async def echo(text: str) -> str:
    return text

server.run()
"""


def test_the_answer_is_out_before_asyncio_is_imported(tmp_path):
    program = tmp_path / "server.py"
    program.write_text(PROGRAM)
    said = tmp_path / "said.jsonl"
    said.write_bytes(lines(INITIALIZE))
    with said.open("rb") as stdin:
        done = subprocess.run([sys.executable, program], stdin=stdin, capture_output=True, timeout=60, check=False)
    assert done.returncode == 7
    assert json.loads(done.stdout)["id"] == 0
