"""Read lines from the terminal without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress
from typing import Any, TextIO


class Keyboard:
    """Lines that the user types. Waiting for one can be cancelled."""

    def __init__(self, stream: TextIO | None = None, *, by_threads: bool = sys.platform == "win32") -> None:
        self._stream = stream or sys.stdin
        self._by_threads = by_threads
        self._typed = bytearray()

    def discard(self) -> None:
        """Discard what was typed before the question appeared."""
        self._typed.clear()
        if sys.platform != "win32":
            import termios  # noqa: PLC0415 - not on Windows

            termios.tcflush(self._stream.fileno(), termios.TCIFLUSH)

    async def line(self) -> str | None:
        """Return the next line without its end; ``None`` for Ctrl-D."""
        if self._by_threads:
            return await self._line_by_thread()
        descriptor = self._stream.fileno()
        while b"\n" not in self._typed:
            await _readable(descriptor)
            chunk = os.read(descriptor, 4096)
            if not chunk:
                self._typed.clear()
                return None
            self._typed += chunk
        line, _, rest = bytes(self._typed).partition(b"\n")
        self._typed = bytearray(rest)
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _line_by_thread(self) -> str | None:
        # A daemon thread: it cannot be woken, and must not keep an interrupted program alive.
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            line = self._stream.readline()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, future, line)

        threading.Thread(target=read, daemon=True).start()
        line = await future
        return line.rstrip("\r\n") if line else None


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _settle, future, None)
    try:
        await future
    finally:
        loop.remove_reader(descriptor)


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
