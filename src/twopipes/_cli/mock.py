"""``twopipes mock``: serve the responses of a trace. The host waits for it to start, so it imports little."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from signal import SIGTERM, signal

from twopipes._tools.exit_codes import FAILED, OK, exit_code_help
from twopipes._tools.mock.exchanges import Recording
from twopipes._tools.mock.server import Mock
from twopipes._tools.usage import UsageError, read_words
from twopipes._trace.reader import read

_USAGE = "usage: twopipes mock FILE [--strict]"
_HELP = f"""\
{_USAGE}

Serves the responses of a trace, for tests without the real server. Use it in
place of the server's command: it reads standard input, writes standard output,
and exits when its input ends.

A request gets the recorded response to the request with the same method and
params; _meta, ids, progress tokens and requestState are ignored. Equal requests
get their responses in the recorded order, and then the last one again. The
progress, log messages and requests that the server sent meanwhile are sent
again. The client may use another revision than the recorded one, with or
without a handshake: the responses are converted. A request that is not in the
trace gets an error that names the most similar one, and a line is written to
stderr.

options:
  --strict    serve only what was recorded: as often, and in the same revision;
              exit with 1 if there was any other request
  -h, --help  show this help

examples:
  twopipes tap -o session.jsonl -- python server.py    (record a trace)
  twopipes mock session.jsonl                          (serve it)

{exit_code_help("mock")}"""


def mock(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    options, words, _ = read_words(arguments, _USAGE, _HELP, switches=("--strict",))
    is_strict = "--strict" in options
    if len(words) != 1:
        raise UsageError(f"no trace given. {_USAGE}" if not words else f"expected one trace, got {len(words)}. {_USAGE}")
    try:
        trace = read(words[0])
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{words[0]} is not a trace: {error}") from error
    recording = Recording(trace.header, trace)
    return _serve(Mock(recording, name=trace.path.name, strict=is_strict), strict=is_strict)


def _serve(player: Mock, *, strict: bool) -> int:
    signal(SIGTERM, _interrupt)
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
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # Ctrl-C, SIGTERM, or the client is gone
    return FAILED if strict and player.unmatched else OK


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input. The last one may lack its newline (FR-15)."""
    with open(0, "rb", buffering=64 * 1024, closefd=False) as stream:
        for number, line in enumerate(stream):
            yield (line if number else line.removeprefix(b"\xef\xbb\xbf")).removesuffix(b"\n")


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
