"""The check's end of the posing process: what :mod:`.fake` tells and is told, as a channel and a few orders."""

from __future__ import annotations

import asyncio
import secrets
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from twopipes._channels.base import Channel
from twopipes._channels.sockets import listen_tcp, listen_unix
from twopipes.errors import ChannelBroken, ChannelClosed

__all__ = ["RelayListener", "RelayedChannel", "listen_for_relays"]

_HEAD = struct.Struct(">cI")
_MODULE = "twopipes._tools.check.relay_process"


class RelayedChannel(Channel):
    """The pipes of the posing process, seen from the check. What is no byte of the wire goes to ``on_event``.

    Attributes:
        pid: Of the posing process, once it has said so.
        saw_end: Whether the process has seen the end of its input, and not merely been ended.
        on_event: Called with the kind and the data of every other frame: ``S`` a signal, ``G`` a grandchild.
    """

    def __init__(self, inner: Channel) -> None:
        self._inner = inner
        self._rest = b""
        self._ended = False
        self.pid: int | None = None
        self.saw_end = False
        self.word = ""
        self.on_event: Callable[[str, str], object] = lambda _kind, _data: None

    async def hello(self) -> None:
        """Waits until the process has said who it is."""
        while self.pid is None and not self._ended:
            frame = await self._frame()
            if frame is not None:
                self._note(*frame)

    async def read(self) -> bytes:
        """What the client wrote; nothing at the end of it."""
        while not self._ended:
            frame = await self._frame()
            if frame is None:
                break
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
        """Goes on to listen after the end of input, for signals and for the end of the process, at which it returns."""
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

    def _order(self, kind: bytes, data: bytes = b"") -> None:
        with suppress(ChannelBroken, ChannelClosed):
            self._inner.write(_HEAD.pack(kind, len(data)) + data)

    # Orders

    def write(self, data: bytes) -> None:
        """To the stdout of the process."""
        self._inner.write(_HEAD.pack(b"D", len(data)) + data)

    def stderr(self, data: bytes) -> None:
        """To its stderr."""
        self._order(b"R", data)

    def exit(self, code: int) -> None:
        """Ends it."""
        self._order(b"X", str(code).encode())

    async def close_write(self) -> None:
        """Closes its stdout."""
        self._order(b"C")

    async def drain(self) -> None:
        """As the channel beneath."""
        await self._inner.drain()

    async def flush(self) -> None:
        """As the channel beneath."""
        await self._inner.flush()

    async def close(self) -> None:
        """Lets go of the process, which ends by that."""
        await self._inner.close()

    @property
    def buffered(self) -> int:
        """As the channel beneath."""
        return self._inner.buffered

    @property
    def description(self) -> str:
        """Which process it is."""
        return f"the posing server (process {self.pid})"


class RelayListener:
    """A place where posing processes report, and the command that starts one."""

    def __init__(self, address: str) -> None:
        self.address = address

    def command(self, options: Sequence[str] = ()) -> list[str]:
        """What a client has to launch."""
        return [sys.executable, "-m", _MODULE, self.address, *options]


@asynccontextmanager
async def listen_for_relays(serve: Callable[[RelayedChannel], Awaitable[None]]) -> AsyncIterator[RelayListener]:
    """Listens for posing processes; ``serve`` is awaited for each, in a task of its own."""
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
            yield RelayListener(address)
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await listener.close()
