"""``twopipes dev``: serve the server in a file, and restart it when its code changes, while the session of the host goes on."""

from __future__ import annotations

import os
import sys

from twopipes._cli.keep import KeepOptions, serve
from twopipes._tools.exit_codes import exit_code_help
from twopipes._tools.usage import UsageError, read_words, split_target

TYPE_CHECKING = False  # importing typing would slow down the start
if TYPE_CHECKING:
    from collections.abc import Sequence

_USAGE = "usage: twopipes dev FILE[:NAME] [--watch PATH] [--http [HOST:]PORT] [--trace FILE] [--log FILE] [-- ARGUMENT ...]"
_HELP = f"""\
usage: twopipes dev FILE[:NAME] [--watch PATH] [--http [HOST:]PORT]
                    [--trace FILE] [--log FILE] [-- ARGUMENT ...]

Serves the Server object in a file, as twopipes run does, and restarts it when
the code in its folder changes. The session of the host goes on, and the host is
notified of new tools. If the code cannot be imported, calls fail with the
traceback until it is fixed. The texts of exceptions are sent to the host
(TWOPIPES_DEBUG=1). Needs: pip install "twopipes[watch]"

arguments:
  FILE               a Python file, such as server.py, or the name of a module
  NAME               the Server object in it; needed only if there are several
  ARGUMENT ...       passed to the program as sys.argv[1:]

options:
  --watch PATH       also restart it when this file, or the code in this folder,
                     changes; may be repeated
  --http [HOST:]PORT serve over HTTP instead of stdin and stdout
  --trace FILE       record the messages in this file, for twopipes view
  --log FILE         append the server's stderr to this file
  -h, --help         show this help

examples:
  twopipes dev server.py
  twopipes dev server.py --watch settings.json -- --database notes.db
  twopipes dev server.py --http 8000

{exit_code_help("dev")}"""

_WITH_VALUE = ("--watch", "--http", "--trace", "--log")


def dev(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    options, plain, rest = read_words(arguments, _USAGE, _HELP, with_value=_WITH_VALUE)
    if len(plain) != 1:
        raise UsageError(f"unknown argument {plain[1]}. {_USAGE}" if plain else f"no file given. {_USAGE}")
    http = options.pop("--http", [None])[-1]
    if http is not None and "--trace" in options:
        raise UsageError("--trace does not record HTTP; use twopipes tap URL, or leave it out")
    path, _ = split_target(plain[0])
    is_file = os.path.isfile(path)
    if not is_file and (path.endswith(".py") or os.path.basename(path) != path):
        raise UsageError(f"file {path} does not exist")
    folder = os.path.dirname(os.path.abspath(path)) if is_file else os.getcwd()
    options["--watch"] = [folder, *options.get("--watch", [])]
    options["--no-manifest"] = []  # the lists of the previous run are those of other code
    os.environ.setdefault("TWOPIPES_DEBUG", "1")
    command = [sys.executable, "-m", "twopipes", "run", plain[0], *(["--", *rest] if rest else [])]
    return serve(command, KeepOptions(options), http=http)
