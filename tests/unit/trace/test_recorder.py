"""A recorder: everything is in the file or counted, and the recorded program neither waits nor fails."""

import errno
import itertools
import os
import select
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from open_files import open_files
from systems import STATE_VARIABLE, WINDOWS
from twopipes._trace import recorder as record_module
from twopipes._trace.file import TraceFile, _open
from twopipes._trace.format import Header, decode_entry
from twopipes._trace.writer import Writer
from twopipes._version import __version__
from twopipes.trace import Event, Line, Recorder, default_path, header_for, read

pytestmark = pytest.mark.slow  # slow disks and readers

# Seconds: a net, not an assertion.
NET = 30


def ticking():
    """A clock that goes on by a second each time somebody looks; the first look is the start."""
    return itertools.count(100.0).__next__


def recorder_of(path, **options):
    return Recorder(path, header_for("tap", argv=["server"]), **{"clock": ticking(), **options})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.jsonl"


# What is written


def test_lines_and_events_are_written_in_order_with_their_time(path):
    recorder = recorder_of(path)
    recorder.event("spawn", pid=7)
    recorder.line(">", b"hello")
    recorder.line("<", b"\xff")
    recorder.line("!", b"oh", connection=3)
    recorder.event("exit", code=0)
    assert recorder.close(NET)
    assert list(read(path)) == [
        Event(at=1.0, name="spawn", pid=7),
        Line(2.0, ">", b"hello"),
        Line(3.0, "<", b"\xff"),
        Line(4.0, "!", b"oh", connection=3),
        Event(at=5.0, name="exit", code=0),
    ]
    assert not recorder.losses


def test_chunks_are_cut_into_lines_by_direction_and_connection(path):
    recorder = recorder_of(path)
    recorder.chunk(">", b"one\ntw")
    recorder.chunk("<", b"x\r\n")
    recorder.chunk(">", b"A\n", connection=1)
    recorder.chunk(">", b"o\n")
    assert recorder.close(NET)
    assert list(read(path)) == [
        Line(1.0, ">", b"one"),
        Line(2.0, "<", b"x\r"),
        Line(3.0, ">", b"A", connection=1),
        Line(4.0, ">", b"two"),
    ]


def test_a_time_can_be_given(path):
    recorder = recorder_of(path)
    recorder.line(">", b"x", at=110.25)
    recorder.event("eof", stream=">", at=111.0)
    recorder.close(NET)
    assert [entry.at for entry in read(path)] == [10.25, 11.0]


def test_a_line_without_an_end_is_written_at_the_end_of_its_direction(path):
    recorder = recorder_of(path)
    recorder.chunk("<", b"half")
    recorder.chunk("!", b"other")
    recorder.event("eof", stream="<")
    recorder.close(NET)
    assert list(read(path)) == [
        Line(3.0, "<", b"half", is_whole=False),
        Event(at=3.0, name="eof", stream="<"),
        Line(5.0, "!", b"other", is_whole=False),
    ]


def test_pieces_of_a_line_can_be_given(path):
    recorder = recorder_of(path)
    recorder.line("<", b"a", is_whole=False)
    recorder.line("<", b"b", is_whole=False)
    recorder.line("<", b"c")
    recorder.close(NET)
    assert list(read(path).whole_lines()) == [Line(3.0, "<", b"abc")]


def test_a_long_line_is_written_in_pieces(path):
    recorder = recorder_of(path)
    data = "é€😀".encode() * 500_000
    recorder.chunk("<", data[:3_000_001])
    recorder.chunk("<", data[3_000_001:] + b"\n")
    recorder.close(NET)
    pieces = [entry for entry in read(path) if isinstance(entry, Line)]
    assert len(pieces) > 3
    assert max(len(piece.data) for piece in pieces) <= 1024 * 1024
    (line,) = read(path).whole_lines()
    assert line.data == data


def test_only_the_owner_can_read_the_file(path):
    recorder_of(path).close(NET)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_behind_a_link_is_for_its_owner_alone_before_anything_is_written(path, tmp_path):
    target = tmp_path / "target"
    target.write_text("")
    target.chmod(0o644)
    path.symlink_to(target)
    recorder_of(path).close(NET)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert read(target).header.recorder == "tap"


