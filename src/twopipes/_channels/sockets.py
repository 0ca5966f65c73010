"""Channels over Unix and TCP sockets: connect and listen.

The bytes are the same as over stdio, one message per line (FR-11, FR-12).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from twopipes._channels.base import HIGH_WATER, LOW_WATER, Channel
from twopipes._channels.listener import Listener
from twopipes._channels.socket_channel import SocketChannel
from twopipes._channels.unix_socket_path import bind_privately
from twopipes.errors import ChannelBroken, ListenFailed, LocalProtocolError

if sys.platform == "win32":
    from twopipes._channels.named_pipe import open_pipe
    from twopipes._channels.named_pipe_channel import NamedPipeChannel, PipeAcceptor

T = TypeVar("T")
OnConnect = Callable[[Channel], Awaitable[None]]
OnError = Callable[[Exception], None]

# Bytes of a Unix socket's path, including the terminating zero: sun_path on Linux, and on macOS and the BSDs.
UNIX_PATH_LIMIT = 108 if sys.platform == "linux" else 104
# Seconds between two attempts to connect to a Unix socket whose queue is full, and the number of attempts.
QUEUE_PAUSE = 0.02
QUEUE_ATTEMPTS = 250
# Connections that may wait to be accepted. A host opens only a few.
BACKLOG = 128
MAX_PORT = 65535


async def connect_unix(path: str | os.PathLike[str], *, high_water: int = HIGH_WATER, low_water: int = LOW_WATER) -> Channel:
    """Connect to the Unix socket at ``path``; on Windows, to the named pipe of the server that listens there.

    Raises:
        ChannelBroken: No server listens there, or access is denied; the message says which.
        LocalProtocolError: The path is too long for a Unix socket.
    """
    place = os.fspath(path)
    description = f"unix:{place}"
    try:
        return await _connect_at(place, description, (high_water, low_water))
    except OSError as error:
        raise ChannelBroken(f"cannot connect to {description}: {_explain(error)}") from error


async def _until_accepted(connect: Callable[[], T]) -> T:
    """Try to connect again while the server's queue is full."""
    for _ in range(QUEUE_ATTEMPTS):
        with suppress(BlockingIOError):
            return connect()
        await asyncio.sleep(QUEUE_PAUSE)
    raise OSError(errno.EAGAIN, "the server's queue of pending connections stayed full")


async def connect_tcp(host: str, port: int, *, high_water: int = HIGH_WATER, low_water: int = LOW_WATER) -> SocketChannel:
    """Connect to ``host`` and ``port``, trying the addresses of the host in turn.

    MCP over TCP is neither encrypted nor authenticated: anyone who can reach the port, or read the network traffic, can read and
    send anything. Use it on one machine, or inside a tunnel that adds both.

    Raises:
        ChannelBroken: The name is unknown or no address accepted the connection; the message lists the attempts.
        LocalProtocolError: The port number is invalid.
    """
    failures: list[str] = []
    cause: OSError | None = None
    for family, address in await _resolve_tcp(host, port):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, address)
                return SocketChannel(sock, f"tcp {_name_address(address)}", high_water=high_water, low_water=low_water)
            except BaseException:
                sock.close()
                raise
        except OSError as error:
            failures.append(f"{address[0]}: {_explain(error)}")
            cause = error
    raise ChannelBroken(f"cannot connect to tcp {host}:{port}: {'; '.join(failures)}") from cause


async def listen_unix(
    path: str | os.PathLike[str],
    on_connect: Callable[[Channel], Awaitable[None]],
    *,
    on_error: Callable[[Exception], None] | None = None,
) -> Listener:
    """Listen on a Unix socket at ``path`` that only this user can connect to (mode 0600 from the start).

    On Windows, where Python has none, it is a named pipe, and the file contains its name. A file left behind by a dead server is
    replaced. That of a live one, or another file, is never replaced.
    Closing the listener removes the file if it is still the one created here.

    Args:
        path: The path of the socket.
        on_connect: Awaited for each connection in its own task; the channel is closed when it returns.
        on_error: Called with exceptions of connections, and with failures to accept one. By default the exception handler of
            the event loop gets them.

    Raises:
        ListenFailed: A server listens there, another file is in the way, or the folder is not writable.
        LocalProtocolError: The path is too long for a Unix socket.
    """
    # Absolute, because close() must find it again after a chdir; links are not resolved.
    place = str(Path.cwd() / path)
    try:
        return _listen_at(place, on_connect, on_error)
    except OSError as error:
        if isinstance(error, ListenFailed):
            raise
        raise ListenFailed(f"cannot listen on unix:{place}: {error.strerror or error}") from error


