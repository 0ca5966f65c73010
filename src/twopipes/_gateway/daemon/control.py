"""Ask the running daemons of this user: what they run, what their servers have logged, and to stop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from twopipes._gateway.daemon.messages import DaemonError, DaemonGone, exchange, wait_for_close
from twopipes._gateway.daemon.place import socket_paths
from twopipes._gateway.daemon.start import connect

# Seconds. Above the time that a daemon needs to end its servers (daemon.py).
TIMEOUT = 20.0


class Replies(NamedTuple):
    """The replies of the daemons that run, and an error for each that did not reply."""

    replies: list[dict[str, Any]]
    errors: list[str]


def ask_daemons(request: Mapping[str, Any]) -> Replies:
    """Send a request to every daemon of this user on this machine, also to those of other versions.

    Raises:
        OSError: The folder of the sockets cannot be used.
        RuntimeError: The home folder is unknown.
    """
    found = Replies([], [])
    for path in socket_paths():
        try:
            reply = _ask(path, request)
        except DaemonError as error:
            found.errors.append(f"{path}: {error}")
        else:
            if reply is not None:
                found.replies.append(reply)
    return found


def _ask(path: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the reply of the daemon at a path; ``None`` if it is dead or about to end."""
    sock = connect(path, time.monotonic() + TIMEOUT)
    if sock is None:
        return None
    with sock:
        try:
            reply, _ = exchange(sock, request, timeout=TIMEOUT)
        except DaemonGone:
            return None
        if not wait_for_close(sock, TIMEOUT):  # a daemon that stops closes its connections at the end
            raise DaemonError(f"process {reply.get('pid')} did not end the connection within {TIMEOUT:g} s")
        return reply
