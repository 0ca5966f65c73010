"""The configuration files of hosts, each read as its host would read it."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from systems import WINDOWS
from twopipes._cli import main
from twopipes._host.config import ServerConfig
from twopipes._host.files.host_table import HOSTS, OTHER_HOSTS, Machine
from twopipes._host.files.reading import READING
from twopipes._host.files.recognition import read_document
from twopipes._host.files.values import nested
from twopipes._host.references import refers, resolved
from twopipes.errors import ConfigError
from twopipes.host import Sandbox, ToolFilter, load
from twopipes.settings import Timeouts

FIXTURES = Path(__file__).parent / "fixtures"
INHERITS = {"environment": "inherit"}
GET_TIME = ToolFilter(include=["get_time", "convert"], exclude=["convert"])

# The file of each fixture, the host that it is recognized as, and what each server becomes.
EXPECTED = {
    "claude-code": (
        ".claude.json",
        "claude-code",
        {
            "time": {
                "command": ("uvx", "mcp-server-time", "--local-timezone=Mars/Base", "$ZONE"),
                "env": {"TOKEN": "t0k3n", "OTHER": "literal:${UNSET_HERE}", "DATABASE_URL": "literal:file:./dev.db"},
                **INHERITS,
            },
            "github": {"url": "https://api.example.com/mcp/", "headers": {"Authorization": "Bearer t0k3n"}},
            "switched-off": {"command": ("nothing",), "enabled": False, **INHERITS},
            "local": {"command": ("local-server",), "timeouts": Timeouts(request=90, total=600), **INHERITS},
        },
    ),
    "claude-agent-sdk": (
        ".mcp.json",
        "claude-code",
        {
            "docs": {"command": ("npx", "-y", "docs-server"), "env": {"API_KEY": "t0k3n"}, **INHERITS},
            "remote": {"url": "https://example.com/sse"},
        },
    ),
    "codex-exec": (
        ".codex/config.toml",
        "codex",
        {
            "time": {
                "command": ("uvx", "mcp-server-time", "${TOKEN}"),
                "env": {"TOKEN": "${TOKEN}", "MODE": "$TOKEN"},
                "timeouts": Timeouts(connect=20.5, request=900, total=900),
                "tools": GET_TIME,
            },
            "off": {
                "command": ("off",),
                "enabled": False,
                "timeouts": Timeouts(connect=5, total=600),
                "tools": ToolFilter(exclude=["*"]),
            },
        },
    ),
    "codex-app-server": (
        ".codex/config.toml",
        "codex",
        {"with.dots": {"command": ("/opt/with dots/server",), "cwd": "/srv", "env": {"KEY": "ünï", "TOKEN": "${TOKEN}"}}},
    ),
    "codex-sdk": (
        ".codex/config.toml",
        "codex",
        {
            "figma": {
                "url": "https://mcp.figma.com/mcp",
                "headers": {
                    "X-Figma-Region": "us-east-1",
                    "X-From-Variable": "${TOKEN}",
                    "Authorization": "Bearer ${TOKEN}",
                },
            },
            "helper": {
                "problem": "{file}: server 'helper' gets headers from the command in http_headers_helper, which is not run here; "
                "set the headers yourself"
            },
        },
    ),
    "copilot-bare": (
        ".github/mcp.json",
        "copilot",
        {
            "playwright": {"command": ("npx", "$5", "t0k3n", "${1X}"), "env": {"TOKEN": "${TOKEN}"}},
            "remote": {"url": "https://example.com/mcp"},
        },
    ),
    "copilot": (
        ".copilot/mcp-config.json",
        "copilot",
        {
            "playwright": {
                "command": ("npx", "@playwright/mcp@latest", "Mars/Base", "none"),
                "env": {"ZONE": "${ZONE}", "TOKEN": "t0k3n"},
                "timeouts": Timeouts(request=30, total=600),
                "tools": ToolFilter(include=["browser_*"]),
            },
            "all": {"command": ("all",)},
            "none": {
                "url": "https://example.com/mcp",
                "headers": {"X-Key": "t0k3n"},
                "tools": ToolFilter(exclude=["*"]),
            },
            "broken": {"command": ("x", "$UNSET_HERE")},
        },
    ),
    "cursor": (
        ".cursor/mcp.json",
        "cursor",
        {
            "local": {
                "command": ("{folder}/bin/server", "--home", "{home}", "--name=cursor", "${TOKEN}"),
                "env": {"FROM_FILE": "two words", "API_KEY": "t0k3n"},
                **INHERITS,
            },
            "remote": {"url": "https://api.example.com/mcp", "headers": {"Authorization": "Bearer t0k3n"}},
        },
    ),
    "droid": (
        ".factory/mcp.json",
        "droid",
        {
            "airtable": {
                "command": ("npx", "-y", "airtable-mcp-server", "${TOKEN}"),
                "env": {"AIRTABLE_API_KEY": "t0k3n", "BASE": "app1", "ZONE": "default", "EMPTY": ""},
                "timeouts": Timeouts(request=120, total=600),
                "tools": ToolFilter(include=["list_*"]),
                **INHERITS,
            },
            "linear": {
                "url": "https://mcp.linear.app/mcp",
                "enabled": False,
                "tools": ToolFilter(exclude=["delete_issue"]),
            },
            "broken": {"problem": "{file}: server 'broken' needs the variable UNSET_HERE, which is not set"},
        },
    ),
    "gemini-cli": (
        ".gemini/settings.json",
        "gemini-cli",
        {
            "python": {
                "command": ("python", "-m", "my_server", "Mars/Base", "$UNSET_HERE"),
                "cwd": "./mcp-servers/python",
                "env": {
                    **{name: f"${{{name}}}" for name in ("ZONE", "API_HOST", "EMPTY_HERE")},
                    "KEY": "t0k3n",
                    "EMPTY": "",
                    "PRICE": "$5",
                },
                "timeouts": Timeouts(request=15, total=600),
                "tools": ToolFilter(include=["safe_tool", "file_reader"], exclude=["dangerous_tool"]),
            },
            "http": {
                "url": "http://localhost:3000/mcp",
                "headers": {"Authorization": "Bearer t0k3n", "X-Empty": ""},
                "tools": ToolFilter(exclude=["*"]),
            },
            "off": {
                "command": ("off",),
                "env": {name: f"${{{name}}}" for name in ("ZONE", "API_HOST", "EMPTY_HERE")},
                "enabled": False,
            },
        },
    ),
    "hermes": (
        ".hermes/config.yaml",
        "hermes",
        {
            "github": {
                "command": ("{home}/bin/npx", "-y", "@modelcontextprotocol/server-github", "8080", "~"),
                "env": {
                    "GITHUB_TOKEN": "t0k3n",
                    "SAME": "t0k3n",
                    "KEPT": "literal:${UNSET_HERE}",
                    "EMPTY": "literal:${EMPTY_HERE}",
                },
                "timeouts": Timeouts(connect=60, request=180, total=600),
                "tools": ToolFilter(include=["list_issues", "create_issue"]),
            },
            "stripe": {"url": "https://mcp.stripe.com", "headers": {"Authorization": "Bearer t0k3n"}, "enabled": False},
        },
    ),
    "omp": (
        ".omp/mcp.json",
        "omp",
        {
            "github": {
                "command": ("docker", "run", "-i", "--rm", "-e", "TOKEN", "ghcr.io/github/github-mcp-server", "${UNSET_HERE}"),
                "env": {"TOKEN": "${TOKEN}", "MODE": "fast", "PLAIN": "text"},
                "timeouts": Timeouts(request=120, total=600),
                "tools": ToolFilter(include=["get_*"], exclude=["get_secret"]),
                **INHERITS,
            },
            "command": {
                "problem": "{file}: server 'command' gets Authorization from a shell command, which is not run here; "
                "use a reference, or set it yourself"
            },
            "denied": {"command": ("denied",), "enabled": False, "timeouts": Timeouts(request=None, total=None), **INHERITS},
        },
    ),
    "openclaw": (
        ".openclaw/openclaw.json",
        "openclaw",
        {
            "context7": {
                "command": ("uvx", "context7-mcp", "${TOKEN}", "${lower}", "it's one line"),
                "cwd": "/srv",
                "env": {"CONTEXT7_API_KEY": "t0k3n"},
                "timeouts": Timeouts(connect=5, request=20, total=600),
                "tools": ToolFilter(include=["resolve-library-id", "get-*"]),
            },
            "docs": {"url": "https://mcp.example.com", "enabled": False, "timeouts": Timeouts(request=5, total=600)},
            "broken": {"problem": "{file}: server 'broken' needs the variable EMPTY_HERE, which is not set"},
        },
    ),
    "opencode": (
        "opencode.json",
        "opencode",
        {
            "everything": {
                "command": ("npx", "-y", "@modelcontextprotocol/server-everything", "Mars/Base"),
                "env": {"KEY": "t0k3n", "EMPTY": "", "FILE": "from a file", "SHELL_STYLE": "literal:${TOKEN}"},
                "timeouts": Timeouts(connect=10, request=10, total=600),
                **INHERITS,
            },
            "jira": {
                "url": "https://jira.example.com/mcp",
                "headers": {"Authorization": "Bearer t0k3n"},
                "enabled": False,
            },
        },
    ),
    "pi": (
        ".pi/mcp.json",
        "pi",
        {
            "chrome-devtools": {
                "command": ("npx", "-y", "chrome-devtools-mcp@1.6.0", "${TOKEN}"),
                "env": {"A": "t0k3n", "B": "t0k3n", "C": "t0k3n", "D": "", "E": "!literally"},
                "cwd": "{home}/work/Mars/Base",
                "tools": ToolFilter(exclude=["take_*"]),
                "timeouts": Timeouts(request=45, total=600),
                **INHERITS,
            },
            "remote": {"url": "https://api.example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "token": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x-t0k3n"}},
            "no token": {"url": "https://example.com/mcp"},
            "store": {
                "problem": "{file}: server 'store' has its token in a store that is not read here; set bearerTokenEnv to the name "
                "of a variable"
            },
            "broken": {"problem": "{file}: server 'broken' needs the variable UNSET_HERE, which is not set"},
        },
    ),
    "qwen": (
        ".qwen/settings.json",
        "qwen",
        {
            "api": {
                "command": ("node", "api-server.js", "${UNSET_HERE:-default}"),
                "env": {"API_KEY": "t0k3n"},
                "timeouts": Timeouts(connect=8, request=20, total=600),
                "tools": ToolFilter(exclude=["write_file"]),
                **INHERITS,
            },
            "other": {"command": ("other",), "enabled": False, **INHERITS},
        },
    ),
    "amp": (
        ".amp/settings.json",
        "amp",
        {
            "playwright": {
                "command": ("npx", "-y", "@playwright/mcp@latest", "--headless"),
                "tools": ToolFilter(include=["navigate_*", "click"]),
                **INHERITS,
            },
            "linear": {"url": "https://mcp.linear.app/sse", "headers": {"Authorization": "Bearer t0k3n"}},
            "broken": {"command": ("x",), "env": {"KEY": "literal:${UNSET_HERE}"}, **INHERITS},
        },
    ),
    "claude-desktop": (
        "Claude/claude_desktop_config.json",
        "claude-desktop",
        {"files": {"command": ("npx", "-y", "files", "${TOKEN}"), "env": {"A": "literal:${TOKEN}"}}},
    ),
    "vscode": (
        ".vscode/mcp.json",
        "vscode",
        {
            "asks": {
                "problem": "{file}: server 'asks' asks the user for 'api-key'; pass it with load(..., inputs={'api-key': ...})"
            },
            "home": {
                "command": ("{home}/bin/server", "{home}", "~other", "t0k3n"),
                "env": {"PATH": f"/usr/bin{os.pathsep}/opt/t0k3n"},
                **INHERITS,
            },
            "remote": {"url": "https://example.com/mcp", "headers": {"X-Folder": "vscode"}},
        },
    ),
    "windsurf": (
        ".codeium/windsurf/mcp_config.json",
        "windsurf",
        {
            "github": {
                "command": ("npx", "-y", "github"),
                "env": {"TOKEN": "t0k3n"},
                "enabled": False,
                "tools": ToolFilter(exclude=["delete_repo"]),
                **INHERITS,
            },
            "remote": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer t0k3n"}},
        },
    ),
    "zed": (
        ".zed/settings.json",
        "zed",
        {
            "new": {
                "command": ("some-command", "arg-1", "${TOKEN}"),
                "env": {"A": "$TOKEN"},
                "timeouts": Timeouts(request=30, total=600),
                **INHERITS,
            },
            "old": {"command": ("old-command", "x"), "env": {"B": "1"}, **INHERITS},
            "remote": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}},
        },
    ),
    "goose": (
        "goose/config.yaml",
        "goose",
        {
            "github": {
                "command": ("npx", "-y", "@modelcontextprotocol/server-github"),
                "env": {"TOKEN": "${TOKEN}", "MODE": "$TOKEN"},
                "timeouts": Timeouts(request=300, total=600),
                "tools": ToolFilter(include=["list_issues"]),
                **INHERITS,
            },
            "remote": {
                "url": "https://example.com/mcp",
                "headers": {"Authorization": "Bearer t0k3n", "X-Region": "eu", "X-Zone": "$ZONE"},
                "timeouts": Timeouts(request=1200, total=1200),
                "enabled": False,
            },
            "missing": {
                "problem": "{file}: server 'missing' needs the secret unset_here of goose, which is not read here; "
                "set the variable UNSET_HERE"
            },
            "socket": {"problem": "{file}: server 'socket' is reached through a socket, which is not supported here"},
        },
    ),
    "opencode-2": (
        "opencode.json",
        "opencode-2",
        {
            "a": {
                "command": ("a", "b"),
                "enabled": False,
                "timeouts": Timeouts(connect=20, request=90, total=600),
                **INHERITS,
            },
            "b": {"url": "https://example.com/mcp"},
        },
    ),
    "twopipes": (
        "servers.json",
        "generic",
        {
            "time": {
                "command": ("uvx", "mcp-server-time"),
                "env": {
                    "KEY": "keyring:time/key",
                    "TOKEN": "${TOKEN}",
                    "FILE": "file:secret",
                    "TEXT": "literal:file:x",
                    "HERE": "{folder}/x",
                },
                "cwd": "{folder}{sep}work",
                "timeouts": Timeouts(connect=10, request=5, total=None),
                "tools": ToolFilter(include=["get_*"], exclude=["get_secret"], read_only=True),
                "sandbox": Sandbox(
                    read=["{folder}{sep}data", "{home}{sep}shared", "{root}etc{sep}hosts"],
                    write=["{folder}{sep}out"],
                    network=True,
                ),
            },
            "remote": {
                "url": "https://api.example.com/mcp",
                "headers": {"Authorization": "Bearer ${keyring:remote/token}"},
                "tools": ToolFilter(include=["search"]),
            },
            "socket": {"url": "unix:/run/server.sock", "enabled": False},
            "confined": {"command": ("confined",), "sandbox": Sandbox()},
            "free": {"command": ("free",), "sandbox": False},
            "unset": {"problem": "{file}: server 'unset' needs the variable UNSET_HERE, which is not set"},
            "wrong sandbox": {
                "problem": "{file}: server 'wrong sandbox' has a sandbox that is not true, false or an object with read, write, "
                "network, folder, engine"
            },
            "wrong engine": {
                "problem": "{file}: server 'wrong engine': Sandbox.engine must be one of auto, bubblewrap, landlock, got 'magic'"
            },
            "wrong paths": {"problem": "{file}: server 'wrong paths' has a sandbox whose paths are not lists of strings"},
            "wrong timeouts": {
                "problem": "{file}: server 'wrong timeouts' has timeouts that are not an object with seconds for some of connect, "
                "probe, request, total, shutdown"
            },
            "wrong tools": {
                "problem": "{file}: server 'wrong tools' has a filter for tools that is not valid: patterns are lists of strings, "
                "conditions true or false"
            },
            "both": {"command": ("x",)},
        },
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch, clean_environment):
    """A folder with all fixtures, and an environment for their references."""
    shutil.copytree(FIXTURES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "cursor" / ".env").write_text('FROM_FILE="two words"\n# a comment\nexport API_KEY=overridden\n')
    claude = tmp_path / "claude-code" / ".claude.json"
    claude.write_text(claude.read_text().replace("@PROJECT@", (tmp_path / "claude-code").as_posix()))
    for name, value in {"TOKEN": "t0k3n", "ZONE": "Mars/Base", "API_HOST": "api.example.com", "EMPTY_HERE": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    return tmp_path


def filled(value, words):
    """Replace the words in braces in an expected value."""
    match value:
        case str():
            for word, text in words.items():
                value = value.replace(word, text)
            return value
        case tuple() | list():
            return type(value)(filled(each, words) for each in value)
        case dict():
            return {key: filled(each, words) for key, each in value.items()}
        case Sandbox():
            return structs.replace(value, read=filled(value.read, words), write=filled(value.write, words))
    return value


def of_the_host(env):
    """The variables of a server without those that only the tests set."""
    added = {"PYTEST_CURRENT_TEST", "HOME" if WINDOWS else "USERPROFILE"}
    return env and {name: value for name, value in env.items() if name not in added}


def shown(config):
    """The members of a configuration that are not the default, and not the file."""
    given = structs.asdict(config) | {"env": of_the_host(config.env)}
    defaults = dict(zip(ServerConfig.__struct_fields__, ServerConfig.__struct_defaults__, strict=True))
    return {name: value for name, value in given.items() if value != defaults[name] and name != "source"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_read_as_its_host_reads_it(name, folder, monkeypatch):
    file, host, expected = EXPECTED[name]
    monkeypatch.chdir(folder / name)
    path = folder / name / file
    assert read_document(path).host == host
    found = load(path)
    words = {"{file}": str(path), "{folder}": str(folder / name), "{home}": str(folder / "home"), "{sep}": os.sep}
    words["{root}"] = path.anchor
    assert {server: shown(config) for server, config in found.items()} == filled(expected, words)
    assert {config.source for config in found.values()} == {str(path)}
    assert list(load(path, host=host)) == list(found)


def test_every_fixture_is_expected():
    assert set(EXPECTED) == {path.name for path in FIXTURES.iterdir()}


def test_questions_of_vs_code_can_be_answered(folder):
    config = load(folder / "vscode/.vscode/mcp.json", inputs={"api-key": "${TOKEN} as it is"})["asks"]
    assert config.problem is None
    assert config.env == {"KEY": "literal:${TOKEN} as it is", "EMPTY": ""}


def test_only_some_servers(folder):
    path = folder / "amp/.amp/settings.json"
    assert list(load(path, names=["linear", "playwright"])) == ["playwright", "linear"]
    assert list(load(path, names="linear")) == ["linear"]
    with pytest.raises(ConfigError, match="has no server 'nosuch'; known servers: playwright, linear, broken"):
        load(path, names=["nosuch"])


def test_the_home_folder_is_expanded(folder):
    (folder / "home").mkdir()
    shutil.copy(folder / "claude-code/.claude.json", folder / "home")
    assert list(load("~/.claude.json")) == ["time", "github", "switched-off"]


# What a server inherits, and which servers are switched on


@pytest.mark.parametrize(
    ("name", "value", "passed"),
    [
        ("DISPLAY", ":0", True),
        ("HTTPS_PROXY", "http://proxy.example.com:3128", True),
        ("MY_TOKEN", "x", False),
        ("API_KEY", "x", False),
        ("SSH_AUTH_SOCK", "/run/agent", False),
        ("DATABASE_URL", "x", False),
        ("PROXY", "http://ada:secret@example.com", False),
        ("NOTE", "see -----BEGIN CERTIFICATE-----", False),
        ("NOTE", f"ghp_{'a' * 36}", False),
        ("BASH_FUNC_x%%", "() { :; }", False),
        ("FUNCTION", "() { :; }", False),
    ],
)
def test_gemini_cli_passes_on_what_does_not_look_like_a_secret(name, value, passed, folder, monkeypatch):
    monkeypatch.setenv(name, value)
    config = load(folder / "gemini-cli/.gemini/settings.json")["off"]
    assert config.env.get(name) == (f"${{{name}}}" if passed else None)
    assert config.environment == "minimal"


def test_codex_passes_on_where_the_certificates_are(folder, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/company.pem")
    monkeypatch.setenv("PIP_CERT", "")
    config = load(folder / "codex-exec/.codex/config.toml")["time"]
    assert config.env == {"SSL_CERT_FILE": "${SSL_CERT_FILE}", "TOKEN": "${TOKEN}", "MODE": "$TOKEN"}


@pytest.mark.parametrize(
    ("host", "lists", "enabled"),
    [
        ("qwen", {"allowed": ["a*"]}, ["a", "ab"]),
        ("qwen", {"allowed": ["a*"], "excluded": ["?b"]}, ["a"]),
        ("qwen", {"allowed": []}, []),
        ("gemini-cli", {"allowed": ["a*"]}, []),
        ("gemini-cli", {"allowed": ["a", "c"], "excluded": ["c"]}, ["a"]),
        ("gemini-cli", {"allowed": []}, ["a", "ab", "c"]),
    ],
)
def test_lists_of_servers_that_are_switched_on_or_off(host, lists, enabled, tmp_path):
    servers = {name: {"command": "x"} for name in ("a", "ab", "c")}
    (tmp_path / "settings.json").write_text(json.dumps({"mcp": lists, "mcpServers": servers}))
    found = load(tmp_path / "settings.json", host=host)
    assert [name for name, config in found.items() if config.enabled] == enabled


# Which host a file belongs to


def test_the_reference_has_a_row_for_every_host():
    page = (Path(__file__).parents[3] / "docs/reference/configuration-files.md").read_text(encoding="utf-8")
    rows = [line.partition(" | ")[0] for line in page.partition("## Files of hosts")[2].splitlines() if line.startswith("| `")]
    assert [name for row in rows for name in re.findall(r"`([\w-]+)`", row)] == [host for host in READING if host != "generic"]
    assert READING.keys() == HOSTS.keys() | OTHER_HOSTS.keys()


@pytest.mark.parametrize(
    ("path", "text", "host"),
    [
        (".mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', "claude-code"),
        ("mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', "generic"),
        (".omp/.mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', "omp"),
        (".pi/agent/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', "pi"),
        (".github/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', "copilot"),
        (".mcp.json", '{"a": {"command": "x"}}', "copilot"),
        ("openclaw.json", "{mcp: {servers: {a: {command: 'x'}}}}", "openclaw"),
        ("servers.json5", "{mcpServers: {a: {command: 'x'}}}", "generic"),
        (".config/amp/settings.jsonc", '{"amp.mcpServers": {"a": {"command": "x"}}}', "amp"),
        ("opencode.jsonc", '{"mcp": {"a": {"type": "local", "command": ["x"]}}}', "opencode"),
        # A server with the name of the member in which opencode 2 keeps its servers.
        ("opencode.json", '{"mcp": {"servers": {"type": "local", "command": ["x"]}}}', "opencode"),
        ("opencode.json", '{"mcp": {"servers": {"a": {"type": "local", "command": ["x"]}}}}', "opencode-2"),
        # The path says one host, and the content another.
        (".mcp.json", '{"servers": {"a": {"command": "x"}}}', "vscode"),
        (".vscode/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', "generic"),
        # Only the content says it.
        ("x.toml", '[mcp_servers.a]\ncommand = "x"', "codex"),
        ("x.yaml", "mcp_servers: {a: {command: x}}", "hermes"),
        ("x.yml", "extensions: {a: {type: stdio, cmd: x}}", "goose"),
        ("x.json", '{"context_servers": {"a": {"command": "x"}}}', "zed"),
        ("x.json", '{"amp.mcpServers": {"a": {"command": "x"}}}', "amp"),
        ("x.json", '{"mcp": {"servers": {"a": {"command": "x"}}}}', "openclaw"),
        ("x.json", '{"mcp": {"a": {"type": "local", "command": ["x"]}}}', "opencode"),
        ("x.toml", '[mcpServers.a]\ncommand = "x"', "generic"),
        ("x.yaml", "mcpServers: {a: {command: x}}", "generic"),
    ],
)
def test_which_host_a_file_belongs_to(path, text, host, tmp_path):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert read_document(file).host == host
    assert [config.command for config in load(file).values()] == [("x",)]


def test_a_variable_that_moves_the_file_of_a_host_is_respected(tmp_path, monkeypatch):
    monkeypatch.setenv("COPILOT_HOME", str(tmp_path))
    (tmp_path / "mcp-config.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    assert read_document(tmp_path / "mcp-config.json").host == "copilot"


def test_a_given_host_decides(tmp_path):
    (tmp_path / "x.json").write_text('{"mcpServers": {"a": {"command": "x", "env": {"A": "file:b"}}}}')
    assert load(tmp_path / "x.json", host="cursor")["a"].env == {"A": "literal:file:b"}
    assert load(tmp_path / "x.json", host="generic")["a"].env == {"A": "file:b"}
    with pytest.raises(ConfigError, match=r'x.json has no servers; it needs \{"servers": '):
        load(tmp_path / "x.json", host="vscode")
    with pytest.raises(ConfigError, match="unknown host 'nosuch'; known hosts: claude-code, "):
        load(tmp_path / "x.json", host="nosuch")


@pytest.mark.parametrize("where", ["root", "root/src/deep"])
def test_servers_of_the_current_project_in_the_file_of_claude_code(where, tmp_path, monkeypatch):
    """They replace a server of the user with the same name."""
    (tmp_path / where).mkdir(parents=True)
    (tmp_path / "root" / ".git").mkdir()
    monkeypatch.chdir(tmp_path / where)
    projects = {
        str(tmp_path / "root"): {"mcpServers": {"a": {"command": "mine"}}},
        str(tmp_path): {"mcpServers": {"outside": {"command": "x"}}},
    }
    file = tmp_path / ".claude.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}, "projects": projects}))
    assert {name: config.command for name, config in load(file).items()} == {"a": ("mine",), "b": ("y",)}


# Files that cannot be read, and entries that cannot be used


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"{", "is not valid JSON"),
        (b"\xff{}", "cannot be read: it is not UTF-8"),
        (b"[]", "has no servers"),
        (b"{}", r'has no servers; it needs \{"mcpServers": '),
        (b'{"mcpServers": {}}', "has no servers"),
        (b'{"mcpServers": []}', "has no servers"),
        (b"[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_file_without_servers_is_an_error(content, message, tmp_path):
    file = tmp_path / "servers.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load(file)


def test_a_folder_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read: (Is a directory|Permission denied)"):
        load(tmp_path)


def test_one_broken_entry_does_not_hide_the_others(tmp_path):
    file = tmp_path / "servers.json"
    servers = {"good": {"command": "x"}, "bad": {"command": ["x", 5]}, "nul": {"command": "a\0b"}, "empty": {}}
    file.write_text(json.dumps({"mcpServers": servers}))
    found = load(file)
    assert found["good"].problem is None
    assert [bool(found[name].problem) for name in ("bad", "nul", "empty")] == [True] * 3
    with pytest.raises(ConfigError, match="server 'empty' has no command"):
        found["empty"].target()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"command": "x", "args": "-v"}, "has args that are not a list of strings"),
        ({"command": "x", "cwd": 5}, "has a cwd that is not a string"),
        ({"command": "x", "env": ["A"]}, "has an env that is not an object with string values"),
        ({"command": "x", "env": {"A": ["b"]}}, "has an env that is not an object with string values"),
        ({"command": "x", "envFile": 1}, "has an envFile that is not a string"),
        (
            {"command": "x", "envFile": "gone.env"},
            "has an envFile that cannot be read, {folder}{sep}gone.env: No such file or directory",
        ),
        ({"command": "x", "timeout": "soon"}, "has a timeout that is not a number"),
        ({"command": "x", "timeout": True}, "has a timeout that is not a number"),
        ({"command": "x", "timeout": -1}, "has a timeout that is not a number"),
        ({"command": "x", "timeout": 10**400}, "has a timeout that is not a number"),
        ({"command": "x", "includeTools": [5]}, "has a filter for tools that is not valid"),
        ({"url": "ws://example.com"}, "has a url that does not begin with http:// or https://"),
        ({"url": "https://example.com", "headers": ["A: b"]}, "has headers that are not an object with string values"),
        ("x", "must be an object with a command"),
        (None, "must be an object with a command"),
        ({"type": "http"}, 'has no URL; add "url": "https://..."'),
    ],
)
def test_what_is_wrong_with_an_entry(entry, problem, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    found = load(tmp_path / "x.json", host="claude-code")["a"].problem
    assert found.startswith(f"{tmp_path / 'x.json'}: server 'a' {filled(problem, {'{folder}': str(tmp_path), '{sep}': os.sep})}")


def test_a_file_that_opencode_refers_to_is_missing(folder):
    (folder / "opencode/secret.txt").unlink()
    problem = load(folder / "opencode/opencode.json")["everything"].problem
    assert problem.endswith(f"refers to the file {folder / 'opencode/secret.txt'}, which cannot be read: No such file or directory")


def test_other_settings_about_mcp_are_not_servers(tmp_path):
    (tmp_path / "settings.json").write_text('{"mcp": {"enabled": true, "servers": {"a": {"port": 1}}}}')
    with pytest.raises(ConfigError, match="has no servers"):
        load(tmp_path / "settings.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = """
