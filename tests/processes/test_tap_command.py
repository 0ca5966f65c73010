"""``twopipes tap`` and the disk, the command line, and other descriptors than the three streams."""

import os
import select
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from processes.children import program
from processes.launching import EXAMPLES, INITIALIZE, NET, lines, python
from processes.tapping import ECHO, MIB, NASTY, bytes_of, command_of_tap, events_of


@pytest.fixture
def file(tmp_path):
    return tmp_path / "trace.jsonl"


@pytest.fixture
def tapped(file):
    """Return the command of a server behind a tap."""

    def tapped(command, *options):
        return command_of_tap(file, command, *options)

    return tapped


# The disk


def test_a_fifo_without_a_reader_does_not_delay_the_wire(run, tapped, file):
    os.mkfifo(file)
    done = run(tapped(ECHO), input=NASTY)
    assert (done.returncode, done.stdout) == (0, NASTY)
    assert done.stderr.startswith(NASTY)
    assert b"is incomplete" in done.stderr


def test_a_full_disk_does_not_delay_the_wire(run, tapped):
    done = run([*python("-m", "twopipes", "tap", "-o", "/dev/full", "--"), *program(ECHO)], input=NASTY)
    assert (done.returncode, done.stdout) == (0, NASTY)
    assert b"No space left on device" in done.stderr


def test_a_missing_folder_does_not_delay_the_wire(run, tmp_path):
    done = run(python("-m", "twopipes", "tap", "-o", tmp_path / "no" / "file", "--", "cat"), input=NASTY)
    assert (done.returncode, done.stdout) == (0, NASTY)
    assert b"No such file" in done.stderr


def test_an_unwritable_home_does_not_delay_the_wire(run):
    done = run(python("-m", "twopipes", "tap", "--", "cat"), input=NASTY, env={"XDG_STATE_HOME": "/dev/null"})
    assert (done.returncode, done.stdout) == (0, NASTY)
    assert b"nothing is recorded" in done.stderr


# Writes far more than the buffer for the disk holds, then echoes.
FLOODS = """
    import os
    piece = b"x" * 65535 + b"\\n"
    for _ in range(96 * 16):
        os.write(1, piece)
    while data := os.read(0, 65536):
        os.write(1, data)
"""


def test_a_slow_disk_loses_data_with_a_report_and_does_not_delay_the_wire(tapped, environment, tmp_path, file):
    """The disk is a FIFO whose reader waits until everything has passed."""
    os.mkfifo(file)
    reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    copy = tmp_path / "copy.jsonl"
    with subprocess.Popen(tapped(FLOODS), stdin=-1, stdout=-1, env=environment, cwd=tmp_path) as host:
        assert select.select([reader], [], [], NET)[0]  # the writer has started
        for _ in range(96):
            assert len(host.stdout.read(MIB)) == MIB

        def catch_up():
            with open(reader, "rb") as fifo:
                copy.write_bytes(fifo.read())

        catching_up = threading.Thread(target=catch_up)
        catching_up.start()
        host.stdin.write(b"after that\n")
        host.stdin.close()
        assert host.stdout.readline() == b"after that\n"
        assert host.wait(NET) == 0
        catching_up.join(NET)
    assert any(event.name == "lost" and event.size for event in events_of(copy))


# Output for people


def test_a_fresh_file_in_the_state_folder_is_named_on_stderr(run, tmp_path):
    done = [run(python("-m", "twopipes", "tap", "--", "cat"), input=b"x\n") for _ in range(2)]
    paths = [Path(each.stderr.decode().removeprefix("twopipes tap: recording to ").removesuffix("\n")) for each in done]
    assert paths[0] != paths[1]
    for path in paths:
        assert path.is_relative_to(tmp_path / "state" / "twopipes")
        assert path.stat().st_mode & 0o777 == 0o600
        assert bytes_of(path, "<") == b"x\n"


def test_an_existing_recording_is_kept(run, tapped, file, tmp_path):
    for text in (b"one\n", b"two\n"):
        run(tapped(["cat"]), input=text)
    assert bytes_of(file, "<") == b"two\n"
    assert bytes_of(tmp_path / "trace-1.jsonl", "<") == b"one\n"


