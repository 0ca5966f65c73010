"""The check's end of a relay process (:mod:`.relay_process`): a channel, and a few commands."""

from __future__ import annotations

import asyncio
import secrets
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from twopipes._channels.base import Channel
from twopipes._channels.sockets import listen_tcp, listen_unix
from twopipes._channels.wrapped import WrappedChannel
from twopipes.errors import ChannelBroken, ChannelClosed

_HEAD = struct.Struct(">cI")


class RelayedChannel(WrappedChannel):
    """The pipes of a relay process, as a channel."""

    def __init__(self, inner: Channel) -> None:
        super().__init__(inner)
        self._rest = b""
        self._ended = False
        self.pid: int | None = None  # of the relay process, after hello()
        self.word = ""
        self.saw_end = False  # whether the process saw the end of its input before it was ended
        # Called with the kind and the data of frames that are not bytes of the wire: S for a signal, G for a grandchild.
        self.on_event: Callable[[str, str], object] = lambda _kind, _data: None

    async def hello(self) -> None:
        """Wait until the process has identified itself."""
        while self.pid is None and (frame := await self._frame()) is not None:
            self._note(*frame)

    async def read(self) -> bytes:
        """Return what the client wrote; empty at the end."""
        while not self._ended and (frame := await self._frame()) is not None:
            kind, data = frame
            if kind == b"D":
                return data
            if kind == b"E":
                self.saw_end = True
                break
            self._note(kind, data)
        self._ended = True
        return b""

    async def watch(self) -> None:
        """Wait for the exit of the process. Signals until then are reported to ``on_event``."""
        with suppress(ChannelBroken, ChannelClosed):
            while (frame := await self._frame()) is not None:
                self._note(*frame)

    async def _frame(self) -> tuple[bytes, bytes] | None:
        while True:
            if len(self._rest) >= _HEAD.size:
                kind, length = _HEAD.unpack_from(self._rest)
                end = _HEAD.size + length
                if len(self._rest) >= end:
                    data, self._rest = self._rest[_HEAD.size : end], self._rest[end:]
                    return kind, data
            more = await self._inner.read()
            if not more:
                return None
            self._rest += more

    def _note(self, kind: bytes, data: bytes) -> None:
        text = data.decode(errors="replace")
        if kind == b"H":
            pid, _, self.word = text.partition(" ")
            self.pid = int(pid)
        else:
            self.on_event(kind.decode(), text)

    def _command(self, kind: bytes, data: bytes = b"") -> None:
        with suppress(ChannelBroken, ChannelClosed):
            self._inner.write(_HEAD.pack(kind, len(data)) + data)

    # Commands

    def write(self, data: bytes) -> None:
        """Write to the stdout of the process."""
        self._inner.write(_HEAD.pack(b"D", len(data)) + data)

    def stderr(self, data: bytes) -> None:
        """Write to its stderr."""
        self._command(b"R", data)

    def exit(self, code: int) -> None:
        """End it."""
        self._command(b"X", str(code).encode())

    async def close_write(self) -> None:
        """Close its stdout."""
        self._command(b"C")

    @property
    def description(self) -> str:
        """The process, for messages."""
        return f"the fake server (process {self.pid})"


@asynccontextmanager
async def listen_for_relays(serve: Callable[[RelayedChannel], Awaitable[None]]) -> AsyncIterator[list[str]]:
    """Listen for relay processes, and yield the command that starts one. ``serve`` is awaited for each, in its own task."""
    word = secrets.token_hex(16)

    async def connected(channel: Channel) -> None:
        relayed = RelayedChannel(channel)
        await relayed.hello()
        if sys.platform != "win32" or relayed.word == word:
            await serve(relayed)

    with tempfile.TemporaryDirectory(prefix="twopipes-") as folder:
        if sys.platform == "win32":
            listener = await listen_tcp(0, connected)
            address = f"tcp:{listener.port}:{word}"
        else:
            path = Path(folder) / "fake"
            listener = await listen_unix(path, connected)
            address = f"unix:{path}"
        try:
            yield [sys.executable, "-m", "twopipes._tools.check.relay_process", address]
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await listener.close()
