"""`twopipes new`: valid names, the files it writes, and that it overwrites nothing."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from twopipes._cli import main
from twopipes._tools.scaffold.project import package_of
from twopipes._tools.usage import UsageError

FILES = [
    ".gitignore",
    "Dockerfile",
    "README.md",
    "pyproject.toml",
    "src/sunny_days/__init__.py",
    "src/sunny_days/__main__.py",
    "src/sunny_days/server.py",
    "tests/test_server.py",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def make(folder, capsys):
    def make(*words, code=0):
        assert main(["new", *words]) == code
        return capsys.readouterr()

    return make


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_project_in_a_folder_of_its_name(make, folder):
    out, err = make("sunny-days")
    assert files(folder / "sunny-days") == FILES
    assert err == ""
    assert out.startswith(f"Created sunny-days in {folder / 'sunny-days'}\n")
    assert all(f"  {path}\n" in out for path in FILES)
    assert "  cd sunny-days\n" in out


def test_a_project_in_another_folder(make, folder):
    out, _ = make("sunny-days", "code/here")
    assert files(folder / "code" / "here") == FILES
    assert f"  cd {Path('code/here')}\n" in out


def test_a_project_in_this_folder(make, folder):
    (folder / "notes.txt").write_text("mine")
    out, _ = make("sunny-days", "--here")
    assert files(folder) == sorted([*FILES, "notes.txt"])
    assert "cd " not in out


def test_every_placeholder_of_the_template_is_filled_in(make, folder):
    make("sunny-days")
    for path in FILES:
        text = (folder / "sunny-days" / path).read_text(encoding="utf-8")
        assert not re.search(r"@[a-z]+@", text)
        assert text.endswith("\n")
        if path.endswith(".py"):
            ast.parse(text)
    project = tomllib.loads((folder / "sunny-days" / "pyproject.toml").read_text())
    assert project["project"]["name"] == "sunny-days"
    assert project["project"]["scripts"] == {"sunny-days": "sunny_days.server:main"}
    assert project["project"]["dependencies"] == ["twopipes>=0.1"]
    assert "`" in (folder / "sunny-days" / "README.md").read_text()


@pytest.mark.parametrize(
    ("options", "name"), [([], "io.github.OWNER/sunny-days"), (["--owner", "ada"], "io.github.ada/sunny-days")]
)
def test_the_name_in_the_registry_is_the_same_everywhere(options, name, make, folder):
    make("sunny-days", *options)
    texts = {path: (folder / "sunny-days" / path).read_text() for path in ("pyproject.toml", "README.md", "Dockerfile")}
    assert tomllib.loads(texts["pyproject.toml"])["tool"]["twopipes"]["pack"] == {"registry-name": name}
    assert f"<!-- mcp-name: {name} -->\n" in texts["README.md"]
    assert f'LABEL io.modelcontextprotocol.server.name="{name}"\n' in texts["Dockerfile"]


@pytest.mark.parametrize("taken", FILES)
def test_nothing_is_overwritten(taken, make, folder):
    (folder / taken).parent.mkdir(parents=True, exist_ok=True)
    (folder / taken).write_text("mine")
    out, err = make("sunny-days", "--here", code=2)
    assert out == ""
    assert f"already contains {taken}; nothing was written" in err
    assert files(folder) == [taken]
    assert (folder / taken).read_text() == "mine"


def test_a_folder_that_is_not_empty_is_rejected(make, folder):
    (folder / "sunny-days").mkdir()
    (folder / "sunny-days" / "x").write_text("")
    _, err = make("sunny-days", code=2)
    assert "sunny-days already exists; use twopipes new sunny-days PATH" in err
    assert files(folder) == ["sunny-days/x"]


def test_an_empty_folder_is_used(make, folder):
    (folder / "sunny-days").mkdir()
    make("sunny-days")
    assert files(folder / "sunny-days") == FILES


def test_a_file_in_the_place_of_a_folder(make, folder):
    (folder / "x").write_text("")
    _, err = make("sunny-days", "x", code=2)
    assert "cannot be written: " in err


@pytest.mark.parametrize(
    ("name", "package"), [("weather", "weather"), ("Sunny-Days", "sunny_days"), ("a1_b2", "a1_b2"), ("mcp-weather", "mcp_weather")]
)
def test_the_name_of_the_package(name, package):
    assert package_of(name) == package


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "letters, digits, - and _, and begin with a letter"),
        ("1st", "begin with a letter"),
        ("my server", "letters, digits"),
        ("a.b", "letters, digits"),
        ("../up", "letters, digits"),
        ("-a", "letters, digits"),
        ("a-", "letters, digits"),
        ("a--b", "letters, digits"),
        ("__init__", "letters, digits"),
        ("Wetterström", "letters, digits"),
        ("class", "a keyword of Python"),
        ("Match", "a keyword of Python"),
        ("json", "a module of the standard library"),
        ("twopipes", "a module that the project itself needs; try twopipes-server"),
        ("pytest", "a module that the project itself needs"),
    ],
)
def test_names_that_no_package_can_have(name, said):
    with pytest.raises(UsageError, match=said):
        package_of(name)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: NAME; see twopipes new --help"),
        (["a", "b", "--here"], "PATH and --here exclude each other"),
        (["a", "b", "c"], "unrecognized arguments: c"),
        (["1st"], "invalid project name"),
        (["a", "--owner", "a b"], "'a b' is not the name of an account on GitHub"),
    ],
)
def test_usage_errors(words, said, make, folder):
    out, err = make(*words, code=2)
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert said in err
    assert files(folder) == []


def test_help(make):
    out, _ = make("--help")
    assert out.startswith("usage: twopipes new NAME [PATH | --here] [--owner ACCOUNT]")
    assert "exit codes" in out


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission there")
def test_a_link_to_nowhere_is_not_written_through(make, folder):
    (folder / "README.md").symlink_to(folder / "elsewhere")
    _, err = make("sunny-days", "--here", code=2)
    assert "already contains README.md" in err
