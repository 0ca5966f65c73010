"""A channel over one connected stream socket, Unix or TCP."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from functools import partial

from twopipes._channels.base import HIGH_WATER, LOW_WATER
from twopipes._channels.descriptor import DescriptorSink, DescriptorSource
from twopipes._channels.halves import Sink, Source, TwoHalves
from twopipes._channels.threads import ThreadSink, ThreadSource


class SocketChannel(TwoHalves):
    """A channel over a connected stream socket, which it owns and closes.

    Args:
        sock: A connected stream socket.
        description: For error messages, such as ``unix:/run/x.sock``.
        by_threads: Use blocking calls in daemon threads instead of the event loop. Always so on Windows.
        high_water: Bytes in the buffer above which drain() waits.
        low_water: Bytes in the buffer at which it continues.
    """

    def __init__(
        self,
        sock: socket.socket,
        description: str,
        *,
        by_threads: bool = sys.platform == "win32",
        high_water: int = HIGH_WATER,
        low_water: int = LOW_WATER,
    ) -> None:
        source: Source
        sink: Sink
        if sock.family in {socket.AF_INET, socket.AF_INET6}:
            # A message is complete when it is written. Nagle's algorithm would delay every response.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        water = (high_water, low_water)
        shut = partial(sock.shutdown, socket.SHUT_WR)
        if by_threads or sys.platform == "win32":
            sock.setblocking(True)
            # Each thread closes its own duplicate when it ends, so neither can use a number that was reused.
            other = sock.dup()
            wake = partial(_shut_both, sock)
            source = ThreadSource(description, sock.fileno(), receive=sock.recv, release=sock.close, wake=wake)
            sink = ThreadSink(description, other.fileno(), send=other.send, release=other.close, shut=shut, wake=wake, water=water)
        else:
            sock.setblocking(False)
            # Reading and writing the descriptor is faster than the methods of the socket. The source closes the socket.
            source = DescriptorSource(description, sock.fileno(), release=sock.close)
            sink = DescriptorSink(description, sock.fileno(), release=lambda: None, shut=shut, water=water)
        super().__init__(source, sink, description)


def _shut_both(sock: socket.socket) -> None:
    # If it is not connected any more, no thread blocks on it.
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
