"""Processes started by tools end with the server: all of them, and no others."""

import os
import signal
import textwrap
from pathlib import Path

import pytest

from processes.children import end, is_running, watching
from processes.launching import call, python, text_of
from processes.tapping import wait_until

PARENT = """
    import subprocess, sys
    from twopipes import Server, ServerSettings
    server = Server("parent", settings=ServerSettings(drain=0.1, drain_on_signal=0.1))
    started = []

    @server.tool
    def start(detached: bool) -> str:
        null = subprocess.DEVNULL
        return str(subprocess.Popen(["sleep", "1000"], stdout=null, stderr=null, start_new_session=detached).pid)

    @server.tool
    def wait_for_a_child() -> int:
        child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
        print(child.pid, file=sys.stderr, flush=True)
        return child.wait()

    @server.tool
    def start_program(text: str) -> str:
        child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        started.append(child)
        return child.stdout.readline().decode()

    @server.tool
    def wait_for_a_stubborn_child() -> int:
        text = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
        child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
        child.stdout.readline()
        print(child.pid, file=sys.stderr, flush=True)
        return child.wait()

    server.run()
"""
PATIENT = PARENT.replace("drain=0.1, drain_on_signal=0.1", "drain=1000, drain_on_signal=1000")
assert PATIENT != PARENT
# A child, a grandchild and a great-grandchild. The last one closes the shared descriptors, so that it holds nothing open.
FAMILY = """
    import os, signal
    {first}
    pids = [os.getpid()]
    reading, writing = os.pipe()
    for _ in range(2):
        if os.fork():
            break
        os.write(writing, b"%d " % os.getpid())
    if os.getpid() == pids[0]:
        numbers = b""
        while numbers.count(b" ") < 2:
            numbers += os.read(reading, 100)
        print(*pids, numbers.decode(), flush=True)
    while True:
        signal.pause()
"""
FAMILIES = {
    "polite": FAMILY.format(first=""),
    "stubborn": FAMILY.format(first="signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    # The first one ends at SIGTERM, so that the others lose their parent while they are being ended.
    "stubborn but for the first": FAMILY.format(first="").replace(
        "os.write(writing", "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(writing"
    ),
}


@pytest.mark.parametrize("how", ["end of input", "signal"])
def test_children_of_tools_are_ended_with_the_server(how, write, launch):
    child = launch(write(PARENT))
    child.initialize()
    with watching(int(text_of(child.ask(call(1, "start", detached=False))))):
        if how == "signal":
            child.signal()
        else:
            child.end_input()
    child.ended()


def test_a_child_in_its_own_session_keeps_running(write, launch):
    child = launch(write(PARENT))
    child.initialize()
    pid = int(text_of(child.ask(call(1, "start", detached=True))))
    with watching(pid):
        child.finish()
        os.kill(pid, signal.SIGKILL)  # fails if it has exited


def test_the_child_that_a_stuck_tool_waits_for_is_ended(write, launch):
    child = launch(write(PARENT))
    child.initialize()
    child.send(call(1, "wait_for_a_child"))
    with watching(int(child.err.next())):
        child.finish()


def end_of(child, how):
    child.signal() if how == "signal" else child.end_input()


@pytest.mark.parametrize("how", ["end of input", "signal"])
@pytest.mark.parametrize("family", FAMILIES)
def test_children_and_grandchildren_are_ended_with_the_server(family, how, write, launch):
    child = launch(write(PARENT))
    child.initialize()
    pids = list(map(int, text_of(child.ask(call(1, "start_program", text=textwrap.dedent(FAMILIES[family])))).split()))
    assert len(pids) == 3
    try:
        end_of(child, how)
        child.ended()
        # The server does not exit before they have exited.
        assert [pid for pid in pids if is_running(pid)] == []
    finally:
        for pid in pids:
            end(pid)


def test_processes_that_fork_when_they_are_asked_to_end_are_ended(write, launch, tmp_path):
    """At SIGTERM each forks the next one and exits. All of them hold a FIFO open, which therefore ends with the last."""
    os.mkfifo(tmp_path / "alive")
    text = f"""
        import os, signal
        os.open({str(tmp_path / "alive")!r}, os.O_WRONLY)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0) if os.fork() else None)
        print(os.getpid(), flush=True)
        os.closerange(0, 3)
        while True:
            signal.pause()
    """
    child = launch(write(PARENT))
    child.initialize()
    child.send(call(1, "start_program", text=textwrap.dedent(text)))
    with (tmp_path / "alive").open("rb") as alive:
        child.receive_response(1)
        child.finish()
        assert alive.read() == b""


@pytest.mark.parametrize("second", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("how", ["end of input", "signal"])
def test_a_server_that_is_killed_while_it_ends_leaves_no_children(how, second, write, launch):
    """Hosts send the next signal after as little as 0.1 s. The running call still gets its time."""
    child = launch(write(PATIENT))
    child.initialize()
    child.send(call(1, "wait_for_a_stubborn_child"))
    pid = int(child.err.next())
    try:
        with watching(pid):
            end_of(child, how)
            # The watchdog, a process in its own session, ends them if the server cannot.
            wait_until(lambda: len(children_of(child.process.pid)) > 1)
            assert is_running(pid)
            child.signal(second)
            if (how, second) == ("end of input", signal.SIGTERM):
                child.signal(signal.SIGKILL)
            child.wait()
    finally:
        end(pid)


def children_of(pid):
    """Return the children of all its threads."""
    return [each for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()]


def test_processes_inherited_from_the_launcher_keep_running(write, launch):
    """The shell becomes the server, so that its child is one of the server."""
    words = ["sh", "-c", 'sleep 1000 >&2 & echo $! >&2; exec "$0" "$@"', *python(write(PARENT))]
    child = launch(words)
    left = int(child.err.next())
    try:
        child.initialize()
        with watching(int(text_of(child.ask(call(1, "start", detached=False))))):
            child.end_input()
        child.out.rest()
        child.wait()
        assert is_running(left)
    finally:
        end(left)


def test_shared_memory_is_removed_after_the_end(write, launch):
    """The helper process of multiprocessing that removes it ignores SIGTERM and must not be killed."""
    program = """
        from multiprocessing.shared_memory import SharedMemory
        from twopipes import Server
        server = Server("sharing")

        @server.tool
        def share() -> str:
            server.kept = SharedMemory(create=True, size=10)
            return server.kept.name

        server.run()
        import os
        os._exit(0)  # nothing is tidied up here
    """
    child = launch(write(program))
    child.initialize()
    name = text_of(child.ask(call(1, "share"))).strip("/")
    assert Path("/dev/shm", name).exists()
    child.end_input()
    assert child.wait() == 0
    wait_until(lambda: not Path("/dev/shm", name).exists())


def test_a_program_that_continues_after_run_has_no_zombies(write, launch):
    after = """
    from pathlib import Path
    started[0].wait()
    print("children:", *(path.read_text() for path in Path("/proc/self/task").glob("*/children")))
"""
    program = PARENT + after
    child = launch(write(program))
    child.initialize()
    text_of(child.ask(call(1, "start_program", text=textwrap.dedent(FAMILIES["stubborn but for the first"]))))
    child.end_input()
    assert b"".join(child.out.rest()).split() == [b"children:"]
    assert child.wait() == 0
