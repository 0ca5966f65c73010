"""What the tests of ``twopipes tap`` share: awkward bytes, servers that are nothing but pipes, and a look into a trace."""

import threading

from processes.children import program
from processes.launching import NET, python
from twopipes.trace import Event, Line, read

MIB = 1024 * 1024
# What no line-minded program would leave as it is.
NASTY = b'{"a": 1}\r\n\n\xff\xfe not UTF-8 \x00\n\xef\xbb\xbfBOM\r\rtwice\n\xe2\x80\xa8\x1b[31m \xc3\nno end'

# Says what it reads, on both of its outputs.
ECHO = """
    import os
    while data := os.read(0, 65536):
        os.write(2, data)
        while data:
            data = data[os.write(1, data):]
"""


def command_of_tap(file, command, *options):
    """A server, as words or as the text of a program, with a tap in front of it."""
    command = program(command) if isinstance(command, str) else command
    return [*python("-m", "twopipes", "tap", "-q", "-o", file), *map(str, options), "--", *map(str, command)]


def bytes_of(path, kind):
    """What a trace holds of one stream, byte for byte."""
    entries = [entry for entry in read(path) if isinstance(entry, Line) and entry.kind == kind]
    return b"".join(entry.data + b"\n" * entry.is_whole for entry in entries)


def events_of(path):
    return [entry for entry in read(path) if isinstance(entry, Event)]


def names_of(path):
    return [event.name for event in events_of(path)]


def wait_until(is_so):
    """Some things nobody tells of."""
    pause = threading.Event()
    for _ in range(NET * 100):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError("it never came to be so")
