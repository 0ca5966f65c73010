"""The helper process that ends the groups of a dead owner: when it acts, when it must not, and what it holds open."""

import os
import signal
import subprocess
import textwrap
from contextlib import contextmanager
from pathlib import Path

import pytest

from processes.children import POLITE, SILENT, command, end_group, group_of, is_running, line_of, program, run, started
from processes.launching import NET, children_of_this_process
from processes.tapping import wait_until
from twopipes._process import group_watchdog
from twopipes._process.group_watchdog import GroupWatchdog

# Registers groups as the test requires, prints their numbers and that of the watchdog, and is killed.
OWNER = """
    import os, signal, subprocess, sys
    from twopipes._process.group_watchdog import GroupWatchdog

    def start(stdin=None):
        text = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
        words = [sys.executable, "-c", text]
        process = subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        process.stdout.readline()
        return process.pid

    stdin, _ = os.pipe()
    watchdog = GroupWatchdog(grace=0.1)
    groups = []
    {steps}
    print(*groups, watchdog._pid, flush=True)
    signal.pause()
"""


@contextmanager
def owner(steps):
    """Return the groups of a dead owner whose watchdog has exited."""
    steps = textwrap.indent(textwrap.dedent(steps), " " * 4).strip()
    with subprocess.Popen(program(OWNER.format(steps=steps)), stdout=subprocess.PIPE) as process:
        *groups, watchdog = map(int, process.stdout.readline().split())
        try:
            process.kill()
            wait_until(lambda: not is_running(watchdog))
            yield groups
        finally:
            for group in groups:
                end_group(group)


def test_a_registered_group_is_killed_and_a_removed_one_is_not():
    """The number of a removed group may belong to others."""
    steps = """
        for _ in range(4):
            groups.append(start())
            watchdog.add(groups[-1], "")
        watchdog.remove(groups[0])
        watchdog.remove(groups[2])
    """
    with owner(steps) as groups:
        wait_until(lambda: not group_of(groups[1]) and not group_of(groups[3]))
        assert group_of(groups[0])
        assert group_of(groups[2])


def test_a_child_is_found_when_its_owner_dies_before_it_knows_its_number():
    with owner("watchdog.expect(stdin); groups.append(start(stdin))") as (group,):
        wait_until(lambda: not group_of(group))


def test_a_launch_that_failed_is_forgotten():
    steps = """
        entry = watchdog.expect(stdin)
        groups.append(start(stdin))
        watchdog.add(start(), "")
        watchdog.remove(entry)
    """
    with owner(steps) as (group,):
        assert group_of(group)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_watchdog_that_was_killed_or_stopped_is_replaced(number):
    steps = f"""
        groups.append(start())
        watchdog.add(groups[-1], "")
        first = watchdog._pid
        os.kill(first, {int(number)})
        if {number == signal.SIGKILL}:
            os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        groups.append(start())
        for _ in range(10_000):
            watchdog.expect(stdin)
            watchdog.add(groups[-1], f"pipe:{{os.fstat(stdin).st_ino}}")
            if watchdog._pid != first:
                break
            watchdog.remove(groups[-1])
    """
    with owner(steps) as groups:
        wait_until(lambda: not any(map(group_of, groups)))


def test_the_watchdog_ignores_termination_signals():
    steps = """
        groups.append(start())
        watchdog.add(groups[-1], "")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM):
            os.kill(watchdog._pid, number)
        assert os.waitpid(watchdog._pid, os.WNOHANG) == (0, 0)
    """
    with owner(steps) as (group,):
        wait_until(lambda: not group_of(group))


@pytest.mark.parametrize("streams", ["", "os.close(0); os.close(2)"])
def test_the_watchdog_holds_none_of_our_descriptors(streams):
    steps = f"""
        os.set_inheritable(stdin, True)
        {streams or "pass"}
        groups.append(start(subprocess.DEVNULL))
        watchdog.add(groups[-1], "")
        folder = f"/proc/{{watchdog._pid}}/"
        while sorted(os.listdir(folder + "fd")) != ["0", "1", "2"]:
            os.sched_yield()  # it is still loading its libraries
        assert [os.readlink(folder + "fd/" + name) for name in "12"] == ["/dev/null"] * 2
        assert os.readlink(folder + "fd/0") == os.readlink(f"/proc/self/fd/{{watchdog._control_w}}")
        assert watchdog._control_w > 2 and not os.get_inheritable(watchdog._control_w)
        assert os.getsid(watchdog._pid) == watchdog._pid
    """
    with owner(steps) as (group,):
        wait_until(lambda: not group_of(group))


