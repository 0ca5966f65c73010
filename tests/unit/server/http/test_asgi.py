"""Waits that are bounded: a coroutine that does not wait costs no timer, and one that waits is continued or cancelled."""

import asyncio

import pytest

from twopipes._server.http.asgi import within


def test_a_coroutine_that_does_not_wait_starts_no_timer(monkeypatch):
    async def immediate():
        return 5

    async def main():
        monkeypatch.setattr(asyncio, "timeout", None)
        return await within(0.0, immediate())

    assert asyncio.run(main()) == 5


def test_a_coroutine_that_waits_is_continued():
    async def main():
        futures = [asyncio.get_running_loop().create_future() for _ in range(3)]

        async def collect():
            return [await future for future in futures]

        task = asyncio.create_task(within(60, collect()))
        for number, future in enumerate(futures):
            await asyncio.sleep(0)
            future.set_result(number)
        return await task

    assert asyncio.run(main()) == [0, 1, 2]


@pytest.mark.parametrize("is_late", [False, True])
def test_an_exception_passes_through(is_late):
    async def fail():
        if is_late:
            await asyncio.sleep(0)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(within(60, fail()))


def test_a_coroutine_that_waits_too_long_is_cancelled():
    seen = []

    async def wait():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(TimeoutError):
        asyncio.run(within(0.001, wait()))
    assert seen == ["cancelled"]


def test_a_cancellation_reaches_the_coroutine_and_may_be_handled():
    async def wait(started):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "cleaned up"

    async def main():
        started = asyncio.Event()
        task = asyncio.create_task(within(60, wait(started)))
        await started.wait()
        task.cancel()
        return await task

    assert asyncio.run(main()) == "cleaned up"


def test_a_coroutine_that_is_abandoned_is_closed():
    seen = []

    async def wait():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append("closed")

    async def main():
        coroutine = within(60, wait())
        coroutine.send(None)
        coroutine.close()

    asyncio.run(main())
    assert seen == ["closed"]
