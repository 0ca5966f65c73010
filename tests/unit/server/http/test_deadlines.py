"""Many waits with one timer."""

import asyncio

import pytest

from twopipes._server.http.deadlines import Deadlines
from twopipes.testing import ManualClock


class Wait:
    """Records when it expires, and does what the test wants then."""

    def __init__(self, clock, expired, then=None):
        self.clock = clock
        self.expired = expired
        self.then = then

    def expire(self):
        self.expired.append((self, self.clock.time()))
        if self.then is not None:
            self.then()


@pytest.fixture
def clock():
    return ManualClock()


def test_each_wait_expires_after_its_own_time(clock):
    async def main():
        began, expired = clock.time(), []
        deadlines = Deadlines(30)
        waits = []
        for _ in range(3):
            waits.append(Wait(clock, expired))
            deadlines.add(waits[-1])
            await clock.advance(10)
        await clock.advance(100)
        assert expired == [(wait, began + 30 + 10 * number) for number, wait in enumerate(waits)]

    clock.run(main())


def test_a_wait_that_was_removed_does_not_expire_and_the_others_do(clock):
    async def main():
        expired = []
        deadlines = Deadlines(30)
        first, second, third = (Wait(clock, expired) for _ in range(3))
        for wait in (first, second, third):
            deadlines.add(wait)
        deadlines.remove(first)
        deadlines.remove(third)
        await clock.advance(100)
        assert [wait for wait, _ in expired] == [second]
        deadlines.remove(second)  # it has expired, so this has no effect

    clock.run(main())


def test_the_timer_works_again_after_it_found_nothing_to_do(clock):
    async def main():
        expired = []
        deadlines = Deadlines(30)
        first, second = Wait(clock, expired), Wait(clock, expired)
        deadlines.add(first)
        deadlines.remove(first)
        await clock.advance(1000)
        deadlines.add(second)
        await clock.advance(29)
        assert expired == []
        await clock.advance(1)
        assert [wait for wait, _ in expired] == [second]

    clock.run(main())


def test_a_wait_that_another_one_ends_by_expiring_does_not_expire(clock):
    async def main():
        expired = []
        deadlines = Deadlines(30)
        second = Wait(clock, expired)
        first = Wait(clock, expired, then=lambda: deadlines.remove(second))
        deadlines.add(first)
        deadlines.add(second)
        await clock.advance(100)
        assert [wait for wait, _ in expired] == [first]

    clock.run(main())


def test_an_error_of_one_wait_does_not_stop_later_ones(clock):
    async def main():
        expired, errors = [], []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context["exception"]))

        def fail():
            raise RuntimeError("broken")

        deadlines = Deadlines(30)
        first, second = Wait(clock, expired, then=fail), Wait(clock, expired)
        deadlines.add(first)
        await clock.advance(1)
        deadlines.add(second)
        await clock.advance(100)
        assert [wait for wait, _ in expired] == [first, second]
        assert [str(error) for error in errors] == ["broken"]

    clock.run(main())


# with deadlines.limit()


def test_a_block_that_takes_too_long_raises_a_timeout_and_the_task_goes_on(clock):
    async def limited(deadlines):
        with pytest.raises(TimeoutError), deadlines.limit():
            await asyncio.Event().wait()
        await asyncio.sleep(1)  # the task is not cancelled
        return "done"

    async def main():
        task = asyncio.create_task(limited(Deadlines(30)))
        await clock.advance(29)
        assert not task.done()
        await clock.advance(2)
        assert task.result() == "done"
        assert task.cancelling() == 0

    clock.run(main())


def test_a_block_that_is_done_in_time_is_not_interrupted_later(clock):
    async def limited(deadlines):
        with deadlines.limit():
            await asyncio.sleep(29)
        await asyncio.sleep(1000)
        return "done"

    async def main():
        task = asyncio.create_task(limited(Deadlines(30)))
        await clock.advance(2000)
        assert task.result() == "done"

    clock.run(main())


def test_an_error_in_a_block_is_raised_as_it_is(clock):
    async def main():
        with pytest.raises(KeyError, match="own"), Deadlines(30).limit():
            raise KeyError("own")

    clock.run(main())


@pytest.mark.parametrize("is_late", [False, True])
def test_a_cancellation_from_elsewhere_stays_a_cancellation(clock, is_late):
    async def limited(deadlines):
        with deadlines.limit():
            await asyncio.Event().wait()

    async def main():
        deadlines = Deadlines(30)
        task = asyncio.create_task(limited(deadlines))
        await clock.advance(1)
        if is_late:  # both in one turn of the event loop
            asyncio.get_running_loop().call_later(29, task.cancel)
            await clock.advance(29)
        else:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    clock.run(main())
