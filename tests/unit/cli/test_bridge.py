"""The command line of ``twopipes bridge``: the server it names, where it is served, and mistakes."""

import sys

import pytest

from twopipes._cli.bridge import bridge, read_bridge
from twopipes._client.http_target import HttpTarget
from twopipes._client.targets import CommandTarget, SocketTarget
from twopipes._http.options import HttpOptions
from twopipes._process.command import ServerCommand
from twopipes._tools.usage import UsageError
from twopipes.errors import LocalProtocolError, StartFailed


@pytest.fixture(autouse=True)
def _no_token(monkeypatch):
    monkeypatch.delenv("TWOPIPES_BEARER", raising=False)


def mistake(*words):
    with pytest.raises((UsageError, LocalProtocolError)) as found:
        read_bridge(words)
    return str(found.value)


def test_a_command_gets_our_environment_and_our_stderr():
    found = read_bridge(["--", sys.executable, "-u", "server.py", "--http", "1"])
    assert isinstance(found.target, CommandTarget)
    assert found.target.command == ServerCommand(
        [sys.executable, "-u", "server.py", "--http", "1"], environment="inherit", stderr="inherit"
    )
    assert (found.where, found.eras, found.isolated, found.trace) == ({}, "both", False, None)


@pytest.mark.parametrize("words", [["https://h/mcp?a=1"], ["--", "https://h/mcp?a=1"]])
def test_a_url(words):
    target = read_bridge(words).target
    assert isinstance(target, HttpTarget)
    assert (target.url, target.headers, target.auth) == ("https://h/mcp?a=1", {}, None)


def test_headers_and_a_token(monkeypatch):
    monkeypatch.setenv("MINE", "s3cret")
    target = read_bridge(["--header", "X-One: 1", "--header=X-Two: 2", "https://h/mcp", "--token-env", "MINE"]).target
    assert (target.headers, target.auth) == ({"X-One": "1", "X-Two": "2"}, "s3cret")
    monkeypatch.setenv("TWOPIPES_BEARER", "usual")
    assert read_bridge(["https://h/mcp"]).target.auth == "usual"
    assert read_bridge(["https://h/mcp", "--token-env", "MINE"]).target.auth == "s3cret"


@pytest.mark.parametrize("address", ["unix:/run/a b.sock", "tcp://localhost:9000", "tcp://[::1]:9000"])
def test_a_socket(address):
    target = read_bridge([address]).target
    assert isinstance(target, SocketTarget)
    assert target.description == address


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["--unix", "/run/s"], {"unix": "/run/s"}),
        (["--tcp", ":9000"], {"tcp": ("127.0.0.1", 9000)}),
        (["--http", "8000"], {"http": "8000", "http_options": HttpOptions()}),
        (["--http=0.0.0.0:8000", "--public"], {"http": "0.0.0.0:8000", "http_options": HttpOptions(public=True)}),
        (
            ["--http", "1", "--allow-host", "a.example", "--allow-host", "b.example", "--allow-origin", "https://c.example"],
            {"http": "1", "http_options": HttpOptions(hosts=("a.example", "b.example"), origins=("https://c.example",))},
        ),
    ],
)
def test_where_it_is_served(words, where):
    assert read_bridge([*words, "tcp://h:1"]).where == where


def test_the_other_options():
    found = read_bridge(["--era", "legacy", "--isolate", "--trace", "t.jsonl", "tcp://h:1"])
    assert (found.eras, found.isolated, found.trace) == ("legacy", True, "t.jsonl")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no server given"),
        (["--http", "8000"], "no server given"),
        (["--"], "no command after --"),
        (
            ["server.py"],
            "'server.py' is not the address of a server: a URL begins with https:// or http://, and a command comes after --",
        ),
        (["ftp://h"], "'ftp://h' is not the address of a server"),
        (["ws://h/mcp"], "MCP does not use WebSockets"),
        (["https://a/mcp", "https://b/mcp"], "https://a/mcp and https://b/mcp each name a server"),
        (["https://a/mcp", "--", "server"], "https://a/mcp and -- CMD each name a server"),
        (["http:///mcp"], "is not a valid URL"),
        (["http://h:port/mcp"], "is not a valid URL"),
        (["tcp://h"], "has no port"),
        (["unix:"], "has no path"),
        (["--http", "1", "--unix", "x", "--", "server"], "--http and --unix exclude each other"),
        (["--tcp", "here", "tcp://h:1"], "--tcp needs HOST:PORT"),
        (["--http", "here", "tcp://h:1"], "--http needs a port or HOST:PORT, such as 8000 or 127.0.0.1:8000, not 'here'"),
        (["--era", "old", "tcp://h:1"], "--era must be both, legacy or modern, got 'old'"),
        (["--public", "tcp://h:1"], "--public is for clients over HTTP; give it with --http PORT"),
        (["--allow-host", "h", "--tcp", ":1", "tcp://h:1"], "--allow-host is for clients over HTTP"),
        (["--http", "1", "--allow-origin", "here", "tcp://h:1"], "--allow-host or --allow-origin: "),
        (["--header", "A: b", "--", "server"], "--header is for a server at a URL"),
        (["--token-env", "PATH", "tcp://h:1"], "--token-env is for a server at a URL"),
        (["--token-env", "NOT_SET_ANYWHERE", "http://h/mcp"], "the environment variable NOT_SET_ANYWHERE is not set or empty"),
        (["--header", "none", "http://h/mcp"], "write --header 'NAME: VALUE'"),
        (["--header", "Host: x", "http://h/mcp"], "must not contain Host"),
        (["--http"], "--http needs a value"),
        (["--fly", "tcp://h:1"], "unknown option --fly"),
    ],
)
def test_usage_errors(words, said):
    assert said in mistake(*words)


def test_a_token_that_no_header_can_contain_is_not_shown(monkeypatch):
    monkeypatch.setenv("MINE", "s3\ncret")
    assert mistake("--token-env", "MINE", "http://h/mcp") == (
        "the token of --token-env or TWOPIPES_BEARER has characters that a header cannot contain"
    )


@pytest.mark.parametrize(("name", "code", "said"), [("nosuch-server", 127, "not found"), ("/", 126, "it is a folder")])
def test_a_command_that_cannot_be_started_is_reported_before_it_is_served(name, code, said, capsys):
    with pytest.raises(StartFailed):
        read_bridge(["--", name])
    assert bridge(["--http", "0", "--", name]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"Error: cannot start {name!r}: ")
    assert said in err


def test_without_the_extra_http_is_not_served(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in ("run", "uvicorn_server", "uvicorn_protocol"):
        monkeypatch.delitem(sys.modules, f"twopipes._server.http.{name}", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'twopipes\[http\]'"):
        bridge(["--http", "0", "--", sys.executable])


def test_without_the_extra_a_url_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    for name in [name for name in sys.modules if name.startswith("twopipes._client.http_")]:
        monkeypatch.delitem(sys.modules, name)
    assert 'pip install "twopipes[http]"' in mistake("https://h/mcp")
