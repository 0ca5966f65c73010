"""`twopipes run`: finding the server, and errors if there is none."""

import json
import subprocess
import sys
import textwrap

import pytest

from twopipes import Server
from twopipes._cli import main
from twopipes._cli.run import find_server
from twopipes._server.launch import Launch
from twopipes._server.serve import run_sockets  # noqa: F401 - loads asyncio now: undone below, it cannot be loaded again
from twopipes._tools.usage import UsageError, split_target

pytestmark = pytest.mark.slow  # they start processes

ONE = """
from twopipes import Server
server = Server("one")
also = server
"""
SEVERAL = """
from twopipes import Server
first, second = Server("first"), Server("second")
not_a_server = 17
"""
NONE = "x = 1\n"
PARAMS = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}) + "\n"


@pytest.fixture(autouse=True)
def _imports_are_undone(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write(tmp_path):
    def write(text, name="server.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def run(tmp_path):
    def run(*words, said=INITIALIZE):
        return subprocess.run(
            [sys.executable, "-m", "twopipes", "run", *words],
            input=said,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )

    return run


# Which server


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("server.py", ("server.py", "")),
        ("server.py:", ("server.py", "")),
        ("server.py:app", ("server.py", "app")),
        ("a/b.py:app", ("a/b.py", "app")),
        ("package.module:app", ("package.module", "app")),
        ("C:\\servers\\server.py", ("C:\\servers\\server.py", "")),
        ("C:\\servers\\server.py:app", ("C:\\servers\\server.py", "app")),
        ("c:/servers/server.py:app", ("c:/servers/server.py", "app")),
        ("x:app", ("x", "app")),
        ("", ("", "")),
    ],
)
def test_a_file_and_a_name(target, parts):
    assert split_target(target) == parts


def test_the_only_server_of_a_file(write):
    assert find_server(write(ONE)).info.name == "one"


def test_a_server_by_its_name(write):
    assert find_server(write(SEVERAL), "second").info.name == "second"


def test_a_server_of_a_module(write):
    write(ONE, "package/__init__.py")
    write(SEVERAL, "package/inner.py")
    assert find_server("package").info.name == "one"
    assert find_server("package.inner", "first").info.name == "first"


def test_a_file_without_a_suffix(write):
    assert find_server(write(ONE, "server")).info.name == "one"


def test_a_file_does_not_replace_a_module_of_the_same_name(write):
    import json as before  # noqa: PLC0415

    assert find_server(write(ONE, "json.py")).info.name == "one"
    assert sys.modules["json"] is before


def test_a_file_finds_its_neighbours_and_its_own_types(write):
    write("GREETING = 'hello'\n", "neighbour.py")
    text = """
        from __future__ import annotations
        from dataclasses import dataclass
        from neighbour import GREETING
        from twopipes import Server

        server = Server(GREETING)

        @dataclass
        class Point:
            x: int

        @server.tool
        def take(point: Point) -> Point:
            return point
    """
    server = find_server(write(text))
    assert isinstance(server, Server)
    assert server.info.name == "hello"
    assert "take" in server.tools


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (NONE, "", "{path} has no Server object; create one: server = twopipes.Server('server')"),
        (SEVERAL, "", "{path} has the servers first, second; choose one: {path}:NAME"),
        (SEVERAL, "third", "{path} has no Server called third; it has the servers first, second"),
        (SEVERAL, "not_a_server", "{path} has no Server called not_a_server; it has the servers first, second"),
        (NONE, "server", "{path} has no Server called server; it has no Server object"),
        (ONE.replace("also = server\n", ""), "app", "{path} has no Server called app; it has the server server"),
        (
            "import nowhere\n",
            "",
            "{path} cannot be imported: ModuleNotFoundError: No module named 'nowhere' ({path}:1)",
        ),
        ("def f():\n    raise ValueError('why')\nf()\n", "", "{path} cannot be imported: ValueError: why ({path}:2)"),
        ("x = (\n", "", "{path} cannot be imported: SyntaxError: '(' was never closed (server.py, line 1)"),
    ],
)
def test_errors_in_a_file(text, name, said, write):
    path = write(text)
    with pytest.raises(UsageError) as caught:
        find_server(path, name)
    assert str(caught.value) == said.format(path=path)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("missing.py", "file missing.py does not exist"),
        ("folder/missing.py", "file folder/missing.py does not exist"),
        ("./missing", "file ./missing does not exist"),
        ("missing_module", "missing_module cannot be imported: ModuleNotFoundError: No module named 'missing_module'"),
        ("missing.module", "missing.module cannot be imported: ModuleNotFoundError: No module named 'missing'"),
    ],
)
def test_missing_files(where, said):
    with pytest.raises(UsageError) as caught:
        find_server(where)
    assert str(caught.value) == said


