"""A channel over two pipes: the stdout and the stdin of a child, seen from its parent."""

from __future__ import annotations

import os
import sys
from functools import partial

from twopipes._channels.base import HIGH_WATER, LOW_WATER
from twopipes._channels.descriptor import DescriptorSink, DescriptorSource
from twopipes._channels.halves import Sink, Source, TwoHalves
from twopipes._channels.threads import ThreadSink, ThreadSource


class PipeChannel(TwoHalves):
    """Reads one pipe and writes another. It owns both descriptors and closes them.

    Our end of a child's pipe is an open file description that no one else uses, so it is made non-blocking. On Windows an event
    loop cannot watch a pipe; there, two daemon threads do the work.

    Args:
        read_fd: The descriptor to read, such as a child's stdout.
        write_fd: The descriptor to write, such as a child's stdin.
        description: For error messages; the descriptor numbers by default.
        by_threads: Use blocking calls in daemon threads instead of the event loop. Always so on Windows.
        high_water: Bytes in the buffer above which drain() waits.
        low_water: Bytes in the buffer at which it continues.

    Attributes:
        is_threaded: Whether threads do the work.
    """

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        *,
        description: str | None = None,
        by_threads: bool = sys.platform == "win32",
        high_water: int = HIGH_WATER,
        low_water: int = LOW_WATER,
    ) -> None:
        description = description or f"pipes fd {read_fd} and {write_fd}"
        close_read, close_write = partial(os.close, read_fd), partial(os.close, write_fd)
        self.is_threaded = by_threads or sys.platform == "win32"
        source: Source
        sink: Sink
        water = (high_water, low_water)
        if by_threads or sys.platform == "win32":
            source = ThreadSource(description, read_fd, receive=partial(os.read, read_fd), release=close_read)
            sink = ThreadSink(description, write_fd, send=partial(os.write, write_fd), release=close_write, water=water)
        else:
            os.set_blocking(read_fd, False)
            os.set_blocking(write_fd, False)
            source = DescriptorSource(description, read_fd, release=close_read)
            sink = DescriptorSink(description, write_fd, release=close_write, water=water)
        super().__init__(source, sink, description)

    @property
    def unread(self) -> int | None:
        """How many of the written bytes the peer has not read; ``None`` if the system does not report it."""
        return self._sink.unread

    def close_read(self) -> None:
        """Close the read end and keep the write end: the peer's next write raises a broken pipe.

        A waiting read raises :class:`twopipes.ChannelClosed`. If a thread reads, the pipe stays open until it gets its next bytes.
        """
        self._source.close()


def pipe_pair(
    *, by_threads: bool = sys.platform == "win32", high_water: int = HIGH_WATER, low_water: int = LOW_WATER
) -> tuple[PipeChannel, PipeChannel]:
    """Return two channels connected by two pipes of the system: what one writes, the other reads. See :class:`PipeChannel`."""
    there_read, there_write = os.pipe()
    try:
        back_read, back_write = os.pipe()
    except OSError:
        os.close(there_read)
        os.close(there_write)
        raise
    return (
        PipeChannel(back_read, there_write, by_threads=by_threads, high_water=high_water, low_water=low_water),
        PipeChannel(there_read, back_write, by_threads=by_threads, high_water=high_water, low_water=low_water),
    )
