"""The examples, as a user runs them: by a host, by a shell, by `twopipes run`."""

import json
import signal
import subprocess
import sys

import pytest

from processes.launching import EXAMPLES, call, lines, modern, python, request, text_of


def test_hello(launch):
    child = launch(EXAMPLES / "hello.py")
    assert child.initialize()["result"]["serverInfo"] == {"name": "hello", "version": "0.1.0"}
    (tool,) = child.ask(request(1, "tools/list"))["result"]["tools"]
    assert tool["name"] == "greet"
    assert tool["inputSchema"]["required"] == ["name"]
    assert text_of(child.ask(call(2, "greet", name="Ada"))) == "Hello, Ada!"
    child.finish()


def test_hello_is_short():
    """Five lines of code in all."""
    text = (EXAMPLES / "hello.py").read_text(encoding="utf-8")
    assert text.startswith("# The smallest server")
    assert len([line for line in text.splitlines() if line and not line.startswith("#")]) == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_hello_serves_once_with_twopipes_run_and_ends_on_a_signal(number, launch):
    """The file runs its server while it is imported; `twopipes run` does not run it a second time."""
    child = launch("-m", "twopipes", "run", EXAMPLES / "hello.py")
    child.initialize()
    assert text_of(child.ask(call(1, "greet", name="Ada"))) == "Hello, Ada!"
    child.signal(number)  # the input is still open
    assert child.ended() == []
    assert child.complaints() == ""


UNWANTED = {"pydantic", "attrs", "http", "urllib.request", "email", "aiohttp", "uvicorn", "jwt", "redis", "starlette", "jsonschema"}


@pytest.mark.parametrize("run_by", ["python", "twopipes run"])
def test_hello_imports_nothing_that_it_does_not_use(run_by, run, write):
    """A fast start is a feature: a served call loads neither pydantic nor any HTTP module."""
    spy = write(
        """
        import atexit, runpy, sys
        atexit.register(lambda: print(*sys.modules, file=sys.stderr))
        sys.argv = sys.argv[1:]
        if sys.argv[0] == "-m":
            sys.argv = sys.argv[1:]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
        """,
        "spy.py",
    )
    how = [EXAMPLES / "hello.py"] if run_by == "python" else ["-m", "twopipes", "run", EXAMPLES / "hello.py"]
    done = run(spy, *how, input=lines(modern(1, "tools/call", name="greet", arguments={"name": "Ada"})))
    assert b"Hello, Ada!" in done.stdout
    modules = set(done.stderr.decode().split())
    assert "twopipes._server.app" in modules
    assert modules & UNWANTED == set()
    assert {
        name for name in modules if name.startswith(("twopipes._channels.socket", "twopipes._http", "twopipes._server.http"))
    } == set()


def test_ask_can_be_run_by_name(run):
    done = run(python("-m", "twopipes", "run", f"{EXAMPLES / 'ask.py'}:server"), input=lines(modern(1, "tools/list")))
    assert json.loads(done.stdout)["result"]["tools"][0]["name"] == "book_trip"


@pytest.fixture
def folder(tmp_path):
    shared = tmp_path / "shared"
    (shared / "deep").mkdir(parents=True)
    (shared / "read me.txt").write_text("hello", encoding="utf-8")
    (shared / "deep" / "data.bin").write_bytes(b"\x00\xff")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (shared / "link.txt").symlink_to(tmp_path / "secret.txt")
    (shared / "out").symlink_to(tmp_path)
    return shared


@pytest.mark.parametrize("run_by", ["python", "twopipes run"])
def test_files_serves_a_folder(run_by, launch, folder):
    path = EXAMPLES / "files.py"
    child = launch(python(path, folder) if run_by == "python" else python("-m", "twopipes", "run", path, "--", folder))
    child.initialize()
    listed = child.ask(request(1, "resources/list"))["result"]["resources"]
    assert {resource["uri"] for resource in listed} == {
        f"{folder.as_uri()}/read%20me.txt",
        f"{folder.as_uri()}/deep/data.bin",
    }
    contents = [child.ask(request(2, "resources/read", uri=resource["uri"]))["result"]["contents"][0] for resource in listed]
    assert {content.get("text", content.get("blob")) for content in contents} == {"hello", "AP8="}
    assert child.ask(call(3, "find", name="DATA"))["result"]["structuredContent"] == {"result": ["deep/data.bin"]}
    child.finish()


def test_files_serves_nothing_outside_of_its_folder(launch, folder):
    """RS-08: with any name for the path."""
    child = launch(EXAMPLES / "files.py", folder)
    child.initialize()
    root = folder.as_uri()
    ways = [
        "../secret.txt",
        "%2e%2e/secret.txt",
        "%2E%2E%2Fsecret.txt",
        "..%2fsecret.txt",
        "deep/../../secret.txt",
        "deep/%2e%2e/%2e%2e/secret.txt",
        "link.txt",
        "out/secret.txt",
        "read%20me.txt%00",
        "read%20me.txt%00.png",
        "/" + str(folder.parent / "secret.txt"),
        "%252e%252e/secret.txt",
        "..\\secret.txt",
        "..%5csecret.txt",
    ]
    uris = [f"{root}/{way}" for way in ways] + [(folder.parent / "secret.txt").as_uri(), "file:///etc/passwd", f"{root}-other/x"]
    for uri in uris:
        answer = child.ask(request(uri, "resources/read", uri=uri))
        assert "error" in answer, uri
        assert "secret" not in json.dumps(answer.get("result", ""))
    # A folder includes its files, but not the targets of its links.
    for way in ("", "deep", "deep/"):
        assert "secret" not in json.dumps(child.ask(request(way, "resources/read", uri=f"{root}/{way}")))
    child.finish()


def test_files_finds_only_files_of_its_folder(launch, folder):
    child = launch(EXAMPLES / "files.py", folder)
    child.initialize()
    found = child.ask(call(1, "find", name="secret"))["result"]["structuredContent"]
    assert found == {"result": []}
    child.finish()


@pytest.mark.parametrize("name", ["ask", "files", "everything"])
def test_examples_begin_with_a_description(name):
    """Each begins with a docstring, and may be imported without serving."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}; print({name}.__doc__)"], cwd=EXAMPLES, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().endswith((".", "``"))
