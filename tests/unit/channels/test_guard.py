"""Standard output belongs to the protocol: real servers whose code also writes to it."""

import os
import socket
import subprocess
import sys
import textwrap

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX descriptors")]

# Answers each line with itself. A test fills in what the author of the server does, and when.
SERVER = """
import io, logging, os, subprocess, sys, threading
{libc}
{before}
from twopipes._channels.stdout_guard import Guard
with Guard.take() as guard:
    with open(guard.stdin_fd, "rb", closefd=False) as wire:
        for line in wire:
            {tool}
            os.write(guard.stdout_fd, b"answer to " + line)
{after}
"""
# With libffi 3.8 this import keeps a file open, at the lowest free descriptor.
LIBC = "import ctypes; libc = ctypes.CDLL(None)"
# The line of {tool} if {before} has one line.
TOOL = 9
# As a host starts it: the server must not inherit that this test's own interpreter is unbuffered.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def report(line):
    return f"Warning: print() at server.py:{line} went to stderr, because stdout carries the protocol"


@pytest.fixture
def serve(tmp_path):
    """Start the server with two requests on its stdin; return its stdout and stderr."""

    def serve(tool="pass", *, libc=LIBC, before="", after="", arguments=(), environment=(), **streams):
        text = SERVER.format(libc=libc, before=before, tool=tool, after=after)
        return run(text, *arguments, environment=environment, **streams)

    def run(text, *arguments, environment=(), **streams):
        (tmp_path / "server.py").write_text(text)
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        if "stdin" not in streams:
            streams["input"] = b"1\n2\n"
        done = subprocess.run(
            [*arguments, sys.executable, "server.py"],
            cwd=tmp_path,
            env={**ENVIRONMENT, **dict(environment)},
            timeout=60,
            check=False,
            **streams,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.decode().splitlines() if done.stderr is not None else None

    serve.program = run
    return serve


ANSWERS = b"answer to 1\nanswer to 2\n"

PYTHON_WRITES = {
    "print": "print('stray')",
    "print and flush": "print('stray', flush=True)",
    "half a line": "print('str', end=''); print('ay')",
    "write": "sys.stdout.write('stray\\n')",
    "bytes": "sys.stdout.buffer.write(b'stray\\n')",
    "the original": "sys.__stdout__.write('stray\\n')",
    "a reference from before": "kept.write('stray\\n')",
    "a logging handler from before": "handler.handle(logging.makeLogRecord({'msg': 'stray'}))",
    "a thread": "t = threading.Thread(target=print, args=('stray',)); t.start(); t.join()",
    "exec": "exec('print(\"stray\")')",
}
OTHER_WRITES = {
    "descriptor 1": "os.write(1, b'stray\\n')",
    "its number": "os.write(sys.stdout.fileno(), b'stray\\n')",
    "a buffer from before": "buffer.write(b'stray\\n'); buffer.flush()",
    "a buffer from before, unflushed": "buffer.write(b'stray\\n')",
    "a child": "subprocess.run(['echo', 'stray'])",
    "a child that is given sys.stdout": "subprocess.run(['echo', 'stray'], stdout=sys.stdout)",
    "a shell": "os.system('echo stray')",
    "C": "libc.puts(b'stray'); libc.fflush(None)",
    "C, unflushed": "libc.puts(b'stray')",
}
BEFORE = "kept, buffer, handler = sys.stdout, sys.stdout.buffer, logging.StreamHandler(sys.stdout)"


@pytest.mark.parametrize("way", [*PYTHON_WRITES, *OTHER_WRITES])
def test_everything_written_to_stdout_goes_to_stderr(way, serve):
    """FR-04: nothing but messages on stdout."""
    wire, said = serve((PYTHON_WRITES | OTHER_WRITES)[way], before=BEFORE)
    assert wire == ANSWERS
    assert [line for line in said if not line.startswith("Warning:")] == ["stray", "stray"]


@pytest.mark.parametrize("how", ["guarded to the end", "restored"])
@pytest.mark.parametrize("way", OTHER_WRITES)
def test_what_is_written_last_is_not_on_the_wire_either(way, how, serve):
    """FR-04: from spawn to exit. What sits in a buffer of C comes out after the last line of Python."""
    last = "guard.restore()" if how == "restored" else "pass"
    text = f"""
import ctypes, io, logging, os, subprocess, sys
libc = ctypes.CDLL(None)
{BEFORE}
from twopipes._channels.stdout_guard import Guard
guard = Guard.take()
{OTHER_WRITES[way]}
{last}
"""
    assert serve.program(text) == (b"", ["stray"])


def test_a_process_that_exits_guarded_keeps_unknown_buffers_off_the_wire(serve):
    """FR-04: from spawn to exit. This is why a server that is about to end does not restore."""
    text = """
import io, sys
kept = io.TextIOWrapper(sys.stdout.buffer)
from twopipes._channels.stdout_guard import Guard
guard = Guard.take()
print("stray", file=kept)
"""
    assert serve.program(text) == (b"", ["stray"])


def test_what_is_printed_at_the_very_end_is_still_diverted(serve):
    """FR-04: from spawn to exit."""
    text = """
import atexit, sys
atexit.register(print, "at exit")
class Last:
    def __del__(self, write=sys.stdout.write):
        write("at the very end\\n")
from twopipes._channels.stdout_guard import Guard
guard = Guard.take()
last = Last()
"""
    wire, said = serve.program(text)
    assert wire == b""
    assert [line for line in said if not line.startswith("Warning")] == ["at exit", "at the very end"]


@pytest.mark.parametrize("banner", ["print('banner')", "libc.puts(b'banner')", "print('banner', end='')"])
def test_a_banner_that_was_not_flushed_goes_to_stderr(banner, serve):
    """FR-04: the peers let this one through."""
    wire, said = serve(before=banner)
    assert wire == ANSWERS
    assert said == ["banner"]


def test_a_flushed_banner_stays_on_the_wire(serve):
    wire, said = serve(before="print('banner', flush=True)")
    assert wire == b"banner\n" + ANSWERS
    assert said == []


def test_the_first_print_of_each_call_site_is_reported(serve):
    wire, said = serve("print('a'); print('b')\n            print('c')", before="pass")
    assert wire == ANSWERS
    assert said == [report(TOOL), "a", "b", report(TOOL + 1), "c", "a", "b", "c"]


def test_a_report_begins_on_a_new_line(serve):
    wire, said = serve("print('name? ', end='', flush=True)\n            print('Ada')", before="pass")
    assert wire == ANSWERS
    assert said == [report(TOOL), "name? ", report(TOOL + 1), "Ada", "name? Ada"]


def test_a_print_of_the_standard_library_is_reported_for_its_caller(serve):
    wire, said = serve("import pprint; pprint.pprint('a')", before="pass")
    assert wire == ANSWERS
    assert said == [report(TOOL), "'a'", "'a'"]


def test_a_print_without_a_caller_is_reported_for_the_library(serve):
    _, said = serve(PYTHON_WRITES["a thread"])
    warning, *rest = said
    assert "threading.py:" in warning
    assert rest == ["stray", "stray"]


def test_the_number_of_reports_is_bounded(serve):
    tool = "for number in range(1000): exec(compile('print(1)', f'file {number}', 'exec'))"
    wire, said = serve(tool)
    assert wire == ANSWERS
    assert said.count("1") == 2000
    assert len(said) == 2256


def test_a_report_that_fails_does_not_fail_the_print(serve):
    tool = "os.mkdir('gone') if line == b'1\\n' else None; os.chdir('/proc/self/cwd/gone' if line == b'1\\n' else '.');"
    wire, said = serve(f"{tool} os.rmdir(os.getcwd()) if line == b'1\\n' else None; print('stray')", before="pass")
    assert wire == ANSWERS
    # The working folder is gone, so the whole path is reported.
    assert f"/server.py:{TOOL} went to stderr" in said[0]
    assert said[1:] == ["stray", "stray"]


def test_text_that_the_locale_cannot_write_is_utf8_on_stderr(serve):
    """FR-06: UTF-8 text on stderr, also where the host drops LANG."""
    wire, said = serve(
        "print(chr(233), chr(0xdc80)); print(chr(233), file=sys.stderr)",
        environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert wire == ANSWERS
    assert said[1:] == ["é \\udc80", "é"] * 2


def test_tools_and_children_cannot_read_the_requests(serve):
    """A tool that reads stdin gets EOF at once, and so does a child."""
    tool = textwrap.indent(
        textwrap.dedent("""
        try:
            input("name? ")
        except EOFError:
            print("no input", file=sys.stderr)
        assert sys.stdin.read() == ""
        assert os.read(0, 100) == b""
        assert subprocess.run(["cat"], stdout=subprocess.PIPE).stdout == b""
        """),
        " " * 12,
    )
    wire, said = serve(tool)
    assert wire == ANSWERS
    assert [line for line in said if not line.startswith("Warning")] == ["name? no input"] * 2


def test_no_child_inherits_the_wire(serve):
    program = "import os; print(len(os.listdir('/proc/self/fd')))"
    tool = f"subprocess.run([sys.executable, '-c', {program!r}], close_fds=False)"
    wire, said = serve(tool)
    assert wire == ANSWERS
    # Its three standard streams, and the folder that it lists.
    assert said == ["4"] * 2


def test_restore_undoes_everything(serve):
    text = """
import ctypes, io, os, sys  # ctypes may keep a file open, and restore() imports it
def state():
    streams = [(s.encoding, s.errors, s.line_buffering, s.write_through, s.name, s.fileno()) for s in (sys.stdout, sys.stderr)]
    names = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in sorted(os.listdir("/proc/self/fd"), key=int)[:-1]}
    return names, streams, sys.stdin, sys.stdout, sys.stderr, [os.get_inheritable(fd) for fd in (0, 1, 2)]

from twopipes._channels.stdout_guard import Guard
before = state()
guard = Guard.take()
assert Guard.current() is guard
assert state() != before
assert min(guard.stdin_fd, guard.stdout_fd) > 2
print("guarded")
guard.restore()
guard.restore()
assert Guard.current() is None
assert state() == before, (before, state())
print(input(), flush=True)
with Guard.take():
    print("guarded again")
print(input())
"""
    wire, said = serve.program(text)
    assert wire == b"1\n2\n"
    assert [line for line in said if not line.startswith("Warning")] == ["guarded", "guarded again"]


def test_a_standard_output_that_is_a_file_is_put_back(serve, tmp_path):
    """A stream over a file asks for its place in the file, which a pipe does not know."""
    path = tmp_path / "wire"
    with path.open("wb") as wire:
        _, said = serve("print('stray')", before="print('banner')", after="print('after')", stdout=wire)
    assert path.read_bytes() == ANSWERS + b"after\n"
    assert said == ["banner", report(TOOL), "stray", "stray"]


def test_a_process_has_one_guard(serve):
    text = """
from twopipes._channels.stdout_guard import Guard
from twopipes.errors import LocalProtocolError
with Guard.take() as guard:
    try:
        Guard.take()
    except LocalProtocolError as error:
        guard.log.write(str(error))
"""
    assert serve.program(text) == (b"", ["standard input and output are guarded already; a process can serve stdio only once"])


@pytest.mark.parametrize(("closed", "name"), [("<&-", "standard input (descriptor 0)"), (">&-", "standard output (descriptor 1)")])
def test_without_a_wire_nothing_is_taken_and_the_missing_end_is_named(closed, name, serve):
    text = """
import os, sys
from twopipes._channels.stdout_guard import Guard
from twopipes.errors import ChannelClosed
before = os.listdir("/proc/self/fd")
try:
    Guard.take()
except ChannelClosed as error:
    os.write(2, str(error).encode())
assert os.listdir("/proc/self/fd") == before
assert Guard.current() is None
"""
    _, said = serve.program(text, "sh", "-c", f'exec "$0" "$@" {closed}')
    assert said[0].startswith(f"{name} is not open. A stdio server must be started by its host")


def test_without_stderr_prints_are_discarded_and_no_file_gets_its_number(serve):
    tool = "print('stray'); print('stray', file=sys.stderr); f = open('file', 'w'); assert f.fileno() > 2; os.write(2, b'stray')"
    wire, said = serve(tool, libc="", arguments=["sh", "-c", 'exec "$0" "$@" 2>&-'])
    assert wire == ANSWERS
    assert said == []


def test_a_file_that_got_the_number_of_a_closed_stderr_gets_no_prints(serve):
    """Prints are discarded, also those that were in a buffer before."""
    before = "kept = open('server.py'); assert kept.fileno() == 2; print('banner')"
    tool = "print('stray', flush=True); print('stray', file=sys.stderr); assert kept.read(1)"
    wire, said = serve(tool, libc="", before=before, arguments=["sh", "-c", 'exec "$0" "$@" 2>&-'])
    assert wire == ANSWERS
    assert said == []


def test_a_guard_that_cannot_be_taken_is_undone(serve):
    text = """
import ctypes, os, resource, sys  # ctypes may keep a file open, and restore() imports it
from twopipes._channels.stdout_guard import Guard
before = os.listdir("/proc/self/fd")
first = max(map(int, before))  # free again, because it was the folder
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
for allowed in range(first, first + 6):
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, limits[1]))
    try:
        Guard.take().restore()
        break
    except OSError:
        assert Guard.current() is None
        os.write(1, b"%d " % (allowed - first))
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
assert os.listdir("/proc/self/fd") == before
"""
    # A private stderr, two ends of the wire, and for a moment the null device.
    assert serve.program(text) == (b"0 1 2 3 ", [])


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [
        ("sys.stdout = io.StringIO()", []),
        ("sys.stdout = None", ["stray"] * 2),
        ("sys.stdout = open(1, 'w', closefd=False)", ["stray"] * 2),
        ("sys.stdout = sys.stderr", ["stray"] * 2),
    ],
)
def test_a_replaced_standard_output(replaced, expected, serve):
    before = f"was = sys.stdout; {replaced}; now = sys.stdout"  # pytest and others keep the one that was
    wire, said = serve("print('stray')", before=before, after="assert sys.stdout is now")
    assert wire == ANSWERS
    assert [line for line in said if not line.startswith("Warning")] == expected


def test_the_wire_may_be_a_socket_pair(serve):
    """FR-11: hosts written for Node connect sockets where others connect pipes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"1\n2\n")
        ours.shutdown(socket.SHUT_WR)
        _, said = serve("print('stray')", stdin=theirs, stdout=theirs)
        theirs.close()
        assert ours.recv(1000) == ANSWERS
    assert said[1:] == ["stray"] * 2


# Serves through the channel, as a server does, with a tool that prints.
ECHO = """
import asyncio
from twopipes._channels.stdout_guard import Guard
from twopipes._channels.stdio import open_stdio

async def main(guard):
    async with open_stdio(guard.stdin_fd, guard.stdout_fd) as channel:
        while chunk := await channel.read():
            print("stray")
            channel.write(chunk)
            await channel.flush()

with Guard.take() as guard:
    asyncio.run(main(guard))
"""


def test_a_channel_serves_over_the_private_descriptors(serve):
    assert serve.program(ECHO) == (b"1\n2\n", [report(9), "stray"])
