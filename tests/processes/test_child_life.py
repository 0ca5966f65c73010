"""The life of a child: start, pipes, stderr, exit."""

import asyncio
import errno
import os
import signal
import stat
import sys
import threading
from pathlib import Path

import pytest

from processes.children import (
    CLOSES_STDOUT,
    EXITS_AT_ONCE,
    FLOODS_STDERR,
    FORKS_A_GRANDCHILD,
    POLITE,
    SILENT,
    command,
    is_running,
    line_of,
    program,
    run,
    started,
)
from systems import WINDOWS
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import ExitStatus
from twopipes.errors import StartFailed


def test_lines_are_written_and_read():
    async def body():
        async with started(POLITE) as child:
            assert child.running
            assert child.group_alive()
            assert is_running(child.pid)
            child.channel.write(b"hello\n")
            assert await line_of(child) == "hello"
            report = await child.shut_down()
            assert report.exit == ExitStatus(code=0)
            assert not child.running
            assert not child.group_alive()

    run(body())


def test_a_child_leads_its_own_session():
    async def body():
        async with started("import os; print(os.getpid(), os.getpgid(0), os.getsid(0))") as child:
            assert await line_of(child) == f"{child.pid} {child.pid} {child.pid}"

    run(body())


def test_a_child_inherits_three_descriptors_and_no_more():
    async def body():
        spare = os.dup(0)
        os.set_inheritable(spare, True)
        try:
            async with started("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])") as child:
                assert await line_of(child) == "[0, 1, 2]"
        finally:
            os.close(spare)

    run(body())


@pytest.mark.parametrize("die_with_us", [True, False])
def test_the_environment_and_the_folder_are_as_given(tmp_path, monkeypatch, die_with_us):
    monkeypatch.setenv("A_SECRET_OF_OURS", "1")
    usual = "TEMP" if WINDOWS else "LC_MEASUREMENT"
    monkeypatch.setenv(usual, "C")

    async def body():
        text = f"import os; print(os.getcwd(), *(os.environ.get(each) for each in ('A_SECRET_OF_OURS', '{usual}', 'GIVEN')))"
        async with started(command(text, env={"GIVEN": "yes"}, cwd=tmp_path, die_with_us=die_with_us)) as child:
            assert await line_of(child) == f"{tmp_path} None C yes"

    run(body())


def test_an_explicit_environment_is_used_alone():
    async def body():
        given = ServerCommand(["/usr/bin/env"], environment="explicit", env={"ONE": "1"})
        async with started(given) as child:
            assert await line_of(child) == "ONE=1"

    run(body())


def test_an_inherited_environment_is_all_of_ours(monkeypatch):
    monkeypatch.setenv("A_SECRET_OF_OURS", "1")

    async def body():
        async with started(command("import os; print(os.environ['A_SECRET_OF_OURS'])", environment="inherit")) as child:
            assert await line_of(child) == "1"

    run(body())


def test_the_executable_is_found_on_the_path_of_the_child(write):
    script = write(f"#!{sys.executable}\nprint('found')\n", "a-server-of-ours")
    script.chmod(0o755)

    async def body():
        async with started(ServerCommand(["a-server-of-ours"], env={"PATH": str(script.parent)})) as child:
            assert await line_of(child) == "found"
        async with started(ServerCommand(["./a-server-of-ours"], cwd=script.parent)) as child:
            assert await line_of(child) == "found"

    run(body())


# Starts that fail


def failed_start(given: ServerCommand) -> StartFailed:
    async def body():
        with pytest.raises(StartFailed) as caught:
            await Child.start(given)
        failures.append(caught.value)

    failures: list[StartFailed] = []
    run(body())
    return failures[0]


def test_the_error_for_a_missing_executable_lists_the_searched_folders(tmp_path):
    other = tmp_path / "bin"
    error = failed_start(ServerCommand(["no-such-server"], env={"PATH": f"{tmp_path}{os.pathsep}{other}"}))
    assert error.reason == "not found"
    assert error.path == [str(tmp_path), str(other)]
    assert f"\n  {tmp_path}\n  {other}" in str(error)


def test_a_missing_folder_is_the_reason_of_the_failure(tmp_path):
    error = failed_start(command(SILENT, cwd=tmp_path / "gone"))
    assert error.reason == "no such folder"
    assert str(tmp_path / "gone") in str(error)


def test_a_file_without_execute_permission_is_named(write):
    path = write("print(1)\n")
    error = failed_start(ServerCommand([str(path)]))
    assert error.reason == "not executable"
    assert str(path) in str(error)


