"""Lines for stderr: the writer never waits for a slow or missing reader."""

import errno
import fcntl
import io
import logging
import os
import re
import select
import socket
import subprocess
import sys
import threading
import tty

import pytest

from twopipes._channels.stderr import LogStream, StderrLog, duplicate, reroute
from unit.channels.joined import nothing_left_behind

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX descriptors")]

NOTICE = re.compile(rb"^\.\.\. (\d+) lines? dropped, because stderr was not read in time$")


class Reader:
    """Both ends of each kind of stderr."""

    def __init__(self, kind):
        if kind == "socket":
            ours, theirs = socket.socketpair()
            self.fd, self.far = theirs.detach(), ours.detach()
        elif kind == "terminal":
            self.far, self.fd = os.openpty()
            tty.setraw(self.fd)
        else:
            self.far, self.fd = os.pipe()

    def read_until(self, end):
        received = b""
        while not received.endswith(end):
            received += os.read(self.far, 65536)
        return received

    def close(self):
        os.close(self.fd)
        os.close(self.far)


@pytest.fixture(params=["pipe", "socket", "terminal", "pipe by a thread"])
def reader(request, monkeypatch):
    if request.param == "pipe by a thread":

        def refuse(*_):
            raise PermissionError

        monkeypatch.setattr(os, "readlink", refuse)
    reader = Reader(request.param)
    yield reader
    reader.close()


@pytest.fixture
def pipe():
    reader = Reader("pipe")
    yield reader
    reader.close()


def test_lines_arrive_in_order_and_in_utf8(reader):
    """FR-06: UTF-8 text on stderr."""
    with nothing_left_behind():
        log = StderrLog(reader.fd)
        log.write("first\n")
        log.write("größer \U0001f600, and half a pair: \udc80\n")
        assert reader.read_until(b"80\n") == "first\ngrößer \U0001f600, and half a pair: \\udc80\n".encode()
        assert log.flush()
        log.close()


@pytest.mark.slow
def test_without_a_reader_the_writer_continues_and_whole_lines_are_dropped_and_counted(reader):
    """FR-06: stderr that is full never blocks the server."""
    with nothing_left_behind():
        log = StderrLog(reader.fd, limit=20_000)
        for number in range(100_000):
            log.write(f"line {number}\n")
        assert not log.flush(0)
        assert log.lines_dropped > 0
        expected = 0
        while expected < 100_000:
            for line in reader.read_until(b"\n").splitlines():
                if missing := NOTICE.match(line):
                    expected += int(missing[1])
                else:
                    assert line == b"line %d" % expected
                    expected += 1
        log.write("after\n")
        assert reader.read_until(b"\n") == b"after\n"
        assert log.flush()
        log.close()


def test_no_flag_of_a_shared_description_is_changed(reader):
    before = fcntl.fcntl(reader.fd, fcntl.F_GETFL)
    log = StderrLog(reader.fd, limit=1000)
    log.write("x" * 99 + "\n")
    for _ in range(10_000):
        log.write("x" * 99 + "\n")
    assert fcntl.fcntl(reader.fd, fcntl.F_GETFL) == before
    assert os.get_blocking(reader.fd)
    log.close()


def test_closing_does_not_wait_for_a_reader(reader):
    with nothing_left_behind():
        log = StderrLog(reader.fd)
        for _ in range(10_000):
            log.write("x" * 99 + "\n")
        log.close()
        log.close()
        log.write("too late\n")
        # Only where the thread is inside a blocking write does it need this to end.
        received = os.read(reader.far, 10_000_000)
    assert b"too late" not in received


def test_a_line_longer_than_the_limit_is_cut_and_the_count_has_its_own_line(pipe):
    log = StderrLog(pipe.fd, limit=1000)
    log.write("y" * 1_000_000 + "\n")
    first, notice = pipe.read_until(b"in time\n").splitlines()
    assert set(first) == {ord("y")}
    assert NOTICE.match(notice)[1] == b"1"
    log.close()


def test_our_own_lines_begin_on_a_new_line(pipe):
    log = StderrLog(pipe.fd)
    log.write_lines("first\n")
    log.write("What is your name? ")
    log.write_lines("second\n")
    log.write_lines("third\n")
    assert pipe.read_until(b"third\n") == b"first\nWhat is your name? \nsecond\nthird\n"
    log.close()


def test_of_many_lines_in_one_piece_those_that_fit_are_kept(pipe):
    log = StderrLog(pipe.fd, limit=1000)
    fill(pipe.fd)
    log.write("".join(f"{number:09}\n" for number in range(1000)))
    assert log.lines_dropped == 900
    received = pipe.read_until(b"in time\n").lstrip(b"-").splitlines()
    assert received == [b"%09d" % number for number in range(100)] + [b"... 900 lines dropped, because stderr was not read in time"]
    log.close()


def fill(fd):
    """Fill a pipe over a description of the test's own."""
    filler = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(filler, b"-" * 4096)
    except BlockingIOError:
        os.close(filler)


