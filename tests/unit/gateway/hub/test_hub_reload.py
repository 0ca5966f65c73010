"""Changes of the configuration file of a hub are applied while it runs."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager, suppress

import pytest

from fake_server import scene
from twopipes._gateway.hub.reload import Reloader, stamp_of
from twopipes._gateway.hub.server import HubServer
from twopipes._host.config import ServerConfig
from twopipes.errors import ConfigError


class Watched:
    """A hub whose servers are never started, its file, and what it reported."""

    def __init__(self, folder):
        self.file = folder / "servers.json"
        self.reports = []
        self._news = asyncio.Event()
        self.hub = HubServer({})
        self.hub.reports.add = self._take

    def _take(self, level, text):
        self.reports.append((level, text.removeprefix(f"{self.file} ")))
        self._news.set()

    def write(self, **servers):
        self.write_text(json.dumps(servers))

    def write_text(self, text):
        """Write as careful editors do: another file takes its place."""
        other = self.file.with_suffix(".new")
        other.write_text(text)
        other.replace(self.file)

    def read(self):
        try:
            found = json.loads(self.file.read_text())
        except ValueError as error:
            raise ConfigError(f"no JSON: {error}") from None
        return {name: ServerConfig(command=[sys.executable, word]) for name, word in found.items()}

    async def report(self):
        """Wait for the next report."""
        await self._news.wait()
        self._news.clear()
        return self.reports[-1]

    def identities(self):
        return {name: id(member) for name, member in self.hub.members.items()}


@asynccontextmanager
async def watched(folder, interval=0.01, **servers):
    each = Watched(folder)
    each.write(**servers)
    seen = stamp_of(each.file)
    for name, config in each.read().items():
        each.hub.add(name, config)
    task = asyncio.create_task(Reloader(each.hub, each.file, each.read, seen=seen, interval=interval).run())
    try:
        yield each
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@scene
async def test_only_servers_whose_entries_changed_are_replaced(tmp_path):
    async with watched(tmp_path, a="1", b="1", c="1") as it:
        before = it.identities()
        it.write(d="1", c="2", a="1")
        assert await it.report() == ("info", "has changed: added 'd'; restarted 'c'; removed 'b'")
        after = it.identities()
    assert list(after) == ["d", "c", "a"]  # as in the file
    assert after["a"] == before["a"]
    assert after["c"] != before["c"]


@scene
async def test_a_file_that_is_written_in_place_is_seen(tmp_path):
    async with watched(tmp_path, a="1") as it:
        it.file.write_text(json.dumps({"a": "1", "b": "1"}))
        assert await it.report() == ("info", "has changed: added 'b'")


@scene
async def test_a_broken_edit_changes_nothing_and_is_reported_once(tmp_path):
    async with watched(tmp_path, a="1") as it:
        it.write_text('{"a": ')
        level, text = await it.report()
        assert level == "error"
        assert text.startswith("has changed, but cannot be used; the servers stay as they are: no JSON")
        assert list(it.hub.members) == ["a"]
        it.write(a="1", b="1")
        assert await it.report() == ("info", "has changed: added 'b'")
    assert len(it.reports) == 2


@scene
async def test_a_file_that_is_gone_changes_nothing_until_it_is_back(tmp_path):
    async with watched(tmp_path, a="1") as it:
        it.file.unlink()
        assert await it.report() == ("warning", "cannot be found any more; the servers stay as they are")
        assert list(it.hub.members) == ["a"]
        it.write(b="1")
        assert await it.report() == ("info", "has changed: added 'b'; removed 'a'")


@scene
@pytest.mark.skipif(sys.platform == "win32", reason="needs a right to make links there")
async def test_a_link_that_points_to_another_file_is_seen(tmp_path):
    async with watched(tmp_path, a="1") as it:
        (tmp_path / "other").write_text(json.dumps({"z": "1"}))
        (tmp_path / "link").symlink_to("other")
        os.replace(tmp_path / "link", it.file)
        assert await it.report() == ("info", "has changed: added 'z'; removed 'a'")


@scene
async def test_a_change_that_changes_no_server_is_not_reported(tmp_path):
    async with watched(tmp_path, a="1") as it:
        before = it.identities()
        it.write_text('{  "a":   "1"  }')
        it.write_text('{"a": "1", "b": "1"}')
        assert await it.report() == ("info", "has changed: added 'b'")
        assert it.identities()["a"] == before["a"]


@scene
async def test_a_server_that_failed_is_started_again_with_the_file(tmp_path):
    async with watched(tmp_path, a="1", b="1") as it:
        it.hub.members["a"].state = "failed"
        it.write_text('{"a": "1",  "b": "1"}')
        assert await it.report() == ("info", "has changed: restarted 'a'")


@scene
async def test_a_change_before_the_first_look_is_not_missed(tmp_path):
    each = Watched(tmp_path)
    each.write(a="1")
    seen = stamp_of(each.file)
    each.hub.add("a", each.read()["a"])
    each.write(b="1")
    task = asyncio.create_task(Reloader(each.hub, each.file, each.read, seen=seen, interval=0.01).run())
    assert await each.report() == ("info", "has changed: added 'b'; removed 'a'")
    task.cancel()


@scene
async def test_a_file_is_read_only_when_it_stays_the_same(tmp_path, monkeypatch):
    """A file that differs at each look is still being written."""
    stamps = iter([(1, 1, size, size) for size in range(1, 6)])
    last = (1, 1, 9, 9)
    looks = []

    def look(_):
        looks.append(next(stamps, last))
        return looks[-1]

    each = Watched(tmp_path)
    each.write(a="1")
    monkeypatch.setattr("twopipes._gateway.hub.reload.stamp_of", look)
    read_at = []

    def read():
        read_at.append(len(looks))
        return each.read()

    task = asyncio.create_task(Reloader(each.hub, each.file, read, seen=None, interval=0).run())
    assert await each.report() == ("info", "has changed: added 'a'")
    task.cancel()
    assert read_at == [7]  # the sixth look was the first at the last version


@scene
async def test_a_removed_server_ends_even_if_the_hub_ends_meanwhile(tmp_path):
    hub = HubServer({"a": ServerConfig(command=[sys.executable, "x"])})
    closing, may_end, ended = asyncio.Event(), asyncio.Event(), []
    member = hub.members["a"]

    async def close():
        closing.set()
        await may_end.wait()
        ended.append("a")

    member.close = close
    async with hub._running():
        removing = asyncio.create_task(hub.remove("a"))
        await closing.wait()
        removing.cancel()
        asyncio.get_running_loop().call_soon(may_end.set)
    assert ended == ["a"]
