"""The shutdown of a child: no process of it remains, however its owner ends (SD-01)."""

import asyncio
import gc
import os
import signal
import sys
import textwrap
import threading

import pytest

from processes.children import (
    DEAF,
    FLOODS_STDERR,
    FLOODS_STDOUT,
    FORKS_A_GRANDCHILD,
    KILLED,
    POLITE,
    SILENT,
    STUBBORN,
    command,
    end,
    group_of,
    is_running,
    line_of,
    run,
    started,
)
from processes.launching import NET
from twopipes._process import process_group
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import SIGKILL, ExitStatus
from twopipes._process.shutdown import CloseStdin, ShutdownPlan, Signal, Wait

# Real steps with short waits; the numbers are not part of any promise.
BRIEF = ShutdownPlan.default(0.05)
# Long enough for a polite child on a slow machine.
LONG = ShutdownPlan.default(60)


def steps_of(report):
    return [taken.step for taken in report.steps]


def test_a_polite_child_exits_on_eof():
    async def body():
        async with started(SILENT) as child:
            report = await child.shut_down(LONG)
            assert steps_of(report) == [CloseStdin(), Wait(60)]
            assert report.ended_by == "eof"
            assert report.exit == child.exit == ExitStatus(code=0)
            assert not report.left_behind
            assert "exited on EOF" in report.describe()

    run(body())


def test_a_deaf_child_gets_sigterm():
    async def body():
        async with started(DEAF) as child:
            assert await line_of(child) == "ready"
            report = await child.shut_down(ShutdownPlan((CloseStdin(), Wait(0.05), Signal(signal.SIGTERM), Wait(60))))
            assert report.ended_by == "SIGTERM"
            assert report.exit == ExitStatus(signal=signal.SIGTERM)

    run(body())


def test_a_stubborn_child_is_killed():
    async def body():
        async with started(STUBBORN) as child:
            assert await line_of(child) == "ready"
            report = await child.shut_down(BRIEF)
            assert steps_of(report) == list(BRIEF.steps)
            assert [taken.at for taken in report.steps] == sorted(taken.at for taken in report.steps)
            assert report.ended_by == "SIGKILL"
            assert report.exit == KILLED
            assert not report.left_behind

    run(body())


def test_the_plan_of_the_command_is_the_one_that_is_used():
    async def body():
        async with started(command(STUBBORN, shutdown=ShutdownPlan.at_once())) as child:
            assert await line_of(child) == "ready"
            assert steps_of(await child.shut_down()) == [Signal(SIGKILL)]

    run(body())


def test_a_grandchild_that_outlives_its_wrapper_is_ended_too():
    async def body():
        async with started(FORKS_A_GRANDCHILD) as child:
            grandchild = int(await line_of(child))
            try:
                report = await child.shut_down(BRIEF)
                assert report.ended_by == "SIGKILL"
                assert not report.left_behind
                assert not is_running(grandchild)
                assert group_of(child.pid) == []
            finally:
                end(grandchild)

    run(body())


def test_processes_of_a_dead_wrapper_are_ended_by_a_later_shutdown():
    async def body():
        async with started(FORKS_A_GRANDCHILD) as child:
            grandchild = int(await line_of(child))
            await child.channel.close_write()
            assert await child.wait() == ExitStatus(code=0)
            report = await child.shut_down(BRIEF)
            assert report.exit == ExitStatus(code=0)
            assert report.ended_by == "SIGKILL"
            assert not report.left_behind
            assert not is_running(grandchild)

    run(body())


def test_a_shell_around_the_server_is_ended_with_it():
    async def body():
        given = ServerCommand(["sh", "-c", '"$0" -c "$1" & echo $!; wait', sys.executable, textwrap.dedent(STUBBORN)])
        async with started(given) as child:
            server = int(await line_of(child))
            assert await line_of(child) == "ready"
            report = await child.shut_down(BRIEF)
            assert not report.left_behind
            assert not is_running(server)

    run(body())