def test_a_recording_of_nothing_has_a_header(path):
    assert recorder_of(path).close(NET)
    assert read(path).header.recorder == "tap"
    assert list(read(path)) == []


def test_an_earlier_recording_is_moved_and_not_lost(path):
    for number in range(3):
        recorder = recorder_of(path)
        recorder.line(">", b"%d" % number)
        recorder.close(NET)
    names = ["x-1.jsonl", "x-2.jsonl", "x.jsonl"]
    assert sorted(each.name for each in path.parent.iterdir()) == names
    assert [line.data for name in names for line in read(path.parent / name)] == [b"0", b"1", b"2"]


def test_a_recording_that_is_under_way_goes_on_under_its_new_name(path):
    first = recorder_of(path, must_open=True)
    second = recorder_of(path, must_open=True)
    first.line(">", b"first")
    second.line(">", b"second")
    assert first.close(NET)
    assert second.close(NET)
    assert [line.data for line in read(path)] == [b"second"]
    assert [line.data for line in read(path.with_name("x-1.jsonl"))] == [b"first"]


def test_a_link_is_followed_and_not_moved(path):
    target = path.with_name("target.jsonl")
    target.write_bytes(b"")
    path.symlink_to(target)
    recorder_of(path).close(NET)
    assert path.is_symlink()
    assert read(target).header.recorder == "tap"


def test_nothing_is_left_behind(path):
    threads = threading.active_count()
    recorder = recorder_of(path, must_open=True)
    recorder.line(">", b"x")
    assert open_files(path.parent) == {path}
    recorder.close(NET)
    recorder.close(NET)
    assert threading.active_count() == threads
    assert not open_files(path.parent)


def test_what_comes_after_the_end_is_counted(path):
    recorder = recorder_of(path)
    recorder.close(NET)
    recorder.line(">", b"late")
    recorder.event("exit", code=0)
    assert (recorder.losses.lines, recorder.losses.size) == (2, 4)
    assert "closed" in recorder.losses.reason
    assert not recorder.close(NET)


def test_a_program_that_forgets_to_close_has_its_recording(path):
    text = "import sys; from twopipes._trace.recorder import *; Recorder(sys.argv[1], header_for('tap')).line('>', b'x')"
    subprocess.run([sys.executable, "-c", text, path], check=True, timeout=NET)
    assert [line.data for line in read(path)] == [b"x"]


def test_a_callback_is_called_at_the_end(path):
    recorder = recorder_of(path)
    reported = threading.Event()
    recorder.finish(reported.set)
    assert reported.wait(NET)
    assert recorder.close(NET)
    again = threading.Event()
    recorder.finish(again.set)
    assert again.is_set()


INTERRUPTED = """
import signal, sys, threading
from twopipes.trace import Recorder, header_for

recorder, times = Recorder(sys.argv[1], header_for("tap")), 0

def handle(*_):
    global times
    times += 1
    recorder.event("signal", signal="SIGALRM")
    recorder.line("!", b"handled")
    if times < 1000:  # one signal at a time, so that a slow handler leaves time for what it interrupts
        signal.setitimer(signal.ITIMER_REAL, 0.0005)

def write(kind):
    for number in range(2000):
        recorder.line(kind, b"%d" % number)

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0005)
other = threading.Thread(target=write, args=("<",))
other.start()
write(">")
other.join()
signal.setitimer(signal.ITIMER_REAL, 0)
assert recorder.close(30)
print(times)
"""


def test_signal_handlers_and_threads_may_record_in_the_middle_of_anything(path):
    # In a process of its own: coverage holds a lock while it starts to trace a file, and its tracer hangs in a signal handler.
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, path], check=True, timeout=NET, capture_output=True, text=True)
    entries = list(read(path))
    for kind in "><":
        assert [line.data for line in entries if isinstance(line, Line) and line.kind == kind] == [b"%d" % n for n in range(2000)]
    assert sum(isinstance(entry, Event) for entry in entries) == int(done.stdout) > 0


# Promptly


