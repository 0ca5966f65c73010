"""Watched files: which changes count, and that they are reported in the event loop."""

import asyncio
import sys
from pathlib import Path

import pytest

from fake_server import scene
from twopipes._gateway.watch import Watcher, check_paths
from twopipes.errors import LocalProtocolError

pytest.importorskip("watchfiles")


class Changes:
    """A watcher and what it reported."""

    def __init__(self, *paths):
        self.reported = asyncio.Queue()
        self.watcher = Watcher([str(path) for path in paths], self.reported.put_nowait)

    async def __aenter__(self):
        self.watcher.start()
        return self

    async def __aexit__(self, *exc_info):
        self.watcher.close()

    async def after(self, write, marker):
        """Do something, then change the marker until that is reported; return the names of the files that were reported.

        The watcher starts in a thread, so the first changes may come too early for it.
        """
        names = set()
        for number in range(100):
            write()
            marker.write_text(str(number))
            try:
                async with asyncio.timeout(2):
                    while marker.name not in names:
                        names |= {Path(path).name for path in await self.reported.get()}
            except TimeoutError:
                continue
            return names - {marker.name}
        raise AssertionError("nothing was reported")


@scene
async def test_only_code_counts_in_a_folder(tmp_path):
    code = ["a.py", "src/deep/b.ts"]
    other = ["data.json", "notes.db", "a.pyc", ".hidden.py", ".venv/x.py", "node_modules/y.js", "src/__pycache__/z.py", "log"]
    for name in [*code, *other]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)

    def write():
        for name in [*code, *other]:
            (tmp_path / name).write_text("x")

    async with Changes(tmp_path) as changes:
        assert await changes.after(write, tmp_path / "marker.py") == {"a.py", "b.ts"}


@scene
async def test_a_named_file_counts_whatever_it_is_also_after_it_was_replaced(tmp_path):
    named, other = tmp_path / "settings.json", tmp_path / "other.py"
    named.write_text("{}")

    def replace():
        other.write_text("x")
        (tmp_path / "new").write_text("{}")
        (tmp_path / "new").replace(named)

    async with Changes(named) as changes:
        for _ in range(2):
            assert await changes.after(replace, named) == set()


@scene
async def test_nothing_is_reported_after_the_end(tmp_path):
    async with Changes(tmp_path) as changes:
        await changes.after(lambda: None, tmp_path / "a.py")
    changes.watcher._changed(["too late"])
    assert changes.reported.empty()


def test_a_path_must_exist(tmp_path):
    with pytest.raises(LocalProtocolError, match="'nosuch' cannot be watched, because it does not exist"):
        check_paths([str(tmp_path), "nosuch"])


def test_the_library_is_optional(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(LocalProtocolError, match=r"pip install 'twopipes\[watch\]'"):
        check_paths([str(tmp_path)])
