"""A tap is transparent: for any bytes in any chunks and any exit of the server, both sides receive the same bytes."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twopipes.trace import Damage, Event, Line, read

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX processes")

# Seconds. Reached only if a test hangs.
NET = 60
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TWOPIPES"))}

# Writes its input to a file. Meanwhile it writes the chunks of a script to its outputs: each has the number of the stream, a length
# and the bytes. Then it exits as the last argument says.
SERVER = """
import os, signal, sys, threading
heard, script, ending = sys.argv[1:]
def listen():
    with open(heard, "wb", buffering=0) as file:
        while data := os.read(0, 4093):
            file.write(data)
listener = threading.Thread(target=listen)
listener.start()
with open(script, "rb") as file:
    while head := file.readline():
        stream, length = map(int, head.split())
        data = file.read(length)
        while data:
            data = data[os.write(stream, data):]
if ending == "close":
    os.close(1)
    os.close(2)
listener.join()
if ending == "crash":
    raise SystemExit(3)
if ending.startswith("SIG"):
    os.kill(os.getpid(), getattr(signal, ending))
"""
ENDINGS = {"eof": 0, "close": 0, "crash": 3, "SIGKILL": -9, "SIGTERM": -15, "SIGSEGV": -11}

# Bytes of all kinds, and often those that a relay could handle wrongly.
AWKWARD = [b"\n", b"\r\n", b"\r", b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x80", b'{"jsonrpc":"2.0"}\n', b"\x1b[2J"]
PIECE = st.one_of(
    st.sampled_from(AWKWARD),
    st.binary(max_size=200),
    st.builds(lambda piece, times: piece * times, st.binary(min_size=1, max_size=9), st.integers(1, 20_000)),
)
PIECES = st.lists(PIECE, max_size=12)


@pytest.mark.slow
@settings(
    max_examples=min(16, settings.default.max_examples), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    asked=PIECES,
    said=st.lists(st.tuples(st.sampled_from([1, 2]), PIECE), max_size=12),
    ending=st.sampled_from(sorted(ENDINGS)),
)
def test_both_sides_and_the_trace_have_the_same_bytes(asked, said, ending):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script, heard, trace = folder / "script", folder / "heard", folder / "trace.jsonl"
        script.write_bytes(b"".join(b"%d %d\n%b" % (stream, len(piece), piece) for stream, piece in said))
        code, stdout, stderr = exchange(
            ["tap", "-q", "-o", str(trace), "--", sys.executable, "-c", SERVER, str(heard), str(script), ending], asked
        )
        question, answer, complaint = (
            b"".join(asked),
            *(b"".join(piece for stream, piece in said if stream == number) for number in (1, 2)),
        )
        assert heard.read_bytes() == question
        assert (stdout, stderr) == (answer, complaint)
        assert code == ENDINGS[ending]
        entries = list(read(trace))
        assert not [entry for entry in entries if isinstance(entry, Damage)]
        assert {kind: recorded(entries, kind) for kind in "><!"} == {">": question, "<": answer, "!": complaint}
        last = entries[-1]
        assert isinstance(last, Event)
        assert last.name == "exit"
        assert (last.code if last.signal is None else -signal.Signals[last.signal]) == code


def recorded(entries, kind):
    lines = [entry for entry in entries if isinstance(entry, Line) and entry.kind == kind]
    return b"".join(line.data + b"\n" * line.is_whole for line in lines)


def exchange(words, pieces):
    """Run the command as a host would, write each chunk with its own call, and read both outputs to their end."""
    host = subprocess.Popen(
        [sys.executable, "-m", "twopipes", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=ENVIRONMENT,
    )
    found = {}
    readers = [
        threading.Thread(target=lambda stream=stream: found.update({stream: stream.read()}))
        for stream in (host.stdout, host.stderr)
    ]
    with host:
        try:
            for reader in readers:
                reader.start()
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[host.stdin.write(rest) :]
            host.stdin.close()
            code = host.wait(NET)
        finally:
            host.kill()
            for reader in readers:
                reader.join(NET)
    return code, found[host.stdout], found[host.stderr]