class Fifo:
    """A file whose reader decides when the disk is quick."""

    def __init__(self, path):
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.data = b""

    def read_until(self, wanted):
        while wanted not in self.data:
            assert select.select([self.fd], [], [], NET)[0], self.data
            self.data += os.read(self.fd, 65536)

    def read_to_the_end(self):
        while select.select([self.fd], [], [], NET)[0] and (data := os.read(self.fd, 65536)):
            self.data += data


@pytest.fixture
def fifo(path):
    fifo = Fifo(path)
    yield fifo
    os.close(fifo.fd)


def test_an_entry_is_there_at_once(path, fifo):
    recorder = recorder_of(path)
    recorder.line(">", b"first")
    fifo.read_until(b"first")
    recorder.line(">", b"second")
    fifo.read_until(b"second")
    assert recorder.close(NET)


def test_half_a_line_is_there_before_its_end(path, fifo):
    """A reader that follows the recording sees output without a newline."""
    recorder = recorder_of(path)
    recorder.chunk("<", b"half a line")
    fifo.read_until(b'"line":"half a line","open":true')
    recorder.chunk("<", b", and its end\n")
    fifo.read_until(b'"line":", and its end"}')
    assert recorder.close(NET)


# What goes wrong


def test_a_disk_that_is_too_slow_costs_lines_that_are_counted(path, fifo):
    """The caller does not wait; every line is in the recording or reported as missing, in its place."""
    reported = []
    recorder = recorder_of(path, max_queued=100_000, on_loss=reported.append)
    sent = 0
    while not recorder.losses:
        recorder.line(">", b"%06d %s" % (sent, b"x" * 1000))
        sent += 1
        assert sent < 1_000_000
    fifo.read_until(b"000050")
    reading = threading.Thread(target=fifo.read_to_the_end)
    reading.start()
    for _ in range(200):
        recorder.line(">", b"%06d" % sent)
        sent += 1
    assert not recorder.close(NET)
    reading.join(NET)
    assert len(reported) == 1
    assert str(path) in reported[0]
    _, *entries = fifo.data.splitlines()
    position = 0
    for entry in map(decode_entry, entries):
        if isinstance(entry, Line):
            assert int(entry.data[:6]) == position
            position += 1
        else:
            assert (entry.name, entry.stream) == ("lost", ">")
            position += entry.lines
    assert position == sent


def test_a_reader_that_never_reads_does_not_block_close(path, fifo):
    recorder = recorder_of(path)
    for _ in range(3000):
        recorder.line("<", b"x" * 1000)
    assert not recorder.close(0.05)
    assert recorder.losses.lines > 0
    recorder._thread.join(NET)
    assert not recorder._thread.is_alive()
    fifo.read_to_the_end()
    written = fifo.data[: fifo.data.rfind(b"\n") + 1].splitlines()[1:]
    assert len(written) + recorder.losses.lines == 3000


