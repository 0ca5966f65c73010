"""Clients that break the rules of statelessness, one each."""

from check.mutation import raw_mutant
from twopipes import connect
from twopipes._tools.check.client_run import InProcessDriver


@raw_mutant("ST-04")
def launches_a_server_for_each_request():
    async def tour(server):
        for _ in range(4):
            async with connect(server) as client:
                await client.list_tools()

    return InProcessDriver(tour)
