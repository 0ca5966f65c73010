"""Our own standard input and standard output as one channel, whatever the host connected them to.

Hosts connect pipes, but also socket pairs (Node, Bun), regular files, terminals and ``/dev/null``. Whether a descriptor blocks
is a property of the *open file description*, which other processes may share: the shell that owns the terminal, or our own
stderr after ``2>&1``. So a shared description is made non-blocking only if there is no other way:

================================ =====================================================================================
descriptor                       how it is used
================================ =====================================================================================
a socket                         by the event loop; each call has a non-blocking flag, and the description is unchanged
an anonymous pipe, on Linux      by the event loop, through our own description opened from ``/proc/self/fd``
any other pipe                   by the event loop; made non-blocking, and restored when it is closed
a file, a terminal, a device     by a daemon thread that blocks (see :mod:`twopipes._channels.threads`)
anything, on Windows             by a daemon thread that blocks
================================ =====================================================================================

An event loop cannot watch a regular file or ``/dev/null``, and a terminal is always shared. A named pipe keeps its description
because Linux never reports EOF to a description that was opened after the last writer had closed the pipe.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial

from twopipes._channels.base import HIGH_WATER, LOW_WATER, mode_of
from twopipes._channels.descriptor import DescriptorSink, DescriptorSource
from twopipes._channels.halves import Sink, Source, TwoHalves


def open_stdio(
    stdin_fd: int = 0, stdout_fd: int = 1, *, owned: bool = False, high_water: int = HIGH_WATER, low_water: int = LOW_WATER
) -> TwoHalves:
    """Return a channel that reads ``stdin_fd`` and writes ``stdout_fd``.

    It works on duplicates, so closing it is always safe: the descriptors passed in stay open. So a peer behind a *pipe* reads EOF
    only when the last copy is closed, including the process's own descriptor 1; behind a socket it does at ``close_write()``. Pass
    private duplicates with ``owned=True`` to control EOF.

    Args:
        stdin_fd: The descriptor to read.
        stdout_fd: The descriptor to write.
        owned: Take ownership of both descriptors: they are closed once their duplicates exist.
        high_water: Bytes in the buffer above which drain() waits.
        low_water: Bytes in the buffer at which it continues.

    Raises:
        ChannelClosed: One of the descriptors is not open.
    """
    source_kind, sink_kind = _kind_of(stdin_fd, "standard input"), _kind_of(stdout_fd, "standard output")
    source = _open_source(stdin_fd, source_kind)
    try:
        sink = _open_sink(stdout_fd, sink_kind, (high_water, low_water))
    except BaseException:
        source.close()
        raise
    if owned:
        for fd in {stdin_fd, stdout_fd}:
            os.close(fd)
    return TwoHalves(source, sink, f"stdio ({source_kind} fd {stdin_fd}, {sink_kind} fd {stdout_fd})")


def _kind_of(fd: int, role: str) -> str:
    mode = mode_of(fd, role)
    if stat.S_ISSOCK(mode):
        return "socket"
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISREG(mode):
        return "file"
    return "terminal" if os.isatty(fd) else "device"


def _open_source(fd: int, kind: str) -> Source:
    description = f"{kind} fd {fd}"
    if sys.platform != "win32":
        if kind == "socket":
            sock = _duplicate_socket(fd)
            # A flag of the call, instead of the flag of the shared description.
            return DescriptorSource(
                description, sock.fileno(), release=sock.close, receive=lambda size: sock.recv(size, socket.MSG_DONTWAIT)
            )
        if kind == "pipe":
            private, release = _nonblocking_pipe(fd, os.O_RDONLY)
            return DescriptorSource(description, private, release=release)
    from twopipes._channels.threads import ThreadSource  # not needed for a pipe or a socket, as most hosts use

    private = os.dup(fd)
    receive = partial(_read_terminal, private) if kind == "terminal" else partial(os.read, private)
    return ThreadSource(description, private, receive=receive, release=partial(os.close, private))


def _open_sink(fd: int, kind: str, water: tuple[int, int]) -> Sink:
    description = f"{kind} fd {fd}"
    if sys.platform != "win32":
        if kind == "socket":
            sock = _duplicate_socket(fd)

            def send(piece: bytes | memoryview) -> int:
                return sock.send(piece, socket.MSG_DONTWAIT)

            def gather(pieces: Sequence[memoryview]) -> int:
                return sock.sendmsg(pieces, (), socket.MSG_DONTWAIT)

            return DescriptorSink(
                description,
                sock.fileno(),
                release=sock.close,
                shut=partial(sock.shutdown, socket.SHUT_WR),
                send=send,
                gather=gather,
                water=water,
            )
        if kind == "pipe":
            private, release = _nonblocking_pipe(fd, os.O_WRONLY)
            return DescriptorSink(description, private, release=release, water=water)
    from twopipes._channels.threads import ThreadSink  # as above

    private = os.dup(fd)
    return ThreadSink(description, private, send=partial(os.write, private), release=partial(os.close, private), water=water)


def _duplicate_socket(fd: int) -> socket.socket:
    private = os.dup(fd)
    try:
        sock = socket.socket(fileno=private)
    except BaseException:
        os.close(private)
        raise
    if sock.gettimeout() is not None:
        # socket.setdefaulttimeout() is meant for the program's own sockets. With a timeout every call would wait.
        sock.settimeout(None)
    return sock


if sys.platform != "win32":

    def _nonblocking_pipe(fd: int, access: int) -> tuple[int, Callable[[], None]]:
        """Return a non-blocking descriptor of the same pipe, and a function that closes it."""
        path = f"/proc/self/fd/{fd}"
        try:
            if os.readlink(path).startswith("pipe:"):
                private = os.open(path, access | os.O_NONBLOCK)
                return private, partial(os.close, private)
        except OSError:
            # No /proc (macOS, a sandbox), or the pipe was created by another user and may not be opened again.
            pass
        private = os.dup(fd)
        if not os.get_blocking(private):
            return private, partial(os.close, private)
        os.set_blocking(private, False)

        def restore() -> None:
            os.set_blocking(private, True)
            os.close(private)

        return private, restore


def _read_terminal(fd: int, size: int) -> bytes:
    try:
        return os.read(fd, size)
    except OSError as error:
        # A terminal that was hung up returns an error instead of EOF.
        if error.errno == errno.EIO:
            return b""
        raise
