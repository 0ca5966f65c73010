"""Every message that crosses a channel, written down: ``TWOPIPES_TRACE=1`` on stderr, ``TWOPIPES_TRACE=file`` in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from twopipes.channels.base import Channel
from twopipes.errors import LocalProtocolError

__all__ = ["TracedChannel", "traced"]


class TracedChannel(Channel):
    """A channel around a channel that notes each line in both directions. Nothing beneath or above knows that it is watched."""

    def __init__(self, inner: Channel, note: Callable[[str], None]) -> None:
        self._inner = inner
        self._note = note
        # The pieces of a line that has no end yet.
        self._begun: dict[str, list[bytes]] = {">": [], "<": []}

    async def read(self) -> bytes:
        """As the channel beneath; see :meth:`Channel.read`."""
        chunk = await self._inner.read()
        if chunk:
            self._take(">", chunk)
        else:
            self._finish_line(">", b"")  # FR-15: the last line may lack its end
        return chunk

    def write(self, data: bytes) -> None:
        """As the channel beneath; see :meth:`Channel.write`."""
        self._take("<", data)
        self._inner.write(data)

    def drain(self) -> Coroutine[Any, Any, None]:
        """As the channel beneath; see :meth:`Channel.drain`."""
        return self._inner.drain()

    def flush(self) -> Coroutine[Any, Any, None]:
        """As the channel beneath; see :meth:`Channel.flush`."""
        return self._inner.flush()

    def close_write(self) -> Coroutine[Any, Any, None]:
        """As the channel beneath; see :meth:`Channel.close_write`."""
        return self._inner.close_write()

    def close(self) -> Coroutine[Any, Any, None]:
        """As the channel beneath; see :meth:`Channel.close`."""
        return self._inner.close()

    @property
    def buffered(self) -> int:
        """As the channel beneath."""
        return self._inner.buffered

    @property
    def description(self) -> str:
        """As the channel beneath."""
        return self._inner.description

    def _take(self, direction: str, data: bytes) -> None:
        first, *lines = data.split(b"\n")
        if lines:
            self._finish_line(direction, first)
            *lines, first = lines
            for line in lines:
                self._finish_line(direction, line)
        self._begun[direction].append(first)

    def _finish_line(self, direction: str, end: bytes) -> None:
        line = b"".join([*self._begun[direction], end])
        self._begun[direction].clear()
        if line:
            self._note(f"[TRACE] {direction} {line.decode(errors='backslashreplace')}\n")


def traced(channel: Channel, wanted: str | None, to_stderr: Callable[[str], None]) -> Channel:
    """The channel, watched if that is wanted: ``1`` for stderr, else the name of a file that is appended to.

    Raises:
        LocalProtocolError: The file was named by the program and cannot be written. If the environment names such a file, stderr
            says so, and the server serves on: whoever set it wants to see, not to break.
    """
    asked = wanted or os.environ.get("TWOPIPES_TRACE")
    if not asked or asked == "0":
        return channel
    if asked == "1":
        return TracedChannel(channel, to_stderr)
    try:
        # In whole lines at the end of the file, so that processes and connections may share it. Closed with the process.
        file = open(asked, "a", encoding="utf-8", buffering=1)  # noqa: PTH123, SIM115 - pathlib costs every start; held by the channel
    except OSError as error:
        reason = f"the trace cannot be written to {asked}: {error.strerror or error}"
        if wanted:
            raise LocalProtocolError(reason) from error
        to_stderr(f"Error: {reason}\n")
        return channel

    def append(text: str) -> None:
        with suppress(OSError, ValueError):  # a full disk is no reason to stop serving
            file.write(text)

    return TracedChannel(channel, append)
