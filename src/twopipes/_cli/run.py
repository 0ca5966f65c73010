"""``twopipes run``: protect standard output, import the user's module, find its server and serve it."""

from __future__ import annotations

# Only what is needed before the user's module is imported: the host waits for it.
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from twopipes._channels.stdout_guard import Guard
from twopipes._server.launch import Launch
from twopipes._tools.exit_codes import OK, exit_code_help
from twopipes._tools.usage import UsageError, read_words, split_target, tcp_address
from twopipes.errors import TwopipesError

if TYPE_CHECKING:
    from twopipes._server.app import Server

_USAGE = (
    "usage: twopipes run FILE[:NAME] [--http PORT [--workers N] | --unix PATH | --tcp HOST:PORT] [--trace FILE] [-- ARGUMENT ...]"
)
_HELP = f"""\
usage: twopipes run FILE[:NAME] [--unix PATH | --tcp HOST:PORT]
                    [--trace FILE] [-- ARGUMENT ...]
       twopipes run FILE[:NAME] --http [HOST:]PORT [--workers N] [--public]
                    [-- ARGUMENT ...]

Serves the Server object in a file or a module, over stdin and stdout, as a host
expects, over HTTP, or on a socket. What the program prints goes to stderr, so
that it cannot mix with the messages.

arguments:
  FILE               a Python file, such as server.py, or the name of a module
  NAME               the Server object in it; needed only if there are several
  ARGUMENT ...       passed to the program as sys.argv[1:]

options:
  --unix PATH        listen on a Unix socket instead of stdin and stdout
  --tcp HOST:PORT    listen on a TCP port instead, such as 127.0.0.1:9000
  --http [HOST:]PORT serve over HTTP instead, on 127.0.0.1 unless HOST is given;
                     needs: pip install "twopipes[http]"
  --workers N        with --http: the number of processes; 1 by default. A
                     process that crashes is replaced
  --public           with --http: allow an address that other machines can reach
                     although the server has no auth=. Everyone who can reach it
                     can call every tool
  --trace FILE       record the messages in this file, for twopipes view; over
                     HTTP, twopipes tap records them
  -h, --help         show this help

examples:
  twopipes run server.py
  twopipes run server.py:weather --trace session.jsonl
  twopipes run package.server --tcp 127.0.0.1:9000
  twopipes run server.py --http 8000 --workers 4
  twopipes run server.py -- --database notes.db

{exit_code_help("run")}"""

# How the options that errors point to are typed here, by their keys in twopipes._error_text.
_OPTIONS = {"verify": "auth= in the program", "public": "--public"}


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    with_value = ("--unix", "--tcp", "--http", "--workers", "--trace")
    options, plain, rest = read_words(arguments, _USAGE, _HELP, with_value=with_value, switches=("--public",))
    if len(plain) != 1:
        raise UsageError(f"unknown argument {plain[1]}. {_USAGE}" if plain else f"no file given. {_USAGE}")
    launch = _launch({name: values[-1] if values else "" for name, values in options.items()})
    path, name = split_target(plain[0])
    try:
        if launch.is_stdio:
            # Before the user's module is imported, so that even a flushed banner goes to stderr; and until the process exits.
            Guard.take()
        sys.argv = [path, *(rest or ())]  # as in `python server.py`
        serve(path, name, launch)
    except TwopipesError as error:
        raise UsageError(error.describe(_OPTIONS)) from error
    return OK


def _launch(options: dict[str, str]) -> Launch:
    """Return the options as they are given to the server."""
    ways = [name for name in ("--unix", "--tcp", "--http") if name in options]
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways)} exclude each other; give one of them")
    workers, tcp = options.get("--workers"), options.get("--tcp")
    if workers is not None and not (workers.isascii() and workers.isdecimal() and int(workers)):
        raise UsageError(f"--workers needs a number of at least 1, not {workers!r}")
    for name in ("--workers", "--public"):
        if name in options and "--http" not in options:
            raise UsageError(f"{name} is for a server over HTTP; give it with --http PORT")
    if "--http" in options and "--trace" in options:
        raise UsageError("--trace does not record HTTP; use twopipes tap URL, or leave it out")
    return Launch(
        unix=options.get("--unix"),
        tcp=None if tcp is None else tcp_address(tcp),
        http=options.get("--http"),
        workers=None if workers is None else int(workers),
        public="--public" in options,
        trace=options.get("--trace"),
    )


