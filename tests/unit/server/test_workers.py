"""Threads for functions that block: started when needed, kept, bounded, and ended when not needed."""

import asyncio
import threading

import pytest

from inmemory import NET, turn_until
from twopipes._server.threads import Workers


def test_threads_are_started_when_needed_kept_and_bounded():
    async def main():
        workers = Workers(2)
        go_on = threading.Event()
        seen = set()

        def work() -> str:
            seen.add(threading.get_ident())
            go_on.wait(NET)
            return "done"

        assert (workers.threads, workers.busy) == (0, 0)
        jobs = [asyncio.create_task(workers.run(work)) for _ in range(6)]
        await asyncio.sleep(0)
        assert workers.busy == 6
        jobs[5].cancel()
        go_on.set()
        done = await asyncio.gather(*jobs, return_exceptions=True)
        assert done[:5] == ["done"] * 5
        assert isinstance(done[5], asyncio.CancelledError)
        assert workers.threads == len(seen) == 2
        await turn_until(lambda: not workers.busy)  # a thread takes the cancelled one out, too
        assert await workers.run(lambda: "again") == "again"
        assert (workers.threads, workers.busy) == (2, 0)
        workers.rest()
        await turn_until(lambda: not workers.threads)
        assert await workers.run(lambda: "after a rest") == "after a rest"
        workers.rest()
        await turn_until(lambda: not workers.threads)

    asyncio.run(main())


def test_a_thread_that_outlives_its_loop_does_no_harm():
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    workers = Workers(1)

    def work() -> None:
        started.set()
        go_on.wait(NET)

    async def main():
        job = asyncio.create_task(workers.run(work))
        await asyncio.to_thread(started.wait)
        job.cancel()

    asyncio.run(main())
    go_on.set()

    async def again():
        await workers.run(ended.set)

    asyncio.run(again())
    assert ended.is_set()


def test_a_function_that_comes_while_the_threads_go_is_not_left_to_one_of_them():
    """As when the last client of a server leaves and the next one is there already."""

    async def main():
        for _ in range(200):
            workers = Workers(4)
            assert await workers.run(lambda: 1) == 1
            workers.rest()
            async with asyncio.timeout(NET):
                assert await workers.run(lambda: 2) == 2
            workers.rest()

    asyncio.run(main())


def test_a_function_that_never_returns_does_not_block_later_ones():
    async def main():
        workers, stuck, started = Workers(1), threading.Event(), threading.Event()

        def never_returns():
            started.set()
            stuck.wait(NET)

        waiting = asyncio.ensure_future(workers.run(never_returns))
        await turn_until(started.is_set)
        workers.rest()
        async with asyncio.timeout(NET):
            assert await workers.run(lambda: 2) == 2
        assert workers.busy == 1
        stuck.set()
        await waiting
        workers.rest()
        await turn_until(lambda: not workers.busy)

    asyncio.run(main())


def test_a_function_that_is_cancelled_while_it_waits_is_dropped_at_once():
    async def main():
        workers, go_on, started = Workers(1), threading.Event(), threading.Event()
        ran = []

        def block() -> None:
            started.set()
            go_on.wait(NET)

        blocking = asyncio.ensure_future(workers.run(block))
        await turn_until(started.is_set)
        waiting = [asyncio.ensure_future(workers.run(lambda number=number: ran.append(number))) for number in range(100)]
        await asyncio.sleep(0)
        assert workers.busy == 101
        for each in waiting[:-1]:
            each.cancel()
        await asyncio.gather(*waiting[:-1], return_exceptions=True)
        assert workers.busy == 2
        assert len(workers._crew.waiting) == 1
        go_on.set()
        await asyncio.gather(blocking, waiting[-1])
        assert ran == [99]
        assert workers.threads == 1
        workers.rest()

    asyncio.run(main())


def test_a_thread_that_is_free_again_takes_the_next_function():
    async def main():
        workers = Workers(10)
        for number in range(200):
            assert await workers.run(lambda number=number: number) == number
        assert workers.threads == 1
        workers.rest()

    asyncio.run(main())


def test_a_function_for_which_no_thread_can_be_started_fails_and_is_forgotten(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    async def main():
        workers = Workers(10)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await workers.run(lambda: 1)
        assert (workers.busy, workers.threads) == (0, 0)
        assert await workers.run(lambda: 2) == 2
        workers.rest()

    asyncio.run(main())
