"""The table of hosts: the paths of their files, the form of an entry, and that our own reader understands it."""

import json
import sys
from pathlib import Path

import pytest

from twopipes._host.files.formats import put, read, snippet
from twopipes._host.files.host_table import HOSTS, OTHER_HOSTS, HostEntry, Machine, entry_of
from twopipes._host.files.recognition import read_document
from twopipes._host.files.values import found_at, with_entry
from twopipes._host.references import resolved
from twopipes.errors import ConfigError
from twopipes.host import load

LINUX = Machine("linux", "/home/ada", {})
MAC = Machine("darwin", "/Users/ada", {})
WINDOWS = Machine("win32", "C:\\Users\\ada", {"APPDATA": "C:\\Users\\ada\\AppData\\Roaming"})

PATHS = {
    "claude-code": (".claude.json", ".claude.json", ".claude.json"),
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "codex": (".codex/config.toml",) * 3,
    "gemini-cli": (".gemini/settings.json",) * 3,
    "opencode": (".config/opencode/opencode.json",) * 3,
    "opencode-2": (".config/opencode/opencode.json",) * 3,
    "qwen": (".qwen/settings.json",) * 3,
    "copilot": (".copilot/mcp-config.json",) * 3,
    "cursor": (".cursor/mcp.json",) * 3,
    "droid": (".factory/mcp.json",) * 3,
    "amp": (".config/amp/settings.json",) * 3,
    "vscode": (
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "zed": (".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    "goose": (".config/goose/config.yaml", ".config/goose/config.yaml", "AppData/Roaming/Block/goose/config/config.yaml"),
}
# Realistic files: with comments, tabs, other servers, or without a newline at the end.
FILES = {path.stem: path.read_bytes().decode() for path in (Path(__file__).parent / "host_files").iterdir()}
# The same with line ends of Windows.
FILES["claude-desktop"] = FILES["claude-desktop"].replace("\n", "\r\n")
ENTRY = HostEntry("new", ["/usr/bin/new", "-a", "b c"], {"KEY": "1"}, [])


@pytest.mark.parametrize("name", PATHS)
def test_where_the_users_file_is(name):
    found = [HOSTS[name].file("user", machine) for machine in (LINUX, MAC, WINDOWS)]
    wanted = [f"{machine.home}/{path}" for machine, path in zip((LINUX, MAC, WINDOWS), PATHS[name], strict=True)]
    assert [path.as_posix() for path in found] == [path.replace("\\", "/") for path in wanted]


def test_every_host_is_tested():
    assert set(PATHS) == set(HOSTS) - {"generic"}
    assert set(FILES) == set(HOSTS)


@pytest.mark.parametrize(
    ("name", "variable", "path"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "/x/.claude.json"),
        ("codex", "CODEX_HOME", "/x/config.toml"),
        ("copilot", "COPILOT_HOME", "/x/mcp-config.json"),
        ("opencode", "XDG_CONFIG_HOME", "/x/opencode/opencode.json"),
        ("zed", "XDG_CONFIG_HOME", "/x/zed/settings.json"),
        ("goose", "XDG_CONFIG_HOME", "/x/goose/config.yaml"),
        ("goose", "GOOSE_PATH_ROOT", "/x/config/config.yaml"),
        ("gemini-cli", "GEMINI_CLI_HOME", "/x/.gemini/settings.json"),
        ("qwen", "QWEN_HOME", "/x/settings.json"),
        ("claude-desktop", "XDG_CONFIG_HOME", "/x/Claude/claude_desktop_config.json"),
        ("vscode", "XDG_CONFIG_HOME", "/x/Code/User/mcp.json"),
        ("hermes", "HERMES_HOME", "/x/config.yaml"),
        ("openclaw", "OPENCLAW_STATE_DIR", "/x/openclaw.json"),
        ("openclaw", "OPENCLAW_CONFIG_PATH", "/x"),
        ("pi", "PI_CODING_AGENT_DIR", "/x/mcp.json"),
    ],
)
def test_a_variable_changes_the_path(name, variable, path):
    host = (HOSTS | OTHER_HOSTS)[name]
    assert str(host.file("user", Machine("linux", "/home/ada", {variable: "/x"}))) == path


def test_a_variable_does_not_move_the_file_of_a_project():
    linux = LINUX._replace(environment={"GEMINI_CLI_HOME": "/x"})
    assert str(HOSTS["gemini-cli"].file("project", linux)) == ".gemini/settings.json"


def test_xdg_folders_do_not_move_the_files_of_zed_on_a_mac():
    mac = MAC._replace(environment={"XDG_CONFIG_HOME": "/x"})
    assert str(HOSTS["zed"].file("user", mac)) == "/Users/ada/.config/zed/settings.json"
    assert str(HOSTS["goose"].file("user", mac)) == "/x/goose/config.yaml"


def test_the_file_of_an_app_that_windows_keeps_in_a_package(tmp_path):
    host, windows = HOSTS["claude-desktop"], WINDOWS._replace(environment={"LOCALAPPDATA": str(tmp_path)})
    assert host.packaged_file(windows) is None
    folder = tmp_path / "Packages" / "Claude_pzs8sxrjxfjjc" / "LocalCache" / "Roaming"
    folder.mkdir(parents=True)
    assert host.packaged_file(windows) == folder / "Claude" / "claude_desktop_config.json"
    assert host.packaged_file(LINUX._replace(environment=windows.environment)) is None
    assert HOSTS["cursor"].packaged_file(windows) is None


def test_where_the_file_of_a_project_is():
    found = {name: host.project for name, host in HOSTS.items() if host.project}
    assert found == {
        "claude-code": ".mcp.json",
        "codex": ".codex/config.toml",
        "gemini-cli": ".gemini/settings.json",
        "opencode": "opencode.json",
        "opencode-2": "opencode.json",
        "qwen": ".qwen/settings.json",
        "copilot": ".mcp.json",
        "cursor": ".cursor/mcp.json",
        "droid": ".factory/mcp.json",
        "amp": ".amp/settings.json",
        "vscode": ".vscode/mcp.json",
        "zed": ".zed/settings.json",
    }
    assert HOSTS["windsurf"].file("project", LINUX) is None


PLAIN = {"command": "/usr/bin/new", "args": ["-a", "b c"], "env": {"KEY": "1"}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("claude-code", {"type": "stdio", **PLAIN}),
        ("claude-desktop", PLAIN),
        ("codex", PLAIN),
        ("gemini-cli", PLAIN),
        ("opencode", {"type": "local", "command": ["/usr/bin/new", "-a", "b c"], "enabled": True, "environment": {"KEY": "1"}}),
        ("opencode-2", {"type": "local", "command": ["/usr/bin/new", "-a", "b c"], "environment": {"KEY": "1"}}),
        ("qwen", PLAIN),
        ("copilot", {"type": "stdio", **PLAIN, "tools": ["*"]}),
        ("cursor", {"type": "stdio", **PLAIN}),
        ("droid", {"type": "stdio", **PLAIN, "disabled": False}),
        ("amp", PLAIN),
        ("vscode", {"type": "stdio", **PLAIN}),
        ("windsurf", PLAIN),
        ("zed", {"source": "custom", **PLAIN}),
        ("generic", PLAIN),
    ],
)
def test_the_content_of_an_entry(name, content):
    assert entry_of(HOSTS[name], ENTRY) == content


