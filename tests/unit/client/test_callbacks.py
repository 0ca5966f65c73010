"""A failing callback has no other effect, and an ``async`` one is awaited."""

import asyncio

import pytest

from fake_server import SILENCE, FakeServer, scene, text
from twopipes import connect


def chatter(asked):
    asked.fake.write(b"Starting server...\n")
    asked.answer(text("done"))
    return SILENCE


@scene
async def test_a_broken_callback_for_stray_output_does_not_stop_the_reading():
    def broken(stray):
        raise RuntimeError(f"cannot stand {stray.excerpt}")

    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
    async with connect(FakeServer({"tools/call": chatter}), on_stray_output=broken) as client:
        assert (await client.call_tool("x")).text == "done"
    assert reported == ["cannot stand Starting server..."]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@scene
async def test_an_async_callback_for_stray_output_is_awaited(revision):
    reported = asyncio.get_running_loop().create_future()

    async def tell(stray):
        reported.set_result(stray.excerpt)

    async with connect(FakeServer({"tools/call": chatter}, speaks=revision), revision=revision, on_stray_output=tell) as client:
        await client.call_tool("x")
        assert await reported == "Starting server..."
