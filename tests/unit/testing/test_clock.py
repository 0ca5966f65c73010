"""Time that is moved by hand."""

import asyncio
import functools
import threading
import time

import pytest

from fake_server import SILENCE, FakeServer
from twopipes import RequestTimedOut, Timeouts
from twopipes.errors import LocalProtocolError
from twopipes.testing import ManualClock, child, delay, pair
from unit.testing.sums import sums

PATIENT = Timeouts(request=None, total=None)


def scene(test):
    """A test that is a coroutine. It has no net in its event loop, whose time is moved."""

    @functools.wraps(test)
    def run(*arguments, **options):
        asyncio.run(test(*arguments, **options))

    return run


def test_an_hour_takes_no_time():
    clock = ManualClock()

    async def main():
        async with pair(sums(), timeouts=PATIENT) as talk:
            began = clock.time()
            waiting = asyncio.create_task(talk.client.call_tool("wait", {"seconds": 3600}))
            await clock.advance(3599.9)
            assert not waiting.done()
            await clock.advance(0.1)
            assert waiting.done()
            assert clock.time() - began == pytest.approx(3600)
            return (await waiting).text

    assert clock.run(main()) == "waited"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_timeout_comes_when_it_is_due(era):
    clock = ManualClock()

    async def main():
        async with pair(sums(), era=era, timeouts=Timeouts(request=60)) as talk:
            waiting = asyncio.create_task(talk.client.call_tool("wait", {"seconds": 3600}))
            await clock.advance(59.999)
            assert not waiting.done()
            await clock.advance(0.001)
            with pytest.raises(RequestTimedOut) as caught:
                await waiting
            assert caught.value.waited == pytest.approx(60)
            assert talk.calls[-1].state == "cancelled"

    clock.run(main())


def test_a_silent_server_is_given_up_without_waiting():
    """DE-04: the patience of the probe, and then that of the connection, by this clock."""
    clock = ManualClock()

    async def main():
        fake = FakeServer({"server/discover": SILENCE, "initialize": SILENCE})
        opening = pair(fake, timeouts=Timeouts(probe=5, connect=30))
        entering = asyncio.create_task(opening.__aenter__())
        await clock.advance(5)
        assert [call.method for call in opening.conversation.calls] == ["server/discover", "initialize"]
        await clock.advance(25)
        with pytest.raises(Exception, match="did not"):
            await entering

    clock.run(main())


@scene
async def test_timers_fire_in_order_and_their_callbacks_run_before_the_next():
    rung = []

    async def ring(name, *pauses):
        for pause in pauses:
            await asyncio.sleep(pause)
            rung.append((name, clock.time() - began))

    async with ManualClock() as clock:
        began = clock.time()
        tasks = [asyncio.create_task(ring("a", 10, 10, 10)), asyncio.create_task(ring("b", 15, 10))]
        await clock.advance(30)
        await asyncio.gather(*tasks)
    assert [(name, round(at)) for name, at in rung] == [("a", 10), ("b", 15), ("a", 20), ("b", 25), ("a", 30)]


@scene
async def test_a_timer_that_was_cancelled_does_not_ring():
    async with ManualClock() as clock:
        rung = []
        asyncio.get_running_loop().call_later(5, rung.append, "cancelled").cancel()
        asyncio.get_running_loop().call_later(6, rung.append, "kept")
        await clock.advance(10)
        assert rung == ["kept"]


@scene
async def test_afterwards_the_loop_goes_by_its_own_clock():
    loop = asyncio.get_running_loop()
    before = set(vars(loop))
    threads = set(threading.enumerate())
    async with ManualClock() as clock:
        await clock.advance(1_000_000)
        assert loop.time() > time.monotonic() + 900_000
    assert abs(loop.time() - time.monotonic()) < 100
    assert set(vars(loop)) == before
    assert set(threading.enumerate()) <= threads
    await asyncio.sleep(0.001)


@scene
async def test_what_nobody_moves_is_given_up():
    with pytest.raises(TimeoutError, match=r"nothing moved the manual clock for 0\.05 s of real time"):
        async with ManualClock(patience=0.05):
            await asyncio.sleep(3600)
    await asyncio.sleep(0)  # the next wait is not cancelled


@scene
async def test_an_error_of_the_block_is_the_blocks():
    with pytest.raises(ZeroDivisionError):
        async with ManualClock():
            raise ZeroDivisionError


@scene
async def test_something_that_never_rests_does_not_hold_the_clock():
    async def spin():
        while True:
            await asyncio.sleep(0)

    async with ManualClock() as clock:
        spinning = asyncio.create_task(spin())
        began = clock.time()
        await clock.advance(1)
        assert clock.time() == began + 1
        spinning.cancel()


@scene
async def test_one_clock_and_one_loop():
    async with ManualClock() as clock:
        with pytest.raises(LocalProtocolError, match="already has a manual clock"):
            await ManualClock().__aenter__()
        with pytest.raises(LocalProtocolError, match="seconds must be 0 or more"):
            await clock.advance(-1)
        with pytest.raises(LocalProtocolError, match="seconds must be 0 or more"):
            await clock.advance(float("nan"))
    with pytest.raises(LocalProtocolError, match="not in an event loop"):
        await clock.advance(1)


@scene
async def test_a_loop_does_not_run_within_a_loop():
    with pytest.raises(LocalProtocolError, match=r"in a coroutine write `async with clock:`"):
        ManualClock().run(asyncio.sleep(0))


def test_a_clock_can_be_used_again():
    clock = ManualClock()
    for _ in range(2):
        clock.run(clock.advance(10))


@scene
async def test_a_child_with_a_manual_clock_is_refused(tmp_path):
    file = tmp_path / "server.py"
    file.write_text("")
    async with ManualClock():
        with pytest.raises(LocalProtocolError, match="a ManualClock does not work for a child"):
            async with child(file):
                pass


def test_a_fault_delays_by_the_same_clock():
    clock = ManualClock()

    async def main():
        async with pair(sums(), faults=[delay("<", 1000, method="tools/call")], timeouts=PATIENT) as talk:
            late = asyncio.create_task(talk.client.call_tool("add", {"a": 1, "b": 2}))
            await clock.advance(999)
            assert (await talk.client.call_tool("add", {"a": 2, "b": 2})).structured == {"result": 4}  # it overtakes
            assert not late.done()
            await clock.advance(1)
            assert (await late).structured == {"result": 3}

    clock.run(main())
