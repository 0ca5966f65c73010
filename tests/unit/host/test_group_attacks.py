"""A group with a hostile server: its names, lists and changes affect only its own tools."""

import asyncio

from fake_server import FakeServer, scene
from twopipes._host.group_server import GroupServer
from twopipes.host import ServerGroup, ToolChange
from twopipes.types import Tool


def tools(*names, **members):
    """The result of tools/list."""
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}, **members} for name in names]}


class Turns:
    """Counts the turns of the event loop during a ``with`` block."""

    def __enter__(self):
        self.count = 0
        self._task = asyncio.create_task(self._work())
        return self

    def __exit__(self, *_):
        self._task.cancel()

    async def _work(self):
        while True:
            self.count += 1
            await asyncio.sleep(0)


@scene
async def test_other_tasks_run_while_a_long_list_is_compared_and_its_changes_are_reported():
    changes = []
    async with ServerGroup({"a": FakeServer({"tools/list": tools()})}, on_tool_changed=changes.append) as group:
        for description in ("one", "two"):
            with Turns() as turns:
                await group.servers["a"]._listed([Tool(f"t{number}", {}, description=description) for number in range(1000)])
            assert turns.count >= 4
        assert len(group.tools) == len(changes) == 1000
    assert all(isinstance(change, ToolChange) and change.what == ("description",) for change in changes)


@scene
async def test_a_list_that_is_compared_while_its_server_is_removed_is_dropped():
    async with ServerGroup({"a": FakeServer({"tools/list": tools("x")})}) as group:
        removed = group.servers["a"]
        listing = asyncio.create_task(group._listed(removed, [Tool(f"t{number}", {}) for number in range(1000)]))
        await asyncio.sleep(0)
        await group.remove("a")
        await listing
        assert group.tools == group.warnings == []
        assert group._tools.names.find("a__t1") is None


@scene
async def test_lists_are_used_in_the_order_in_which_they_came():
    async with ServerGroup({"a": FakeServer({"tools/list": tools()})}) as group:
        server = group.servers["a"]
        assert isinstance(server, GroupServer)
        old, new = [Tool(f"t{number}", {}) for number in range(1000)], [Tool("t1", {}, description="new")]
        await asyncio.gather(server._listed(old), server._listed(new))
        assert [tool.description for tool in group.tools] == ["new"]


@scene
async def test_a_cancelled_report_of_changes_is_continued_by_the_next_list():
    changes = []
    async with ServerGroup({"a": FakeServer({"tools/list": tools()})}, on_tool_changed=changes.append) as group:
        server = group.servers["a"]
        await server._listed([Tool(f"t{number}", {}) for number in range(600)])
        changed = [Tool(f"t{number}", {}, description="new") for number in range(600)]
        listing = asyncio.create_task(server._listed(changed))
        while not changes:
            await asyncio.sleep(0)
        listing.cancel()
        await asyncio.wait([listing])
        assert 0 < len(changes) < 600
        await server._listed(changed)
        assert len(changes) == 600
        assert len({change.name for change in changes}) == 600