def test_a_missing_command(run):
    done = run(python("-m", "twopipes", "tap", "--", "no-such-server", "-x"))
    assert (done.returncode, done.stdout) == (127, b"")
    assert done.stderr.startswith(b"Error: command 'no-such-server' not found in ")


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        ("#!/bin/sh\n", 0o644, "it has no execute permission"),
        ("#!/no/such/interpreter\n", 0o755, "the interpreter in its first line is missing"),
        ("neither a program nor a script", 0o755, "Exec format error"),
        (None, 0o755, "it is a folder"),
    ],
)
def test_a_command_that_cannot_be_executed(content, mode, why, run, tmp_path):
    path = tmp_path / "server"
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
        path.chmod(mode)
    done = run(python("-m", "twopipes", "tap", "--", path))
    assert (done.returncode, done.stdout) == (126, b"")
    assert done.stderr.decode() == f"Error: {path} cannot be executed: {why}\n"


@pytest.mark.parametrize(
    "words", [[], ["--"], ["server.py"], ["-o"], ["-o", "--", "cat"], ["-x", "--", "cat"], ["--redact", "--", "cat"], ["--", ""]]
)
def test_a_mistake_on_the_command_line_is_one_line(words, run):
    done = run(python("-m", "twopipes", "tap", *words))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"Error: ")
    assert done.stderr.count(b"\n") == 1


def test_the_recording_option_of_other_commands_suggests_the_one_of_tap(run):
    for words in (["--trace", "x.jsonl"], ["--trace=x.jsonl"]):
        done = run(python("-m", "twopipes", "tap", *words, "--", "cat"))
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"use -o FILE to name the file to record to" in done.stderr


def test_help_is_for_people_and_only_before_the_command(run):
    done = run(python("-m", "twopipes", "tap", "--help"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"exit codes" in done.stdout
    assert b"coreutils" in run(python("-m", "twopipes", "tap", "-q", "--", "cat", "--help")).stdout


# Other descriptors


def test_other_descriptors_reach_the_server_and_end_with_it(tapped, environment, tmp_path):
    read_end, write_end = os.pipe()
    with subprocess.Popen(
        tapped(program(f"import os; os.write({write_end}, b'extra'); os.close({write_end}); os.read(0, 1)")),
        stdin=-1,
        stdout=-1,
        pass_fds=[write_end],
        env=environment,
        cwd=tmp_path,
    ) as host:
        os.close(write_end)
        with open(read_end, "rb") as file:
            assert file.read() == b"extra"  # and EOF, although the tap and the server keep running
        assert host.poll() is None
        host.stdin.close()
        assert host.wait(NET) == 0


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_host_may_close_a_stream(missing, tapped, environment, tmp_path):
    closes = textwrap.dedent("""
        import os, sys
        os.close(int(sys.argv[1]))
        os.execv(sys.argv[2], sys.argv[2:])
    """)
    done = subprocess.run(
        [*python("-c", closes, missing), *tapped(ECHO)],
        input=b"hello\n",
        capture_output=True,
        env=environment,
        cwd=tmp_path,
        timeout=NET,
        check=False,
    )
    assert done.returncode == 0
    assert [done.stdout, done.stderr] == [b"hello\n" if missing not in {0, each} else b"" for each in (1, 2)]


def test_little_is_imported_before_the_server_runs(run, tapped):
    code = textwrap.dedent("""
        import sys
        import twopipes._cli.tap
        print(sorted({"asyncio", "argparse", "typing", "msgspec", "rich", "subprocess", "pathlib", "json"} & set(sys.modules)))
    """)
    assert run([sys.executable, "-c", code]).stdout == b"[]\n"


def test_initialize_gets_the_same_response_as_without_a_tap(run, tapped):
    server = python(EXAMPLES / "hello.py")
    assert run(tapped(server), input=lines(INITIALIZE)).stdout == run(server, input=lines(INITIALIZE)).stdout
