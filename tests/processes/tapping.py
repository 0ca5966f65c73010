"""The shared part of the tests of ``twopipes tap``: awkward bytes, minimal servers, and access to a trace."""

import threading

from processes.children import program
from processes.launching import NET, python
from twopipes.trace import Event, Line, read

MIB = 1024 * 1024
# Bytes that a line-oriented program would change.
NASTY = b'{"a": 1}\r\n\n\xff\xfe not UTF-8 \x00\n\xef\xbb\xbfBOM\r\rtwice\n\xe2\x80\xa8\x1b[31m \xc3\nno end'

# Writes what it reads to both stdout and stderr.
ECHO = """
    import os
    while data := os.read(0, 65536):
        os.write(2, data)
        while data:
            data = data[os.write(1, data):]
"""


def command_of_tap(file, command, *options):
    """Return the command of a server, given as words or as program text, behind a tap."""
    command = program(command) if isinstance(command, str) else command
    return [*python("-m", "twopipes", "tap", "-q", "-o", file), *map(str, options), "--", *map(str, command)]


def bytes_of(path, kind):
    """Return the bytes of one stream in a trace."""
    entries = [entry for entry in read(path) if isinstance(entry, Line) and entry.kind == kind]
    return b"".join(entry.data + b"\n" * entry.is_whole for entry in entries)


def events_of(path):
    return [entry for entry in read(path) if isinstance(entry, Event)]


def names_of(path):
    return [event.name for event in events_of(path)]


def wait_until(holds):
    """Wait for a condition that has no event."""
    pause = threading.Event()
    for _ in range(NET * 100):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it never came to be so")
