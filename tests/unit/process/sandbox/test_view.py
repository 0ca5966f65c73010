"""What a server with a policy can see."""

import os
import sys

import pytest

from twopipes._process.sandbox.view import SHARED_FOLDERS, ViewProblem, is_below, view_of
from twopipes.settings import Sandbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX paths")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "project"
    path.mkdir()
    return path


def seen(policy, folder, argv=("/bin/sh",), **environment):
    return view_of(policy, list(argv), {"HOME": "/home/somebody", **environment}, str(folder))


def test_the_system_its_program_and_its_folder_can_be_read(folder):
    view = seen(Sandbox(), folder)
    assert view.shows("/bin/sh")
    assert view.shows("/usr/lib")
    assert view.shows(str(folder / "file"))
    assert not view.shows(str(folder.parent))
    assert not view.shows("/etc/shadow")
    assert (view.write, view.network) == ((), False)


def test_the_folder_can_be_hidden(folder):
    assert not seen(Sandbox(folder=False), folder).shows(str(folder))


@pytest.mark.parametrize("shared", sorted(SHARED_FOLDERS - {"/"}))
def test_a_folder_that_is_not_of_the_server_is_not_shown_because_it_starts_there(shared):
    assert shared not in seen(Sandbox(), shared).read


@pytest.mark.parametrize("depth", [0, 1])
def test_neither_is_the_home_folder_nor_one_around_it(folder, depth):
    start = [folder, folder.parent][depth]
    assert str(start) not in seen(Sandbox(), start, HOME=str(folder)).read


def test_a_link_to_the_home_folder_is_the_home_folder(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not seen(Sandbox(), link, HOME=str(folder)).shows(str(folder))


def test_paths_are_expanded(folder, monkeypatch):
    (folder / "inner").mkdir()
    monkeypatch.setenv("HOME", str(folder))
    view = seen(Sandbox(read=["inner", "~/inner"], write=[folder / "inner"]), folder)
    assert view.read.count(str(folder / "inner")) == 1
    assert view.write == (str(folder / "inner"),)


@pytest.mark.parametrize("member", ["read", "write"])
def test_a_missing_path_is_named(folder, member):
    with pytest.raises(ViewProblem, match=f"Sandbox.{member} names {folder}/missing, which does not exist"):
        seen(Sandbox(**{member: ["missing"]}), folder)


@pytest.mark.parametrize(
    ("arguments", "is_hidden"),
    [
        (["{}"], True),
        (["-X", "dev", "{}", "--port", "1"], True),
        (["-m", "module", "{}"], False),
        (["-c", "code", "{}"], False),
        (["server.py", "{}"], False),
    ],
)
def test_a_hidden_program_is_named_and_other_arguments_are_not_judged(folder, tmp_path, arguments, is_hidden):
    script = tmp_path / "script.py"
    script.touch()
    (folder / "server.py").touch()
    argv = ["/usr/bin/python3", *(each.format(script) for each in arguments)]
    if is_hidden:
        with pytest.raises(ViewProblem, match=f"add {script}, or its folder"):
            seen(Sandbox(), folder, argv)
    else:
        seen(Sandbox(), folder, argv)


def test_a_folder_is_below_itself_and_above_what_it_contains():
    assert is_below("/a/b", ["/a"])
    assert is_below("/a", ["/a"])
    assert is_below("/a", ["/"])
    assert not is_below("/ab", ["/a"])
    assert not is_below(os.sep, ["/a"])


# A server that prepares its next start: it may write to its folder, and exits


@pytest.fixture
def trap(folder, tmp_path):
    """A folder that the server may write, and a file outside that it wants to read."""
    secret = tmp_path / "keys" / "bin" / "python3"
    secret.parent.mkdir(parents=True)
    secret.write_text("#!/bin/sh")
    secret.chmod(0o755)
    return secret


@pytest.mark.parametrize("member", ["read", "write"])
@pytest.mark.parametrize("path", ["project/data", "link/data", "link/../project/data/bin"])
def test_a_link_that_it_can_make_does_not_lead_a_path_of_the_policy_elsewhere(folder, trap, tmp_path, member, path):
    (folder / "data").symlink_to(trap.parents[1])
    (tmp_path / "link").symlink_to(folder)
    policy = {"read": [], "write": [str(folder)]}
    policy[member].append(f"{tmp_path}/{path}")
    with pytest.raises(ViewProblem, match="by a link that it may change; name"):
        seen(Sandbox(**policy), "/usr")


def test_the_same_for_its_working_folder(folder, trap):
    (folder / "data").symlink_to(trap.parent)
    with pytest.raises(ViewProblem, match="by a link that it may change"):
        seen(Sandbox(write=[folder]), folder / "data")


@pytest.mark.parametrize("kind", ["link", "script", "environment", "installation"])
def test_a_program_that_it_can_change_does_not_make_other_files_visible(folder, trap, kind):
    program = folder / "bin" / "python"
    program.parent.mkdir()
    (trap.parents[1] / "lib" / "node_modules").mkdir(parents=True)
    if kind == "link":
        program.symlink_to(trap)
    elif kind == "script":
        program.write_text(f"#!{trap}\n")
    elif kind == "environment":
        program.write_text("binary")
        (folder / "pyvenv.cfg").write_text(f"home = {trap.parent}\n")
    else:
        (folder / "installed").symlink_to(trap.parents[1])
        program = folder / "installed" / "bin" / "python3"
    with pytest.raises(ViewProblem, match=f"it needs {trap.parents[1]}, but only a file that it may change says so; add"):
        seen(Sandbox(write=[folder]), folder, [str(program)])
    view = seen(Sandbox(write=[folder], read=[trap.parents[1]]), folder, [str(program)])  # if the user says so
    assert view.shows(str(trap))


def test_a_path_in_a_writable_folder_needs_no_rule_of_its_own(folder):
    (folder / "inner").mkdir()
    view = seen(Sandbox(write=[folder, folder / "inner"], read=[folder / "inner"]), folder)
    assert view.write == (str(folder),)
    assert str(folder / "inner") not in view.read
