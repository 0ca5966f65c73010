"""Watched files: which changes count, and that they are reported in the event loop."""

import asyncio
import sys
from pathlib import Path

import pytest

from fake_server import scene
from twopipes._gateway.watch import Watcher, check_paths
from twopipes.errors import LocalProtocolError

pytestmark = pytest.mark.slow  # waits for the file system

pytest.importorskip("watchfiles")


class Changes:
    """A watcher and what it reported."""

    def __init__(self, *paths):
        self.reported = asyncio.Queue()
        self.watcher = Watcher([str(path) for path in paths], self.reported.put_nowait)

    async def __aenter__(self):
        await self.watcher.start()
        return self

    async def __aexit__(self, *exc_info):
        self.watcher.close()

    async def until(self, name):
        """Return the names of the files that were reported, up to this one."""
        names = set()
        while name not in names:
            names |= {Path(path).name for path in await self.reported.get()}
        return names


@scene
async def test_only_code_counts_in_a_folder(tmp_path):
    code = ["a.py", "src/deep/b.ts"]
    other = ["data.json", "notes.db", "a.pyc", ".hidden.py", ".venv/x.py", "node_modules/y.js", "src/__pycache__/z.py", "log"]
    for name in [*code, *other]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)

    async with Changes(tmp_path) as changes:
        for name in [*other, *code]:
            (tmp_path / name).write_text("x")
        (tmp_path / "last.py").write_text("x")
        assert await changes.until("last.py") == {"a.py", "b.ts", "last.py"}


@scene
async def test_a_named_file_counts_whatever_it_is_also_after_it_was_replaced(tmp_path):
    named, other, new = tmp_path / "settings.json", tmp_path / "other.py", tmp_path / "new"
    named.write_text("{}")
    async with Changes(named) as changes:
        for _ in range(2):
            other.write_text("x")
            new.write_text("{}")
            new.replace(named)
            assert await changes.until("settings.json") == {"settings.json"}


@scene
async def test_files_and_folders_together(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "settings.json").write_text("{}")
    async with Changes(tmp_path / "src", tmp_path / "settings.json") as changes:
        (tmp_path / "src" / "a.py").write_text("x")
        await changes.until("a.py")
        (tmp_path / "settings.json").write_text("[]")
        await changes.until("settings.json")


@scene
async def test_nothing_is_reported_after_the_end(tmp_path):
    async with Changes(tmp_path) as changes:
        pass
    changes.watcher._changed(["too late"])
    assert changes.reported.empty()


@scene
async def test_what_the_system_cannot_watch_is_logged_and_blocks_nothing(tmp_path, caplog, monkeypatch):
    def watch(*paths, **options):
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.watch", watch)
    async with Changes(tmp_path):
        assert f"{tmp_path} cannot be watched: OS file watch limit reached; changes do not restart the server" in caplog.text


def test_a_path_must_exist(tmp_path):
    with pytest.raises(LocalProtocolError, match="'nosuch' cannot be watched, because it does not exist"):
        check_paths([str(tmp_path), "nosuch"])


def test_the_library_is_optional(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(LocalProtocolError, match=r"pip install 'twopipes\[watch\]'"):
        check_paths([str(tmp_path)])
