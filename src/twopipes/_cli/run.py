"""``twopipes run``: guards standard output before the author's module is imported, finds its server, and serves it."""

from __future__ import annotations

# Nothing here but what is needed until the author's file begins: the host waits for it.
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from twopipes._channels.stdout_guard import Guard
from twopipes._server.launch import Launch
from twopipes._tools.usage import UsageError, split_target
from twopipes.errors import TwopipesError

if TYPE_CHECKING:
    from twopipes._server.app import Server

__all__ = ["run"]

_USAGE = "usage: twopipes run FILE[:NAME] [--unix PATH | --tcp HOST:PORT] [--trace FILE] [-- ARGUMENT ...]"
_HELP = f"""\
{_USAGE}

Serves the Server object found in a file or a module: over stdin and stdout, as
a host expects, or on a socket. What the program prints goes to stderr, so that
it cannot get between the messages.

arguments
  FILE               a Python file, such as server.py, or the name of a module
  NAME               the Server object in it; needed only if there are several
  ARGUMENT ...       what comes after -- becomes sys.argv[1:] of the program

options
  --unix PATH        listen on a Unix socket instead of stdin and stdout
  --tcp HOST:PORT    listen on a TCP port instead, such as 127.0.0.1:9000
  --trace FILE       record the conversation there, for twopipes view
  -h, --help         show this help

examples
  twopipes run server.py
  twopipes run server.py:weather --trace session.jsonl
  twopipes run package.server --tcp 127.0.0.1:9000
  twopipes run server.py -- --database notes.db

exit codes
  0  the input ended, or SIGINT or SIGTERM asked the server to end
  1  the server failed
  2  the command line is wrong, or there is no server to serve
"""


class Options(NamedTuple):
    """What was asked for."""

    target: str
    unix: str | None
    tcp: tuple[str, int] | None
    trace: str | None
    arguments: list[str]


def run(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit code: 2 for what the user can mend, with one line on stderr."""
    words = list(arguments)
    own = words[: words.index("--")] if "--" in words else words
    if "--help" in own or "-h" in own:
        sys.stdout.write(_HELP)
        return 0
    try:
        options = _read(arguments)
        if options.unix is None and options.tcp is None:
            # Before the author's module, so that even a flushed banner goes to stderr; and to the very end of the process.
            Guard.take()
        where, name = split_target(options.target)
        sys.argv = [where, *options.arguments]  # as `python server.py` would have it
        serve(where, name, options)
    except (UsageError, TwopipesError) as mistake:
        sys.stderr.write(f"Error: {' '.join(str(mistake).split())}\n")
        return 2
    return 0


def _read(arguments: Sequence[str]) -> Options:
    target = unix = trace = None
    tcp = None
    words = list(arguments)
    rest: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, rest = words[:cut], words[cut + 1 :]
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name in {"--unix", "--tcp", "--trace"}:
            if not equals:
                if not words:
                    raise UsageError(f"{name} needs a value. {_USAGE}")
                value = words.pop(0)
            if name == "--unix":
                unix = value
            elif name == "--trace":
                trace = value
            else:
                tcp = _address(value)
        elif word.startswith("-") or target is not None:
            raise UsageError(f"{word} is not understood. {_USAGE}")
        else:
            target = word
    if target is None:
        raise UsageError(f"which file? {_USAGE}")
    if unix is not None and tcp is not None:
        raise UsageError("--unix or --tcp, not both")
    return Options(target, unix, tcp, trace, rest)


def _address(value: str) -> tuple[str, int]:
    from twopipes._channels.address import parse_host_port  # noqa: PLC0415 - only for --tcp

    try:
        return parse_host_port(value, default_host="127.0.0.1")
    except ValueError:
        raise UsageError(f"--tcp needs HOST:PORT, such as 127.0.0.1:9000, not {value!r}") from None


def serve(where: str, name: str, options: Options) -> None:
    """Serves what is in a file or a module; or imports it, where that serves already: a file may end with ``server.run()``."""
    launch = Launch.current = Launch(unix=options.unix, tcp=options.tcp, trace=options.trace)
    try:
        module = _load(where)
        if not launch.has_served:
            server_in(module, where, name).run(unix=options.unix, tcp=options.tcp, trace=options.trace)
    except UsageError as mistake:
        # What went wrong while it served is told as it is, wherever it was run from.
        if launch.has_served and mistake.__cause__ is not None:
            raise mistake.__cause__ from None
        raise
    finally:
        Launch.current = None


def find_server(where: str, name: str = "") -> Server:
    """The server in a file or a module: the one called ``name``, or the only one.

    Raises:
        UsageError: There is no such file, it cannot be imported, or there is no server in it, or several.
    """
    return server_in(_load(where), where, name)


def server_in(module: ModuleType, where: str, name: str) -> Server:
    """The server in a module that has been loaded; as :func:`find_server`."""
    from twopipes._server.app import Server  # noqa: PLC0415 - after the guard

    if name:
        found = getattr(module, name, None)
        if not isinstance(found, Server):
            raise UsageError(f"{where} has no Server called {name}; it has {_names(module, Server)}")
        return found
    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    distinct = {id(value): value for value in servers.values()}
    if len(distinct) != 1:
        wanted = f"create one: server = twopipes.Server({_stem(where)!r})" if not servers else f"say which: {where}:NAME"
        raise UsageError(f"{where} has {_names(module, Server)}; {wanted}")
    return next(iter(distinct.values()))


def _names(module: ModuleType, kind: type) -> str:
    names = [key for key, value in vars(module).items() if isinstance(value, kind)]
    return f"the servers {', '.join(names)}" if len(names) > 1 else f"the server {names[0]}" if names else "no Server object"


def _load(where: str) -> ModuleType:
    is_file = os.path.isfile(where)
    if not where.endswith(".py") and not is_file:
        if os.path.basename(where) != where:
            raise UsageError(f"there is no file {where}")
        sys.path.insert(0, os.getcwd())
        return _import(lambda: importlib.import_module(where), where)
    if not is_file:
        raise UsageError(f"there is no file {where}")
    # As `python server.py` would: the folder of the file comes first, and the file is no package's.
    sys.path.insert(0, os.path.dirname(os.path.realpath(where)))
    # A file called like a module that is in use already must not take its place.
    name = _stem(where) if _stem(where) not in sys.modules else f"__{_stem(where)}__"
    loader = SourceFileLoader(name, where)
    spec = importlib.util.spec_from_file_location(name, where, loader=loader)
    if spec is None:  # pragma: no cover - a loader was given
        raise UsageError(f"{where} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module

    def load() -> ModuleType:
        loader.exec_module(module)
        return module

    return _import(load, where)


def _stem(where: str) -> str:
    return os.path.splitext(os.path.basename(where))[0]


def _import(load: Callable[[], ModuleType], where: str) -> ModuleType:
    try:
        return load()
    except Exception as error:
        raise UsageError(f"{where} cannot be imported: {type(error).__name__}: {error}{_place_of(error)}") from error


def _place_of(error: Exception) -> str:
    """Where it was raised, in brackets: the last line that is not of Python's import system or of this file."""
    if isinstance(error, SyntaxError):
        return ""  # says so itself
    import traceback  # noqa: PLC0415 - not before something has gone wrong

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen ")]
    places = [f" ({frame.filename}:{frame.lineno})" for frame in frames if frame.filename not in _MACHINERY]
    return places[-1] if places else ""


_MACHINERY = {__file__, importlib.__file__}
