"""``twopipes tap`` between a host and a server: it passes on and records everything, and no process remains."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from processes.children import DEAF, is_running, program
from processes.launching import EXAMPLES, NET, call, lines, python, text_of
from processes.tapping import ECHO, MIB, NASTY, bytes_of, command_of_tap, events_of, names_of, wait_until
from twopipes.trace import Line, read

if sys.platform != "win32":
    import pty

# Prints which signal it got, and exits on EOF.
LISTENS = """
    import os, signal
    for name in "SIGTERM SIGINT SIGHUP SIGQUIT SIGUSR1 SIGWINCH SIGALRM".split():
        signal.signal(getattr(signal, name), lambda number, frame: os.write(1, signal.Signals(number).name.encode() + b"\\n"))
    os.write(1, b"ready\\n")
    while os.read(0, 1):
        pass
"""
# Starts a grandchild and prints both numbers. Both ignore everything that can be ignored.
STUBBORN_FAMILY = """
    import os, signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    grandchild = os.fork()
    if grandchild:
        os.write(1, b"%d %d\\n" % (os.getpid(), grandchild))
    while True:
        signal.pause()
"""
# Exits on EOF, but its child keeps running.
LEAVES_A_CHILD = """
    import os, signal
    grandchild = os.fork()
    if grandchild == 0:
        while True:
            signal.pause()
    os.write(1, b"%d %d\\n" % (os.getpid(), grandchild))
    while os.read(0, 1):
        pass
"""
# Starts a tap, optionally passes its pipes to a process that keeps running, prints the numbers, and waits.
HOST = """
    import subprocess, sys
    tap = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    held = [tap.stdin.fileno(), tap.stdout.fileno()] if sys.argv[1] == "held" else []
    holder = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=held)
    print(tap.pid, holder.pid, tap.stdout.readline().decode().strip(), flush=True)
    tap.wait()
"""
# The command as on macOS before Python 3.13: no pidfd, and a dead child cannot be checked without reaping it.
AS_ON_MACOS = """
    import os, runpy, sys
    del os.waitid, os.pidfd_open
    sys.platform, sys.version_info = "darwin", (3, 12, 0)
    runpy.run_module("twopipes", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "trace.jsonl"


@pytest.fixture
def tapped(file):
    """Return the command of a server behind a tap."""

    def tapped(command, *options):
        return command_of_tap(file, command, *options)

    return tapped


@pytest.fixture(params=["here", "as on macOS"])
def tapped_anywhere(request, tapped):
    """The same, as on this system and on others."""

    def tapped_anywhere(command):
        words = tapped(command)
        return words if request.param == "here" else program(AS_ON_MACOS, *words[words.index("tap") :])

    return tapped_anywhere


# Bytes


def test_bytes_pass_unchanged_and_are_recorded_unchanged(run, tapped, file):
    done = run(tapped(ECHO), input=NASTY)
    assert (done.returncode, done.stdout, done.stderr) == (0, NASTY, NASTY)
    assert [bytes_of(file, kind) for kind in "><!"] == [NASTY, NASTY, NASTY]
    assert names_of(file)[0] == "spawn"
    assert sorted(event.stream for event in events_of(file) if event.name == "eof") == ["!", "<", ">"]
    assert [event.code for event in events_of(file) if event.name == "exit"] == [0]


def test_half_a_line_passes_at_once(tapped, environment, tmp_path):
    with subprocess.Popen(tapped(["cat"]), stdin=-1, stdout=-1, bufsize=0, env=environment, cwd=tmp_path) as host:
        for piece in (b"{", b'"half"', b": \xff"):
            host.stdin.write(piece)
            assert host.stdout.read(len(piece)) == piece
        host.stdin.close()
        assert host.stdout.read() == b""


def test_a_line_of_64_mib_passes(run, tapped, file):
    line = b"x" * (64 * MIB - 1) + b"\n"
    done = run(tapped(["cat"]), input=line)
    assert done.returncode == 0
    assert done.stdout == line
    # The trace, or stderr at the end, reports entries that were lost because the disk was too slow.
    recorded = sum(len(bytes_of(file, kind)) for kind in "><")
    lost = sum(event.size or 0 for event in events_of(file) if event.name == "lost")
    assert recorded + lost >= 2 * (len(line) - 1) or b"is incomplete" in done.stderr


def test_a_whole_conversation_of_a_server_passes(launch, tapped, file):
    child = launch(tapped(python(EXAMPLES / "hello.py")))
    child.initialize()
    assert text_of(child.ask(call(1, "greet", name="you")))
    assert child.finish() == []
    assert [entry.kind for entry in read(file) if isinstance(entry, Line)] == [">", "<", ">", ">", "<"]


def test_values_are_redacted_before_they_are_written(run, tapped, file):
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"arguments": {"token": "s3cret", "pin": "1234", "a": 1}},
    }
    done = run(tapped(["cat"], "--redact", "token", "--redact", "pin"), input=lines(message))
    assert done.stdout == lines(message)
    assert b"s3cret" not in file.read_bytes()
    assert b"1234" not in file.read_bytes()
    assert read(file).header.redacted == ("token", "pin")


