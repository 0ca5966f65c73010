"""Commands for hosts, and the suggested name of a server."""

import os
import shlex
import sys

import pytest

from twopipes._tools.install.command_words import check_name, resolved, suggested_name
from twopipes._tools.usage import UsageError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")


@pytest.fixture
def folder(tmp_path):
    """A folder with a server, a virtual environment, and a subfolder with a common name."""
    place = tmp_path / "weather"
    for path in ("server.py", "data/notes.txt", "bin/tool", ".venv/bin/python", "everything/x"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text("")
    for program in ("bin/tool", ".venv/bin/python"):
        (place / program).chmod(0o755)
    return place


def words(folder, *command, path="/usr/bin:/bin"):
    return resolved(command, {"PATH": path}, str(folder))


def test_files_in_the_folder_get_full_paths(folder):
    found = words(folder, "sh", "server.py", "data/notes.txt", "--file", "./new", "..", "everything", "word", "-v")
    assert found.words == [
        *("sh", f"{folder}/server.py", f"{folder}/data/notes.txt", "--file", f"{folder}/new", str(folder.parent)),
        *("everything", "word", "-v"),
    ]
    assert [change[:2] for change in found.changes] == [
        ("server.py", f"{folder}/server.py"),
        ("data/notes.txt", f"{folder}/data/notes.txt"),
        ("./new", f"{folder}/new"),
        ("..", str(folder.parent)),
    ]
    assert found.notes == []


def test_the_object_in_a_file(folder):
    assert words(folder, "sh", "server.py:app", "other.py:app").words == ["sh", f"{folder}/server.py:app", "other.py:app"]


def test_a_module_is_not_a_file(folder):
    (folder / "server").write_text("")
    assert words(folder, "sh", "-m", "server").words == ["sh", "-m", "server"]


def test_a_program_in_a_system_folder_keeps_its_name(folder):
    assert words(folder, "sh").changes == []


def test_a_program_in_a_virtual_environment_gets_its_full_path(folder):
    found = words(folder, "python", path=f"{folder}/.venv/bin:/usr/bin:/bin")
    assert found.words == [f"{folder}/.venv/bin/python"]
    assert found.changes == [("python", f"{folder}/.venv/bin/python", "the host may have another PATH")]


def test_a_program_in_the_folder_gets_its_full_path(folder):
    assert words(folder, "bin/tool").words == words(folder, "./bin/tool").words == [f"{folder}/bin/tool"]
    assert words(folder, f"{folder}/bin/tool").changes == []


def test_a_missing_program_is_noted(folder):
    found = words(folder, "wether", "server.py")
    assert found.words == ["wether", f"{folder}/server.py"]
    assert found.notes == ["wether was not found here; it is written unchanged"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python server.py", "weather"),
        ("python3.11 -u forecast.py --fast", "forecast"),
        ("python -m storms", "storms"),
        ("python -m storms.server", "storms"),
        ("python -m storms.__main__", "storms"),
        ("/opt/.venv/bin/python -m storms", "storms"),
        ("twopipes run server.py:app", "weather"),
        ("twopipes dev server.py", "weather"),
        ("python -m twopipes keep --idle 10m -- uvx storms", "storms"),
        ("uv run storms.py", "storms"),
        ("uvx mcp-server-time", "mcp-server-time"),
        ("uvx mcp-server-time@1.2", "mcp-server-time"),
        ("npx -y @modelcontextprotocol/server-everything@2.0", "server-everything"),
        ("npx -y server-filesystem /tmp", "server-filesystem"),
        ("node dist/index.js", "dist"),
        ("docker run -i --rm -e KEY ghcr.io/ada/storms:1", "storms"),
        ("./bin/tool", "tool"),
        ("storm-server --port 1", "storm-server"),
        ("storms.exe", "storms"),
        ("env A=1 storms", "storms"),
        ("python 'my server.py'", "my-server"),
    ],
)
def test_the_suggested_name(command, name, folder):
    assert suggested_name(shlex.split(command), str(folder)) == name


@pytest.mark.parametrize("command", [["python"], ["npx", "-y"], ["bash", "-c"], [os.sep]])
def test_no_name_can_be_suggested(command, folder):
    with pytest.raises(UsageError, match="--name NAME"):
        suggested_name(command, str(folder))


@pytest.mark.parametrize("name", ["a", "my-server_2", "7"])
def test_names_that_every_host_accepts(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "my server", "a.b", "a/b", "ключ", 'a"b'])
def test_names_that_some_host_rejects(name):
    with pytest.raises(UsageError, match="letters, digits, - and _"):
        check_name(name)


def test_a_batch_file_of_windows_is_started_by_cmd(tmp_path):
    (tmp_path / "npx.cmd").write_text("")
    (tmp_path / "npx.cmd").chmod(0o755)
    found = resolved(["npx", "-y", "some-server"], {"PATH": str(tmp_path)}, str(tmp_path), windows=True)
    assert found.words == ["cmd", "/c", "npx", "-y", "some-server"]
    assert found.changes == [("npx", "cmd /c npx", "it is a batch file, which hosts cannot start themselves")]