@pytest.mark.parametrize("die_with_us", [True, False])
@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("#!/no/such/interpreter\n", "the interpreter named in its first line is missing"),
        ("no program at all\n", "Exec format error"),
    ],
)
def test_a_file_that_the_system_cannot_execute_is_a_failed_start(write, text, detail, die_with_us):
    path = write(text)
    path.chmod(0o755)
    error = failed_start(ServerCommand([str(path)], die_with_us=die_with_us))
    assert error.reason == "not executable"
    assert detail in str(error)


def test_a_refusal_of_the_system_is_passed_on():
    error = failed_start(command(SILENT, "x" * 10_000_000))
    assert error.reason == "refused"
    assert "Argument list too long" in str(error)


def test_a_file_for_stderr_that_cannot_be_opened_fails_the_start(tmp_path):
    error = failed_start(command(SILENT, stderr=tmp_path / "no" / "folder"))
    assert error.reason == "refused"
    assert "No such file" in str(error)


def test_a_child_that_cannot_be_watched_is_not_kept(monkeypatch):
    def refuse(*arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    error = failed_start(command(SILENT))
    assert error.reason == "refused"
    assert "can't start new thread" in str(error)


def test_without_descriptors_nothing_is_started(monkeypatch):
    real, made = os.pipe, []

    def refuse():
        if len(made) == 2:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        made.append(real())
        return made[-1]

    monkeypatch.setattr(os, "pipe", refuse)
    given = command(SILENT, die_with_us=False)
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(StartFailed, match="Too many open files") as caught:
            loop.run_until_complete(Child.start(given))
        assert caught.value.reason == "refused"
    finally:
        loop.close()


# Exits


def test_the_exit_code_and_the_last_lines_of_stderr_are_known():
    async def body():
        async with started(EXITS_AT_ONCE) as child:
            first, second = await asyncio.gather(child.wait(), child.wait())
            assert first == second == child.exit == ExitStatus(code=3)
            assert first.describe() == "exit code 3"
            # Known together with the exit, without waiting for EOF of the pipe.
            assert child.stderr.lines() == ["nothing works here"]
            assert child.lived >= 0
            assert (await child.shut_down()).ended_by == "already gone"

    run(body())


def test_a_signal_is_known_by_its_name():
    async def body():
        async with started(SILENT) as child:
            child.signal(signal.SIGSEGV)
            status = await child.wait()
            assert (status.code, status.signal, status.signal_name) == (None, signal.SIGSEGV, "SIGSEGV")
            assert status.describe() == "signal SIGSEGV"

    run(body())


def test_a_cancelled_wait_does_no_harm():
    async def body():
        async with started(POLITE) as child:
            waiting = asyncio.create_task(child.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            await child.channel.close_write()
            assert await child.wait() == ExitStatus(code=0)

    run(body())


def test_an_exit_is_noticed_although_a_grandchild_holds_the_pipes():
    async def body():
        async with started(FORKS_A_GRANDCHILD) as child:
            grandchild = int(await line_of(child))
            await child.channel.close_write()
            assert await child.wait() == ExitStatus(code=0)
            assert is_running(grandchild)
            assert child.group_alive()
            # The number of the group is still reserved and can be signalled.
            child.signal(signal.SIGKILL)
            await child.wait_until_gone(60)
            assert not child.group_alive()
            assert not is_running(grandchild)

    run(body())


def test_the_end_of_the_output_is_not_the_end_of_the_child():
    async def body():
        async with started(CLOSES_STDOUT) as child:
            assert await child.channel.read() == b""
            assert child.running
            await child.shut_down()
            assert child.exit == ExitStatus(code=0)

    run(body())


def test_an_exit_reaped_by_other_code_is_still_noticed():
    async def body():
        async with started(POLITE) as child:
            await child.channel.close_write()
            os.waitpid(child.pid, 0)  # noqa: ASYNC222 - it is about to end
            assert await child.wait() == ExitStatus()
            assert child.exit.describe() == "an unknown exit status"

    run(body())


def test_without_a_pidfd_a_thread_waits(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")

    async def body():
        async with started(POLITE) as child:
            (thread,) = [each for each in threading.enumerate() if each.name == f"twopipes waits for child {child.pid}"]
            assert thread.daemon
            await child.channel.close_write()
            assert await child.wait() == ExitStatus(code=0)

    run(body())


def test_a_child_is_started_in_a_loop_of_another_thread():
    failures = []

    def elsewhere():
        async def body():
            async with started(POLITE) as child:
                child.channel.write(b"hello\n")
                assert await line_of(child) == "hello"
                assert (await child.shut_down()).exit == ExitStatus(code=0)

        try:
            asyncio.run(body())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(60)
    assert failures == []


def test_many_children_at_once_release_everything():
    async def one():
        async with started(POLITE) as child:
            child.channel.write(b"hello\n")
            assert await line_of(child) == "hello"
            assert (await child.shut_down()).ended_by == "eof"

    async def body():
        await asyncio.gather(*(one() for _ in range(8)))

    run(body())


# stderr


def test_a_flood_on_stderr_delays_no_task_and_is_bounded():
    async def body():
        async with started(FLOODS_STDERR) as child:
            await child.stderr_seen.wait()
            turns = 0
            # The loop keeps running while a hundred megabytes are read.
            while child.stderr.received < 100_000_000:
                await asyncio.sleep(0)
                turns += 1
            assert turns > 100
            assert len(child.stderr.lines()) <= 201
            assert sum(map(len, child.stderr.lines())) <= 70_000
            assert child.stderr.dropped > 1_000_000
            assert (await child.shut_down()).exit == ExitStatus(code=0)

    run(body())


def test_each_line_of_stderr_is_reported_with_its_time():
    async def body():
        reported, also_reported = [], []
        text = "import sys; sys.stderr.write('one\\ntwo\\nno newline'); sys.stderr.flush(); sys.stdin.read()"
        async with started(command(text, stderr=also_reported.append), on_stderr=reported.append) as child:
            assert not child.stderr_seen.is_set()
            await child.stderr_seen.wait()
            await child.shut_down()
            assert [line.text for line in reported] == ["one", "two", "no newline"]
            assert also_reported == reported
            assert child.started_at <= child.stderr.first_at == reported[0].time <= reported[-1].time

    run(body())


def test_stderr_is_appended_to_a_private_file(tmp_path):
    log = tmp_path / "server.log"
    earlier = tmp_path / "earlier.log"
    earlier.write_text("before\n")
    earlier.chmod(0o644)

    async def body():
        for path in (log, log, earlier):
            async with started(command(EXITS_AT_ONCE, stderr=path)) as child:
                await child.wait()

    run(body())
    assert log.read_text() == "nothing works here\n" * 2
    assert earlier.read_text() == "before\nnothing works here\n"
    assert stat.S_IMODE(earlier.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.stat().st_mode) & 0o077 == 0


def test_stderr_is_written_to_an_open_file(tmp_path):
    async def body():
        with (tmp_path / "text").open("w") as text, (tmp_path / "bytes").open("wb") as data:
            for file in (text, data):
                async with started(command(EXITS_AT_ONCE, stderr=file)) as child:
                    await child.wait()
                    assert child.stderr.lines() == ["nothing works here"]

    run(body())
    assert (tmp_path / "text").read_text() == (tmp_path / "bytes").read_text() == "nothing works here\n"


def test_a_failing_file_is_harmless(tmp_path):
    async def body():
        file = (tmp_path / "closed").open("w")
        file.close()
        async with started(command(EXITS_AT_ONCE, stderr=file)) as child:
            await child.wait()
            assert child.stderr.lines() == ["nothing works here"]
        async with started(command(EXITS_AT_ONCE, stderr=Path("/dev/full"))) as child:
            await child.wait()
            assert child.stderr.lines() == ["nothing works here"]

    run(body())


def test_inherited_stderr_appears_on_ours_and_in_the_tail(capfd):
    async def body():
        async with started(command(EXITS_AT_ONCE, stderr="inherit")) as child:
            await child.wait()
            assert child.stderr.lines() == ["nothing works here"]

    run(body())
    assert capfd.readouterr().err.splitlines() == ["nothing works here"]


def test_discarded_stderr_is_nowhere(capfd):
    async def body():
        async with started(command(EXITS_AT_ONCE, stderr="discard")) as child:
            await child.wait()
            assert child.stderr.lines() == []

    run(body())
    assert capfd.readouterr().err == ""


def test_arguments_reach_the_child_unchanged():
    words = ["--", "-x", "a b", "", "--pdeathsig", "ünïcode", "'\"$HOME"]

    async def body():
        async with started(ServerCommand([*program("import sys; print(ascii(sys.argv[1:]))"), *words])) as child:
            assert await line_of(child) == ascii(words)

    run(body())
