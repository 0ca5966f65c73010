"""Servers that do not end well, one fault each."""

import sys
from contextlib import asynccontextmanager
from pathlib import Path

from check.healthy import IMPATIENT, new_server, served
from check.mutation import raw_mutant
from check.time_scale import scaled
from twopipes import ServerCommand
from twopipes._tools.check.server_source import ChannelTarget, CommandTarget

RAW = Path(__file__).parents[1] / "raw_server.py"


def raw(fault):
    return CommandTarget(ServerCommand([sys.executable, str(RAW), fault]), timeouts=scaled(IMPATIENT))


@raw_mutant("SD-02")
def stays_after_the_end():
    return raw("stays-after-the-end")


@raw_mutant("SD-02", revision="2025-11-25")
def leaves_a_child():
    return raw("leaves-a-child")


@raw_mutant("SD-07")
def forgets_what_it_was_asked():
    return raw("forgets-what-it-was-asked")


@raw_mutant("SD-07")
def ignores_a_closed_pipe():
    return raw("ignores-a-closed-pipe")


@raw_mutant("SD-08")
def closes_all_connections_when_one_ends():
    connect = served(new_server())
    channels = set()

    @asynccontextmanager
    async def connecting():
        async with connect() as channel:
            channels.add(channel)
            try:
                yield channel
            finally:
                channels.discard(channel)
                for other in channels:
                    await other.close()

    return ChannelTarget(connecting, timeouts=scaled(IMPATIENT))
