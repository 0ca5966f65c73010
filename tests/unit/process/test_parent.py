"""The death of the process that launched us, with real processes."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from twopipes._process.parent import watch_parent
from unit.channels.joined import blocked, nothing_left_behind, outcome, run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX processes")]

# Starts the watcher and waits to be killed. The watcher holds its stdin pipe as well.
MIDDLE = """
import subprocess, sys
report, way = int(sys.argv[2]), sys.argv[3]
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(report), way], pass_fds=[report])
sys.stdin.read()
"""

# Reports its process id, then the death of its parent. The timeout only ends it if a test fails.
WATCHER = """
import asyncio, os, sys
from twopipes._process.parent import watch_parent
report, parent = int(sys.argv[1]), os.getppid()
if sys.argv[2] == "polling":
    del os.pidfd_open

async def main():
    async with asyncio.timeout(60):
        watching = asyncio.create_task(watch_parent(poll=0.01))
        await asyncio.sleep(0)
        os.write(report, b"%d watches\\n" % os.getpid())
        assert await watching == parent
        os.write(report, b"orphaned\\n")

asyncio.run(main())
"""


@contextmanager
def started(way):
    """A middle process, the report of the watcher that it started, and the end of the pipe that keeps both waiting."""
    read_end, write_end = os.pipe()
    middle = subprocess.Popen(
        [sys.executable, "-c", MIDDLE, WATCHER, str(write_end), way], stdin=subprocess.PIPE, pass_fds=[write_end]
    )
    os.close(write_end)
    watcher = None
    try:
        with os.fdopen(read_end, "rb") as report, middle:
            pid, word = report.readline().split()
            assert word == b"watches"
            watcher = int(pid)
            yield middle, report
            # EOF of the report means that the watcher has exited: no other process holds the pipe.
            assert report.read() == b""
            watcher = None
    finally:
        middle.kill()
        if watcher is not None:
            with suppress(ProcessLookupError):
                os.kill(watcher, signal.SIGKILL)


@pytest.mark.parametrize("way", ["pidfd", "polling"])
def test_the_death_of_the_parent_is_noticed_while_another_process_holds_the_pipe(way):
    with started(way) as (middle, report):
        middle.kill()
        assert report.readline() == b"orphaned\n"
        # Our end of its standard input is open all the time.
        assert not middle.stdin.closed


@pytest.mark.parametrize("way", ["pidfd", "polling"])
def test_a_parent_that_exits_is_noticed(way):
    with started(way) as (middle, report):
        middle.stdin.close()
        assert report.readline() == b"orphaned\n"


def refuse(*_):
    raise PermissionError(1, "Operation not permitted")


@pytest.fixture(params=["pidfd", "polling"])
def either_way(request, monkeypatch):
    if request.param == "polling":
        # As in a sandbox.
        monkeypatch.setattr(os, "pidfd_open", refuse)


def test_a_parent_that_had_ended_before_is_noticed_at_once(either_way):
    with subprocess.Popen([sys.executable, "-c", ""]) as former:
        pass

    async def body():
        with nothing_left_behind():
            assert await watch_parent(former.pid) == former.pid

    run(body())


def test_a_process_that_is_no_longer_the_parent_counts_as_dead(either_way):
    async def body():
        with nothing_left_behind():
            assert await watch_parent(os.getpid()) == os.getpid()

    run(body())


def test_cancelling_leaves_nothing_behind(either_way):
    async def body():
        with nothing_left_behind():
            watching = await blocked(watch_parent())
            watching.cancel()
            assert isinstance(await outcome(watching), asyncio.CancelledError)

    run(body())


@pytest.mark.parametrize("pid", [0, 1])
def test_init_is_not_watched(pid, monkeypatch):
    monkeypatch.setattr(os, "getppid", lambda: pid)

    async def body():
        monkeypatch.setattr(os, "pidfd_open", None)  # not before: the event loop of Python 3.14 tries it
        watching = await blocked(watch_parent())
        watching.cancel()
        assert isinstance(await outcome(watching), asyncio.CancelledError)

    run(body())
