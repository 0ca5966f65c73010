"""`twopipes install`: what it shows, what it writes, and what it does not change."""

import io
import json
import sys
import tomllib
from pathlib import Path

import pytest

from twopipes._cli import install, main
from twopipes._host.files.host_table import HOSTS
from twopipes._host.files.recognition import read_document
from twopipes._tools.usage import UsageError

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home folder; the current folder is that of a project."""
    found = tmp_path / "ada"
    project = found / "weather"
    project.mkdir(parents=True)
    (project / "server.py").write_text("")
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(found))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME", "KEY"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def say(home, capsys):
    def say(*words, code=0):
        assert main(["install", *words]) == code
        return capsys.readouterr()

    return say


def files(home):
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


def test_without_write_the_entry_is_only_shown(say, home):
    out, err = say("cursor", "--", "sh", "server.py")
    server = f"{home}/weather/server.py"
    assert json.loads(out) == {"mcpServers": {"weather": {"type": "stdio", "command": "sh", "args": [server]}}}
    assert f"server.py becomes {server}: hosts start servers from another folder" in err
    assert f"For Cursor, this goes into {home}/.cursor/mcp.json, which does not exist yet:" in err
    assert "Use --write to write it." in err
    assert "Next: Turn it on" in err
    assert f"twopipes doctor --config {home}/.cursor/mcp.json --server weather" in err
    assert files(home) == ["weather/server.py"]


def test_with_write_the_entry_is_written(say, home):
    out, err = say("cursor", "--write", "--", "sh", "server.py")
    assert f"Created: weather in {home}/.cursor/mcp.json" in out
    assert err == ""
    assert files(home) == [".cursor/mcp.json", "weather/server.py"]
    assert list(read_document(home / ".cursor" / "mcp.json").servers) == ["weather"]


def test_a_backup_is_kept(say, home):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"a": {}}} // mine\n')
    out, _ = say("cursor", "--write", "--name", "b", "--", "sh")
    (backup,) = file.parent.glob("*.backup-*")
    assert f"Written: b in {file}" in out
    assert f"Backup: {backup}" in out
    assert backup.read_text() == '{"mcpServers": {"a": {}}} // mine\n'
    assert file.read_text() == '{"mcpServers": {"a": {}, "b": {"type": "stdio", "command": "sh", "args": []}}} // mine\n'


@pytest.mark.parametrize("host", [name for name in HOSTS if name != "generic"])
def test_a_second_run_changes_nothing(host, say, home):
    say(host, "--write", "--env", "A=1", "--", "sh", "server.py")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert len(before) == 2
    out, _ = say(host, "--write", "--env", "A=1", "--", "sh", "server.py")
    assert "Nothing to do:" in out
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    out, err = say(host, "--env", "A=1", "--", "sh", "server.py")
    assert "Nothing to do:" in err
    assert "--write" not in err


@pytest.mark.parametrize("host", [name for name in HOSTS if name != "generic"])
def test_a_different_entry_is_replaced_only_on_request(host, say, home):
    say(host, "--write", "--", "sh", "server.py")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    _, err = say(host, "--write", "--", "sh", "server.py", "--fast", code=1)
    assert "there is already another server 'weather'" in err
    assert "Nothing was changed; use --replace" in err
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    _, err = say(host, "--", "sh", "server.py", "--fast")
    assert "Note: --write would refuse." in err
    say(host, "--write", "--replace", "--", "sh", "server.py", "--fast")
    (file,) = [path for path in before if path.name != "server.py"]
    assert b"--fast" in file.read_bytes()
    (backup,) = file.parent.glob("*.backup-*")
    assert backup.read_bytes() == before[file]


@pytest.mark.parametrize(
    ("host", "text", "said"),
    [
        ("cursor", '{"mcpServers": ', "is not valid JSON: Expecting value: line 1"),
        ("cursor", "[]", "it is a list, not an object. Nothing was changed"),
        ("codex", "a = ", "is not valid TOML"),
        ("goose", "a: [", "is not valid YAML"),
        ("zed", '{"context_servers": 5}', "its context_servers is 5"),
        ("opencode", "{", "is not valid JSON"),
    ],
)
def test_an_invalid_file_is_not_changed(host, text, said, say, tmp_path):
    file = tmp_path / f"config.{HOSTS[host].language.lower()}"
    file.write_text(text)
    _, err = say(host, "--write", "--config", str(file), "--", "sh", "server.py", code=1)
    assert f"Error: {file}" in err
    assert said in err
    assert file.read_text() == text
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [file.name]
    out, err = say(host, "--config", str(file), "--", "sh", "server.py")
    assert "weather" in out
    assert "--write would refuse" in err


def test_secrets_of_another_entry_are_masked(say, home):
    say("cursor", "--write", "--env", "KEY=hunter2", "--", "sh", "server.py")
    _, err = say("cursor", "--write", "--", "sh", "server.py", code=1)
    assert '"env": {"KEY": "***"}' in err
    assert "hunter2" not in err


def test_notes_about_the_users_file_are_for_the_users_file(say):
    assert "Note: This is the file of the default profile" in say("vscode", "--", "sh", "server.py").err
    assert "Note: This is" not in say("vscode", "--scope", "project", "--", "sh", "server.py").err
    assert "Note: This is" not in say("vscode", "--config", "x.json", "--", "sh", "server.py").err


def test_the_file_of_a_project(say, home):
    out, _ = say("vscode", "--scope", "project", "--write", "--", "sh", "server.py")
    assert json.loads((home / "weather/.vscode/mcp.json").read_text()) == {
        "servers": {"weather": {"type": "stdio", "command": "sh", "args": [f"{home}/weather/server.py"]}}
    }
    assert "These paths are valid on this machine only" in out
    out, _ = say("vscode", "--scope", "project", "--as-is", "--write", "--replace", "--", "sh", "server.py")
    assert json.loads((home / "weather/.vscode/mcp.json").read_text())["servers"]["weather"]["args"] == ["server.py"]
    assert "These paths" not in out


def test_variables_are_passed_on_if_the_host_can(say, home, monkeypatch):
    out, err = say("codex", "--env", "KEY", "--env", "A=b=c", "--", "sh", "server.py")
    assert tomllib.loads(out)["mcp_servers"]["weather"] == {
        "command": "sh",
        "args": [f"{home}/weather/server.py"],
        "env": {"A": "b=c"},
        "env_vars": ["KEY"],
    }
    assert "Note: KEY is not set here; it must be set in the environment of Codex" in err
    monkeypatch.setenv("KEY", "secret")
    out, err = say("cursor", "--env", "KEY", "--", "sh", "server.py")
    assert json.loads(out)["mcpServers"]["weather"]["env"] == {"KEY": "${env:KEY}"}
    assert "secret" not in out + err
    out, err = say("claude-desktop", "--env", "KEY", "--", "sh", "server.py")
    assert json.loads(out)["mcpServers"]["weather"]["env"] == {"KEY": "secret"}
    assert "Claude Desktop cannot pass KEY on, so its value is written into the file" in err


def test_tap_is_put_in_front(say, home):
    out, _ = say("zed", "--tap", "--", "sh", "server.py")
    assert json.loads(out)["context_servers"]["weather"] == {
        "source": "custom",
        "command": sys.executable,
        "args": ["-m", "twopipes", "tap", "--", "sh", f"{home}/weather/server.py"],
    }


def test_tap_needs_the_path_of_python(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(UsageError, match="the path of this Python is unknown; write the path of twopipes in front of the command"):
        install._with_tap(["server"])


def test_opencode_has_two_names_for_its_file_and_two_shapes(say, home):
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    file = folder / "opencode.jsonc"
    file.write_text("{\n  // mine\n}\n")
    say("opencode", "--write", "--name", "a", "--", "sh")
    assert file.read_text() == (
        '{\n  // mine\n  "mcp": {\n    "a": {\n      "type": "local",\n      "command": [\n        "sh"\n      ],\n'
        '      "enabled": true\n    }\n  }\n}\n'
    )
    file.write_text('{"mcp": {"servers": {}}}')
    say("opencode", "--write", "--name", "a", "--", "sh")
    assert json.loads(file.read_text()) == {"mcp": {"servers": {"a": {"type": "local", "command": ["sh"]}}}}
    file.write_text('{"mcp": {"servers": {"type": "local", "command": ["x"], "enabled": true}}}')
    say("opencode", "--write", "--name", "a", "--", "sh")
    assert set(json.loads(file.read_text())["mcp"]) == {"servers", "a"}


def test_a_new_file_of_opencode_names_its_schema(say, home):
    say("opencode", "--write", "--name", "a", "--", "sh")
    assert list(json.loads((home / ".config/opencode/opencode.json").read_text())) == ["$schema", "mcp"]


def test_a_file_for_any_host(say, home):
    say("generic", "--config", "mcp.json", "--write", "--", "sh", "server.py")
    assert list(json.loads((home / "weather/mcp.json").read_text())["mcpServers"]) == ["weather"]


def test_a_concurrent_change_by_the_host_is_detected(say, home, monkeypatch):
    def spoil(file, text, *, shared):
        file.path.parent.mkdir()
        file.path.write_text("{}")

    monkeypatch.setattr(install, "write_file", spoil)
    _, err = say("cursor", "--write", "--", "sh", "server.py", code=1)
    assert "does not contain what was written" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no host given; known hosts: claude-code,"),
        (["cursr", "--", "x"], "unknown host 'cursr'; did you mean cursor?"),
        (
            ["cursor", "https://example.com/mcp"],
            "install writes commands only; add the URL to the configuration of Cursor yourself",
        ),
        (["cursor", "--", "https://example.com/mcp"], "install writes commands only"),
        (["gemini", "--", "x"], "did you mean gemini-cli?"),
        (["emacs", "--", "x"], "For other hosts: twopipes install generic --config FILE"),
        (["cursor"], "put its command after --"),
        (["cursor", "--"], "put its command after --"),
        (["cursor", "--", ""], "at least one non-empty string"),
        (["cursor", "--name", "a b", "--", "x"], "letters, digits, - and _"),
        (["cursor", "--name", "a", "--", ""], "at least one non-empty string"),
        (["cursor", "--", "sh"], "--name NAME"),
        (["generic", "--", "x"], "--config FILE"),
        (["windsurf", "--scope", "project", "--", "x"], "Windsurf has no project file"),
        (["zed", "--env", "NOT_SET_ANYWHERE", "--", "x"], "--env NOT_SET_ANYWHERE=VALUE"),
        (["zed", "--env", "=1", "--", "x"], "name of an environment variable"),
        (["cursor", "--scope", "world", "--", "x"], "invalid choice"),
        (["cursor", "x", "--", "y"], "unrecognized arguments: x; see twopipes install --help"),
        (["cursor", "--name", "a", "--", "sh", "\udcff"], "is not valid Unicode text and cannot be written"),
    ],
)
def test_usage_errors(words, said, say, home):
    out, err = say(*words, code=2)
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert said in err
    assert files(home) == ["weather/server.py"]


def test_the_hosts_and_their_files(say, home):
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{}")
    out, err = say("--list")
    assert err == ""
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["host", "scope", "exists", "file"]
    assert ["cursor", "user", "yes", f"{home}/.cursor/mcp.json"] in lines
    assert ["cursor", "project", "no", ".cursor/mcp.json"] in lines
    assert {line[0] for line in lines[2:]} == set(HOSTS)


def test_help_names_every_host(say):
    out, _ = say("--help")
    assert all(name in out for name in HOSTS)
    assert "exit codes" in out
    assert max(map(len, out.splitlines())) <= 200


def test_colours_are_used_at_a_terminal(home, monkeypatch):
    pytest.importorskip("rich")

    class Screen(io.StringIO):
        def isatty(self):
            return True

    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["install", "cursor", "--write", "--", "sh", "server.py"]) == 0
    assert "\x1b[" in screen.getvalue()


def test_keep_is_put_in_front_with_its_options(say, home):
    out, _ = say("codex", "--keep", "--lazy", "--idle", "10m", "--watch", ".", "--log", "x.log", "--share", "--", "sh", "server.py")
    project = f"{home}/weather"
    assert tomllib.loads(out)["mcp_servers"]["weather"] == {
        "command": sys.executable,
        "args": [
            *["-m", "twopipes", "keep", "--lazy", "--idle", "10m", "--watch", project, "--share", "--log", f"{project}/x.log"],
            *["--", "sh", f"{project}/server.py"],
        ],
    }
    out, _ = say("zed", "--keep", "--tap", "--share=all", "--no-manifest", "--trace", "/t", "--", "sh", "server.py")
    assert json.loads(out)["context_servers"]["weather"]["args"] == [
        *["-m", "twopipes", "tap", "--", sys.executable, "-m", "twopipes", "keep", "--no-manifest", "--share=all", "--trace", "/t"],
        *["--", "sh", f"{project}/server.py"],
    ]
    out, _ = say("zed", "--keep", "--as-is", "--", "sh", "server.py")
    assert json.loads(out)["context_servers"]["weather"]["args"] == ["keep", "--", "sh", "server.py"]


SERVERS = """\
{
  "mcpServers": {
    "files": {
      "command": "npx", // mine
      "args": ["-y", "files"],
      "disabled": true
    },
    "bare": {"command": "serve"},
    "docs": {"url": "https://example.com"},
    "kept": {"command": "twopipes", "args": ["keep", "--", "x"]}
  }
}
"""


@pytest.fixture
def cursor(home):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(SERVERS)
    return file


def test_keep_all_shows_what_it_would_change(say, cursor):
    out, _ = say("cursor", "--keep-all", "--idle", "10m")
    assert "docs: unchanged; it is a URL\nkept: unchanged; it runs behind twopipes keep already\n" in out
    assert f"files: npx -y files\n  becomes {sys.executable} -m twopipes keep --idle 10m -- npx -y files\n" in out
    assert f"Use --write to write this into {cursor}." in out
    assert cursor.read_text() == SERVERS
    assert len(list(cursor.parent.iterdir())) == 1


def test_keep_all_includes_the_servers_of_the_current_project(say, home):
    """Claude Code keeps them in the file of the user."""
    folder = str(Path.cwd())
    other = {"/elsewhere": {"mcpServers": {"other": {"command": "z"}}}}
    projects = {folder: {"mcpServers": {"same": {"command": "y", "args": []}}}, **other}
    before = json.dumps({"mcpServers": {"same": {"command": "x"}}, "projects": projects}, indent=1)
    file = home / ".claude.json"
    file.write_text(before)
    say("claude-code", "--keep-all", "--write")
    written = json.loads(file.read_text())
    for servers, word in ((written["mcpServers"], "x"), (written["projects"][folder]["mcpServers"], "y")):
        assert [*servers["same"]["args"]][-2:] == ["--", word]
    assert written["projects"]["/elsewhere"] == other["/elsewhere"]
    say("claude-code", "--undo", "--write")
    assert file.read_text() == before


def test_keep_all_and_undo_restore_the_file_byte_for_byte(say, cursor):
    out, _ = say("cursor", "--keep-all", "--write")
    (backup,) = cursor.parent.glob("*.backup-*")
    assert backup.read_text() == SERVERS
    assert f"Written: {cursor}\nBackup: {backup}\nTo undo it: twopipes install cursor --undo --write\nNext: Turn it on" in out
    servers = read_document(cursor).servers
    keep = ["-m", "twopipes", "keep", "--"]
    assert servers["files"] == {"command": sys.executable, "args": [*keep, "npx", "-y", "files"], "disabled": True}
    assert servers["bare"] == {"command": sys.executable, "args": [*keep, "serve"]}
    assert "// mine" in cursor.read_text()
    assert "Nothing to do: no server" in say("cursor", "--keep-all", "--write").out
    # The one that was kept before is not undone together with the others.
    for name in ("files", "bare"):
        say("cursor", "--undo", "--write", "--name", name)
    assert cursor.read_text() == SERVERS
    cursor.write_text(SERVERS.replace('"twopipes", "args": ["keep", "--", "x"]', '"x"'))
    before = cursor.read_text()
    say("cursor", "--keep-all", "--write")
    assert cursor.read_text() != before
    say("cursor", "--undo", "--write")
    assert cursor.read_text() == before
    assert "Nothing to do: no server" in say("cursor", "--undo", "--write").out


def test_undo_keeps_what_was_edited_since(say, cursor):
    say("cursor", "--keep-all", "--write")
    text = cursor.read_text().replace("// mine", "// ours").replace('"https://example.com"', '"https://example.org"')
    cursor.write_text(text)
    out, _ = say("cursor", "--undo")
    assert "  becomes npx -y files\n" in out
    say("cursor", "--undo", "--write")
    wanted = SERVERS.replace("// mine", "// ours").replace("example.com", "example.org")
    wanted = wanted.replace('{"command": "serve"}', '{"command": "serve", "args": []}')
    assert cursor.read_text() == wanted.replace('"twopipes", "args": ["keep", "--", "x"]', '"x", "args": []')


def test_a_server_that_cannot_be_edited_does_not_stop_the_others(say, home):
    file = home / "config.yaml"
    file.write_text("extensions:\n  a: &x\n    cmd: a\n  b: *x\n  c:\n    cmd: c\n")
    out, _ = say("goose", "--keep-all", "--write", "--config", str(file), code=1)
    assert "a: cannot be changed; its layout cannot be edited safely; please edit it by hand" in out
    assert f"To undo it: twopipes install goose --undo --write --config {file}" in out
    assert [content["cmd"] for content in read_document(file).servers.values()] == ["a", "a", sys.executable]


@pytest.mark.parametrize("name", [name for name in HOSTS if name != "generic"])
def test_every_host_is_kept_and_undone(name, say, home):
    say(name, "--write", "--env", "A=1", "--", "sh", "server.py")
    (file,) = [path for path in home.rglob("*") if path.is_file() and path.name != "server.py"]
    before = file.read_bytes()
    say(name, "--keep-all", "--write")
    assert b"keep" in file.read_bytes()
    say(name, "--undo", "--write")
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--keep-all", "--undo"], 2, "--keep-all and --undo exclude each other"),
        (["--keep-all", "--", "x"], 2, "leave out the command after --"),
        (["--lazy", "--", "x"], 2, "--lazy is an option of twopipes keep; add --keep or --keep-all"),
        (["--undo", "--share"], 2, "--share is an option of twopipes keep"),
        (["--keep", "--idle", "soon", "--", "x"], 2, "not a duration"),
        (["--keep-all", "--trace", "x"], 2, "--trace is for one server"),
        (["--keep-all", "--tap"], 2, "--tap is for one server"),
        (["--undo", "--env", "A=1"], 2, "--env is for one server"),
        (["--undo", "--name", "nosuch"], 1, "has no server 'nosuch'; known servers: files, bare, docs, kept"),
    ],
)
def test_usage_errors_of_keep(words, code, said, say, cursor):
    assert said in say("cursor", *words, code=code).err
    assert cursor.read_text() == SERVERS


def test_a_file_without_servers_has_nothing_to_keep(say, home):
    assert "Nothing to do: no server" in say("cursor", "--keep-all", "--write").out
    assert files(home) == ["weather/server.py"]
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text("{")
    assert "is not valid JSON" in say("cursor", "--keep-all", code=1).err
    file.write_text('{"mcpServers": []}')
    assert "its mcpServers is a list" in say("cursor", "--undo", code=1).err
