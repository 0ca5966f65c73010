"""Our client at a site of several processes: it does not notice the processes, and recovers from their loss."""

import asyncio
from collections import Counter

import pytest

from scale.services import NET
from twopipes import Change, TwopipesError, connect

pytestmark = [pytest.mark.scale, pytest.mark.timeout(180)]

NOTE = Change("resource", "note://x")


def run(test):
    async def main():
        async with asyncio.timeout(4 * NET):
            await test()

    asyncio.run(main())


async def write(client, text="y"):
    return (await client.call_tool("write", {"name": "x", "line": text})).text


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_calls_and_questions_need_no_knowledge_of_the_processes(site, era):
    async def test():
        async with connect(site.url, era=era, on_elicit=lambda question: {"confirmed": True}) as client:
            for number in range(10):
                assert (await write(client)).startswith("Worker ")
                erased = await client.call_tool("erase", {"name": f"note {number}"})
                assert erased.text.endswith(f" erased note {number}.")

    run(test)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_change_of_any_process_reaches_a_subscription(site, era):
    async def test():
        async with connect(site.url, era=era) as client, client.subscribe(resources=["note://x"]) as changes:
            await changes.ready()
            for worker in (site.a, site.b, site.a):
                async with connect(worker.mcp) as near:
                    await write(near)
                assert await anext(changes) == NOTE

    run(test)


def test_a_subscription_is_opened_again_after_a_loss_of_redis(site):
    watched = {"note://a", "note://b"}

    async def test():
        async with connect(site.url, era="modern") as client, client.subscribe(resources=sorted(watched)) as changes:
            await changes.ready()
            await asyncio.to_thread(site.redis.kill)
            for _ in range(5):
                await write(client)  # no request needs Redis
            await asyncio.to_thread(site.redis.start)
            # Everything may have changed meanwhile.
            assert {(await anext(changes)).uri, (await anext(changes)).uri} == watched
            for worker in (site.a, site.b):
                async with connect(worker.mcp) as near:
                    await near.call_tool("write", {"name": worker.name, "line": "new"})
                assert (await anext(changes)).uri == f"note://{worker.name}"

    run(test)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_killed_process_costs_at_most_the_calls_that_it_was_serving(site, era):
    async def test():
        outcomes = Counter()
        async with connect(site.url, era=era) as client:
            await write(client)

            async def call(number):
                try:
                    outcomes[(await write(client, f"line {number}")).split()[1]] += 1
                except TwopipesError as error:
                    outcomes[type(error).__name__] += 1

            for number in range(0, 60, 4):
                if number == 20:
                    await asyncio.to_thread(site.a.kill)
                await asyncio.gather(*(call(number + each) for each in range(4)))
            assert outcomes.total() == 60
            assert outcomes["a"] + outcomes["b"] >= 60 - 4
            assert (await write(client)) == "Worker b wrote x."

    run(test)


def test_subscriptions_of_a_killed_process_are_opened_at_the_other_one(site):
    async def test():
        async with (
            connect(site.url, era="modern") as client,
            client.subscribe(resources=["note://x"]) as one,
            client.subscribe(resources=["note://x"]) as two,  # least_conn gives each process one of them
            connect(site.b.mcp) as near,
        ):
            await one.ready()
            await two.ready()
            await asyncio.to_thread(site.a.kill)
            for changes in (one, two):
                change = asyncio.ensure_future(anext(changes))
                while not change.done():
                    await write(near)
                    await asyncio.wait([change], timeout=0.1)
                assert await change == NOTE
                assert not changes.is_over

    run(test)