def test_a_child_that_waits_for_a_reader_still_sees_the_end_of_its_input():
    async def body():
        async with started(FLOODS_STDOUT) as child:
            report = await child.shut_down(LONG)
            assert report.ended_by == "eof"

    run(body())


def test_buffered_data_is_sent_before_eof():
    async def body():
        text = "import sys; data = sys.stdin.read(); print(len(data), file=sys.stderr)"
        async with started(text) as child:
            child.channel.write(b"x" * 3_000_000)
            assert child.channel.buffered
            report = await child.shut_down(LONG)
            assert report.ended_by == "eof"
            assert child.stderr.lines() == ["3000000"]

    run(body())


def test_a_child_that_reads_nothing_cannot_delay_its_shutdown():
    async def body():
        async with started(STUBBORN) as child:
            assert await line_of(child) == "ready"
            child.channel.write(b"x" * 3_000_000)
            assert (await child.shut_down(BRIEF)).ended_by == "SIGKILL"

    run(body())


def test_a_channel_that_was_closed_before_does_no_harm():
    async def body():
        async with started(POLITE) as child:
            await child.channel.close()
            assert (await child.shut_down(LONG)).ended_by == "eof"

    run(body())


def test_a_reader_of_the_channel_can_read_during_the_shutdown():
    async def body():
        async with started("import sys; sys.stdin.read(); print('goodbye')") as child:
            reading = asyncio.create_task(line_of(child))
            await asyncio.sleep(0)
            await child.shut_down(LONG)
            assert await reading == "goodbye"

    run(body())


def test_the_report_is_the_same_for_everyone_who_asks():
    async def body():
        async with started(POLITE) as child:
            first, second = await asyncio.gather(child.shut_down(LONG), child.shut_down())
            assert first is second is await child.shut_down(BRIEF)

    run(body())


def test_a_plan_without_a_kill_reports_the_processes_that_still_run(monkeypatch):
    monkeypatch.setattr("twopipes._process.shutdown.run_plan.__kwdefaults__", {"settle": 0.05})

    async def body():
        async with started(STUBBORN) as child:
            assert await line_of(child) == "ready"
            report = await child.shut_down(ShutdownPlan((CloseStdin(),)))
            assert report.left_behind
            assert report.exit is None
            assert "not gone" in report.describe()
            assert is_running(child.pid)
            # It stays registered and is killed at exit of the interpreter; here the test does that.
            process_group.kill_all()
            assert await child.wait() == KILLED

    run(body())


# The group after its leader has exited

# Creates a zombie in the group. Its parent has changed to another group, keeps running, holds the pipes and reaps no child.
LEAVES_A_ZOMBIE = """
    import os, signal, time
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os.setsid()
        # Not waited for: it stays a zombie.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        os.write(1, b"%d\\n" % os.getpid())
        while True:
            signal.pause()
    import sys
    sys.stdin.read()
"""


def test_a_zombie_does_not_count_as_a_survivor():
    async def body():
        async with started(LEAVES_A_ZOMBIE) as child:
            runaway = int(await line_of(child))
            try:
                report = await child.shut_down(LONG)
                assert report.ended_by == "eof"
                assert not report.left_behind
                # The group can be signalled, but only a zombie is in it.
                os.killpg(child.pid, 0)
            finally:
                end(runaway)

    run(body())


def test_orphans_that_become_our_children_are_reaped(run, write):
    """As in a container, where we are process 1."""
    program = write(
        """
        import asyncio, ctypes, os, pathlib, sys
        from twopipes._process.child import Child
        from twopipes._process.command import ServerCommand
        from twopipes._process.shutdown import ShutdownPlan

        PR_SET_CHILD_SUBREAPER = 36
        assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0

        async def main():
            child = await Child.start(ServerCommand([sys.executable, "-c", sys.argv[1]]))
            await child.channel.read()
            report = await child.shut_down(ShutdownPlan.default(0.05))
            children = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/children")]
            print(report.ended_by, report.left_behind, children)

        asyncio.run(main())
        """
    )
    assert run(program, textwrap.dedent(FORKS_A_GRANDCHILD)).stdout.decode() == "SIGKILL False ['']\n"


