"""Clients that break the rules of caching, one each: they keep what they should not, or ask when nobody needs it."""

import asyncio
import json
from contextlib import suppress

from check.mutation import Wire, raw_mutant, wire_mutant
from twopipes import TwopipesError, connect
from twopipes._tools.check.client_run import InProcessDriver


def keeping(is_kept):
    """A client that reads all resources, but not those that a function of the URI and of what was read before says are there."""

    async def read(server):
        seen = {}
        async with connect(server, on_elicit=lambda _question: {"name": "Anna"}) as client:
            for resource in await client.list_resources():
                if not is_kept(resource.uri, seen):
                    with suppress(TwopipesError):
                        seen[resource.uri] = (await client.read_resource(resource.uri, fresh=True)).ttl_ms

    return InProcessDriver(read)


@raw_mutant("CH-03")
def mistakes_a_negative_time_for_a_long_one():
    return keeping(lambda uri, seen: (seen.get(uri) or 0) < 0)


@raw_mutant("CH-03")
def keeps_what_says_nothing():
    return keeping(lambda uri, seen: seen.get(uri, 0) is None)


@raw_mutant("CH-03")
def polls():
    async def poll(client):
        while True:
            await client.list_tools(fresh=True)
            await asyncio.sleep(0.005)

    async def call(server):
        async with connect(server) as client:
            await client.list_tools()
            polling = asyncio.create_task(poll(client))
            try:
                await client.call_tool("greet")
            finally:
                polling.cancel()
                with suppress(asyncio.CancelledError):
                    await polling

    return InProcessDriver(call)


@raw_mutant("CH-04")
def keeps_one_result_for_all_uris():
    return keeping(lambda _uri, seen: any(seen.values()))


@raw_mutant("CH-05")
def keeps_what_it_got_by_answering():
    return keeping(lambda uri, seen: (seen.get(uri) or 0) > 0)


def needing_lists_again(*, keeps_tools):
    """A client that lists tools and prompts, hears of a change, and needs both lists again."""

    async def watch(server):
        async with connect(server) as client:
            await client.list_tools()
            await client.list_prompts()
            async with client.subscribe(tools=True):
                await client.ping()  # what was announced before has been read when this is answered
                await client.list_prompts()
                if not keeps_tools:
                    await client.list_tools()

    return InProcessDriver(watch)


@raw_mutant("CH-07")
def keeps_a_list_that_has_changed():
    return needing_lists_again(keeps_tools=True)


@wire_mutant("CH-09")
def does_not_begin_again(wire: Wire):
    def answer(line):
        message = json.loads(line)
        if message.get("error", {}).get("code") == -32602:
            message["error"]["code"] = -32603
            return json.dumps(message).encode() + b"\n"
        return None

    wire.to_subject = answer
