"""The end of a child's owner: killed, exited, forked. Each owner is a process of its own, which says the number of its child."""

import os
import select
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import pytest

from processes.children import DEAF, STUBBORN, end
from processes.launching import NET
from twopipes.process import lifeline

OWNER = """
    import asyncio, os, sys, threading
    from twopipes.process.child import Child
    from twopipes.process.command import ServerCommand

    kept = []
    over = threading.Event()

    async def main():
        child = await Child.start(ServerCommand([sys.executable, "-c", sys.argv[1]]))
        kept.append(child)
        said = b""
        while not said.endswith(b"\\n"):
            said += await child.channel.read()
        print(child.pid, flush=True)
        sys.stdin.readline()
        {then}

    {run}
"""


@contextmanager
def owner(then, text, *, run="asyncio.run(main())"):
    program = textwrap.dedent(OWNER.format(then=then, run=run))
    # The child's stderr is a pipe of its owner, so nothing here is held open by it.
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, textwrap.dedent(text)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    pid = None
    try:
        with process:
            pid = int(process.stdout.readline())
            # Becomes readable when the process has ended, whoever its parent is by then.
            fd = os.pidfd_open(pid)
            try:
                process.stdin.write(b"go on\n")
                process.stdin.flush()
                yield process, fd
            finally:
                os.close(fd)
                process.kill()
    finally:
        if pid is not None:
            end(pid)


def has_ended(fd):
    return bool(select.select([fd], [], [], NET)[0])


needs_a_lifeline = pytest.mark.skipif(lifeline._setpriv() is None, reason="this machine has no setpriv that knows --pdeathsig")


@needs_a_lifeline
def test_a_child_that_is_deaf_dies_when_its_owner_is_killed():
    with owner("sys.stdin.read()", DEAF) as (process, child):
        process.kill()
        assert has_ended(child)


def test_a_child_of_a_killed_owner_reads_the_end_of_its_input():
    polite = "print('ready', flush=True)\nimport sys\nsys.stdin.read()"
    with owner("sys.stdin.read()", polite) as (process, child):
        process.kill()
        assert has_ended(child)


def test_a_stubborn_child_does_not_outlive_the_interpreter():
    with owner("return", STUBBORN) as (process, child):
        assert has_ended(child)
        assert process.wait(NET) == 0


def test_an_exit_while_the_loop_runs_in_another_thread_leaves_no_child():
    in_a_thread = "threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start(); over.wait()"
    with owner("over.set(); await asyncio.sleep(600)", STUBBORN, run=in_a_thread) as (process, child):
        assert has_ended(child)
        assert process.wait(NET) == 0


def test_an_unhandled_exception_leaves_no_child():
    with owner("sys.stderr = None; raise SystemExit(5)", STUBBORN) as (process, child):
        assert has_ended(child)
        assert process.wait(NET) == 5


def test_a_fork_of_the_owner_does_not_end_its_children():
    then = """
        if (fork := os.fork()) == 0:
            child.signal(9)
            child.kill_now()
            os._exit(0 if not child.is_gone() else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), child.running, flush=True)
        sys.stdin.read()
    """
    with owner(textwrap.indent(textwrap.dedent(then), " " * 8).strip(), DEAF) as (process, _):
        assert process.stdout.readline() == b"0 True\n"


@needs_a_lifeline
def test_a_thread_that_ends_does_not_take_its_child_along():
    """The kernel means the thread that forked, so there is no lifeline to one that may end."""
    in_a_thread = """
    async def keep():
        thread = threading.Thread(target=asyncio.run, args=(main(),))
        thread.start()
        thread.join()
        print(kept[0]._group.reap(), flush=True)
        sys.stdin.read()
    asyncio.run(keep())
    """
    with owner("return", DEAF, run=textwrap.dedent(in_a_thread).strip().replace("\n", "\n    ")) as (process, _):
        assert process.stdout.readline() == b"False\n"