# Usage errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no file given. usage: "),
        (["--unix", "x"], "no file given. usage: "),
        (["--", "x.py"], "no file given. usage: "),
        (["x.py", "y.py"], "unknown argument y.py. usage: "),
        (["x.py", "--fly"], "unknown option --fly. usage: "),
        (["x.py", "-u"], "unknown option -u. usage: "),
        (["x.py", "--unix"], "--unix needs a value. usage: "),
        (["x.py", "--trace"], "--trace needs a value. usage: "),
        (["x.py", "--tcp"], "--tcp needs a value. usage: "),
        (["x.py", "--tcp", "nine thousand"], "--tcp needs HOST:PORT, such as 127.0.0.1:9000, not 'nine thousand'"),
        (["x.py", "--tcp", "9000"], "--tcp needs HOST:PORT, such as 127.0.0.1:9000, not '9000'"),
        (["x.py", "--tcp=localhost:"], "--tcp needs HOST:PORT, such as 127.0.0.1:9000, not 'localhost:'"),
        (["x.py", "--unix", "s", "--tcp", ":1"], "--unix and --tcp exclude each other"),
        (["x.py", "--tcp", ":1", "--http", "1"], "--tcp and --http exclude each other"),
        (["x.py", "--workers", "2"], "--workers is for a server over HTTP; give it with --http PORT"),
        (["x.py", "--public"], "--public is for a server over HTTP"),
        (["x.py", "--http", "1", "--workers", "0"], "--workers needs a number of at least 1, not '0'"),
        (["x.py", "--http", "1", "--trace", "t"], "--trace does not record HTTP; use twopipes tap URL"),
    ],
)
def test_invalid_arguments(words, said, capsys):
    assert main(["run", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"Error: {said}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("value", "meant"),
    [(":9000", ("127.0.0.1", 9000)), ("localhost:0", ("localhost", 0)), ("[::1]:9000", ("::1", 9000))],
)
@pytest.mark.parametrize("joined", [True, False])
def test_where_to_listen(value, meant, joined, write, monkeypatch):
    given = {}
    monkeypatch.setattr(Server, "run", lambda self, **options: given.update(options))
    monkeypatch.setattr(sys, "argv", [])
    words = [f"--tcp={value}"] if joined else ["--tcp", value]
    assert main(["run", *words, write(ONE), "--trace", "t", "--", "a", "--b"]) == 0
    assert given == {"unix": None, "tcp": meant, "http": None, "workers": None, "trace": "t"}
    assert sys.argv[1:] == ["a", "--b"]


# As a process


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (None, ["missing.py"], "file missing.py does not exist"),
        (NONE, ["server.py"], "server.py has no Server object"),
        (SEVERAL, ["server.py"], "server.py has the servers first, second"),
        (SEVERAL, ["server.py:third"], "server.py has no Server called third"),
        ("print('banner', flush=True)\nraise RuntimeError('two\\nlines')", ["server.py"], "RuntimeError: two lines (server.py:2)"),
        (None, ["--fly"], "unknown option --fly"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_nothing_on_standard_output(text, words, said, write, run):
    if text is not None:
        write(text)
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert said in error
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "name"),
    [(["server.py:first"], "first"), (["server:second"], "second"), (["./server.py:second"], "second")],
)
def test_the_named_server_is_served(words, name, write, run):
    write(SEVERAL)
    done = run(*words)
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == name
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_serves_when_it_is_imported_is_served_once(write, run):
    write(ONE + "server.run()\n")
    done = run("server.py")
    assert len(done.stdout.splitlines()) == 1
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_serves_needs_no_name_for_its_server(write, run):
    write("from twopipes import Server\nServer('nameless').run()\nprint('after run')\nraise SystemExit(3)\n")
    done = run("server.py")
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "nameless"
    assert done.returncode == 3
    assert "after run\n" in done.stderr


def test_options_apply_to_a_file_that_serves_itself(write, monkeypatch):
    """The options override the file, which was written for another host."""
    served = []
    monkeypatch.setattr("twopipes._server.serve.run_sockets", lambda server, **options: served.append((server.info.name, options)))
    monkeypatch.setattr(sys, "argv", [])
    path = write(ONE + "server.run(unix='/elsewhere', trace='mine')\n")
    assert main(["run", path, "--tcp", ":9000"]) == 0
    assert main(["run", path, "--unix", "here", "--trace", "yours"]) == 0
    assert served == [
        ("one", {"unix": None, "tcp": ("127.0.0.1", 9000), "trace": "mine", "redact": ()}),
        ("one", {"unix": "here", "tcp": None, "trace": "yours", "redact": ()}),
    ]
    assert Launch.current is None


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [("ChannelClosed('gone')", 2, "Error: gone\n"), ("RuntimeError('why')", 1, "RuntimeError: why\n")],
)
def test_an_error_while_a_file_serves_itself_is_reported_unchanged(error, code, said, write, run):
    """It is not reported as an import error."""
    text = f"""
        from contextlib import asynccontextmanager
        from twopipes import Server
        from twopipes.errors import ChannelClosed
        @asynccontextmanager
        async def lifespan(server):
            raise {error}
            yield
        Server("broken", lifespan=lifespan).run()
    """
    write(text)
    done = run("server.py")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.endswith(said)
    assert "cannot be imported" not in done.stderr


def test_a_closed_stdin_is_reported_on_one_line(write, tmp_path):
    write(ONE)
    command = f"exec '{sys.executable}' -m twopipes run server.py <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: standard input (descriptor 0) is not open.")
    assert done.stderr.count("\n") == 1


def test_an_author_who_debugs_gets_the_traceback_of_a_failed_import(write, monkeypatch, capsys):
    path = write("def f():\n    raise ValueError('why')\nf()\n")
    monkeypatch.setenv("TWOPIPES_DEBUG", "1")
    with pytest.raises(UsageError):
        find_server(path)
    lines = [line for line in capsys.readouterr().err.splitlines() if "^" not in line and "~" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        f'  File "{path}", line 3, in <module>',
        "    f()",
        f'  File "{path}", line 2, in f',
        "    raise ValueError('why')",
        "ValueError: why",
    ]