@pytest.mark.slow
def test_lines_of_many_threads_stay_whole(pipe):
    log = StderrLog(pipe.fd, limit=10_000_000)

    def write(name):
        for number in range(2000):
            log.write(f"{name} {number} {'x' * number}\n")

    writers = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for writer in writers:
        writer.start()
    received = b""
    while received.count(b"\n") < 8000:
        received += os.read(pipe.far, 65536)
    for writer in writers:
        writer.join()
    for name in "abcd":
        mine = [line for line in received.decode().splitlines() if line.startswith(name)]
        assert mine == [f"{name} {number} {'x' * number}" for number in range(2000)]
    log.close()


def test_a_nested_write_is_queued(pipe):
    """A signal handler, or a finalizer, that logs in the middle of a write."""
    log = StderrLog(pipe.fd)
    send = log._target.send

    def interrupted(data):
        log._target.send = send
        taken = send(data[:3])
        log.write("from a signal handler\n")
        return taken

    log._target.send = interrupted
    log.write("interrupted\n")
    assert pipe.read_until(b"handler\n") == b"interrupted\nfrom a signal handler\n"
    log.close()


def test_a_file_is_written_at_once_and_where_it_ended(tmp_path):
    path = tmp_path / "log"
    path.write_text("before\n")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    with nothing_left_behind():
        log = StderrLog(fd)
        log.write("line\n")
        assert path.read_text() == "before\nline\n"
        assert log._thread is None
        log.close()
    os.close(fd)


def test_what_is_not_open_takes_everything_and_keeps_nothing():
    read_end, write_end = os.pipe()
    os.close(write_end)
    with nothing_left_behind():
        log = StderrLog(write_end)
        log.write("line\n")
        assert log.flush()
        log.close()
    os.close(read_end)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_without_a_reader_end_lines_are_discarded(kind):
    reader = Reader(kind)
    log = StderrLog(reader.fd)
    for _ in range(10_000):
        log.write("x" * 99 + "\n")
    assert not log.flush(0)
    os.close(reader.far)
    assert log.flush(60)
    log.write("more\n")
    assert log.flush(60)
    log.close()
    os.close(reader.fd)


def test_a_full_disk_raises_nothing():
    full = os.open("/dev/full", os.O_WRONLY)
    log = StderrLog(full)
    log.write("line\n")
    assert log.flush()
    log.close()
    os.close(full)


