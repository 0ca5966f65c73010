"""The timer that notices that a server is not used."""

import asyncio

from twopipes._gateway.idle import IdleTimer


class Calls:
    """Counts calls, and waits for one."""

    def __init__(self):
        self.count = 0
        self.called = asyncio.Event()

    def __call__(self):
        self.count += 1
        self.called.set()


def test_it_fires_after_the_last_of_several_users():
    async def main():
        calls = Calls()
        timer = IdleTimer(0.0, calls)
        with timer.used():
            with timer.used():
                pass
            for _ in range(3):  # a timer of 0 seconds fires in the next turn of the loop
                await asyncio.sleep(0)
            assert (calls.count, timer.is_used) == (0, True)
        await calls.called.wait()
        assert (calls.count, timer.is_used) == (1, False)

    asyncio.run(main())


def test_a_new_user_stops_the_timer():
    async def main():
        calls = Calls()
        timer = IdleTimer(0.0, calls)
        with timer.used():
            pass
        with timer.used():
            for _ in range(3):
                await asyncio.sleep(0)
            assert calls.count == 0
        await calls.called.wait()

    asyncio.run(main())


def test_it_fires_again_after_the_next_use():
    async def main():
        calls = Calls()
        timer = IdleTimer(0.0, calls)
        for _ in range(2):
            calls.called.clear()
            with timer.used():
                pass
            await calls.called.wait()
        assert calls.count == 2

    asyncio.run(main())


def test_it_does_not_fire_without_a_limit_and_after_a_stop():
    async def main():
        calls = Calls()
        for timer in (IdleTimer(None, calls), IdleTimer(0.0, calls)):
            with timer.used():
                pass
            timer.stop()
        for _ in range(3):
            await asyncio.sleep(0)
        assert calls.count == 0

    asyncio.run(main())
