"""The server of a command: after --, at a socket, or in the configuration file of a host."""

import json
import os
from pathlib import Path

import pytest

from twopipes._cli.command_parser import CommandParser, split_command
from twopipes._cli.server_options import ServerTarget, add_server_options, connect_options, servers_of, the_server
from twopipes._process.command import ServerCommand
from twopipes._tools.usage import UsageError


def parsed(*words):
    parser = CommandParser("list", usage="twopipes list", description="A test.", examples=[])
    add_server_options(parser)
    mine, command = parser.split_server(words)
    return parser.parse_intermixed_args(mine), command


def pointed(*words):
    return the_server(*parsed(*words))


def mistake(*words):
    with pytest.raises(UsageError) as found:
        pointed(*words)
    return str(found.value)


@pytest.fixture
def config(tmp_path):
    def config(content, name="mcp.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    return config


def test_the_words_after_the_dashes_are_the_command():
    assert split_command(["a", "--", "b", "--", "c"]) == (["a"], ["b", "--", "c"])
    assert split_command(["a"]) == (["a"], None)
    assert split_command(["--"]) == ([], [])


def test_a_command():
    found = pointed("--", "python", "-u", "server.py")
    assert found == ServerTarget(ServerCommand(["python", "-u", "server.py"]))
    assert found.description == "python -u server.py"


def test_a_url(monkeypatch):
    monkeypatch.delenv("TWOPIPES_BEARER", raising=False)
    for words in (["https://a.example/mcp"], ["--", "https://a.example/mcp"]):
        found = pointed(*words)
        assert found == ServerTarget("https://a.example/mcp")
        assert found.is_url
        assert found.connect_options == {}
    assert not pointed("--", "server", "https://a.example/mcp").is_url


def test_a_url_is_not_the_value_of_an_option_before_it():
    assert pointed("--trace", "http://x", "http://b/mcp", "--timeout", "5").target == "http://b/mcp"
    assert "no server given" in mistake("--trace", "http://x")


def test_headers_and_a_token(monkeypatch):
    monkeypatch.setenv("TWOPIPES_BEARER", "from the environment")
    found = pointed("http://h/mcp", "--header", "X-One: 1", "--header", "X-Two:two: 2", "--bearer", "t")
    assert found.connect_options == {"headers": {"X-One": "1", "X-Two": "two: 2"}, "auth": "t"}
    assert pointed("http://h/mcp").connect_options == {"auth": "from the environment"}


def test_secrets_of_a_url_are_not_shown():
    found = pointed("http://user:pw@h:1/mcp?token=t")
    assert found.target == "http://user:pw@h:1/mcp?token=t"
    assert found.description == "http://h:1/mcp"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--header", "A: b", "--", "server"], "--header is for a server at a URL"),
        (["--bearer", "t", "--tcp", "h:1"], "--bearer is for a server at a URL"),
        (["http://h", "--env", "A=b"], "--env is for a server that is started; the one at URL is running already"),
        (["http://h", "--unix", "x"], "URL and --unix each name a server"),
        (["http://h", "--header", "secret"], "write --header 'NAME: VALUE'"),
        (["http://h", "--header", "A: se\ncret"], "invalid --header for 'A'"),
        (["http://h", "--bearer", "se\ncret"], "has characters that a header cannot contain"),
    ],
)
def test_wrong_options_of_a_url(words, said):
    found = mistake(*words)
    assert said in found
    assert "cret" not in found.replace("--header for 'secret'", "")


def test_a_url_in_a_configuration_file(config, monkeypatch):
    monkeypatch.delenv("TWOPIPES_BEARER", raising=False)
    monkeypatch.setenv("KEY", "k")
    file = config({"mcpServers": {"a": {"type": "http", "url": "https://h/mcp", "headers": {"X-Key": "${KEY}", "X-B": "1"}}}})
    found = pointed("--config", file, "--header", "X-B: 2")
    assert found == ServerTarget("https://h/mcp", "a", {"X-Key": "k", "X-B": "2"})
    assert found.description == "a (https://h/mcp)"


