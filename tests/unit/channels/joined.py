"""Pairs of connected channels of every kind, and helpers to inspect them."""

import asyncio
import contextlib
import gc
import os
import random
import shutil
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from systems import WINDOWS, WINE
from twopipes._channels.base import Channel
from twopipes._channels.memory import memory_pair
from twopipes._channels.pipes import PipeChannel, pipe_pair
from twopipes._channels.socket_channel import SocketChannel
from twopipes._channels.sockets import connect_tcp, connect_unix, listen_tcp, listen_unix
from twopipes._channels.stdio import open_stdio
from twopipes._trace.channel import RecordedChannel
from twopipes.errors import TwopipesError

MIB = 1024 * 1024
# The longest line that the default limits allow, with bytes that show any loss, repetition or exchange.
LARGE = random.Random(64).randbytes(MIB) * 64
# More than the buffers of any system take without a reader.
PLENTY = LARGE[: 16 * MIB]


# Seconds. Only a hang reaches it; under Wine a megabyte takes a second on a busy machine.
NET = 110 if WINE else 60


def run(body: Coroutine[object, object, None]) -> None:
    """Run a test's coroutine; the timeout only catches a hang."""

    async def bounded():
        async with asyncio.timeout(NET):
            await body

    asyncio.run(bounded())


async def spin(rounds: int = 50) -> None:
    """Let all ready callbacks and tasks run, several times."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def read_all(channel: Channel) -> bytes:
    chunks = []
    while chunk := await channel.read():
        chunks.append(chunk)
    return b"".join(chunks)


async def read_exactly(channel: Channel, size: int) -> bytes:
    chunks = []
    while size > 0:
        chunk = await channel.read()
        assert chunk, f"the end came {size} bytes too early"
        chunks.append(chunk)
        size -= len(chunk)
    assert size == 0
    return b"".join(chunks)


async def blocked(coroutine: Coroutine[object, object, object]) -> asyncio.Task:
    """Start a coroutine and let it run until it waits."""
    task = asyncio.create_task(coroutine)
    await spin()
    assert not task.done(), task
    return task


async def outcome(task: asyncio.Task) -> BaseException | None:
    """Wait for the task and return what it raised."""
    await asyncio.wait([task])
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def write_until_broken(channel: Channel) -> TwopipesError:
    """Write until the channel is broken; the system may report a closed peer at any write."""
    while True:
        try:
            channel.write(b"x" * 65536)
            await channel.drain()
        except TwopipesError as error:
            return error
        await asyncio.sleep(0)


# Each of these makes two connected channels and cleans up after them.


@asynccontextmanager
async def _unix():
    folder = tempfile.mkdtemp()
    path = Path(folder, "s")
    accepted, over, on_connect = _acceptor()
    try:
        async with await listen_unix(path, on_connect):
            yield await connect_unix(path), await accepted
            over.set()
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def _tcp():
    accepted, over, on_connect = _acceptor()
    async with await listen_tcp(0, on_connect) as listener:
        assert listener.port is not None
        yield await connect_tcp("127.0.0.1", listener.port), await accepted
        over.set()


def _acceptor():
    accepted: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def on_connect(channel):
        accepted.set_result(channel)
        await over.wait()

    return accepted, over, on_connect


@asynccontextmanager
async def _stdio_over_pipes():
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    yield open_stdio(in_read, out_write, owned=True), PipeChannel(out_read, in_write)


@asynccontextmanager
async def _stdio_over_socketpair():
    ours, theirs = socket.socketpair()
    # One socket as both standard input and standard output, as a host may pass it.
    number = ours.detach()
    yield open_stdio(number, number, owned=True), SocketChannel(theirs, "the host's end")


@asynccontextmanager
async def _sockets_by_threads():
    one, other = socket.socketpair()
    yield SocketChannel(one, "one", by_threads=True), SocketChannel(other, "other", by_threads=True)


@asynccontextmanager
async def _sockets_without_gathering():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twopipes._channels.descriptor.sys", SimpleNamespace(platform="win32"))
        one, other = socket.socketpair()
        pair = SocketChannel(one, "one"), SocketChannel(other, "other")
    yield pair


@asynccontextmanager
async def _at_once(pair):
    yield pair


class _NullRecorder:
    """A recorder that keeps nothing."""

    def chunk(self, kind, data, *, connection=0):
        assert data

    def event(self, name, *, connection=0, stream=None, reason=None):
        assert stream is not None


@asynccontextmanager
async def _recorded():
    one, other = pipe_pair()
    yield RecordedChannel(one, _NullRecorder(), reads="<"), RecordedChannel(other, _NullRecorder(), reads=">")


_EVERY_KIND = {
    "memory": lambda: _at_once(memory_pair()),
    "pipes": lambda: _at_once(pipe_pair()),
    "unix": _unix,
    "tcp": _tcp,
    "stdio over pipes": _stdio_over_pipes,
    "stdio over a socketpair": _stdio_over_socketpair,
    # Used on Windows, and for files and terminals everywhere.
    "pipes by threads": lambda: _at_once(pipe_pair(by_threads=True)),
    "sockets by threads": _sockets_by_threads,
    # A system whose writes gather nothing.
    "sockets without writev": _sockets_without_gathering,
    # A channel around a channel.
    "recorded": _recorded,
}
# A socket as standard input is a thing of POSIX. What is called unix here is a named pipe on Windows.
_ONLY_ON_POSIX = {"stdio over a socketpair", "sockets without writev"}
KINDS = {kind: make for kind, make in _EVERY_KIND.items() if not WINDOWS or kind not in _ONLY_ON_POSIX}
_SOCKETS = ("unix", "tcp", "stdio over a socketpair", "sockets by threads", "sockets without writev")
CONNECTED_BY_SOCKETS = [each for each in _SOCKETS if each in KINDS]


@asynccontextmanager
async def joined(kind: str) -> AsyncIterator[tuple[Channel, Channel]]:
    """Yield two connected channels of this kind and close them at the end."""
    async with KINDS[kind]() as (one, other), one, other:
        yield one, other


@contextlib.contextmanager
def nothing_left_behind():
    """Fail if the block leaves a descriptor, a thread or a task of its own."""
    gc.collect()
    descriptors, threads = _descriptors(), set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - threads:
        # A thread in a blocking call ends soon after its peer is closed.
        thread.join(30)
    # Leftovers of other tests may disappear meanwhile, but nothing may be added.
    assert set(threading.enumerate()) <= threads
    assert _descriptors().items() <= descriptors.items()


def _descriptors() -> dict[str, str]:
    if WINDOWS:  # descriptors of the C library; handles cannot be listed
        return {str(number): "" for number in range(64) if _is_open(number)}
    found = {}
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found[number.name] = str(number.readlink())
    return {number: name for number, name in found.items() if not name.endswith("/fd")}


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
