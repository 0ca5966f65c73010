"""twopipes tap on Windows: everything passes unchanged, and is recorded."""

import subprocess
import sys

if sys.platform == "win32":
    from processes.windows_processes import ends, kill

from twopipes.trace import Event, Line, read

NET = 60
ECHO = """
    import sys
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    sys.stderr.buffer.write(b"done\\n")
    sys.stderr.buffer.flush()
    sys.exit(7)
"""
LINES = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"\xf0\x9f\x98\x80"}\r\n'


def tap(*arguments, **options):
    command = [sys.executable, "-m", "twopipes", "tap", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=NET, check=False, **options)


def test_bytes_pass_unchanged_and_are_recorded(write, tmp_path):
    trace = tmp_path / "session.jsonl"
    done = tap("-o", trace, "--", sys.executable, write(ECHO), input=LINES)
    assert done.stdout == LINES
    assert done.stderr.endswith(b"done\n")
    assert done.returncode == 7
    entries = list(read(trace))
    expected = [line for line in LINES.split(b"\n") if line]
    for kind in (">", "<"):
        assert [each.data for each in entries if isinstance(each, Line) and each.kind == kind] == expected
    names = [each.name for each in entries if isinstance(each, Event)]
    assert names[0] == "spawn"
    assert names[-1] == "exit"


def test_a_program_that_does_not_exist(tmp_path):
    done = tap("-o", tmp_path / "x.jsonl", "--", "nosuch-program")
    assert done.returncode == 127
    assert b"nosuch-program" in done.stderr
    assert done.stdout == b""


def test_large_output_passes(write, tmp_path):
    program = write("import sys; sys.stdout.buffer.write(b'x' * 5_000_000)")
    done = tap("-q", "-o", tmp_path / "x.jsonl", "--", sys.executable, program, stdin=subprocess.DEVNULL)
    assert (len(done.stdout), done.returncode, done.stderr) == (5_000_000, 0, b"")


def test_a_process_that_holds_the_output_does_not_delay_the_end(write, tmp_path):
    program = write(
        """
        import subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print("bye", flush=True)
        """
    )
    done = tap("-q", "-o", tmp_path / "x.jsonl", "--", sys.executable, program, stdin=subprocess.DEVNULL)
    assert (done.stdout, done.returncode) == (b"bye\r\n", 0)


def test_everything_ends_with_a_dead_host_although_the_server_reads_nothing(write, tmp_path):
    # Defect: tap waited for its write to the server before it ended it, and both stayed for ever.
    server = write(
        """
        import os, threading
        print(os.getpid(), flush=True)
        threading.Event().wait()
        """
    )
    host = write(
        """
        import subprocess, sys
        tap = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        print(tap.pid, int(tap.stdout.readline()), flush=True)
        tap.stdin.write(b"x" * 5_000_000)
        """,
        "host.py",
    )
    words = ["-m", "twopipes", "tap", "-q", "-o", str(tmp_path / "x.jsonl"), "--", sys.executable, str(server)]
    command = [sys.executable, str(host), sys.executable, *words]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        pids = list(map(int, process.stdout.readline().split()))
        process.kill()
    try:
        assert len(pids) == 2
        assert all(ends(pid, NET) for pid in pids)
    finally:
        for pid in pids:
            kill(pid)


def test_a_line_break_for_a_batch_file_is_refused(write, tmp_path):
    tool = write("@echo off\r\necho started\r\n", "tool.cmd")
    done = tap("-o", tmp_path / "x.jsonl", "--", tool, "a\necho injected", stdin=subprocess.DEVNULL)
    assert done.returncode != 0
    assert b"no batch file can get the line break" in done.stderr
    assert done.stdout == b""
