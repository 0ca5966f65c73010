"""The process that a client launches as its server. It relays bytes between its pipes and the check, and reports signals.

``python -m twopipes._tools.check.relay_process ADDRESS [--ignore-term] [--grandchild]``, where the address is ``unix:PATH``
or ``tcp:PORT:WORD``.
It knows nothing about the protocol. It exchanges frames with the check: one byte for the kind, four for the length, the data.

To the check: ``H`` hello (pid, word), ``D`` data from stdin, ``E`` end of stdin, ``S`` a signal, ``G`` the pid of a grandchild.
From the check: ``D`` data for stdout, ``R`` data for stderr, ``C`` close stdout, ``X`` exit with this code.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import threading

_READ = 65536
_HEAD = struct.Struct(">cI")


class _Wire:
    def __init__(self, address: str) -> None:
        kind, _, where = address.partition(":")
        self.word = ""
        if kind == "unix" and sys.platform != "win32":
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(where)
        else:
            port, _, self.word = where.partition(":")
            self._socket = socket.create_connection(("127.0.0.1", int(port)))
        self._lock = threading.RLock()

    def send(self, kind: bytes, data: bytes = b"") -> None:
        with self._lock:
            self._socket.sendall(_HEAD.pack(kind, len(data)) + data)

    def receive(self) -> tuple[bytes, bytes] | None:
        head = self._exactly(_HEAD.size)
        if head is None:
            return None
        kind, length = _HEAD.unpack(head)
        data = self._exactly(length)
        return None if data is None else (kind, data)

    def _exactly(self, size: int) -> bytes | None:
        found = bytearray()
        while len(found) < size:
            data = self._socket.recv(size - len(found))
            if not data:
                return None
            found += data
        return bytes(found)


def _listen(wire: _Wire) -> None:
    try:
        while data := os.read(0, _READ):
            wire.send(b"D", data)
        wire.send(b"E")
    except OSError:
        os._exit(1)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _watch_signals(wire: _Wire, *, ignore_term: bool) -> None:
    def handle(number: int, _frame: object) -> None:
        wire.send(b"S", signal.Signals(number).name.encode())
        if number != signal.SIGTERM or not ignore_term:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, handle)


def _start_grandchild(wire: _Wire) -> None:
    import subprocess  # few scenarios need it, and the relay has to start fast

    # It inherits no pipe, and runs for an hour unless it is killed.
    nothing = subprocess.DEVNULL
    words = [sys.executable, "-c", "import time; time.sleep(3600)"]
    grandchild = subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing)
    wire.send(b"G", str(grandchild.pid).encode())


def main(arguments: list[str]) -> int:
    """Relay until the check sends an exit code."""
    address, *options = arguments
    wire = _Wire(address)
    _watch_signals(wire, ignore_term="--ignore-term" in options)
    wire.send(b"H", f"{os.getpid()} {wire.word}".encode())
    if "--grandchild" in options:
        _start_grandchild(wire)
    threading.Thread(target=_listen, args=(wire,), daemon=True).start()
    try:
        while (frame := wire.receive()) is not None:
            kind, data = frame
            if kind == b"X":
                os._exit(int(data))  # immediately: a thread is still reading stdin
            elif kind == b"C":
                os.close(1)
            else:
                _write_all(1 if kind == b"D" else 2, data)
    except OSError:
        pass  # the client stopped reading, or the check has exited
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
