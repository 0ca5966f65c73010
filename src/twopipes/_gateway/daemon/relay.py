"""The process in a host's configuration: it copies bytes between the host and the daemon, and ends with either of them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

from twopipes._gateway.daemon.messages import READ_SIZE, Connection, serve_request
from twopipes._gateway.daemon.place import socket_path
from twopipes._gateway.daemon.start import log_path, open_session

if sys.platform == "win32":
    from twopipes._process.windows_relay import wait_for_exit as wait_for_exit_of_parent
    from twopipes._process.windows_relay import write_all, write_stderr
else:
    import select

    from twopipes._process.relay import open_null_above_standard_streams, wait_for_exit_of_parent, write_all, write_stderr

TYPE_CHECKING = False  # importing typing would slow down the start of the relay
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Seconds for running calls after the host has closed our stdin. The daemon ends the session earlier, unless it does not respond.
LINGER = 10.0
# Seconds between two looks at the parent before the first message.
POLL = 1.0
# No parent in this pid namespace (0), or init (1), which does not exit.
IMMORTAL = 1
LOST = (
    "Error: the daemon of twopipes keep --share (process {pid}) ended, so this session is over. Restart the server in the host, "
    "which starts a new daemon. If the daemon crashed, the reason is in {log}\n"
)


def relay(argv: list[str], options: Mapping[str, Any]) -> int:
    """Serve a command to the host of this process through the daemon. Return the exit code.

    Raises:
        DaemonError: The daemon cannot be started, or refused to serve the command.
        OSError: The folder of the socket cannot be used.
    """
    host = os.getppid()
    if sys.platform != "win32":
        open_null_above_standard_streams()  # the socket must not get the number of a closed stream
    # A signal ends this process at once; the daemon sees that the connection is closed.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A host that only starts the process needs no server yet. The daemon decides by the first message which server it shares.
    first = _wait_for_input(host)
    if not first:
        return 0
    sock, reply, early = open_session(serve_request(argv, options), first)
    if not copy(sock, early, host):
        write_stderr(LOST.format(pid=reply["pid"], log=log_path(socket_path())))
        return 1
    return 0


def copy(sock: Connection, early: bytes, host: int) -> bool:
    """Copy in both directions until one side ends. Return False if it was the daemon.

    Each direction has a thread that only reads and writes, so neither waits for the other, and backpressure is passed on.
    """
    ended = threading.Event()
    threading.Thread(target=_copy_input, args=(sock, ended), daemon=True).start()
    if host > IMMORTAL and sys.platform != "win32":  # there it runs already
        threading.Thread(target=_watch_host, args=(host,), daemon=True).start()
    data = early or _receive(sock)
    while data:
        if not write_all(1, data):
            return True
        data = _receive(sock)
    return ended.is_set()


def _copy_input(sock: Connection, ended: threading.Event) -> None:
    try:
        while data := _read_input():
            sock.sendall(data)
    except OSError:
        return  # the daemon ended; the other direction reports it
    ended.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
    time.sleep(LINGER)
    os._exit(0)


if sys.platform == "win32":

    def _wait_for_input(host: int) -> bytes:
        """Return the first bytes of the host, or nothing at EOF. If the host exits, this process does."""
        threading.Thread(target=_watch_host, args=(host,), daemon=True).start()
        return _read_input()

    def _read_input() -> bytes:
        try:
            return os.read(0, READ_SIZE)
        except OSError:
            return b""

else:

    def _wait_for_input(host: int) -> bytes:
        """Return the first bytes of the host, or nothing at EOF or when the host has exited."""
        # Without a thread, because the start of the daemon forks.
        poll = select.poll()
        poll.register(0, select.POLLIN)
        while not poll.poll(POLL * 1000):
            if host > IMMORTAL and os.getppid() != host:
                return b""
        return _read_input()

    def _read_input() -> bytes:
        while True:
            try:
                return os.read(0, READ_SIZE)
            except BlockingIOError:  # another process that shares the descriptor made it non-blocking
                poll = select.poll()
                poll.register(0, select.POLLIN)
                poll.poll()
            except OSError:
                return b""  # a terminal that is gone, for example


def _watch_host(host: int) -> None:
    # EOF does not arrive while another process holds the other end of our stdin.
    wait_for_exit_of_parent(host)
    os._exit(0)


def _receive(sock: Connection) -> bytes:
    try:
        return sock.recv(READ_SIZE)
    except ConnectionError:
        return b""
