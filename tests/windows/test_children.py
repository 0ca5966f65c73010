"""Children on Windows: job objects, Ctrl-Break, stderr."""

import asyncio
import subprocess
import sys
from pathlib import Path

from systems import not_under_wine
from twopipes._process.child import Child
from twopipes._process.exit_status import SIGKILL, SIGTERM
from twopipes._process.shutdown import CloseStdin, ShutdownPlan, Signal, Wait

if sys.platform == "win32":
    from processes.windows_processes import ends, is_running, kill

# Seconds; only a hang reaches it.
NET = 60
FIRM = ShutdownPlan((CloseStdin(), Wait(0.2), Signal(SIGTERM), Wait(0.2), Signal(SIGKILL)))

IGNORES_EOF = """
    import time
    print("ready", flush=True)
    time.sleep(600)
"""
EXITS_ON_EOF = """
    import sys
    print("ready", flush=True)
    sys.stdin.read()
"""
# Exits on EOF; the process that it started does not.
LEAVES_A_PROCESS = """
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def bounded(test):
    async def run(*arguments, **given):
        async with asyncio.timeout(NET):
            await test(*arguments, **given)

    return lambda *arguments, **given: asyncio.run(run(*arguments, **given))


async def line_of(child):
    found = b""
    while not found.endswith(b"\n") and (chunk := await child.channel.read()):
        found += chunk
    return found.decode().strip()


def test_a_child_that_exits_on_eof(program):
    @bounded
    async def scenario():
        child = await Child.start(program(EXITS_ON_EOF))
        assert await line_of(child) == "ready"
        report = await child.shut_down()
        assert (report.ended_by, report.exit.code, report.left_behind) == ("eof", 0, False)

    scenario()


def test_a_stubborn_child_without_a_console_is_ended_by_its_job(program):
    # Defect: os.kill(pid, CTRL_BREAK_EVENT) raised SystemError here, and ended the child with code 1.
    @bounded
    async def scenario():
        child = await Child.start(program(IGNORES_EOF))
        assert await line_of(child) == "ready"
        assert not child.has_sigterm
        report = await child.shut_down(FIRM)
        assert (report.ended_by, report.exit.code, report.left_behind) == ("SIGKILL", 137, False)

    scenario()


def test_sigterm_does_not_end_a_child_without_a_console(program):
    @bounded
    async def scenario():
        child = await Child.start(program(EXITS_ON_EOF))
        assert await line_of(child) == "ready"
        child.signal(SIGTERM)
        report = await child.shut_down()
        assert (report.ended_by, report.exit.code) == ("eof", 0)

    scenario()


def test_the_whole_tree_ends_with_its_job(program):
    @bounded
    async def scenario():
        child = await Child.start(program(LEAVES_A_PROCESS))
        grandchild = int(await line_of(child))
        assert is_running(grandchild)
        report = await child.shut_down(FIRM)
        assert (report.ended_by, report.exit.code, report.left_behind) == ("SIGKILL", 0, False)
        assert ends(grandchild, NET)

    scenario()


def test_the_tree_ends_when_the_program_that_started_it_is_killed(program, write):
    started = write(LEAVES_A_PROCESS, "tree.py")
    owner = program(
        """
        import asyncio, sys
        from twopipes._process.child import Child
        from twopipes._process.command import ServerCommand

        async def main():
            child = await Child.start(ServerCommand([sys.executable, sys.argv[1]], environment="inherit"))
            print((await child.channel.read()).decode().strip(), child.pid, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
        """,
        str(started),
    )
    with subprocess.Popen(owner.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        pids = list(map(int, process.stdout.readline().split()))
        assert len(pids) == 2
        assert all(map(is_running, pids))
        process.kill()
    assert all(ends(pid, NET) for pid in pids)


def test_a_child_may_outlive_the_program_that_started_it(program, write):
    # Defect: die_with_us=False was ignored.
    started = write(IGNORES_EOF, "stays.py")
    owner = program(
        """
        import asyncio, os, sys
        from twopipes._process.child import Child
        from twopipes._process.command import ServerCommand

        async def main():
            child = await Child.start(ServerCommand([sys.executable, sys.argv[1]], environment="inherit", die_with_us=False))
            await child.channel.read()
            print(child.pid, flush=True)
            await asyncio.Event().wait()

        asyncio.run(main())
        """,
        str(started),
    )
    with subprocess.Popen(owner.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        process.kill()
    try:
        assert is_running(pid)
    finally:
        kill(pid)


def test_an_exit_code_of_windows_is_kept(program):
    @bounded
    async def scenario():
        child = await Child.start(program("import os; os._exit(0xC0000005 - 2**32)"))
        assert (await child.wait()).code == 0xC0000005
        await child.shut_down()

    scenario()


def test_stderr_is_complete_when_the_exit_is_known(program):
    # Defect: a thread reads stderr, and the exit was reported before its last lines.
    text = """
        import os, sys
        sys.stderr.write("x" * 200_000 + "\\nlast words\\n")
        sys.stderr.flush()
        os._exit(3)
    """

    @bounded
    async def scenario():
        command = program(text)
        for _ in range(5):
            child = await Child.start(command)
            assert (await child.wait()).code == 3
            assert child.stderr.lines(1) == ["last words"]
            await child.shut_down()

    scenario()


def test_the_exit_is_known_while_a_grandchild_holds_stderr(program):
    text = """
        import subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print("last words", file=sys.stderr, flush=True)
    """

    @bounded
    async def scenario():
        child = await Child.start(program(text))
        assert (await child.wait()).code == 0
        assert child.stderr.lines() == ["last words"]
        assert child.group_alive()
        assert not (await child.shut_down(ShutdownPlan.at_once())).left_behind

    scenario()


def test_a_file_of_stderr_has_the_line_ends_of_the_child(program, tmp_path):
    # Defect: without O_BINARY each \r\n became \r\r\n.
    file = tmp_path / "stderr.txt"

    @bounded
    async def scenario():
        text = "import os; os.write(2, b'one\\ntwo\\r\\n')"
        child = await Child.start(program(text, stderr=Path(file)))
        await child.wait()
        await child.shut_down()

    scenario()
    assert file.read_bytes() == b"one\ntwo\r\n"


@not_under_wine("a Ctrl-Break ends the process and ignores its handler")
def test_a_ctrl_break_reaches_a_child_that_shares_our_console(program, write):
    # A process with a console of its own starts the server and sends it SIGTERM.
    server = write(
        """
        import signal, sys, time
        signal.signal(signal.SIGBREAK, lambda *_: sys.exit(7))
        print("ready", flush=True)
        time.sleep(600)
        """,
        "handles.py",
    )
    owner = program(
        """
        import asyncio, sys
        from twopipes._process.child import Child
        from twopipes._process.command import ServerCommand
        from twopipes._process.shutdown import ShutdownPlan, Signal, Wait

        async def main():
            child = await Child.start(ServerCommand([sys.executable, sys.argv[1]], environment="inherit"))
            await child.channel.read()
            report = await child.shut_down(ShutdownPlan((Signal(15), Wait(30), Signal(9))))
            print(child.has_sigterm, report.ended_by, report.exit.code, flush=True)

        asyncio.run(main())
        """,
        str(server),
    )
    done = subprocess.run(
        owner.argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        creationflags=subprocess.CREATE_NEW_CONSOLE,
    )
    assert done.stdout.split() == ["True", "SIGTERM", "7"]


def test_no_handle_is_left_behind(program):
    import ctypes  # noqa: PLC0415 - WinDLL exists on Windows only

    count = ctypes.c_ulong()
    kernel = ctypes.WinDLL("kernel32")

    def handles():
        kernel.GetProcessHandleCount(kernel.GetCurrentProcess(), ctypes.byref(count))
        return count.value

    @bounded
    async def scenario():
        command = program(EXITS_ON_EOF)
        seen = []
        for _ in range(4):
            child = await Child.start(command)
            await line_of(child)
            await child.shut_down()
            del child
            seen.append(handles())
        # The first child loads modules and starts the loop's own helpers.
        assert seen[-1] <= seen[1]

    scenario()
