"""The bus between the workers of one main process, for a server without another one: datagrams on Unix sockets."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
from contextlib import suppress
from typing import Final

import msgspec

from twopipes._http.bus import Bus, Deliver, Lost, Missed
from twopipes._http.pending_changes import ChangeMessage, PendingChanges, decode_changes, encode_changes
from twopipes._session.subscriptions import Change
from twopipes.errors import LocalProtocolError

_log = logging.getLogger("twopipes.server.bus")

# Bytes of one datagram: what every system allows.
_MAX_DATAGRAM: Final = 2_000
# Changes in one datagram, unless it would be too large.
_MAX_BATCH: Final = 32
# Datagrams that are received before other tasks have their turn.
_MAX_AT_ONCE: Final = 100
# Seconds between two attempts to send to a worker whose queue is full.
_RETRY: Final = 0.01


class WorkerBus(Bus):
    """Carries changes between workers of one machine.

    Each worker receives on a socket in the folder that the main process made for them. A worker that does not run is left out: it
    has no subscribers. One that does not read for long is notified later, and after 10,000 changes that anything may have changed.

    Args:
        folder: A folder that no other user can open.
        count: How many workers there are.
        index: The number of this worker, from 0.
    """

    def __init__(self, folder: str, count: int, index: int) -> None:
        self._path = _path_in(folder, index)
        self._origin = str(index)
        self._pending = {_path_in(folder, other): PendingChanges() for other in range(count) if other != index}
        self._socket: socket.socket | None = None
        self._sending: asyncio.Handle | None = None

    async def open(self, deliver: Deliver, lost: Lost, missed: Missed) -> None:
        """Receive from the other workers; see :meth:`Bus.open`. This bus is never lost."""
        self._deliver, self._missed = deliver, missed
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # of a worker that has crashed
        self._socket = unix_socket(socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(self._path)
        asyncio.get_running_loop().add_reader(self._socket, self._receive, self._socket)

    def publish(self, change: Change) -> None:
        """Send a change soon, together with others of the same moment."""
        for pending in self._pending.values():
            pending.add(change)
        if self._socket is not None and self._sending is None:
            self._sending = asyncio.get_running_loop().call_soon(self._send)

    @property
    def is_connected(self) -> bool:
        """Always true: the workers are on one machine."""
        return True

    async def close(self) -> None:
        """Send what the other workers can take now, and stop receiving."""
        if self._socket is None:
            return
        self._send()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def _send(self) -> None:
        assert self._socket is not None
        self._sending = None
        # Each of them is asked, also after one that cannot take more.
        is_complete = [_send_all(self._socket, path, pending, self._origin) for path, pending in self._pending.items()]
        if not all(is_complete):
            self._sending = asyncio.get_running_loop().call_later(_RETRY, self._send)

    def _receive(self, receiving: socket.socket) -> None:
        for _ in range(_MAX_AT_ONCE):
            try:
                data = receiving.recv(_MAX_DATAGRAM + 1)
            except BlockingIOError:
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            message = decode_changes(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("ignored a message to this worker that is not a change: %s", error)
            return
        for change in message.changes:
            self._deliver(change)
        if message.has_dropped:
            self._missed()


def unix_socket(kind: socket.SocketKind) -> socket.socket:
    """Create a socket for other workers; there are none on Windows."""
    if sys.platform != "win32":
        return socket.socket(socket.AF_UNIX, kind)
    raise LocalProtocolError("workers need Unix sockets, which Python does not have on Windows; start one process per port")


def _path_in(folder: str, index: int) -> str:
    return os.path.join(folder, f"{index}.bus")


def _send_all(sending: socket.socket, path: str, pending: PendingChanges, origin: str) -> bool:
    """Send what waits for one worker. Return False if it cannot take all of it now."""
    while pending:
        batch, has_dropped, data = _next_datagram(pending, origin)
        try:
            sending.sendto(data, path)
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.ENOBUFS}:
                pending.put_back(batch, has_dropped=has_dropped)
                return False
            # The worker does not run. Its successor starts without subscribers.
    return True


def _next_datagram(pending: PendingChanges, origin: str) -> tuple[list[Change], bool, bytes]:
    count = _MAX_BATCH
    while True:
        batch, has_dropped = pending.take(count)
        data = encode_changes(ChangeMessage(origin, batch, has_dropped))
        if len(data) <= _MAX_DATAGRAM:
            return batch, has_dropped, data
        if len(batch) == 1:  # an address that does not fit
            return [], True, encode_changes(ChangeMessage(origin, [], has_dropped=True))
        pending.put_back(batch, has_dropped=has_dropped)
        count = len(batch) // 2
