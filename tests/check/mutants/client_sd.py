"""Clients that end their servers badly, or do not cope with their end, one fault each."""

import asyncio
import sys
from pathlib import Path

from check.full_tour import tour
from check.mutation import raw_mutant
from check.raw_connection import META, RawConnection
from twopipes import RestartPolicy, TwopipesError, connect
from twopipes._tools.check.client_run import CommandDriver, InProcessDriver

ENDING_CLIENT = Path(__file__).parents[1] / "raw_ending_client.py"


def leaving(how):
    return CommandDriver([sys.executable, str(ENDING_CLIENT), how, "{server}"])


@raw_mutant("SD-01")
def kills_at_once():
    return leaving("kills-at-once")


@raw_mutant("SD-01")
def leaves_the_server_running():
    return leaving("leaves-it-running")


@raw_mutant("SD-01", revision="2025-11-25")
def sends_only_sigkill():
    return leaving("knows-no-signal-but-one")


@raw_mutant("SD-01")
def sends_sigterm_at_once():
    return leaving("gives-no-time")


@raw_mutant("SD-01")
def kills_a_moment_later():
    return leaving("kills-a-moment-later")


@raw_mutant("SD-01", revision="2025-11-25")
def kills_right_after_sigterm():
    return leaving("loses-its-patience")


@raw_mutant("SD-01")
def sends_sigterm_and_exits():
    return leaving("asks-and-goes")


@raw_mutant("SD-01")
def waits_for_ever():
    return leaving("waits-for-ever")


async def _waits_for_the_dead(launcher):
    async with RawConnection(launcher) as connection:
        await connection.request("server/discover", {"_meta": META})
        await connection.request("tools/list", {"_meta": META})
        if await connection.request("tools/call", {"name": "greet", "arguments": {}, "_meta": META}) is None:
            await asyncio.Event().wait()


@raw_mutant("SD-03")
def waits_for_an_answer_of_the_dead():
    return InProcessDriver(_waits_for_the_dead)


@raw_mutant("SD-05")
def neither_repeats_a_call_nor_reports_it():
    return InProcessDriver(_waits_for_the_dead)


@raw_mutant("SD-04")
def never_starts_a_server_again():
    return InProcessDriver(lambda server: tour(server, restart=RestartPolicy(when="never")))


@raw_mutant("SD-04")
def restarts_a_server_endlessly():
    async def try_again(server):
        while True:
            try:
                async with connect(server, restart=RestartPolicy(when="never")) as client:
                    await client.call_tool("greet")
                    return
            except TwopipesError:
                pass

    return InProcessDriver(try_again)


@raw_mutant("SD-06", revision="2025-11-25")
def continues_without_a_handshake():
    async def go_on(launcher):
        async with RawConnection(launcher) as connection:
            await connection.initialize()
            await connection.request("tools/list")
            if await connection.request("tools/call", {"name": "greet", "arguments": {}}) is not None:
                return
        async with RawConnection(launcher) as connection:
            await connection.request("tools/call", {"name": "greet", "arguments": {}})

    return InProcessDriver(go_on)
