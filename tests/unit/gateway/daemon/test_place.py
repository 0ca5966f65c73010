"""The folder of the daemon's socket: private, checked, and one socket for each version."""

import os
import subprocess
import sys

import pytest

from systems import STATE_VARIABLE, on_posix
from twopipes._gateway.daemon import place
from twopipes._version import __version__


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    return tmp_path / "twopipes"


@on_posix("folders have no modes")
def test_the_folder_is_private_whatever_the_umask(state):
    before = os.umask(0o777)
    try:
        (state).mkdir(parents=True)
        state.chmod(0o700)
        folder = place.make_folder()
    finally:
        os.umask(before)
    assert os.stat(folder).st_mode & 0o777 == 0o700


def test_making_the_folder_again_changes_nothing():
    assert place.make_folder() == place.make_folder() == place.folder_path()


@on_posix("folders have no modes")
def test_a_folder_that_others_can_open_is_refused(state):
    (state / "share").mkdir(parents=True)
    (state / "share").chmod(0o755)
    with pytest.raises(PermissionError, match=r"chmod 700"):
        place.make_folder()


@pytest.mark.parametrize("kind", ["file", pytest.param("link", marks=on_posix("links need a privilege"))])
def test_a_file_or_a_link_in_its_place_is_refused(kind, state, tmp_path):
    state.mkdir()
    if kind == "file":
        (state / "share").touch()
    else:
        (state / "share").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        place.make_folder()


@on_posix("a user has no number")
def test_a_folder_of_another_user_is_refused(monkeypatch):
    folder = place.make_folder()
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(folder).st_uid + 1)
    with pytest.raises(PermissionError, match="another user"):
        place.make_folder()


def test_the_name_of_the_socket_has_both_versions():
    assert os.path.basename(place.socket_path()).startswith(f"{place.PROTOCOL}-{__version__}-")


def test_the_sockets_of_other_versions_are_found_but_not_those_of_other_machines(monkeypatch):
    assert place.socket_paths() == []
    folder = place.make_folder()
    ours = place.socket_path()
    older = ours.replace(f"{place.PROTOCOL}-{__version__}-", "1-0.0.1-")
    for path in (ours, older, f"{folder}/1-0.1.0-elsewhere.sock", f"{ours}.log"):
        with open(path, "w", encoding="utf-8"):
            pass
    assert sorted(place.socket_paths()) == sorted([ours, older])


def test_only_the_sockets_of_dead_processes_are_removed():
    folder = place.make_folder()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours, daemon = place.own_socket_path(), place.socket_path()
    dead = ours.replace(f"-p{os.getpid()}-", f"-p{ended.pid}-")
    for path in (ours, daemon, dead, f"{folder}/1-pxyz-{os.path.basename(ours)}"):
        with open(path, "w", encoding="utf-8"):
            pass
    place.remove_dead_sockets(folder)
    assert not os.path.exists(dead)
    assert len(os.listdir(folder)) == 3