def test_no_signal_is_sent_to_the_number_of_a_group_that_has_ended(monkeypatch):
    async def body():
        async with started(POLITE) as child:
            await child.shut_down(LONG)
            sent = []
            monkeypatch.setattr(os, "killpg", lambda *call: sent.append(call))
            child.signal(signal.SIGTERM)
            child.kill_now()
            process_group.kill_all()
            assert not child.group_alive()
            assert sent == []

    run(body())


def test_the_number_of_an_orphaned_group_is_watched_until_it_is_free(monkeypatch):
    monkeypatch.setattr("twopipes._process.child.IDLE_POLL", 0.001)

    async def body():
        async with started(FORKS_A_GRANDCHILD) as child:
            grandchild = int(await line_of(child))
            await child.channel.close_write()
            await child.wait()
            end(grandchild)
            # Noticed by a timer.
            while not child._group._is_gone:
                await asyncio.sleep(0.001)

    run(body())


# Unplanned ends


@pytest.mark.parametrize("plan", [LONG, ShutdownPlan((CloseStdin(), Wait(60)))], ids=["default", "without a signal"])
def test_a_cancelled_shutdown_kills_and_is_still_cancelled(plan):
    async def body():
        async with started(STUBBORN) as child:
            assert await line_of(child) == "ready"
            ending = asyncio.create_task(child.shut_down(plan))
            await asyncio.sleep(0)
            ending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ending
            # No further await: the cancellation waited for the death.
            assert child.exit == KILLED
            assert not child.group_alive()
            report = await child.shut_down()
            assert report.ended_by == "SIGKILL"

    run(body())


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
def test_a_loop_that_ends_during_a_shutdown_leaves_no_process(turns):
    """Also before the shutdown has taken its first step."""

    async def body():
        found.append(await Child.start(command(STUBBORN)))
        assert await line_of(found[0]) == "ready"
        found.append(asyncio.create_task(found[0].shut_down(LONG)))
        for _ in range(turns):
            await asyncio.sleep(0)

    found = []
    asyncio.run(body())
    assert not is_running(found[0].pid)
    assert not found[0].group_alive()


def test_kill_now_ends_everything_without_waiting():
    async def body():
        async with started(FORKS_A_GRANDCHILD) as child:
            grandchild = int(await line_of(child))
            child.kill_now()
            assert await child.wait() == KILLED
            await child.shut_down()
            assert not is_running(grandchild)
            assert child._group not in process_group._live

    run(body())


def test_kill_now_after_the_loop_frees_everything():
    children = []

    async def body():
        children.append(await Child.start(command(STUBBORN)))

    asyncio.run(body())
    children[0].kill_now()
    assert not is_running(children[0].pid)
    assert children[0].exit == KILLED


def test_kill_now_from_another_thread_lets_the_loop_do_the_rest():
    async def body():
        async with started(STUBBORN) as child:
            thread = threading.Thread(target=child.kill_now)
            thread.start()
            assert await child.wait() == KILLED
            thread.join(NET)
            assert (await child.shut_down()).ended_by == "already gone"

    run(body())


def test_a_garbage_collected_child_is_killed_with_a_warning():
    async def body():
        child = await Child.start(command(STUBBORN))
        pids.append(child.pid)

    def forget():
        asyncio.run(body())
        gc.collect()

    pids = []
    with pytest.warns(ResourceWarning, match="was not shut down; killing it"):
        forget()
    assert not is_running(pids[0])


def test_a_flooding_child_ends_like_any_other():
    async def body():
        async with started(FLOODS_STDERR) as child:
            await child.stderr_seen.wait()
            assert (await child.shut_down(LONG)).ended_by == "eof"

    run(body())