def serve(where: str, name: str, launch: Launch) -> None:
    """Import a file or module and serve the server in it, unless the import did so: a file may end with ``server.run()``."""
    Launch.current = launch
    try:
        module = _load(where)
        if not launch.has_served:
            server = server_in(module, where, name)
            server.run(unix=launch.unix, tcp=launch.tcp, http=launch.http, workers=launch.workers, trace=launch.trace)
    except UsageError as mistake:
        # An error while serving is reported as it is, whether the module or this function called server.run().
        if launch.has_served and mistake.__cause__ is not None:
            raise mistake.__cause__ from None
        raise
    finally:
        Launch.current = None


def find_server(where: str, name: str = "") -> Server:
    """Return the server in a file or module: the one called ``name``, or the only one."""
    return server_in(_load(where), where, name)


def server_in(module: ModuleType, where: str, name: str) -> Server:
    """Return the server in an imported module; see :func:`find_server`."""
    from twopipes._server.app import Server  # imported after stdout is protected

    if name:
        found = getattr(module, name, None)
        if not isinstance(found, Server):
            raise UsageError(f"{where} has no Server called {name}; it has {_names(module, Server)}")
        return found
    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    distinct = {id(value): value for value in servers.values()}
    if len(distinct) != 1:
        wanted = f"create one: server = twopipes.Server({_stem(where)!r})" if not servers else f"choose one: {where}:NAME"
        raise UsageError(f"{where} has {_names(module, Server)}; {wanted}")
    return next(iter(distinct.values()))


def _names(module: ModuleType, kind: type) -> str:
    names = [key for key, value in vars(module).items() if isinstance(value, kind)]
    return f"the servers {', '.join(names)}" if len(names) > 1 else f"the server {names[0]}" if names else "no Server object"


def _load(where: str) -> ModuleType:
    is_file = os.path.isfile(where)
    if not where.endswith(".py") and not is_file:
        if os.path.basename(where) != where:
            raise UsageError(f"file {where} does not exist")
        sys.path.insert(0, os.getcwd())
        return _import(lambda: importlib.import_module(where), where)
    if not is_file:
        raise UsageError(f"file {where} does not exist")
    # As in `python server.py`: the folder of the file comes first, and the file belongs to no package.
    sys.path.insert(0, os.path.dirname(os.path.realpath(where)))
    # The file must not replace an imported module of the same name.
    name = _stem(where) if _stem(where) not in sys.modules else f"__{_stem(where)}__"
    loader = SourceFileLoader(name, where)
    spec = importlib.util.spec_from_file_location(name, where, loader=loader)
    if spec is None:  # pragma: no cover - never with an explicit loader
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
        if os.environ.get("TWOPIPES_DEBUG", "0") not in {"", "0"}:
            import traceback  # needed only for an author's mistake

            traceback.print_exception(error.with_traceback(_outside_of_imports(error)))
        raise UsageError(f"{where} cannot be imported: {type(error).__name__}: {error}{_place_of(error)}") from error


def _outside_of_imports(error: Exception) -> TracebackType | None:
    """Return the traceback without its first frames, which are those of this file and of the import system."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None and _is_import_system(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return found


def _is_import_system(file: str) -> bool:
    return file.startswith("<frozen ") or file in _IMPORT_SYSTEM


def _place_of(error: Exception) -> str:
    """Return where the error was raised, in parentheses, ignoring the import system and this file."""
    if isinstance(error, SyntaxError):
        return ""  # its message contains the place
    import traceback  # needed only for an error message

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_import_system(frame.filename)]
    places = [f" ({frame.filename}:{frame.lineno})" for frame in frames]
    return places[-1] if places else ""


_IMPORT_SYSTEM = {__file__, importlib.__file__}
