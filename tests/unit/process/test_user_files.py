"""Private files can be read only by their owner, however they were created."""

import os
import stat
import sys

import pytest

from twopipes._process.user_files import open_private, read_trusted, replace_private

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


# Files that are read again


def test_a_file_is_replaced_atomically_and_is_private_from_the_start(tmp_path):
    path = tmp_path / "folder" / "file"
    replace_private(path, b"one")
    replace_private(path, b"two")
    assert (path.read_bytes(), mode_of(path), mode_of(path.parent)) == (b"two", 0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_replaced_is_unchanged_and_leaves_no_draft(tmp_path):
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(OSError, match="irectory"):
        replace_private(path, b"two")
    assert list(tmp_path.iterdir()) == [path]


def test_a_trusted_file_is_read(tmp_path):
    path = tmp_path / "file"
    replace_private(path, b"12345")
    assert read_trusted(path, 5) == b"12345"


def test_a_file_that_is_too_long_is_not_read(tmp_path):
    path = tmp_path / "file"
    replace_private(path, b"123456")
    with pytest.raises(ValueError, match="longer than 5 bytes"):
        read_trusted(path, 5)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_not_trusted(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"forged")
    path.chmod(mode)
    with pytest.raises(PermissionError, match="another user could have written"):
        read_trusted(path, 100)


def test_a_named_pipe_in_place_of_a_file_does_not_block(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o600)
    with pytest.raises(PermissionError):
        read_trusted(path, 100)
