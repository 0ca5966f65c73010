"""Text that a host would expand: it is escaped, or the user is informed."""

import json
import re
import sys

import pytest

from twopipes._cli import main
from twopipes._host.files.expansion import DOLLAR_TWICE
from twopipes._host.files.host_table import HOSTS
from twopipes._host.references import resolved
from twopipes._tools.install.escaping import literal
from twopipes.host import load

TEXTS = ["$HOME", "${HOME}", "pa$word", "${X:-y}", "$$HOME", "${A:-${HOME}}", "a\\$HOME", "{env:HOME}", "{file:/etc/x}", "5$", "no"]
ENVIRONMENT = {"HOME": "/root", "X": "x", "word": "w"}


def with_default(text, pattern):
    """Expand as Claude Code, droid and Copilot do: once, with ``${NAME:-default}``; unknown names stay."""

    def value(found):
        name, has_default, default = (found[1] or found[2]).partition(":-")
        return ENVIRONMENT.get(name, default if has_default else found[0])

    return re.sub(pattern, value, text)


def braces(text):
    return with_default(text, r"\$\{([A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?)\}()")


def dollar(text):
    return with_default(text, r"\$(?:(\w+)|\{([^}]+)\})")


def dollar_twice(text):
    """Expand as Gemini CLI does in values: a second time, where a backslash escapes and unset names are empty."""
    once = dollar(text)
    again = re.sub(r"(?<!\\)\$(?:\{([^{}]+)\}|([A-Za-z_]\w*))", lambda found: ENVIRONMENT.get(found[1] or found[2], ""), once)
    return again.replace("\\$", "$")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    ("host", "in_words", "in_values"),
    [
        ("claude-code", braces, braces),
        ("droid", str, braces),
        ("copilot", dollar, dollar),
        ("gemini-cli", dollar, dollar_twice),
    ],
)
def test_the_host_expands_an_escaped_text_to_the_original(host, in_words, in_values, text):
    made = literal("it", HOSTS[host].expands, ["server", text], {"KEY": text}, as_is=False)
    assert [in_words(word) for word in made.words] == ["server", text]
    assert {name: in_values(value) for name, value in made.values.items()} == {"KEY": text}


@pytest.mark.parametrize(
    ("host", "text", "is_replaced"),
    [
        ("claude-code", "${HOME}", True),
        ("claude-code", "$HOME", False),
        ("droid", "$HOME", False),
        ("copilot", "$HOME", True),
        ("gemini-cli", "$HOME", True),
        ("qwen", "$HOME", True),
        ("qwen", "{env:HOME}", False),
        ("opencode", "{env:HOME}", True),
        ("opencode", "{file:~/x}", True),
        ("opencode-2", "{env:HOME}", True),
        ("opencode", "${HOME}", False),
        ("cursor", "${env:HOME}", True),
        ("vscode", "${workspaceFolder}", True),
        ("vscode", "$HOME", False),
        ("amp", "${HOME}", True),
        ("codex", "${HOME} $HOME {env:HOME}", False),
        ("claude-desktop", "${HOME}", False),
    ],
)
def test_a_note_reports_each_escaped_text(host, text, is_replaced):
    made = literal("it", HOSTS[host].expands, ["server"], {"KEY": text}, as_is=False)
    assert bool(made.notes) == is_replaced
    assert (made.values["KEY"] != text) == (is_replaced and HOSTS[host].expands.in_values is not None)


@pytest.fixture
def say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KEY", "hunter2")

    def say(*words):
        assert main(["install", *words]) == 0
        return capsys.readouterr()

    return say


@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")
def test_notes_hide_the_value_and_the_doctor_reads_the_original(say, tmp_path):
    done = say(
        "claude-code", "--config", "x.json", "--name", "s", "--env", "PASS=a${KEY}b", "--write", "--", "sh", "-c", "echo ${KEY}"
    )
    said = done.out + done.err
    assert "the value of PASS is escaped, so that Claude Code does not expand variables in it" in said
    assert "a${KEY}b" not in said
    assert "the argument 'echo ${KEY}' is escaped, so that" in said
    for host in ("claude-code", None):
        (config,) = load(tmp_path / "x.json", host=host).values()
        assert config.command == ("sh", "-c", "echo ${KEY}")
        assert resolved(config.env) == {"PASS": "a${KEY}b"}


def test_a_note_reports_what_gemini_cli_expands_on_windows_only():
    expands = DOLLAR_TWICE._replace(inescapable=re.compile(r"%\w+%"))
    written = literal("Gemini CLI", expands, ["sh", "%HOME%"], {"A": "50%", "B": "%HOME%/x", "C": "$HOME"}, as_is=False)
    assert written.words == ["sh", "%HOME%"]
    assert (written.values["A"], written.values["B"]) == ("50%", "%HOME%/x")
    assert written.values["C"] != "$HOME"
    first, second = written.notes
    assert first.startswith("Gemini CLI expands variables in the value of B, and that cannot be prevented;")
    assert second.startswith("the value of C is escaped")


@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")
def test_as_is_escapes_nothing(say):
    out, err = say("claude-code", "--name", "s", "--as-is", "--env", "PASS=${KEY}", "--", "sh")
    assert json.loads(out)["mcpServers"]["s"]["env"] == {"PASS": "${KEY}"}
    assert "leave out --as-is to prevent that" in err


@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")
def test_a_note_reports_a_text_that_cannot_be_escaped(say):
    out, err = say("qwen", "--name", "s", "--env", "PASS=a$KEY", "--", "sh")
    assert json.loads(out)["mcpServers"]["s"]["env"] == {"PASS": "a$KEY"}
    assert "Qwen Code expands variables in the value of PASS, and that cannot be prevented" in err


@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")
@pytest.mark.parametrize("host", ["copilot", "droid", "amp"])
def test_no_secret_is_written_if_the_host_can_pass_it_on(say, host):
    out, err = say(host, "--name", "s", "--env", "KEY", "--", "sh")
    assert '"KEY": "${KEY}"' in out
    assert "hunter2" not in out + err


@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")
@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("claude-code", "The server is pending until you approve it: start `claude` in this folder"),
        ("qwen", "pending until you approve it: start `qwen` in this folder, or run `qwen mcp approve s` there"),
        ("gemini-cli", "The project file is read only if you trust the folder"),
        ("copilot", "It is loaded only if you trust the folder"),
        ("codex", "The project file is read only if you trust the project"),
        ("amp", "run `amp mcp approve s` in this folder"),
    ],
)
def test_a_needed_approval_is_shown_for_a_project_file(say, host, said):
    assert said in say(host, "--name", "s", "--scope", "project", "--as-is", "--", "sh").err
    assert "Approval:" not in say(host, "--name", "s", "--", "sh").err


@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")
def test_the_trust_setting_of_gemini_is_mentioned(say):
    assert "They are disabled in a folder that you do not trust" in say("gemini-cli", "--name", "s", "--", "sh").err