def test_a_command_with_an_environment_and_a_folder(monkeypatch):
    monkeypatch.setenv("OURS", "1")
    found = pointed("--env", "A=b=c", "--env", "OURS", "--cwd", "/tmp", "--inherit-env", "--", "server").target
    assert found == ServerCommand(["server"], env={"A": "b=c", "OURS": "1"}, cwd="/tmp", environment="inherit")


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["--unix", "/run/a b.sock"], "unix:/run/a b.sock"),
        (["--tcp", "localhost:9000"], "tcp://localhost:9000"),
        (["--tcp", ":9000"], "tcp://127.0.0.1:9000"),
        (["--tcp", "[::1]:9000"], "tcp://[::1]:9000"),
        (["--tcp", "tcp://localhost:9000"], "tcp://localhost:9000"),
    ],
)
def test_a_socket(words, target):
    assert pointed(*words).target == target


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no server given; put its command after --"),
        (["--"], "no command after --"),
        (["--", ""], "at least one non-empty string"),
        (["--unix", "/x", "--tcp", "a:1"], "--unix and --tcp each name a server"),
        (["--unix", "/x", "--", "server"], "-- CMD and --unix each name a server"),
        (["--tcp", "localhost"], "HOST:PORT"),
        (["--tcp", "localhost:http"], "HOST:PORT"),
        (["--unix", "/x", "--cwd", "/"], "--cwd is for a server that is started"),
        (["--tcp", "a:1", "--env", "A=1"], "--env is for a server that is started"),
        (["--server", "x", "--", "server"], "--config FILE"),
        (["--env", "NOT_SET_ANYWHERE", "--", "server"], "--env NOT_SET_ANYWHERE=VALUE"),
        (["--env", "=1", "--", "server"], "name of an environment variable"),
        (["--timeout", "soon", "--", "server"], "'soon' is not a duration, such as 5, 0.5s or 2m; see twopipes list --help"),
        (["--timeout", "-1", "--", "server"], "'-1' is not a duration"),
        (["--timeout=nan", "--", "server"], "is not a duration"),
        (["--era", "old", "--", "server"], "invalid choice"),
        (["--revision", "2020-01-01", "--", "server"], "invalid choice"),
        (["--fly", "--", "server"], "--fly"),
        (["--config", "/nowhere/mcp.json"], "/nowhere/mcp.json cannot be read: No such file"),
    ],
)
def test_usage_errors(words, said):
    assert said in mistake(*words)


def test_protocol_options():
    options = connect_options(parsed("--", "server")[0])
    assert options["era"] == "auto"
    assert (options["timeouts"].connect, options["timeouts"].request, options["timeouts"].total) == (30, 60, None)
    assert "trace" not in options
    assert "revision" not in options
    options = connect_options(parsed("--era", "legacy", "--revision", "2025-06-18", "--timeout", "2", "--trace", "f", "--", "x")[0])
    assert (options["era"], options["revision"], options["trace"]) == ("legacy", "2025-06-18", "f")
    assert (options["timeouts"].connect, options["timeouts"].probe, options["timeouts"].request) == (2, 2, 2)
    assert connect_options(parsed("--timeout", "0", "--", "x")[0])["timeouts"].connect is None


# Configuration files


