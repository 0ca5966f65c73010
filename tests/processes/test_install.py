"""A server that `twopipes install --write` added to a host's file can be started from it, as a host would."""

import json
import subprocess
from pathlib import Path

import pytest

from processes.launching import EXAMPLES, NET, python
from systems import STATE_VARIABLE
from twopipes._host.files.host_table import HOSTS
from twopipes.blocking import connect
from twopipes.host import load


@pytest.fixture
def twopipes(tmp_path, environment):
    """Run the command with an empty home folder, in the folder of the examples."""
    home = tmp_path / "ada"
    home.mkdir()
    folders = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "USERPROFILE": str(home),
        "APPDATA": str(home / "AppData"),
    }

    def run(*words, cwd=EXAMPLES):
        return subprocess.run(
            python("-m", "twopipes", *words),
            cwd=cwd,
            env={**environment, **folders},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=NET,
            check=False,
        )

    run.home = home
    return run


@pytest.mark.parametrize("host", ["claude-code", "codex", "opencode", "zed", "goose"])
def test_the_doctor_finds_it_healthy(host, twopipes, tmp_path):
    done = twopipes("install", host, "--write", "--", *python("hello.py"))
    assert done.returncode == 0, done.stderr
    (file,) = [path for path in twopipes.home.rglob("*") if path.is_file()]
    # From another folder, as hosts do.
    done = twopipes("doctor", "--quick", "--format", "json", "--config", str(file), "--server", "hello", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (server,) = json.loads(done.stdout)["servers"]
    assert server["server"] == "hello"


def test_one_file_after_another_server(twopipes):
    file = twopipes.home / "mcp.json"
    for name in ("hello", "everything", "ask"):
        done = twopipes("install", "generic", "--config", str(file), "--write", "--", *python(f"{name}.py"))
        assert done.returncode == 0, done.stderr
    assert list(load(file)) == ["hello", "everything", "travel-agent"]
    assert len(list(twopipes.home.glob("mcp.json.backup-*"))) == 2


def test_an_installed_tap_records(twopipes, tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    file = twopipes.home / "mcp.json"
    options = ["--config", str(file), "--tap", "--env", STATE_VARIABLE, "--write"]
    done = twopipes("install", "generic", *options, "--", *python("hello.py"))
    assert done.returncode == 0, done.stderr
    (config,) = load(file).values()
    with connect(config.target()) as client:
        assert client.call_tool("greet", {"name": "Ada"}).text == "Hello, Ada!"
    (recording,) = (path for path in (tmp_path / "state").rglob("*.jsonl") if path.is_file())
    assert "Ada" in recording.read_text()


def test_every_host_has_a_row_in_the_guide():
    guide = (Path(__file__).parents[2] / "docs" / "howto" / "install-in-a-host.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in guide for name in HOSTS)
