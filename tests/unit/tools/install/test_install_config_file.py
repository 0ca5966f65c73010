"""Replacing a configuration file atomically, with a backup beside it."""

import os
import stat
import sys

import pytest

from twopipes._host.files.values import Refused
from twopipes._tools.install import config_file as writing
from twopipes._tools.install.config_file import read_file, write_file

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and links are those of POSIX")
BOM = b"\xef\xbb\xbf"


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "config" / "mcp.json"
    found.parent.mkdir()
    return found


def others(path):
    return sorted(each.name for each in path.parent.iterdir() if each != path)


def test_a_backup_is_kept_beside_the_file(path):
    path.write_bytes(b"old\r\n")
    backup = write_file(read_file(path), "new\r\n")
    assert path.read_bytes() == b"new\r\n"
    assert backup.read_bytes() == b"old\r\n"
    assert backup.name.startswith("mcp.json.backup-2")
    assert others(path) == [backup.name]


def test_every_backup_is_kept(path):
    path.write_text("0")
    kept = [write_file(read_file(path), str(number)) for number in range(1, 4)]
    assert [each.read_text() for each in kept] == ["0", "1", "2"]
    assert len(set(kept)) == 3


def test_a_missing_file_is_created_with_its_folder(tmp_path):
    path = tmp_path / "a" / "b" / "mcp.json"
    assert write_file(read_file(path), "new") is None
    assert path.read_text() == "new"
    assert others(path) == []


def test_a_byte_order_mark_is_kept(path):
    path.write_bytes(BOM + b"old")
    file = read_file(path)
    assert file.text == "old"
    write_file(file, "new")
    assert path.read_bytes() == BOM + b"new"


@posix
def test_the_mode_is_kept(path):
    path.write_text("old")
    path.chmod(0o640)
    backup = write_file(read_file(path), "new")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, backup)] == [0o640, 0o640]


@posix
def test_a_new_file_is_private_unless_it_belongs_to_a_project(tmp_path):
    before = os.umask(0o022)
    try:
        for name, shared in (("mine", False), ("ours", True)):
            write_file(read_file(tmp_path / name), "x", shared=shared)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o644


@posix
def test_symlinks_are_followed_and_kept(path, tmp_path):
    real = tmp_path / "dotfiles.json"
    real.write_text("old")
    path.symlink_to(real)
    backup = write_file(read_file(path), "new")
    assert path.is_symlink()
    assert real.read_text() == "new"
    assert backup.parent == real.parent
    assert others(path) == []


@posix
def test_a_symlink_loop_is_rejected(path):
    path.symlink_to(path)
    with pytest.raises(Refused, match="cannot be read"):
        read_file(path)


def test_a_folder_is_rejected(path):
    path.mkdir()
    with pytest.raises(Refused, match="cannot be read"):
        read_file(path)


def test_a_file_that_is_not_utf_8_is_rejected(path):
    path.write_bytes("{}".encode("utf-16"))
    with pytest.raises(Refused, match="not UTF-8 text"):
        read_file(path)


def test_a_concurrently_changed_file_is_not_replaced(path):
    path.write_text("old")
    file = read_file(path)
    path.write_text("its host was here")
    with pytest.raises(Refused, match="changed while it was being edited"):
        write_file(file, "new")
    assert path.read_text() == "its host was here"
    assert others(path) == []


def test_a_concurrently_created_file_is_not_replaced(path):
    file = read_file(path)
    path.write_text("its host was here")
    with pytest.raises(Refused, match="changed while it was being edited"):
        write_file(file, "new")
    assert path.read_text() == "its host was here"


def test_a_failed_write_leaves_nothing_behind(path, monkeypatch):
    path.write_text("old")

    def fail(*_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(writing.Path, "replace", fail)
    with pytest.raises(Refused, match=r"cannot be written: Permission denied\. Nothing was changed"):
        write_file(read_file(path), "new")
    assert path.read_text() == "old"
    assert others(path) == []


def test_a_write_protected_file_is_not_changed(path, monkeypatch):
    path.write_text("old")
    monkeypatch.setattr(writing.os, "access", lambda *_: False)  # the tests may run as root
    with pytest.raises(Refused, match="write-protected"):
        write_file(read_file(path), "new")
    assert path.read_text() == "old"