def test_the_only_server_of_a_file_needs_no_name(config):
    file = config({"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "1"}, "cwd": "/srv"}}})
    found = pointed("--config", file)
    assert found == ServerTarget(ServerCommand(["npx", "-y", "files"], env={"A": "1"}, cwd="/srv"), "files")
    assert found.description == "files (npx -y files)"


def test_one_of_several_servers_is_chosen_by_name(config):
    file = config({"mcpServers": {"a": {"command": "first"}, "b": {"command": "second"}}})
    assert pointed("--config", file, "--server", "b").target == ServerCommand(["second"])
    assert "has 2 servers; choose one with --server: a, b" in mistake("--config", file)
    assert "has no server 'c'; known servers: a, b" in mistake("--config", file, "--server", "c")
    assert [each.name for each in servers_of(*parsed("--config", file))] == ["a", "b"]


def test_the_command_line_overrides_the_file(config):
    file = config({"mcpServers": {"a": {"command": "x", "env": {"A": "1", "B": "2"}, "cwd": "/srv"}}})
    assert pointed("--config", file, "--env", "B=3", "--cwd", "/tmp").target == ServerCommand(
        ["x"], env={"A": "1", "B": "3"}, cwd="/tmp"
    )


@pytest.mark.parametrize(
    "content", [{"servers": {"a": {"command": "x", "type": "stdio"}}}, {"mcp": {"servers": {"a": {"command": "x"}}}}]
)
def test_files_of_visual_studio_code(content, config):
    assert pointed("--config", config(content)).target == ServerCommand(["x"])


def test_comments_and_trailing_commas_are_allowed(config):
    text = """
    // for tests
    {"mcpServers": { /* one
        server */ "a // b": {"command": "x", "args": ["// no comment", "/* nor */ this", "a\\"//,]",], }, },
    }
    """
    assert pointed("--config", config("\ufeff" + text)).target == ServerCommand(["x", "// no comment", "/* nor */ this", 'a"//,]'])


def test_invalid_json_is_reported_with_line_and_column(config):
    file = config('{\n  // a comment\n  "mcpServers" {}\n}')
    assert "is not valid JSON: Expecting ':' delimiter: line 3 column 16" in mistake("--config", file)


def test_variables_are_replaced_as_hosts_do(config, tmp_path, monkeypatch):
    monkeypatch.setenv("WHO", "me")
    monkeypatch.delenv("NOBODY", raising=False)
    words = [
        "${WHO}",
        "${env:WHO}!",
        "${NOBODY:-you}",
        "${workspaceFolder}/x",
        "${workspaceFolderBasename}",
        "$WHO",
        "${/}",
        "${userHome}",
    ]
    file = config({"mcpServers": {"a": {"command": "${WHO}", "args": words, "env": {"A": "${WHO}"}}}})
    found = pointed("--config", file).target
    assert list(found.argv) == [
        "me", "me", "me!", "you", f"{tmp_path}/x", tmp_path.name, "$WHO", os.sep, str(Path.home()),
    ]  # fmt: skip
    assert found.env == {"A": "me"}


def test_a_variable_that_is_not_set(config, monkeypatch):
    monkeypatch.delenv("TOKEN", raising=False)
    file = config({"mcpServers": {"a": {"command": "x", "env": {"T": "${TOKEN}"}}}})
    assert "server 'a': T refers to ${TOKEN}, but the variable TOKEN is not set" in mistake("--config", file)
    file = config({"mcpServers": {"a": {"command": "x", "args": ["${TOKEN}"]}}})
    assert "server 'a' needs the variable TOKEN, which is not set" in mistake("--config", file)
    file = config({"servers": {"a": {"command": "x", "env": {"T": "${input:token}"}}}})
    assert "asks the user for 'token'" in mistake("--config", file)


def test_a_file_of_variables(config, tmp_path):
    (tmp_path / ".env").write_text("# secret\nexport A=1\nB='two words'\n\nC=x=y\n")
    file = config({"servers": {"a": {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"A": "2", "N": 5, "T": True}}}})
    assert pointed("--config", file).target.env == {"A": "2", "B": "two words", "C": "x=y", "N": "5", "T": "true"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"type": "http"}, 'has no URL; add "url": "https://..."'),
        ({"url": "ws://example.com"}, "has a url that does not begin with http:// or https://"),
        ({"url": "https://example.com", "headers": ["A: b"]}, "has headers that are not an object with string values"),
        ({}, "has no command"),
        ({"command": 5}, "has no command"),
        ({"command": "x", "args": "-v"}, "has args that are not a list of strings"),
        ({"command": "x", "env": ["A"]}, "has an env that is not an object"),
        ({"command": "x", "cwd": 5}, "has a cwd that is not a string"),
        ({"command": "x", "envFile": "/nowhere/.env"}, "cannot be read, /nowhere/.env: No such file"),
        ({"command": "x", "envFile": 1}, "has an envFile that is not a string"),
        ({"command": "x\0"}, "NUL byte"),
        ("x", "must be an object"),
    ],
)
def test_an_entry_that_cannot_be_started(entry, said, config):
    assert said in mistake("--config", config({"mcpServers": {"a": entry}}))


@pytest.mark.parametrize("content", [{}, [], {"mcpServers": {}}, {"mcpServers": []}, "1", {"servers": None}])
def test_a_file_without_servers(content, config):
    assert 'has no servers; it needs {"mcpServers":' in mistake("--config", config(content))


def test_an_http_server_does_not_affect_another_one(config):
    file = config({"mcpServers": {"a": {"url": "http://x"}, "b": {"command": "x"}}})
    assert pointed("--config", file, "--server", "b").target == ServerCommand(["x"])


def test_a_file_that_is_not_utf_8(tmp_path):
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    assert "cannot be read: it is not UTF-8" in mistake("--config", str(tmp_path / "x"))