def test_a_fifo_without_a_reader_is_an_error_instead_of_a_wait(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
        recorder_of(path, must_open=True)
    recorder = recorder_of(path)
    recorder.line(">", b"x")
    assert not recorder.close(NET)
    assert recorder.losses.lines == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported_once(tmp_path):
    reported = []
    recorder = recorder_of("/dev/full", on_loss=reported.append)
    for _ in range(10):
        recorder.line(">", b"abc")
    assert not recorder.close(NET)
    assert (recorder.losses.lines, recorder.losses.size, recorder.losses.reason) == (10, 30, os.strerror(errno.ENOSPC))
    assert reported == [f"the trace /dev/full is incomplete: {os.strerror(errno.ENOSPC)}"]


def test_a_missing_folder_is_reported_and_tried_again(tmp_path):
    reported = threading.Event()
    path = tmp_path / "folder" / "x.jsonl"
    recorder = recorder_of(path, on_loss=lambda _: reported.set())
    recorder.line(">", b"lost")
    assert reported.wait(NET)
    path.parent.mkdir()
    recorder.line(">", b"kept")
    assert not recorder.close(NET)
    lost, kept = read(path)
    assert (lost.name, lost.stream, lost.lines, lost.size) == ("lost", ">", 1, 4)
    assert lost.reason == os.strerror(errno.ENOENT)
    assert kept == Line(2.0, ">", b"kept")


def test_a_file_that_must_be_there_is_opened_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        recorder_of(tmp_path / "nowhere" / "x.jsonl", must_open=True)
    with pytest.raises(IsADirectoryError):
        recorder_of(tmp_path, must_open=True)


def test_a_failure_of_the_recorder_does_no_harm(path):
    def broken():
        raise KeyError("a header")

    reported = []
    recorder = Recorder(path, broken, on_loss=reported.append)
    recorder.line(">", b"x")
    assert not recorder.close(NET)
    assert len(reported) == 1


class Disk:
    """Takes so many bytes, whole lines only, and then no more."""

    def __init__(self, *rooms):
        self.rooms = list(rooms)
        self.data = b""
        self.error = None

    def write(self, data):
        room = self.rooms.pop(0) if self.rooms else len(data)
        kept = len(data) if room >= len(data) else data.rfind(b"\n", 0, room) + 1
        self.error = None if kept == len(data) else OSError(errno.ENOSPC, "full")
        self.data += data[:kept]
        return kept

    def entries(self):
        return [decode_entry(line) for line in self.data.splitlines()[1:]]


def writer_of(redact=()):
    counted = []
    return Writer(Header(version=1), redact, lambda *loss: counted.append(loss)), counted


def test_a_disk_that_was_full_has_the_loss_and_then_what_came_later():
    writer, counted = writer_of()
    disk = Disk(0, 60)
    writer.take((0.1, ">", b"first\n", False, 0))
    writer.write(disk)
    assert disk.data == b""
    writer.take((0.2, ">", b"second\n", False, 0))
    writer.write(disk)  # the header fits by now
    writer.take((0.3, "<", b"third\n", False, 0))
    writer.write(disk)
    lost, third = disk.entries()
    assert (lost.name, lost.stream, lost.lines, lost.size, lost.reason) == ("lost", ">", 2, 11, "full")
    assert third == Line(0.3, "<", b"third")
    assert counted == [(1, 5, "full"), (1, 6, "full")]


def test_what_fits_is_kept():
    writer, counted = writer_of()
    disk = Disk(120)
    for number in range(5):
        writer.take((0.1, ">", b"%d" % number, True, 0))
    writer.write(disk)
    kept = len(disk.entries())
    assert 0 < kept < 5
    writer.take((0.2, ">", b"5", True, 0))
    writer.write(disk)
    assert len(counted) == 5 - kept
    *first, lost, last = disk.entries()
    assert [line.data for line in first] == [b"%d" % number for number in range(kept)]
    assert (lost.lines, last.data) == (5 - kept, b"5")


def test_the_end_of_a_line_whose_middle_is_lost_is_not_taken_for_a_line():
    writer, _ = writer_of()
    disk = Disk(10**9, 0)
    mib = 1024 * 1024
    writer.take((0.1, "<", b"a" * (mib + 1), False, 0))
    writer.write(disk)
    writer.take((0.2, "<", b"b" * mib, False, 0))
    writer.write(disk)
    writer.take((0.3, "<", b"c" * 10 + b"\nnext\n", False, 0))
    writer.write(disk)
    writer.write(disk)
    first, lost, following = disk.entries()[0], disk.entries()[1:-1], disk.entries()[-1]
    assert (len(first.data), first.is_whole) == (mib, False)
    assert {event.name for event in lost} == {"lost"}
    assert sum(event.size for event in lost) + len(first.data) == 2 * mib + 11
    assert following == Line(0.3, "<", b"next")


def test_a_loss_that_could_not_be_written_is_written_later_and_counted_once():
    writer, counted = writer_of()
    disk = Disk(0)
    writer.take((0.1, "=", "lost", ((0, ">"), 4, 40, True), 0))
    writer.write(disk)
    writer.take((0.2, ">", b"x", True, 0))
    writer.write(disk)
    lost, line = disk.entries()
    assert (lost.lines, lost.size, line.data) == (4, 40, b"x")
    assert counted == []


def test_an_incomplete_line_is_truncated(path):
    """The disk is full in the middle of a line: the file ends with the line before it."""
    program = """
import resource, signal, sys
from twopipes._trace.file import TraceFile
file = TraceFile(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
assert file.write(b"first\\nsecond\\n") == 6
assert file.error is not None
assert file.write(b"third\\n") == 0
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert file.write(b"fourth\\n") == 7
file.close()
"""
    subprocess.run([sys.executable, "-c", program, path], check=True, timeout=NET)
    assert path.read_bytes() == b"first\nfourth\n"


@pytest.mark.parametrize("windows", [True, False])
def test_a_file_that_cannot_be_renamed_keeps_its_name(path, monkeypatch, windows):
    path.write_bytes(b"of somebody else")

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "replace", refuse)
    if windows:
        name, fd = _open(str(path), windows=True)
        os.close(fd)
        assert name == str(path.with_name("x-1.jsonl"))
    else:
        with pytest.raises(PermissionError):
            _open(str(path), windows=False)
        assert [each.name for each in path.parent.iterdir()] == ["x.jsonl"]
    assert path.read_bytes() == b"of somebody else"


