"""What the relay and the commands send to the daemon: one line of JSON, and the daemon's reply, one line as well.

After a ``serve`` request, and after the reply to it, the connection carries the lines of MCP.
"""

from __future__ import annotations

import json
import os
import sys
import time

if sys.platform == "win32":
    from twopipes._channels.named_pipe import NamedPipe

    Connection = NamedPipe
else:
    import socket

    Connection = socket.socket

TYPE_CHECKING = False  # importing typing would slow down the start of the relay
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Bytes. Linux limits arguments and environment to 2 MB by default; escapes in JSON may triple that.
MAX_LINE = 8 * 1024 * 1024
READ_SIZE = 64 * 1024


class DaemonError(Exception):
    """The daemon cannot be reached or started, or refused a request. The message says why, and what to do."""


class DaemonGone(DaemonError):
    """The daemon closed the connection before it replied."""


def serve_request(argv: list[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request to serve a command as this process would run it."""
    return {
        "request": "serve",
        "argv": argv,
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
        "options": dict(options),
        "pid": os.getpid(),
        "host": os.getppid(),
    }


def exchange(sock: Connection, request: Mapping[str, Any], *, timeout: float, first: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Send a request, and ``first`` after it. Return the reply, and the bytes that follow it.

    Raises:
        DaemonGone: The connection ended before the reply.
        DaemonError: The daemon refused the request, or did not reply within ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    try:
        sock.settimeout(timeout)
        sock.sendall(json.dumps(request).encode() + b"\n" + first)
        line, rest = _read_line(sock, deadline)
    except TimeoutError:
        raise DaemonError(f"the daemon did not reply within {timeout:g} s; end its process") from None
    except OSError as error:
        raise DaemonGone(f"the connection to the daemon broke: {error.strerror or error}") from error
    sock.settimeout(None)
    try:
        reply = json.loads(line)
    except ValueError:
        raise DaemonError(f"the daemon sent an invalid reply: {line[:200]!r}") from None
    if "error" in reply:
        raise DaemonError(reply["error"])
    return reply, rest


def _read_line(sock: Connection, deadline: float) -> tuple[bytes, bytes]:
    data = b""
    while b"\n" not in data:
        sock.settimeout(max(deadline - time.monotonic(), 0.001))
        chunk = sock.recv(READ_SIZE)
        if not chunk:
            raise DaemonGone("the daemon closed the connection before it replied")
        data += chunk
        if len(data) > MAX_LINE:
            raise DaemonError(f"the daemon sent a reply of more than {MAX_LINE} bytes")
    line, _, rest = data.partition(b"\n")
    return line, rest


def wait_for_close(sock: Connection, timeout: float) -> bool:
    """Wait until the daemon closes the connection. Return whether it did so in time."""
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            if not sock.recv(READ_SIZE):
                return True
        except TimeoutError:
            return False
        except OSError:
            return True
    return False
