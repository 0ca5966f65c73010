"""Private files can be read only by their owner, however they were created."""

import os
import stat
import sys

import pytest

from twopipes._process.user_files import open_private

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")

WRITE = os.O_WRONLY | os.O_CREAT


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o640, 0o604])
def test_an_existing_file_becomes_private(tmp_path, mode):
    path = tmp_path / "file"
    path.write_text("kept")
    path.chmod(mode)
    os.close(open_private(path, WRITE))
    assert (mode_of(path), path.read_text()) == (0o600, "kept")


def test_a_mode_that_is_private_already_stays(tmp_path):
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o700)
    os.close(open_private(path, WRITE))
    assert mode_of(path) == 0o700


def test_what_is_not_a_regular_file_is_opened_as_it_is(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    path.chmod(0o666)
    os.close(open_private(path, os.O_RDWR))
    assert mode_of(path) == 0o666


def test_a_file_of_another_user_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o666)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="belongs to another user") as refused:
        open_private(path, WRITE)
    assert refused.value.filename == str(path)


def test_a_file_system_without_modes_is_taken_as_it_is(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    path = tmp_path / "file"
    path.touch(mode=0o644)
    monkeypatch.setattr(os, "fchmod", refuse)
    os.close(open_private(path, WRITE))