command args env cwd url headers envFile type enabled timeouts timeout tools toolFilter sandbox includeTools disabledTools env_vars
env_http_headers bearer_token_env_var requestTimeoutMs connectTimeout environment cmd uri
""".split()  # noqa: SIM905 - a list of strings would be long
# TOML cannot express all of it; the reader of entries is the same.
OF_JSON = [name for name, host in (HOSTS | OTHER_HOSTS).items() if host.language != "TOML"]


@given(
    host=st.sampled_from(OF_JSON),
    entry=st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=6),
    command=st.sampled_from([{}, {"command": "x"}, {"url": "https://example.com/mcp"}]),
)
@settings(suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture])
def test_any_entry_is_a_server_or_has_a_problem(host, entry, command, tmp_path):
    table = (HOSTS | OTHER_HOSTS)[host]
    file = tmp_path / f"x.{table.language.lower()}"
    file.write_text(json.dumps(nested(table.place, {"a": {"type": "stdio", **entry, **command}})))  # JSON is valid YAML
    (config,) = load(file, host=host).values()
    if config.problem is None:
        assert (config.command is None) != (config.url is None)
    else:
        assert config.problem.startswith(f"{file}: server 'a'")


# What install writes

ODD = [
    "plain",
    "two words",
    "ünï→",
    "$HOME",
    "${HOME}",
    "a$b",
    "5$",
    '"quoted"',
    "back\\slash",
    "file:x",
    "keyring:a/b",
    "literal:x",
]
ODD += ["${env:HOME}", "{env:HOME}", "${HOME:-x}", "", "#", "yes", "null", "tab\there", "line\nbreak", "'", "%HOME%", "!x", "~"]


@pytest.mark.usefixtures("clean_environment")
@pytest.mark.parametrize("host", HOSTS)
def test_what_install_writes_is_read_back(host, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("PASSED", "from the environment")
    monkeypatch.chdir(tmp_path)
    path = HOSTS[host].file("user", Machine.this())
    file = Path(path) if path is not None else tmp_path / "servers.json"
    where = [] if path is not None else ["--config", str(file)]
    passes = HOSTS[host].reference is not None or HOSTS[host].passes_on
    values = [text for text in ODD if kept(host, text)]
    variables = [f"--env=V{number}={text}" for number, text in enumerate(values)] + (["--env=PASSED"] if passes else [])
    words = ["sh", *values]
    for name, options in {"full": variables, "bare": []}.items():
        assert main(["install", host, *where, "--name", name, *options, "--write", "--", *(words if options else ["sh"])]) == 0
    assert capsys.readouterr().err == "" or HOSTS[host].expands is not None
    assert read_document(file).host == host
    found = load(file)
    assert found["bare"].command == ("sh",)
    # Gemini CLI passes on every variable that does not look like a secret.
    assert of_the_host(found["bare"].env) == ({"PASSED": "${PASSED}"} if host == "gemini-cli" else None)
    config = found["full"]
    assert config.problem is None
    assert config.command == tuple(words)
    expected = {f"V{number}": text for number, text in enumerate(values)} | ({"PASSED": "from the environment"} if passes else {})
    assert resolved(of_the_host(config.env)) == expected


def kept(host, text):
    """Whether a host lets a server get this text: some expand it, and offer no way to escape it (install says so)."""
    if host == "generic" and (refers(text) or text.startswith("literal:")):
        return False  # a file for any host: only twopipes has these references
    if host == "vscode" and text == "~":
        return False
    expands = HOSTS[host].expands
    if expands is not None and expands.inescapable is not None and expands.inescapable.search(text):
        return False
    return expands is None or expands.in_words is not None or expands.reference.search(text) is None
