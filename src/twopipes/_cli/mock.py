"""``twopipes mock``: a server that answers from a recording."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from signal import SIGTERM, signal

from twopipes._tools.mock.exchanges import Recording
from twopipes._tools.mock.server import Mock
from twopipes._trace.reader import read

__all__ = ["mock"]

_USAGE = "usage: twopipes mock FILE [--strict]"
_HELP = f"""\
{_USAGE}

A server that answers from a recording, for tests without the real one. Put it where the server's command would stand: it
speaks on standard input and output, and ends when its input does.

A request is answered as the recorded one with the same method and params was; _meta, ids, progress tokens and requestState do
not count. Equal requests get their answers in the recorded order, and then the last one again and again. What the server said
meanwhile (progress, logs, questions to the client) is said again. A client may come in another revision than the recorded one, with
or without a handshake: the answers are put into its words. A request that the recording does not have gets an error that names
the nearest one, and a line on stderr.

options
  --strict  answer only what was recorded, as often and in the revision in which it was; exit with 1 if anything else was asked

examples
  twopipes tap -o session.jsonl -- python server.py    (record it)
  twopipes mock session.jsonl                          (and have it without the server)

exit codes
  0  the input ended, or a signal came
  1  --strict, and something was asked that the recording does not have
  2  the command line is wrong, or the recording cannot be read
"""

_CHUNK = 64 * 1024
_UNMATCHED = 1
_MISTAKEN = 2
_BOM = b"\xef\xbb\xbf"


def mock(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    words = list(arguments)
    if words in (["--help"], ["-h"]):
        sys.stdout.write(_HELP)
        return 0
    is_strict = "--strict" in words
    words = [word for word in words if word != "--strict"]
    unknown = [word for word in words if word.startswith("-") and word != "-"]
    if unknown:
        return _mistaken(f"{unknown[0]} is not understood. {_USAGE}")
    if len(words) != 1:
        return _mistaken(f"which recording? {_USAGE}" if not words else f"one recording, not {len(words)}. {_USAGE}")
    try:
        trace = read(words[0])
    except OSError as error:
        return _mistaken(f"{words[0]} cannot be read: {error.strerror}")
    except ValueError as error:
        return _mistaken(f"{words[0]} is not a recording: {error}")
    recording = Recording(trace.header, trace.whole_lines())
    return _serve(Mock(recording, name=trace.path.name, strict=is_strict), strict=is_strict)


def _mistaken(text: str) -> int:
    sys.stderr.write(f"Error: {text}\n")
    return _MISTAKEN


def _serve(player: Mock, *, strict: bool) -> int:
    signal(SIGTERM, _leave)
    try:
        for line in _lines():
            player.receive(line)
            if player.complaints:
                _write(2, "".join(f"twopipes mock: {complaint}\n" for complaint in player.complaints).encode("utf-8", "replace"))
                player.complaints.clear()
            if player.out:
                # FR-01: each message is one line.
                _write(1, b"".join(line + b"\n" for line in player.out))
                player.out.clear()
    except KeyboardInterrupt:
        pass  # Ctrl-C, or SIGTERM: whoever wants us to end need not be told more
    except BrokenPipeError:
        pass  # nobody hears us any more
    return _UNMATCHED if strict and player.unmatched else 0


def _leave(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _lines() -> Iterator[bytes]:
    """The lines of standard input; the last one also without a newline (FR-15)."""
    begun: list[bytes] = []
    is_first = True
    while data := os.read(0, _CHUNK):
        if is_first:
            is_first = False
            data = data.removeprefix(_BOM)
        *whole, rest = data.split(b"\n")
        for line in whole:
            yield b"".join([*begun, line])
            begun.clear()
        if rest:
            begun.append(rest)
    if begun:
        yield b"".join(begun)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
