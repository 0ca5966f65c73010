"""A host for tests: starts a real server, sends lines to it, and waits for its output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from systems import WINDOWS, WINE

if sys.platform == "win32":
    from processes import windows_processes

EXAMPLES = Path(__file__).parents[2] / "examples"
# Seconds. The limit of every wait; only a hang reaches it, also on a busy machine under Wine.
NET = 110 if WINE else 60
# Bytes per read. Some lines are very long.
BUFFER = 1024 * 1024
# As a host starts it: the server must not inherit the options of this test's own interpreter.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TWOPIPES"))}

# How a host ends a program. Windows has no signals between processes: there it kills.
ENDINGS = ("kill",) if WINDOWS else ("SIGTERM", "SIGINT", "kill")
# The exit code of a program that was killed.
KILLED = 1 if WINDOWS else -9
# How messages say it.
HOW_KILLED = "exit code 1" if WINDOWS else "SIGKILL"

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}


def _tasks_are_eager() -> bool:
    loop = asyncio.new_event_loop()
    loop.close()
    return loop.get_task_factory() is not None


# `nox -s eager` runs the tests and the servers so.
TASKS_ARE_EAGER = _tasks_are_eager()


def meta(**capabilities: Any) -> dict:
    """Return the _meta of a modern request."""
    return {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }


def request(id_: Any, method: str, **params: Any) -> dict:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def call(id_: Any, tool: str, /, **arguments: Any) -> dict:
    """Return a tool call for a legacy session."""
    return request(id_, "tools/call", name=tool, arguments=arguments)


def modern(id_: Any, method: str, /, capabilities: dict | None = None, **params: Any) -> dict:
    """Return a modern request."""
    return request(id_, method, _meta=meta(**(capabilities or {})), **params)


def lines(*messages: dict | str) -> bytes:
    return b"".join((message if isinstance(message, str) else json.dumps(message)).encode() + b"\n" for message in messages)


def text_of(answer: dict) -> str:
    """Return the text of a tool result's first block."""
    return answer["result"]["content"][0]["text"]


class Lines:
    """The lines of a stream, read by a thread so that the writer never blocks."""

    def __init__(self, read_line) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended = False
        self.seen: list[bytes] = []
        self._thread = threading.Thread(target=self._pump, args=(read_line,), daemon=True)
        self._thread.start()

    def _pump(self, read_line) -> None:
        with contextlib.suppress(OSError, ValueError):  # the end of a terminal, or of a connection that was reset
            while line := read_line():
                self._queue.put(line)
        self._queue.put(None)

    def next(self) -> bytes | None:
        """Return the next line, or None at EOF."""
        if self._ended:
            return None
        line = self._queue.get(timeout=NET)
        if line is None:
            self._ended = True
            self._thread.join(NET)
        else:
            self.seen.append(line)
        return line

    def until(self, text: str) -> str:
        """Return the next line that contains the text."""
        while (line := self.next()) is not None:
            if text in line.decode():
                return line.decode()
        raise AssertionError(f"{text!r} never came; these did: {self.seen}")

    def rest(self) -> list[bytes]:
        """Return all lines up to EOF."""
        found = []
        while (line := self.next()) is not None:
            found.append(line)
        return found


class Wire:
    """One side of a connection: sends and receives messages."""

    def __init__(self, send, out: Lines) -> None:
        self._send = send
        self.out = out

    def send(self, *messages: dict | str) -> None:
        self._send(lines(*messages))

    def receive(self) -> dict:
        line = self.out.next()
        assert line is not None, "the server sent nothing more"
        return json.loads(line)

    def receive_response(self, id_: Any) -> dict:
        """Return the next message with this id; skip others."""
        while True:
            message = self.receive()
            if "method" not in message and message.get("id") == id_:
                return message

    def ask(self, message: dict) -> dict:
        self.send(message)
        return self.receive_response(message["id"])

    def initialize(self, **capabilities: Any) -> dict:
        answer = self.ask(INITIALIZE | {"params": INITIALIZE["params"] | {"capabilities": capabilities}})
        self.send(INITIALIZED)
        return answer


class Child(Wire):
    """A running server and both ends of its wire.

    Args:
        command: The command to start.
        wire: What the host connects: ``pipe`` or ``socket``, as Node does.
    """

    def __init__(self, command: list[str], *, wire: str = "pipe", **options: Any) -> None:
        if wire == "socket":
            self._socket, theirs = socket.socketpair()
            self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, **options)
            theirs.close()
            self._file = self._socket.makefile("rb", buffering=BUFFER)
            super().__init__(self._socket.sendall, Lines(self._file.readline))
        else:
            self._socket = None
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, **options
            )
            self._file = os.fdopen(os.dup(self.process.stdout.fileno()), "rb", buffering=BUFFER)
            self.process.stdout.close()
            super().__init__(self._write, Lines(self._file.readline))
        self.err = Lines(self.process.stderr.readline)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.process.stdin.write(rest) :]

    def end_input(self) -> None:
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_WR)
        else:
            self.process.stdin.close()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()

    def end_by(self, ending: str) -> None:
        """End the process in one of the ``ENDINGS``, and expect the exit code of it."""
        if ending == "kill":
            self.kill()
        else:
            self.signal(signal.Signals[ending])
        assert self.wait() == (KILLED if ending == "kill" else 0)

    def stop(self) -> list[dict]:
        """End a server that listens, in the friendliest way of the system, and return the remaining output."""
        self.kill() if WINDOWS else self.signal()
        return self.ended(KILLED if WINDOWS else 0)

    def wait(self) -> int:
        """Wait for the process to exit, and return its exit code."""
        return self.process.wait(NET)

    def finish(self) -> list[dict]:
        """Close stdin, expect exit code 0 without a traceback, and return the remaining output."""
        self.end_input()
        return self.ended()

    def ended(self, code: int = 0) -> list[dict]:
        """Wait for the exit, whatever its cause, and return the remaining output."""
        said = [json.loads(line) for line in self.out.rest()]
        assert self.wait() == code, self.complaints()
        assert "Traceback" not in self.complaints()
        return said

    def ended_by(self, end, *, tracebacks: int) -> list[dict]:
        """As :meth:`ended`, with this number of failures in user code."""
        end()
        said = [json.loads(line) for line in self.out.rest()]
        assert self.wait() == 0, self.complaints()
        assert self.complaints().count("Traceback") == tracebacks
        return said

    def complaints(self) -> str:
        """Return all of stderr after the process has exited, with the line ends of POSIX."""
        self.err.rest()
        return b"".join(self.err.seen).decode().replace("\r\n", "\n")

    def dispose(self) -> None:
        """Kill the process and free everything."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._socket is None:
            self.process.stdin.close()
        self.out.rest()
        self.err.rest()
        self._file.close()
        if self._socket is not None:
            self._socket.close()
        self.process.stderr.close()


class Peer(Wire):
    """A connection to a listening server."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._file = sock.makefile("rb", buffering=BUFFER)
        super().__init__(sock.sendall, Lines(self._file.readline))

    def dispose(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.out.rest()
        self._file.close()
        self.socket.close()


def python(*arguments: Any) -> list[str]:
    return [sys.executable, *map(str, arguments)]


def children_of_this_process() -> set[int]:
    """Return all children, including zombies."""
    if sys.platform == "win32":
        return windows_processes.children_of(os.getpid())
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError):  # a thread that has ended since
            found.update(map(int, path.read_text().split()))
    return found