def test_an_incomplete_line_that_cannot_be_truncated_is_ended(path, fifo):
    """Data in a FIFO cannot be truncated."""
    file = TraceFile(str(path), is_given_up=lambda: True)
    kept = file.write(b"x" * 65530 + b"\nsecond\n")
    assert kept == 65531
    assert file.error is not None
    fifo.read_until(b"\n")
    assert file.write(b"third\n") == 6
    file.close()
    fifo.read_to_the_end()
    assert fifo.data.splitlines()[1:] == [b"secon", b"third"]


# Header and place


def test_a_header_has_the_command_and_no_value_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "sesame")
    header = header_for("tap", argv=["server", "--api-key", "s", "x"], redact=["api_key"], now=1785225600.5)()
    assert header.started == "2026-07-28T08:00:00.500Z"
    assert (header.version, header.recorder, header.recorder_version) == (1, "tap", __version__)
    assert header.argv == ("server", "--api-key", "[redacted]", "x")
    assert header.redacted == ("api_key",)
    assert header.cwd == str(tmp_path)
    assert "TOKEN" in header.environment
    assert list(header.environment) == sorted(header.environment)
    assert "sesame" not in repr(header)
    assert sys.implementation.name in header.platform


def test_a_header_can_have_another_folder_and_environment():
    header = header_for("client", target="unix:/x", cwd="/there", environment={"B": "secret", "A": "secret"})()
    assert (header.target, header.cwd, header.environment) == ("unix:/x", "/there", ("A", "B"))


def test_names_that_are_not_text_are_escaped(path):
    recorder = Recorder(path, header_for("tap", argv=[os.fsdecode(b"caf\xe9")], cwd=os.fsdecode(b"/\xff")))
    recorder.close(NET)
    assert read(path).header.argv == ("caf\\xe9",)


def test_a_removed_folder_does_not_fail(monkeypatch):
    def gone():
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", gone)
    assert header_for("tap")().cwd == ""


def test_the_default_is_a_fresh_file_in_the_state_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    found = default_path("my server/../x.py", now=1785225600.0)
    assert found == str(tmp_path / "twopipes" / "traces" / f"20260728T080000Z-my_server_.._x.py-{os.getpid()}.jsonl")
    folder = tmp_path / "twopipes" / "traces"
    assert WINDOWS or stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.iterdir()) == []
    assert default_path("...", now=0.0).endswith(f"19700101T000000Z-server-{os.getpid()}.jsonl")


def test_nothing_heavy_is_imported_before_something_is_written():
    """Hosts wait for `twopipes tap`."""
    program = """
import queue, sys, threading
before = set(sys.modules)
import twopipes._trace.recorder
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=NET, capture_output=True, text=True)
    assert set(done.stdout.split()) <= {
        "atexit",
        "twopipes",
        "twopipes._lazy",
        "twopipes._trace",
        "twopipes._trace.recorder",
        "__future__",
    }
    assert record_module.TYPE_CHECKING is False
