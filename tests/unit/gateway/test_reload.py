"""A server behind the gateway that is started again with new code: no call is lost, and no two processes run at once."""

import asyncio

import pytest

from fake_server import SILENCE, FakeServer, legacy, scene, text
from gateways import through
from inmemory import turn_until
from twopipes._gateway.back import Back

ENOUGH = 30  # seconds, more than any call takes
FRONTS = pytest.mark.parametrize("front", ["2025-11-25", "2026-07-28"])


class Held:
    """An answer that a test gives when it wants."""

    def __init__(self):
        self.asked = asyncio.Queue()

    def __call__(self, asked):
        self.asked.put_nowait(asked)
        return SILENCE


@FRONTS
@scene
async def test_a_call_in_flight_finishes_and_later_ones_wait_for_the_new_process(front):
    held = Held()
    fake = FakeServer({"tools/call": [held, text("new")]})
    async with through(fake, front) as found:
        old = found.host.start_tool("slow")
        asked = await held.asked.get()
        found.back.reload(ENOUGH)
        new = found.host.start_tool("slow")
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(fake.lives) == 1  # the new process waits for the end of the old one
        asked.answer(text("old"))
        assert (await found.host.line_of(old))["result"]["content"] == [{"type": "text", "text": "old"}]
        assert (await found.host.line_of(new))["result"]["content"] == [{"type": "text", "text": "new"}]
        assert [sum(line.get("method") == "tools/call" for line in life) for life in fake.lives] == [1, 1]


@FRONTS
@scene
async def test_a_call_that_does_not_finish_gets_an_error(front):
    fake = FakeServer({"tools/call": [SILENCE, text("new")]})
    async with through(fake, front) as found:
        old = found.host.start_tool("slow")
        await fake.until("tools/call")
        await found.back.reload(0)
        error = (await found.host.line_of(old))["error"]
        assert error["code"] == -32603
        assert error["message"].endswith("the server was stopped or restarted, and the call had not finished")
        assert await found.host.text("slow") == "new"


@scene
async def test_the_host_is_notified_of_the_lists_of_the_new_code():
    capabilities = {"tools": {}, "prompts": {"listChanged": True}}
    async with through(legacy(capabilities=capabilities), "2025-11-25") as found:
        await found.host.names("tools/list", "tools")
        changes = []
        found.back.on_changed.append(lambda change: changes.append(change.kind))
        await found.back.reload(ENOUGH)
        await found.host.note("notifications/prompts/list_changed")
        assert set(changes) == {"tools", "prompts"}


@scene
async def test_code_that_does_not_start_is_reported_by_each_call_until_it_is_fixed():
    fake = legacy()
    async with through(fake, "2025-11-25") as found:
        assert await found.host.text("add") == "done"
        works, fake.answers["initialize"] = fake.answers["initialize"], breaks
        found.back.reload(ENOUGH)
        for _ in range(2):
            assert (await found.host.error("tools/call", name="add"))["code"] == -32603
        fake.answers["initialize"] = works
        found.back.reload(ENOUGH)
        assert await found.host.text("add") == "done"


async def breaks(asked):
    await asked.channel.close()
    return SILENCE


@scene
async def test_new_code_replaces_code_that_never_finishes_to_start():
    fake = legacy()
    async with through(fake, "2025-11-25") as found:
        assert await found.host.text("add") == "done"
        works, fake.answers["initialize"] = fake.answers["initialize"], SILENCE
        found.back.reload(ENOUGH)
        waiting = found.host.start_tool("add")
        await turn_until(lambda: len(fake.lives) > 1 and fake.lives[-1])
        fake.answers["initialize"] = works
        found.back.reload(ENOUGH)
        assert (await found.host.line_of(waiting))["result"]["content"] == [{"type": "text", "text": "done"}]


@scene
async def test_a_server_that_was_never_started_is_not_started_by_new_code():
    fake = FakeServer()
    back = Back(fake)
    assert back.reload(ENOUGH) is None
    await back.close()
    assert fake.lives == []


@scene
async def test_closing_does_not_wait_for_the_calls_of_an_old_process():
    fake = FakeServer({"tools/call": SILENCE})
    async with through(fake) as found:
        slow = found.host.start_tool("slow")
        await fake.until("tools/call")
        found.back.reload(3600)
        await found.back.close()
        assert fake.gone.is_set()
        assert "error" in await found.host.line_of(slow)