def test_the_environment_may_list_names_to_redact(run, tapped, file):
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"Token": "secret", "pin": "1234"}}
    run(tapped(["cat"], "--redact", "token"), input=lines(message), env={"TWOPIPES_REDACT": "pin"})
    assert read(file).header.redacted == ("token", "pin")
    assert not {"secret", "1234"} & set(file.read_text().split('"'))


def test_the_header_names_the_command_and_no_value_of_the_environment(run, tapped, file):
    run(tapped(["true"]), env={"API_TOKEN": "s3cret"})
    header = read(file).header
    assert (header.recorder, header.argv) == ("tap", ("true",))
    assert "API_TOKEN" in header.environment
    assert b"s3cret" not in file.read_bytes()


# Backpressure

FILLS = """
    import os, select
    os.set_blocking(1, False)
    total = 0
    while total < 32 * 2**20:
        try:
            total += os.write(1, b"x" * 65536)
        except BlockingIOError:
            if not select.select([], [1], [], 0.3)[1]:
                break
    os.write(2, b"%d\\n" % total)
"""


def test_a_host_that_does_not_read_stops_the_server(launch, tapped, environment, tmp_path):
    with subprocess.Popen(tapped(FILLS), stdin=-1, stdout=-1, stderr=-1, bufsize=0, env=environment, cwd=tmp_path) as host:
        total = int(host.stderr.readline())
        assert total < MIB
        assert len(host.stdout.read()) == total
        host.stdin.close()


def test_a_server_that_does_not_read_stops_the_host(tapped, environment, tmp_path):
    with subprocess.Popen(tapped(DEAF), stdin=-1, stdout=-1, bufsize=0, env=environment, cwd=tmp_path) as host:
        assert host.stdout.readline() == b"ready\n"
        # It can write only as much as the pipes hold.
        filled = subprocess.run(program(FILLS), stdout=host.stdin, stderr=subprocess.PIPE, check=True, timeout=NET, env=environment)
        assert int(filled.stderr) < MIB
        host.terminate()
        assert host.wait(NET) == -signal.SIGTERM
        host.stdin.close()


# Ends of streams


def test_eof_of_the_server_is_passed_on_while_it_keeps_running(launch, tapped, file):
    child = launch(tapped("import os; os.write(1, b'last\\n'); os.close(1); os.read(0, 1); os._exit(5)"))
    assert child.out.rest() == [b"last\n"]
    assert child.process.poll() is None
    child.end_input()
    assert child.wait() == 5


def test_a_server_that_closes_its_input_breaks_the_pipe_of_the_host(launch, tapped):
    child = launch(tapped("import os, signal; os.close(0); os.write(1, b'closed\\n'); signal.pause()"))
    assert child.out.next() == b"closed\n"

    def is_broken():
        try:
            child.send("anybody there?")
        except BrokenPipeError:
            return True
        return False

    wait_until(is_broken)
    child.signal()
    assert child.wait() == -signal.SIGTERM


def test_a_host_that_stops_reading_for_good_breaks_the_pipe_of_the_server(tapped, environment, tmp_path, file):
    with subprocess.Popen(tapped(["yes"]), stdin=-1, stdout=-1, env=environment, cwd=tmp_path) as host:
        assert host.stdout.readline() == b"y\n"
        host.stdout.close()
        # As if the server had the host's own pipe.
        assert host.wait(NET) == -signal.SIGPIPE
        host.stdin.close()
    assert events_of(file)[-1].signal == "SIGPIPE"


def test_the_last_output_is_passed_on_while_another_process_holds_the_pipe(run, tapped):
    done = run(tapped("import os, subprocess; subprocess.Popen(['sleep', '5']); os.write(1, b'x' * 50000); os._exit(4)"))
    assert (done.returncode, len(done.stdout)) == (4, 50000)


# Exit codes and signals


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_the_exit_code_is_that_of_the_server(code, run, tapped_anywhere, file):
    assert run(tapped_anywhere(["sh", "-c", f"exit {code}"])).returncode == code
    assert events_of(file)[-1].code == code


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV", "SIGINT", "SIGPIPE", "SIGUSR2"])
def test_the_signal_that_ended_the_server_ends_the_tap(name, run, tapped_anywhere, file):
    done = run(tapped_anywhere(["sh", "-c", f"kill -{name[3:]} $$"]))
    assert done.returncode == -getattr(signal, name)
    assert events_of(file)[-1].signal == name