def test_without_variables_there_is_no_env():
    bare = ENTRY._replace(values={})
    for name in set(HOSTS) - {"goose"}:
        assert not {"env", "environment", "env_vars"} & entry_of(HOSTS[name], bare).keys()


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("claude-code", "env", {"KEY": "${KEY}"}),
        ("gemini-cli", "env", {"KEY": "${KEY}"}),
        ("qwen", "env", {"KEY": "${KEY}"}),
        ("copilot", "env", {"KEY": "${KEY}"}),
        ("droid", "env", {"KEY": "${KEY}"}),
        ("amp", "env", {"KEY": "${KEY}"}),
        ("cursor", "env", {"KEY": "${env:KEY}"}),
        ("vscode", "env", {"KEY": "${env:KEY}"}),
        ("windsurf", "env", {"KEY": "${env:KEY}"}),
        ("opencode", "environment", {"KEY": "{env:KEY}"}),
        ("codex", "env_vars", ["KEY"]),
        ("goose", "env_keys", ["KEY"]),
    ],
)
def test_how_a_variable_is_passed_on(name, key, value):
    assert entry_of(HOSTS[name], ENTRY._replace(values={}, passed=["KEY"]))[key] == value


PASSING = [name for name, host in HOSTS.items() if host.reference is not None or host.passes_on]