def test_one_watchdog_serves_all_children_and_ends_with_the_last():
    async def body():
        before = children_of_this_process()
        async with started(POLITE) as first:
            (watchdog,) = children_of_this_process() - before - {first.pid}
            async with started(POLITE) as second:
                assert children_of_this_process() - before == {first.pid, second.pid, watchdog}
            assert children_of_this_process() - before == {first.pid, watchdog}
        assert children_of_this_process() == before

    run(body())


def test_a_child_that_may_outlive_us_needs_no_watchdog():
    async def body():
        before = children_of_this_process()
        async with started(command(SILENT, die_with_us=False)) as child:
            assert children_of_this_process() - before == {child.pid}

    run(body())


def test_a_failed_start_leaves_no_watchdog(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)

    async def body():
        before = children_of_this_process()
        with pytest.raises(Exception, match="interpreter"):
            async with started(command(SILENT).__class__([str(broken)])):
                pass
        assert children_of_this_process() == before

    run(body())


def test_a_program_that_waits_for_all_its_children_loses_nothing():
    """Such a program also reaps the watchdog."""

    async def body():
        async with started(POLITE) as child:
            (watchdog,) = children_of_this_process() - {child.pid}
            os.kill(watchdog, signal.SIGKILL)
            os.waitpid(watchdog, 0)  # noqa: ASYNC222 - it is dead
            child.channel.write(b"hello\n")
            assert await line_of(child) == "hello"

    run(body())


def test_a_child_starts_even_without_a_shell(monkeypatch):
    monkeypatch.setattr(group_watchdog, "SHELLS", ("/no/such/shell",))

    async def body():
        before = children_of_this_process()
        async with started(POLITE) as child:
            assert children_of_this_process() - before == {child.pid}
            child.channel.write(b"hello\n")
            assert await line_of(child) == "hello"

    run(body())


def test_a_finalizer_may_remove_a_group_during_a_change(monkeypatch):
    """A garbage collection can happen at any time, even while a change is sent to the watchdog."""
    watchdog = GroupWatchdog(grace=0)
    watchdog.add(2**22 + 1, "")
    write = os.write

    def write_and_collect(*arguments):
        monkeypatch.setattr(os, "write", write)
        watchdog.remove(2**22 + 1)
        return write(*arguments)

    monkeypatch.setattr(os, "write", write_and_collect)
    watchdog.add(2**22 + 2, "")
    assert list(watchdog._sent) == [f"-{2**22 + 2}"]
    watchdog.remove(2**22 + 2)
    assert watchdog._pid is None


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/bin/dash", "/bin/busybox", "/bin/ksh", "/bin/zsh"])
def test_the_script_works_in_other_shells(shell):
    if not Path(shell).exists():
        pytest.skip(f"{shell} is not installed")
    reading, writing = os.pipe()
    words = [shell, *(["sh"] if shell.endswith("busybox") else []), "-c", group_watchdog.SCRIPT, "sh", "1", ""]
    groups = [
        subprocess.Popen(program("import signal; signal.pause()"), stdin=stdin, start_new_session=True)
        for stdin in (subprocess.DEVNULL, subprocess.DEVNULL, reading)
    ]
    try:
        inode = os.fstat(reading).st_ino
        lines = f"+ -{groups[0].pid}\n+ -{groups[1].pid}\n- -{groups[0].pid}\n- 4\n+ pipe:{inode}\n+ -1\n+ -0\n+ x\n"
        done = subprocess.run(words, input=lines, capture_output=True, text=True, timeout=NET, check=False)
        assert (done.stdout, done.stderr) == ("", "")
        assert [process.wait(NET) for process in groups[1:]] == [-signal.SIGTERM] * 2
        assert groups[0].poll() is None
    finally:
        for process in groups:
            process.kill()
            process.wait()
        os.close(reading)
        os.close(writing)
