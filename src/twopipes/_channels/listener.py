"""A listening socket and its connections: one task per connection, isolated from the others."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, Self

from twopipes._channels.base import Channel
from twopipes._channels.fork import in_forked_children, point_at_null
from twopipes._channels.halves import TwoHalves
from twopipes._channels.socket_channel import SocketChannel
from twopipes._channels.unix_socket_path import Placed

# Connections accepted in one go, before the loop serves the existing ones.
ACCEPTED_AT_ONCE = 16
# Seconds without accepting after the system had no descriptor left. Otherwise the pending connection would wake the loop at once.
PAUSE = 0.5
# Errors of accept() that concern one connection, which is gone again, and not the listening socket.
_GONE_BEFORE_ACCEPTED = {errno.ECONNABORTED, errno.EPROTO, errno.EINTR, errno.EPERM}


class Acceptor(Protocol):
    """Accepts connections where a socket cannot: a named pipe of Windows."""

    async def accept(self) -> TwoHalves:
        """Return the next connection. Raises ``OSError`` if the system cannot accept one."""

    def close(self) -> None:
        """Stop accepting."""


class Listener:
    """A listening socket and its connections.

    Each connection has its own task. An exception in it is reported and ends only that connection (SD-08); its channel is closed
    when its task ends. Closing the listener ends all of them; see :meth:`close`.

    Made by ``listen_unix`` and ``listen_tcp`` of :mod:`.sockets`. ``async with listener:`` closes it at the end of the block.

    Attributes:
        address: Its address: ``unix:/run/x.sock`` or ``tcp 127.0.0.1:9000``.
        port: The TCP port, even if 0 was requested; ``None`` for a Unix socket.
    """

    def __init__(
        self,
        sock: socket.socket | Acceptor,
        address: str,
        on_connect: Callable[[Channel], Awaitable[None]],
        *,
        on_error: Callable[[Exception], None] | None = None,
        placed: Placed | None = None,
        port: int | None = None,
    ) -> None:
        self.address = address
        self.port = port
        self._sock = sock
        if isinstance(sock, socket.socket):
            self._no_longer_in_forks = in_forked_children(partial(point_at_null, sock.fileno()))
            sock.setblocking(False)
        self._on_connect = on_connect
        self._on_error = on_error
        self._placed = placed
        self._loop = asyncio.get_running_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._resume: asyncio.TimerHandle | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._accept_from_now_on()

    async def close(self, *, cancel_connections: bool = True) -> None:
        """Stop accepting, close the listening socket, remove its file, and end the connections.

        Returns when every connection has ended. The handler of a connection may call it and is then not waited for. Cancelling is
        safe: the listening socket is closed by then, and a second call continues to wait.

        Args:
            cancel_connections: Cancel the running connections. With False they run to their own end; use a timeout around the call.
        """
        if not self._closed.is_set():
            self._closed.set()
            self._stop_accepting()
            if isinstance(self._sock, socket.socket):
                self._no_longer_in_forks()
            self._sock.close()
            if self._placed is not None:
                self._placed.remove()
        others = self._connections - {asyncio.current_task()}
        if cancel_connections:
            for task in others:
                task.cancel()
        if self._accepting is not None:
            others.add(self._accepting)
        if others:
            await asyncio.wait(others)

    async def wait_closed(self) -> None:
        """Wait until the listener is closed, for a program that only serves."""
        await self._closed.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _accept_from_now_on(self) -> None:
        self._resume = None
        if sys.platform == "win32" or not isinstance(self._sock, socket.socket):
            self._accepting = self._loop.create_task(self._accept_by_task())
        else:
            # Not the loop's sock_accept: cancelling it can lose a connection that was already accepted.
            self._loop.add_reader(self._sock, self._accept)

    def _stop_accepting(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
        if self._accepting is not None:
            self._accepting.cancel()
        if sys.platform != "win32" and isinstance(self._sock, socket.socket):
            self._loop.remove_reader(self._sock)

    def _accept(self) -> None:
        listening = self._sock
        assert isinstance(listening, socket.socket)
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, _peer = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _GONE_BEFORE_ACCEPTED:
                    continue
                self._loop.remove_reader(listening)
                self._resume = self._loop.call_later(PAUSE, self._accept_from_now_on)
                self._report(error)
                return
            self._serve(sock)

    async def _accept_by_task(self) -> None:
        while True:
            try:
                if isinstance(self._sock, socket.socket):
                    sock, _peer = await self._loop.sock_accept(self._sock)
                    self._serve(sock)
                else:
                    self._serve_channel(await self._sock.accept())
            except OSError as error:
                if error.errno not in _GONE_BEFORE_ACCEPTED:
                    self._report(error)
                    await asyncio.sleep(PAUSE)

    def _serve(self, sock: socket.socket) -> None:
        try:
            channel = SocketChannel(sock, f"connection to {self.address}")
        except OSError as error:
            # The connection was reset before it could be set up.
            sock.close()
            self._report(error)
            return
        self._serve_channel(channel)

    def _serve_channel(self, channel: TwoHalves) -> None:
        task = self._loop.create_task(self._run(channel), name=f"twopipes {channel.description}")
        self._connections.add(task)

        # A callback, because a task that is cancelled before its first step never enters its coroutine.
        def ended(task: asyncio.Task[None]) -> None:
            self._connections.discard(task)
            channel.close_now()

        task.add_done_callback(ended)

    async def _run(self, channel: Channel) -> None:
        try:
            await self._on_connect(channel)
        except Exception as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        if self._on_error is not None:
            self._on_error(error)
        else:
            self._loop.call_exception_handler({"message": f"Error while serving {self.address}", "exception": error})
