"""The process of the daemon: ``python -m twopipes._gateway.daemon SOCKET REPORT``, started by :mod:`.start`."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import time
import traceback
from contextlib import suppress

from twopipes._gateway.daemon.daemon import Daemon
from twopipes._gateway.daemon.kept import open_kept
from twopipes._gateway.daemon.start import READY
from twopipes._process.stderr import StderrTail
from twopipes._server.shutdown import GRACE, LastResort
from twopipes.errors import ListenFailed


class _Log(io.TextIOBase):
    """Replaces ``sys.stderr``: the last lines are kept in memory, for ``twopipes keep logs``."""

    def __init__(self, tail: StderrTail) -> None:
        self._tail = tail

    def write(self, text: str) -> int:
        self._tail.feed(text.encode(errors="backslashreplace"), time.monotonic())
        return len(text)


def main(path: str, report: int) -> int:
    """Run the daemon and return the exit code. What goes wrong before it listens is written to the descriptor ``report``."""
    os.set_inheritable(report, False)
    log = StderrTail()
    crashes, sys.stderr = sys.stderr, _Log(log)
    last_resort = LastResort(meanwhile=lambda: None)  # the watchdog of the servers ends them if it comes to that
    is_listening = False

    def ready() -> None:
        nonlocal is_listening
        is_listening = True
        _report(report, READY)

    async def run() -> None:
        await Daemon(path, open_kept, log).run(last_resort, ready)

    try:
        asyncio.run(run())
    except ListenFailed as error:
        _report(report, str(error).encode())
        return 1
    except BaseException:
        traceback.print_exc(file=crashes)
        if not is_listening:
            _report(report, traceback.format_exc(limit=0).encode())
        return 1
    finally:
        last_resort.call_off_until_exit(GRACE)
    return 0


def _report(report: int, text: bytes) -> None:
    with suppress(OSError):  # the relay was killed meanwhile
        os.write(report, text)
        os.close(report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
