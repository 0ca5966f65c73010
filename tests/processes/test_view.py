"""``twopipes view`` as a process: in a pipe, at a terminal, and while a trace is being written."""

import os
import signal
import struct
import sys

import pytest

from processes.launching import EXAMPLES, call, python
from twopipes._cli import main
from twopipes._trace.format import Event, Line, encode
from unit.trace.recordings import HEADER, handshake, note, write_trace
from unit.trace.recordings import call as asked

if sys.platform != "win32":
    import fcntl
    import pty
    import termios

VIEW = ("-m", "twopipes", "view")
STEPS = [
    *handshake(),
    (">", asked(1, "tools/call", name="slow", arguments={"title": "\x1b]0;owned\x07"})),
    ("!", "stderr \x1b[31mred"),
    ("<", "noise \x1b[2J \x9b"),
    ("<", {"id": 1, "result": {"content": [{"type": "text", "text": "\x1b[H done"}]}}),
    (">", note("x/\x1b[1m")),
    Event(at=9.0, name="exit", code=0),
]


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "trace.jsonl", STEPS)


def in_a_terminal(run, *arguments, columns=80, **options):
    """Return the output at a terminal of that width, and the exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        done = run(
            python(*arguments), stdout=theirs, stdin=theirs, env={"TERM": "xterm-256color", "COLUMNS": str(columns), **options}
        )
        os.close(theirs)
        theirs = -1
        seen = b""
        try:
            while piece := os.read(ours, 65536):
                seen += piece
        except OSError:  # the terminal was closed
            pass
        return seen.decode().replace("\r\n", "\n"), done
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)


def test_a_recording_in_a_pipe_is_plain_text(run, trace):
    done = run(python(*VIEW, trace))
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "python server.py"
    assert "    0.700 └< tools/call #1 \\x1b[H done  300 ms" in lines
    assert "2 requests, 1 broken rule in 9 s" in lines


def test_recorded_text_cannot_control_the_terminal(run, trace):
    seen, done = in_a_terminal(run, *VIEW, trace)
    assert done.returncode == 0
    # Only our own colours are escape sequences; all others are escaped.
    rest = seen
    for code in {part.partition("m")[0] for part in seen.split("\x1b[")[1:]}:
        assert set(code) <= set("0123456789;")
        rest = rest.replace(f"\x1b[{code}m", "")
    assert "\x1b" not in rest
    assert "\x9b" not in rest
    assert "\x07" not in rest
    assert "\\u001b]0;owned\\u0007" in rest  # as JSON
    assert "stderr \\x1b[31mred" in rest


@pytest.mark.parametrize("columns", [60, 100])
def test_lines_fit_the_terminal(run, trace, columns):
    seen, _ = in_a_terminal(run, *VIEW, "--color", "never", trace, columns=columns)
    assert "\x1b" not in seen
    assert max(map(len, seen.splitlines())) <= columns
    assert any(line.endswith(" 300 ms") and len(line) == columns for line in seen.splitlines())


def test_colours_can_be_requested(run, trace):
    assert b"\x1b[" in run(python(*VIEW, "--color", "always", trace)).stdout
    assert "\x1b[3" not in in_a_terminal(run, *VIEW, trace, NO_COLOR="1")[0]


def test_filters_and_full_messages(trace, capsys):
    def view(*options):
        assert main(["view", *options, str(trace)]) == 0
        return capsys.readouterr().out

    assert '"method": "tools/call",' in view("--method", "tools/*", "--full")
    assert "initialize #" not in view("--method", "tools/*", "--full")
    assert "tools/call #1" not in view("--id", "2")
    assert "    0.400 ┌>" in view("--slow", "250")
    assert "    0.400 ┌>" not in view("--slow", "350")


def test_a_closed_pipe_is_not_an_error(run, tmp_path):
    trace = write_trace(tmp_path / "long.jsonl", [("!", "x" * 1000)] * 2000)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run(python(*VIEW, trace), stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["{missing}"], "cannot be read: No such file"),
        (["{other}"], "is not a trace"),
        (["{other}", "-f"], "is not a trace"),
        ([], "FILE"),
        (["{trace}", "--slow", "soon"], "--slow"),
        (["{trace}", "--fly"], "--fly"),
        (["{trace}", "--html", "{missing}/x.html"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys, trace, tmp_path, arguments, complaint):
    (tmp_path / "other").write_text("hello\n", encoding="utf-8")
    names = {"missing": tmp_path / "missing", "other": tmp_path / "other", "trace": trace}
    assert main(["view", *(word.format(**names) for word in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("Error: ")
    assert complaint in line


def test_an_output_encoding_with_few_characters_is_not_an_error(run, trace):
    done = run(python(*VIEW, trace), env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u250c> tools/call #1" in done.stdout


def test_the_help(run):
    done = run(python(*VIEW, "--help"))
    assert done.returncode == 0
    for part in (b"usage: twopipes view FILE", b"--errors", b"examples:", b"exit codes:"):
        assert part in done.stdout


def test_a_truncated_trace_is_shown_up_to_its_end(run, trace):
    trace.write_bytes(trace.read_bytes()[:-20])
    done = run(python(*VIEW, trace))
    assert done.returncode == 0
    assert b"cannot be read" in done.stdout
    assert b"2 requests" in done.stdout


def test_the_page_is_written(run, trace, tmp_path):
    page = tmp_path / "page.html"
    done = run(python(*VIEW, trace, "--html", page))
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"<html" in page.read_bytes()[:2000].lower()


class Growing:
    """A trace that is being written."""

    def __init__(self, path):
        self.file = path.open("wb", buffering=0)

    def add(self, *entries):
        self.file.write(b"".join(map(encode, entries)))

    def write_line(self, kind, text, at):
        self.add(Line(at, kind, text.encode()))


@pytest.fixture
def growing(tmp_path):
    path = tmp_path / "growing.jsonl"
    growing = Growing(path)
    growing.path = path
    growing.add(HEADER, Event(at=0.0, name="spawn", pid=1))
    yield growing
    growing.file.close()


def test_following_shows_a_request_before_its_response(launch, growing):
    child = launch(python(*VIEW, "-f", growing.path))
    child.out.until("the server was started")
    growing.write_line(">", '{"jsonrpc":"2.0","id":1,"method":"ping"}', 1.0)
    assert child.out.until("ping") == "    1.000 ┌> ping #1\n"
    # A partial line is not shown yet.
    answer = encode(Line(1.5, "<", b'{"jsonrpc":"2.0","id":1,"result":{}}'))
    growing.file.write(answer[:20])
    growing.file.write(answer[20:])
    assert child.out.until("ping") == "    1.500 └< ping #1 empty  500 ms\n"
    growing.write_line(">", '{"jsonrpc":"2.0","id":2,"method":"ping"}', 2.0)
    growing.add(Event(at=3.0, name="exit", code=0))
    assert child.out.until("no response").startswith("no response  ping")
    child.out.rest()
    assert child.wait() == 0
    assert child.complaints() == ""


def test_ctrl_c_ends_following_quietly(launch, growing):
    child = launch(python(*VIEW, "-f", growing.path))
    child.out.until("the server was started")
    child.signal(signal.SIGINT)
    child.out.until("0 requests")
    child.out.rest()
    assert child.wait() == 0
    assert child.complaints() == ""


def test_ctrl_c_before_the_header(tmp_path, monkeypatch, capsys):
    def interrupted(seconds):
        raise KeyboardInterrupt

    path = tmp_path / "empty.jsonl"
    path.touch()
    monkeypatch.setattr("twopipes._cli.view.time.sleep", interrupted)
    assert main(["view", "-f", str(path)]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_tap_is_followed_until_it_ends(launch, tmp_path):
    path = tmp_path / "tap.jsonl"
    tap = launch(python("-m", "twopipes", "tap", "-o", path, "--", *python(EXAMPLES / "echo_server.py")))
    tap.initialize()
    view = launch(python(*VIEW, "-f", path))
    view.out.until("notifications/initialized")
    tap.ask(call(1, "echo", text="hello over there"))
    view.out.until("tools/call #1")
    tap.end_input()
    tap.out.rest()
    assert tap.wait() == 0
    assert "the server exited (exit code 0)" in view.out.until("exited")
    view.out.until("2 requests")
    view.out.rest()
    assert view.wait() == 0
    assert view.complaints() == ""
