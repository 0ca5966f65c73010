"""Let the commands of ``keep`` find this process. What they need is loaded when the first of them connects: most never do."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from twopipes._channels.base import Channel
from twopipes._channels.listener import Listener
from twopipes._channels.unix_socket_path import Placed, bind_privately
from twopipes._gateway.backs import Backs
from twopipes._gateway.daemon.place import make_folder, own_socket_path, remove_dead_sockets

# Connections that may wait to be accepted.
BACKLOG = 8


if sys.platform == "win32":
    from twopipes._channels.sockets import listen_unix

    @asynccontextmanager
    async def listed(argv: Sequence[str], backs: Backs) -> AsyncIterator[None]:
        """Answer the commands while the block runs. A host does not need them, so this never fails."""
        started = time.time()

        async def accept(channel: Channel) -> None:
            from twopipes._gateway.daemon.own_server import OwnControl  # see the head of this file

            await OwnControl(argv, backs, started).accept(channel)

        try:
            remove_dead_sockets(make_folder())
            listener = await listen_unix(own_socket_path(), accept)
        except (OSError, RuntimeError):
            yield
            return
        async with listener:
            yield

else:

    @asynccontextmanager
    async def listed(argv: Sequence[str], backs: Backs) -> AsyncIterator[None]:
        """Answer the commands while the block runs. A host does not need them, so this never fails."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            remove_dead_sockets(make_folder())
            placed = bind_privately(sock, own_socket_path(), backlog=BACKLOG)
        except (OSError, RuntimeError):
            sock.close()
            yield
            return
        listed = _Listed(sock, placed, argv, backs)
        try:
            yield
        finally:
            await listed.close()

    class _Listed:
        """A listening socket that becomes a :class:`Listener` at its first connection."""

        def __init__(self, sock: socket.socket, placed: Placed, argv: Sequence[str], backs: Backs) -> None:
            self._sock = sock
            self._placed = placed
            self._argv = argv
            self._backs = backs
            self._started = time.time()
            self._listener: Listener | None = None
            self._loop = asyncio.get_running_loop()
            sock.setblocking(False)
            self._loop.add_reader(sock, self._listen)

        def _listen(self) -> None:
            from twopipes._gateway.daemon.control_server import log_error  # see the head of this file
            from twopipes._gateway.daemon.own_server import OwnControl  # likewise

            self._loop.remove_reader(self._sock)
            control = OwnControl(self._argv, self._backs, self._started)
            self._listener = Listener(self._sock, str(self._placed.path), control.accept, on_error=log_error, placed=self._placed)

        async def close(self) -> None:
            """Stop listening, and remove the socket."""
            if self._listener is not None:
                await self._listener.close()
                return
            self._loop.remove_reader(self._sock)
            self._sock.close()
            self._placed.remove()