def test_lines_are_kept_until_a_thread_can_be_started(pipe, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    log = StderrLog(pipe.fd)
    fill(pipe.fd)
    with nothing_left_behind(), monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        log.write("first\n")
    log.write("second\n")
    assert pipe.read_until(b"second\n").lstrip(b"-") == b"first\nsecond\n"
    log.close()


def test_a_default_timeout_of_the_program_does_not_make_a_write_wait():
    reader = Reader("socket")
    socket.setdefaulttimeout(3600)
    try:
        log = StderrLog(reader.fd, limit=1000)
    finally:
        socket.setdefaulttimeout(None)
    while not log.lines_dropped:
        log.write("x" * 99 + "\n")
    log.close()
    reader.close()


def test_a_duplicate_is_never_taken_for_a_standard_stream():
    program = "import os; from twopipes._channels.stderr import duplicate; os.close(0); os.close(1); os._exit(duplicate(2))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode > 2
    fd = duplicate(2)
    assert not os.get_inheritable(fd)
    os.close(fd)


# The interpreter's own streams


def make_stderr(pipe, monkeypatch):
    """sys.stderr as an interpreter makes it, over a pipe. Not a fixture: pytest makes its own at the start of each test."""
    stream = io.TextIOWrapper(os.fdopen(pipe.fd, "wb", closefd=False), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "__stderr__", stream)
    return stream


def test_a_stored_sys_stderr_is_rerouted_and_restored(pipe, monkeypatch):
    own_stderr = make_stderr(pipe, monkeypatch)
    log = StderrLog(pipe.fd)
    handler = logging.StreamHandler()
    undo = reroute("stderr", LogStream(log, pipe.fd, "<stderr>"))
    assert sys.stderr is own_stderr
    assert handler.stream.encoding == "utf-8"
    fill(pipe.fd)
    handler.handle(logging.makeLogRecord({"msg": "größer"}))
    own_stderr.write("half a line")
    assert (own_stderr.fileno(), own_stderr.name, own_stderr.isatty()) == (pipe.fd, "<stderr>", False)
    undo()
    undo()
    assert (own_stderr.encoding, own_stderr.errors, own_stderr.line_buffering) == ("ascii", "strict", False)
    assert pipe.read_until(b"half a line").lstrip(b"-") == "größer\nhalf a line".encode()
    print("ordinary again", file=own_stderr, flush=True)
    assert pipe.read_until(b"\n") == b"ordinary again\n"
    log.close()
    own_stderr.detach().close()


def test_a_stream_over_another_descriptor_is_not_changed(pipe, monkeypatch):
    captured = io.StringIO()
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    monkeypatch.setattr(sys, "stderr", captured)
    monkeypatch.setattr(sys, "__stderr__", closed)
    log = StderrLog(pipe.fd)
    undo = reroute("stderr", LogStream(log, pipe.fd, "<stderr>"))
    sys.stderr.write("captured\n")
    undo()
    assert captured.getvalue() == "captured\n"
    log.close()


def test_a_missing_stream_is_created_temporarily(pipe, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    log = StderrLog(pipe.fd)
    undo = reroute("stderr", LogStream(log, pipe.fd, "<stderr>"))
    sys.stderr.write("line\n")
    assert pipe.read_until(b"\n") == b"line\n"
    undo()
    assert sys.stderr is None
    log.close()


def test_a_stream_that_was_closed_meanwhile_stays_closed(pipe, monkeypatch):
    own_stderr = make_stderr(pipe, monkeypatch)
    log = StderrLog(pipe.fd)
    raw = LogStream(log, pipe.fd, "<stderr>")
    undo = reroute("stderr", raw)
    own_stderr.close()
    with pytest.raises(ValueError, match="closed"):
        raw.write(b"x")
    undo()
    assert own_stderr.closed
    log.close()


# Real children whose stderr is a pipe without a reader

# Answers lines; before each answer it logs ten megabytes in every way that Python has.
NOISY = """
import logging, os, sys
logging.basicConfig(level="INFO")
from twopipes._channels.stdout_guard import Guard

with Guard.take() as guard:
    with open(guard.stdin_fd, "rb", closefd=False) as wire:
        for line in wire:
            for number in range(20_000):
                logging.info("x" * 100)
                print("x" * 100, file=sys.stderr)
                print("x" * 100)
                guard.log.write("x" * 100 + "\\n")
                sys.__stderr__.write("x" * 100 + "\\n")
            os.write(guard.stdout_fd, line)
"""


def test_a_server_whose_stderr_is_never_read_answers():
    """FR-06, FR-04: stderr fills up, stdout stays clean, although the host never reads stderr."""
    with subprocess.Popen(
        [sys.executable, "-c", NOISY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        for line in (b"one\n", b"two\n"):
            child.stdin.write(line)
            child.stdin.flush()
            assert child.stdout.readline() == line
        dropped = next(match for line in child.stderr if (match := NOTICE.match(line.rstrip())))
        assert int(dropped[1]) > 100_000
        rest, _ = child.communicate()
        assert rest == b""
    assert child.returncode == 0


def test_a_server_whose_stderr_is_never_read_ends():
    with subprocess.Popen(
        [sys.executable, "-c", NOISY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdin.write(b"one\n")
        child.stdin.close()
        assert child.stdout.read() == b"one\n"
        assert child.wait() == 0


# Fills its stderr, so that the writing thread exists, and logs in the child of a fork, where it does not.
FORKS = """
import os
from twopipes._channels.stderr import StderrLog
log = StderrLog(limit=1000)
while not log.lines_dropped:
    log.write("x" * 99 + chr(10))
if os.fork() == 0:
    log.write("in the child" + chr(10))
    log.flush(0)
    log.close()
    os._exit(7)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_forked_child_logs_without_the_parents_thread():
    # Python 3.12 and later warn of such a fork, on the stderr that is not read here.
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", FORKS], stderr=subprocess.PIPE) as child:
        assert child.wait() == 7


def test_a_traceback_comes_out_at_the_end():
    take = "from twopipes._channels.stdout_guard import Guard; guard = Guard.take()"
    program = f"{take}; print(chr(233) * 9, end=''); raise OSError(5, 'why')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    )
    assert done.returncode == 1
    assert b"OSError: [Errno %d] why" % errno.EIO in done.stderr
    assert "é" * 9 in done.stderr.decode()
    assert done.stdout == b""


def test_a_flushed_line_is_written_although_a_thread_writes(reader, monkeypatch):
    """A program may flush its last words and call os._exit()."""
    monkeypatch.setattr("twopipes._channels.stderr.SETTLE", 30)  # for a busy machine
    log = StderrLog(reader.fd)
    stream = io.TextIOWrapper(LogStream(log, reader.fd, "<stderr>"), encoding="utf-8", line_buffering=True)
    stream.write("last words\n")
    assert select.select([reader.far], [], [], 0)[0], "it must be there now"
    assert os.read(reader.far, 100) == b"last words\n"
    log.close()


def test_a_flush_waits_once_for_a_pipe_that_is_not_read(pipe, monkeypatch):
    waits = []
    monkeypatch.setattr("twopipes._channels.stderr._reopen", lambda _: None)
    log = StderrLog(pipe.fd)
    monkeypatch.setattr(log._written, "wait", waits.append)
    stream = LogStream(log, pipe.fd, "<stderr>")
    os.set_blocking(pipe.fd, True)
    stream.write(b"x" * 200_000)
    for _ in range(5):
        stream.flush()
    assert len(waits) == 1
    left = 200_000
    while left:
        left -= len(os.read(pipe.far, left))
    assert log.flush(30)
    log.close()