@pytest.mark.usefixtures("clean_environment")
@pytest.mark.parametrize(("name", "passed"), [*((name, False) for name in HOSTS), *((name, True) for name in PASSING)])
def test_what_is_written_into_a_hosts_own_file_is_read_back(name, passed, tmp_path, monkeypatch):
    monkeypatch.setenv("KEY", "1")
    host = HOSTS[name]
    content = entry_of(host, ENTRY._replace(values={}, passed=["KEY"]) if passed else ENTRY)
    before = FILES[name]
    after = put(before, host.language, host.place, "new", content)
    assert read(after, host.language) == with_entry(read(before, host.language), host.place, "new", content)
    path = tmp_path / PATHS.get(name, ("mcp.json",))[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\xef\xbb\xbf" + after.encode())
    assert read_document(path).host == name
    config = load(path)["new"]
    assert config.command == ("/usr/bin/new", "-a", "b c")
    env = {name: value for name, value in config.env.items() if name != "PYTEST_CURRENT_TEST"}  # which Gemini CLI would pass on
    assert resolved(env) == {"KEY": "1"}
    # No line is missing, except those that were replaced.
    lines = after.splitlines()
    lost = [line for line in before.splitlines() if line not in lines and f"{line}," not in lines]
    assert len(lost) <= 1, lost


@pytest.mark.parametrize("name", HOSTS)
def test_the_snippet_is_a_file_of_its_own(name, tmp_path):
    host = HOSTS[name]
    content = entry_of(host, ENTRY)
    said = snippet(host.language, host.place, "new", content)
    assert found_at(read(said, host.language), [*host.place, "new"]) == content
    assert said == put("", host.language, host.place, "new", content)


def test_entries_of_other_hosts_are_read(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(FILES["zed"])
    (config,) = load(path).values()
    assert config.command == ("x", "y")
    path.write_text(FILES["opencode"])
    assert load(path, names=["jira"])["jira"].url.startswith("https://")


def test_builtin_extensions_of_goose_are_not_servers(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(FILES["goose"])
    with pytest.raises(ConfigError, match="has no servers"):
        load(path)


def test_settings_about_servers_are_not_servers(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(FILES["gemini-cli"])
    with pytest.raises(ConfigError, match="has no servers"):
        load(path)


@pytest.mark.parametrize(("file", "text", "said"), [("x.toml", "a = ", "not valid TOML: "), ("x.yaml", "a: [", "not valid YAML: ")])
def test_a_file_that_cannot_be_read_is_named(file, text, said, tmp_path):
    (tmp_path / file).write_text(text)
    with pytest.raises(ConfigError, match=said):
        load(tmp_path / file)


def test_a_missing_yaml_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "x.yml").write_text("a: 1")
    with pytest.raises(ConfigError, match=r"x.yml: reading a YAML file needs PyYAML: pip install 'twopipes\[cli\]'"):
        load(tmp_path / "x.yml")


def test_this_machine_is_the_default():
    machine = Machine.this()
    assert machine.platform == sys.platform
    assert machine.home == str(Path.home())


def test_json_of_hosts_is_what_json_dumps_writes():
    """New files have the layout that hosts write: two spaces."""
    content = entry_of(HOSTS["cursor"], ENTRY)
    assert snippet("JSON", ("mcpServers",), "new", content) == json.dumps({"mcpServers": {"new": content}}, indent=2) + "\n"
