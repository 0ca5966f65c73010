"""The environment of a child, and the rules by which Windows finds a program."""

import pytest

from twopipes._process.environment import environment_of
from twopipes._process.lookup import look_up

OURS = {
    "HOME": "/home/me",
    "PATH": "/bin",
    "LANG": "C.UTF-8",
    "LC_TIME": "C",
    "XDG_CACHE_HOME": "/cache",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "HTTPS_PROXY": "http://me:secret@proxy",
    "PYTHONUNBUFFERED": "1",
    "TERM": "() { :; }; echo pwned",
}


def test_a_minimal_environment_has_paths_and_no_secrets():
    found = environment_of("minimal", {}, ours=OURS, windows=False)
    assert found == {"HOME": "/home/me", "PATH": "/bin", "LANG": "C.UTF-8", "LC_TIME": "C", "XDG_CACHE_HOME": "/cache"}


def test_an_inherited_environment_is_everything():
    assert environment_of("inherit", {}, ours=OURS, windows=False) == OURS


def test_an_explicit_environment_is_what_was_given():
    assert environment_of("explicit", {"A": "1"}, ours=OURS, windows=False) == {"A": "1"}


@pytest.mark.parametrize("policy", ["minimal", "inherit"])
def test_given_variables_override_the_policy(policy):
    found = environment_of(policy, {"PATH": "/mine", "TOKEN": "x"}, ours=OURS, windows=False)
    assert (found["PATH"], found["TOKEN"], found["HOME"]) == ("/mine", "x", "/home/me")


def test_nothing_is_set_for_the_sake_of_python():
    assert not any(name.startswith("PYTHON") for name in environment_of("minimal", {}, ours=OURS, windows=False))


def test_names_are_case_insensitive_on_windows():
    ours = {"Path": r"C:\bin", "SystemRoot": r"C:\Windows", "SECRET": "x", "PATHEXT": ".EXE"}
    found = environment_of("minimal", {"path": r"C:\mine"}, ours=ours, windows=True)
    assert found == {"PATH": r"C:\mine", "SYSTEMROOT": r"C:\Windows", "PATHEXT": ".EXE"}
    assert environment_of("inherit", {}, ours=ours, windows=True)["SECRET"] == "x"


def test_our_own_environment_is_read_when_it_is_needed(monkeypatch):
    monkeypatch.setenv("LC_MEASUREMENT", "C")
    assert environment_of("minimal", {}, windows=False)["LC_MEASUREMENT"] == "C"


# The rules of Windows, tested on any system


@pytest.fixture
def folder(tmp_path):
    for name in ("npx", "npx.cmd", "node.exe", "tool.py"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(("name", "found"), [("npx", "npx.cmd"), ("node", "node.exe"), ("npx.cmd", "npx.cmd")])
def test_on_windows_a_program_has_an_extension(folder, name, found):
    assert look_up(name, {"PATH": str(folder)}, "/", windows=True).found == str(folder / found)


def test_on_windows_a_path_without_an_extension_is_named(folder):
    found = look_up("./tool.py", {"PATH": ""}, str(folder), windows=True)
    assert (found.found, found.unfit) == (None, str(folder / "tool.py"))
    assert look_up("./npx", {"PATH": ""}, str(folder), windows=True).found == str(folder / "npx.cmd")
    assert look_up("./none", {"PATH": ""}, str(folder), windows=True).unfit is None


def test_on_windows_the_childs_pathext_lists_the_extensions(folder):
    assert look_up("tool", {"PATH": str(folder)}, "/", windows=True).found is None
    assert look_up("tool", {"PATH": str(folder), "PATHEXT": ".PY;.EXE"}, "/", windows=True).found == str(folder / "tool.py")


def test_on_windows_the_current_folder_is_not_searched_unless_it_is_named(folder):
    assert look_up("node", {"PATH": ""}, str(folder), windows=True).found is None
    assert look_up("node", {"PATH": "."}, str(folder), windows=True).found == str(folder / "node.exe")
    assert look_up("./node", {"PATH": ""}, str(folder), windows=True).found == str(folder / "node.exe")


def test_elsewhere_an_extension_is_part_of_the_name(folder):
    assert look_up("npx", {"PATH": str(folder)}, "/", windows=False).found == str(folder / "npx")
    assert look_up("node", {"PATH": str(folder)}, "/", windows=False).found is None