async def listen_tcp(
    port: int,
    on_connect: Callable[[Channel], Awaitable[None]],
    *,
    host: str = "127.0.0.1",
    on_error: Callable[[Exception], None] | None = None,
) -> Listener:
    """Listen on a TCP port of the loopback address, which only this machine can reach.

    Warning:
        MCP over TCP is neither authenticated nor encrypted. With any other ``host``, everyone who can reach that address can use
        the server with the rights of this process, and everyone on the network path can read and change the data. Even on the
        loopback address every user of this machine can connect: on a shared machine use :func:`listen_unix`.

    Args:
        port: The port, or 0 for a free one; :attr:`Listener.port` has the result.
        on_connect: Awaited for each connection in its own task; the channel is closed when it returns.
        host: The address to bind. Set it only if the network is trusted.
        on_error: As for :func:`listen_unix`.

    Raises:
        ListenFailed: The port is in use.
        ChannelBroken: The name is unknown.
        LocalProtocolError: The port number is invalid.
    """
    family, wanted = (await _resolve_tcp(host, port))[0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            # On Windows SO_REUSEADDR would let two servers share a port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            # A restarted server must not wait until the system has forgotten the connections of the last one.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(wanted)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenFailed(f"cannot listen on tcp {host}:{port}: {error.strerror or error}") from error
    bound = sock.getsockname()
    return Listener(sock, f"tcp {_name_address(bound)}", on_connect, on_error=on_error, port=bound[1])


async def _resolve_tcp(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    """Return the addresses of ``host``, at least one, or raise ``ChannelBroken``."""
    if not 0 <= port <= MAX_PORT:
        raise LocalProtocolError(f"tcp {host}:{port}: a port must be a number from 0 to {MAX_PORT}")
    try:
        try:
            # A numeric address needs no resolver, and so no thread of the loop's executor.
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ChannelBroken(f"tcp {host}:{port}: cannot resolve the name: {_explain(error)}") from error
    return [(family, address) for family, _, _, _, address in found]


def _name_address(address: tuple[Any, ...]) -> str:
    """Return ``127.0.0.1:9000`` or ``[::1]:9000``."""
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _explain(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return "the socket file does not exist; is the server running?"
        case ConnectionRefusedError():
            return "connection refused; is the server running?"
        case PermissionError():
            return "permission denied; only the user who created a twopipes socket can use it"
        case _:
            return error.strerror or str(error)


if sys.platform == "win32":

    async def _connect_at(path: str, description: str, water: tuple[int, int]) -> Channel:
        pipe = await _until_accepted(partial(open_pipe, path))
        return NamedPipeChannel(pipe, description, high_water=water[0], low_water=water[1])

    def _listen_at(path: str, on_connect: OnConnect, on_error: OnError | None) -> Listener:
        return Listener(PipeAcceptor(path), f"unix:{path}", on_connect, on_error=on_error)

else:

    async def _connect_at(path: str, description: str, water: tuple[int, int]) -> Channel:
        sock = _make_unix_socket(path)
        try:
            sock.setblocking(False)
            # A Unix socket connects at once or not at all. The loop's sock_connect is not used: if the listener's queue is full,
            # it takes the error for a connection in progress and returns a socket that is not connected.
            await _until_accepted(partial(sock.connect, path))
        except BaseException:
            sock.close()
            raise
        return SocketChannel(sock, description, high_water=water[0], low_water=water[1])

    def _listen_at(path: str, on_connect: OnConnect, on_error: OnError | None) -> Listener:
        sock = _make_unix_socket(path)
        try:
            placed = bind_privately(sock, path, backlog=BACKLOG)
        except OSError:
            sock.close()
            raise
        return Listener(sock, f"unix:{path}", on_connect, on_error=on_error, placed=placed)

    def _make_unix_socket(path: str) -> socket.socket:
        """Create a Unix socket, or raise ``LocalProtocolError`` if the path is too long."""
        size = len(os.fsencode(path))
        if size >= UNIX_PATH_LIMIT:
            raise LocalProtocolError(
                f"unix:{path}: the path has {size} bytes, but a Unix socket allows {UNIX_PATH_LIMIT - 1}; choose a shorter path"
            )
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