def test_signals_pass_to_the_server(launch, tapped, file):
    names = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGWINCH", "SIGALRM"]
    child = launch(tapped(LISTENS))
    assert child.out.next() == b"ready\n"
    for name in names:
        child.signal(getattr(signal, name))
        assert child.out.next() == name.encode() + b"\n"
    child.end_input()
    assert child.wait() == 0
    assert [event.signal for event in events_of(file) if event.name == "signal"] == names


def test_control_c_in_a_terminal_reaches_the_server_once(tapped, environment, tmp_path, file):
    ours, theirs = pty.openpty()
    in_the_terminal = """
        import fcntl, os, sys, termios
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.execv(sys.argv[1], sys.argv[1:])
    """
    command = program(in_the_terminal, *tapped(LISTENS))
    host = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, env=environment, cwd=tmp_path)
    with host:
        assert host.stdout.readline() == b"ready\n"
        os.write(ours, b"\x03")
        assert host.stdout.readline() == b"SIGINT\n"
        os.write(ours, b"\x04")  # EOF at the start of a line
        assert host.stdout.read() == b""
        assert host.wait(NET) == 0
    os.close(ours)
    os.close(theirs)
    assert [event.signal for event in events_of(file) if event.name == "signal"] == ["SIGINT"]


def test_a_server_starts_with_signals_as_they_were(run, tapped):
    """Python ignores SIGPIPE for itself, and the tap blocks the signals that it waits for."""
    look = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
    with_tap, without = (
        # Two signals that glibc reserves are ignored in processes that it spawns.
        [int(mask, 16) & ~(0b11 << 31) for mask in run(command).stdout.split()[1::2]]
        for command in (tapped(look), look)
    )
    assert with_tap == without


def test_sigterm_reaches_the_processes_of_the_server(launch, tapped):
    child = launch(tapped(["sh", "-c", "sleep 60 & echo $!; wait"]))
    grandchild = int(child.out.next())
    child.signal()
    assert child.wait() == -signal.SIGTERM
    wait_until(lambda: not is_running(grandchild))


def test_sigkill_of_the_tap_ends_the_server_and_its_processes(launch, tapped, file):
    child = launch(tapped(STUBBORN_FAMILY))
    family = list(map(int, child.out.next().split()))
    child.signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    wait_until(lambda: not any(map(is_running, family)))
    # The writer has time to finish.
    wait_until(lambda: file.exists() and b'"note"' in file.read_bytes())
    wait_until(lambda: "note" in names_of(file))
    assert events_of(file)[-1].reason == "the tap was killed"


def test_sigkill_of_the_whole_group_ends_the_server(launch, tapped):
    child = launch(tapped(STUBBORN_FAMILY), start_new_session=True)
    family = list(map(int, child.out.next().split()))
    os.killpg(child.process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, family)))


def test_leftover_processes_of_the_server_end_with_the_tap(launch, tapped):
    """The host cannot reach it: the group of the server is not that of the tap."""
    child = launch(tapped(["sh", "-c", "(trap '' TERM; exec sleep 60 >&- 2>&-) & echo $!; exec cat"]))
    left = int(child.out.next())
    child.end_input()
    assert child.wait() == 0
    wait_until(lambda: not is_running(left))


def test_no_process_of_the_tap_remains_after_the_server(launch, tapped):
    child = launch(tapped(["cat"]))
    child.send("hello")
    child.out.next()
    helpers = list(map(int, Path(f"/proc/{child.process.pid}/task/{child.process.pid}/children").read_text().split()))
    assert len(helpers) == 3  # the server, the watchdog and the writer of the trace
    child.end_input()
    assert child.wait() == 0
    assert not any(map(is_running, helpers))


@pytest.mark.parametrize(
    ("server", "pipes"),
    [(LEAVES_A_CHILD, "closed"), (LEAVES_A_CHILD, "held"), (STUBBORN_FAMILY, "held")],
    ids=["polite", "polite, and the pipes are held", "stubborn, and the pipes are held"],
)
def test_the_death_of_the_host_ends_the_server(server, pipes, launch, tapped_anywhere, file):
    host = launch(program(HOST, pipes, *tapped_anywhere(server)))
    tap, holder, *family = map(int, host.out.next().split())
    try:
        host.signal(signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, [tap, *family])))
    finally:
        with suppress(ProcessLookupError):
            os.kill(holder, signal.SIGKILL)
    wait_until(lambda: names_of(file)[-1] == "exit")
    if pipes == "held":
        assert [event.reason for event in events_of(file) if event.name == "note"] == ["the host is dead"]
