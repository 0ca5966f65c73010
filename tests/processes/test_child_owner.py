"""The end of a child's owner: killed, exited, forked. Each owner is a separate process that prints the number of its child."""

import os
import select
import signal
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from processes.children import DEAF, STUBBORN, end, end_group, group_of, is_running, program
from processes.launching import NET
from processes.tapping import wait_until

OWNER = """
    import asyncio, os, signal, sys, threading
    from twopipes._process.child import Child
    from twopipes._process.command import ServerCommand

    kept = []
    over = threading.Event()

    async def main():
        child = await Child.start(ServerCommand(sys.argv[1:]))
        kept.append(child)
        said = b""
        while not said.endswith(b"\\n"):
            said += await child.channel.read()
        print(child.pid, flush=True)
        sys.stdin.readline()
        {then}

    {run}
"""


class Started(NamedTuple):
    pid: int
    fd: int  # becomes readable when the process has exited, whatever its parent is by then


@contextmanager
def owner(then, child, *, run="asyncio.run(main())", **options):
    text = textwrap.dedent(OWNER.format(then=then, run=run))
    words = program(child) if isinstance(child, str) else child
    # The child's stderr is a pipe of its owner, so it holds nothing of this test open.
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", text, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )
    pid = None
    try:
        with process:
            pid = int(process.stdout.readline())
            fd = os.pidfd_open(pid)
            try:
                process.stdin.write(b"go on\n")
                process.stdin.flush()
                yield process, Started(pid, fd)
            finally:
                os.close(fd)
                process.kill()
    finally:
        if pid is not None:
            end_group(pid)


def has_ended(child):
    return bool(select.select([child.fd], [], [], NET)[0])


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


def test_a_child_outlives_its_thread_but_not_its_owner():
    in_a_thread = """
    async def keep():
        thread = threading.Thread(target=asyncio.run, args=(main(),))
        thread.start()
        thread.join()
        print(kept[0]._group.reap(), flush=True)
        sys.stdin.read()
    asyncio.run(keep())
    """
    with owner("return", DEAF, run=textwrap.dedent(in_a_thread).strip().replace("\n", "\n    ")) as (process, child):
        assert process.stdout.readline() == b"False\n"
        process.kill()
        assert has_ended(child)


# The whole group

DEAF_BEHIND_A_SHELL = ["sh", "-c", '"$0" "$@"; true', *program(DEAF)]
# Ignores EOF and every signal that can be ignored. So do a grandchild, and one whose parent has exited.
STUBBORN_FAMILY = """
    import os, signal
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork():
        if (middle := os.fork()) == 0:
            if os.fork():
                os._exit(0)
        else:
            os.waitpid(middle, 0)
            print("ready", flush=True)
    while True:
        signal.pause()
"""
# A chain of processes: each forks the next one and ends, so that every signal meets one that is about to do so.
FORKS_AND_ENDS = """
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    until = time.monotonic() + 100  # only if the test fails
    print("ready", flush=True)
    if os.fork():
        signal.pause()
    while time.monotonic() < until:
        time.sleep(0.001)
        if os.fork():
            os._exit(0)
"""
NASTY = {"deaf behind a shell": DEAF_BEHIND_A_SHELL, "a stubborn family": STUBBORN_FAMILY, "forks and ends": FORKS_AND_ENDS}


def group_has_ended(child):
    wait_until(lambda: not group_of(child.pid))
    return True


@pytest.mark.parametrize("end_of_owner", ["os.kill(os.getpid(), 9)", "os._exit(0)", "os.abort()"])
@pytest.mark.parametrize("nasty", NASTY)
def test_the_whole_group_ends_with_its_owner(nasty, end_of_owner):
    with owner(end_of_owner, NASTY[nasty]) as (process, child):
        process.wait(NET)
        assert group_has_ended(child)


def test_a_kill_of_the_whole_group_of_the_owner_ends_the_child():
    with owner("sys.stdin.read()", STUBBORN_FAMILY, start_new_session=True) as (process, child):
        os.killpg(process.pid, signal.SIGKILL)
        assert group_has_ended(child)


def test_a_fork_of_the_owner_that_lives_on_does_not_save_the_group():
    then = """
        if (fork := os.fork()) == 0:
            signal.pause()
        print(fork, flush=True)
        sys.stdin.read()
    """
    with owner(textwrap.indent(textwrap.dedent(then), " " * 8).strip(), STUBBORN_FAMILY) as (process, child):
        fork = int(process.stdout.readline())
        try:
            process.kill()
            assert group_has_ended(child)
            assert is_running(fork)
        finally:
            end(fork)


def test_a_process_in_another_group_outlives_a_killed_owner():
    changes_group = """
        import os, signal
        if os.fork() == 0:
            os.setsid()
            print(os.getpid(), flush=True)
        signal.pause()
    """
    prints = "print(said.decode(), flush=True); sys.stdin.read()"
    with owner(prints, changes_group) as (process, child):
        daemon = int(process.stdout.readline())
        try:
            process.kill()
            assert group_has_ended(child)
            assert is_running(daemon)
        finally:
            end(daemon)
