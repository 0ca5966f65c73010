"""ServerCommand: validated when it is created, looked up by the rules of the child, and never showing secrets."""

import copy
import os
import pickle
import sys
from pathlib import Path

import pytest

from twopipes._process.command import ServerCommand
from twopipes._process.shutdown import ShutdownPlan
from twopipes.errors import LocalProtocolError, StartFailed

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX permissions")


@pytest.fixture
def program(tmp_path):
    """An executable file."""
    path = tmp_path / "bin" / "server"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ([], "at least one non-empty string"),
        ([""], "at least one non-empty string"),
        ("python server.py", r"write \['python', 'server.py'\]"),
        (b"python", "a list of strings"),
        (["python", 7], r"got 7 \(int\)"),
        (["python", "a\0b"], "NUL"),
    ],
)
def test_an_invalid_command_is_rejected_when_it_is_created(argv, complaint):
    with pytest.raises(LocalProtocolError, match=complaint):
        ServerCommand(argv)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"env": {"A=B": "x"}}, "'A' is not a valid name"),
        ({"env": {"": "x"}}, "is not a valid name"),
        ({"env": {"A": 1}}, "A must be a string, not int"),
        ({"env": {"A": "a\0b"}}, "NUL"),
        ({"environment": "everything"}, "not one of 'minimal', 'inherit', 'explicit'"),
        ({"cwd": "a\0b"}, "NUL"),
        ({"stderr": "server.log"}, r"pass Path\('server.log'\)"),
        ({"stderr": 7}, "not one of 'tail'"),
    ],
)
def test_invalid_options_are_rejected_when_the_command_is_created(options, complaint):
    with pytest.raises(LocalProtocolError, match=complaint):
        ServerCommand(["server"], **options)


def test_arguments_may_be_paths():
    assert ServerCommand([Path("/bin/sh"), Path("x")]).argv == (str(Path("/bin/sh")), "x")


def test_no_value_of_the_environment_is_ever_shown():
    command = ServerCommand(["server", "--fast"], env={"TOKEN": "hunter2"}, cwd="/srv", shutdown=ShutdownPlan.at_once())
    for shown in (repr(command), str(command), f"{command}", repr([command]), repr(list(command.__rich_repr__()))):
        assert "hunter2" not in shown
        assert "TOKEN" in shown
    assert repr(command) == "ServerCommand(['server', '--fast'], env={'TOKEN': '***'}, cwd='/srv', shutdown='SIGKILL')"


def test_defaults_are_not_shown_in_the_repr():
    assert repr(ServerCommand(["server"])) == "ServerCommand(['server'])"
    unusual = ServerCommand(["server"], environment="inherit", stderr="discard", die_with_us=False)
    assert repr(unusual) == "ServerCommand(['server'], environment='inherit', stderr='discard', die_with_us=False)"


def test_it_cannot_be_changed_by_changing_what_it_was_made_from():
    words, env = ["server"], {"A": "1"}
    command = ServerCommand(words, env=env)
    words.append("more")
    env["A"] = "2"
    assert command.argv == ("server",)
    assert command.env == {"A": "1"}
    with pytest.raises(AttributeError):
        command.cwd = "/"


def test_a_command_can_be_copied_and_pickled():
    command = ServerCommand(["server"], env={"A": "1"}, shutdown=ShutdownPlan.patient(5))
    assert copy.copy(command) == copy.deepcopy(command) == pickle.loads(pickle.dumps(command)) == command


def test_equal_commands_have_equal_identities(tmp_path):
    command = ServerCommand(["server", "x"], env={"A": "1", "B": "2"})
    assert command.identity() == ServerCommand(("server", "x"), env={"B": "2", "A": "1"}, stderr="discard").identity()
    others = [
        ServerCommand(["server", "x"]),
        ServerCommand(["server x"], env={"A": "1", "B": "2"}),
        ServerCommand(["server", "x"], env={"A": "1", "B": "3"}),
        ServerCommand(["server", "x"], env={"A": "1", "B": "2"}, cwd=tmp_path),
        ServerCommand(["server", "x"], env={"A": "1", "B": "2"}, environment="explicit"),
    ]
    assert len({each.identity() for each in [command, *others]}) == 6
    assert "server" not in command.identity()


def test_it_describes_itself_as_one_would_type_it():
    assert ServerCommand(["python", "my server.py"]).describe() == "python 'my server.py'"


# The executable


@posix_only
def test_a_name_is_searched_for_on_the_path_of_the_child_and_not_on_ours(program, monkeypatch):
    command = ServerCommand(["server"], env={"PATH": f"/nowhere:{program.parent}"})
    assert command.resolve() == str(program)
    monkeypatch.setenv("PATH", str(program.parent))
    with pytest.raises(StartFailed) as caught:
        ServerCommand(["server"], env={"PATH": "/nowhere"}).resolve()
    assert caught.value.path == ["/nowhere"]


@posix_only
@pytest.mark.parametrize("entry", ["bin", "./bin", "other:bin", ""])
def test_relative_path_entries_are_relative_to_the_childs_folder(program, tmp_path, entry):
    folder = tmp_path if entry else program.parent
    assert ServerCommand(["server"], env={"PATH": entry}, cwd=folder).resolve() == str(program)


@posix_only
def test_a_name_with_a_slash_is_relative_to_the_childs_folder(program, tmp_path):
    assert ServerCommand(["bin/server"], cwd=tmp_path).resolve() == str(program)
    assert ServerCommand(["./server"], cwd=program.parent).resolve() == str(program)
    assert ServerCommand([str(program)], env={"PATH": ""}).resolve() == str(program)
    with pytest.raises(StartFailed, match=f"a relative path starts at {tmp_path}") as caught:
        ServerCommand(["./server"], cwd=tmp_path).resolve()
    assert (caught.value.reason, caught.value.path, caught.value.cwd) == ("not found", [], str(tmp_path))


@posix_only
def test_without_a_path_the_usual_folders_are_searched():
    command = ServerCommand(["no-such-server"], environment="explicit")
    with pytest.raises(StartFailed, match="the child's environment has no PATH") as caught:
        command.resolve()
    assert caught.value.path == os.defpath.split(os.pathsep)


@posix_only
def test_a_file_without_permission_is_skipped_and_named_if_no_other_is_found(program, tmp_path):
    unfit = tmp_path / "server"
    unfit.write_text("")
    assert ServerCommand(["server"], env={"PATH": f"{tmp_path}:{program.parent}"}).resolve() == str(program)
    with pytest.raises(StartFailed, match="the permission is missing") as caught:
        ServerCommand(["server"], env={"PATH": str(tmp_path)}).resolve()
    assert caught.value.reason == "not executable"
    with pytest.raises(StartFailed, match="it is a folder"):
        ServerCommand([str(tmp_path)]).resolve()


def test_a_command_line_in_one_string_gets_a_hint():
    with pytest.raises(StartFailed, match=r"a list of words: \['python', 'server.py', '-v'\]"):
        ServerCommand(["python server.py", "-v"]).resolve()


def test_a_file_is_not_accepted_as_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StartFailed) as caught:
        ServerCommand([sys.executable], cwd=tmp_path / "file").resolve()
    assert caught.value.reason == "no such folder"
