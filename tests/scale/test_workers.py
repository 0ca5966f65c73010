"""The workers of one command, which share a port: a change in one of them reaches the subscribers of all."""

import asyncio
import sys
from contextlib import AsyncExitStack

import pytest

from scale.raw_client import raw_client
from scale.services import FILES, NET, Worker

pytestmark = [pytest.mark.scale, pytest.mark.timeout(180)]

# The server of the page with workers, and with a tool that shows which of them serves.
PROGRAM = """
import os, sys
sys.path.insert(0, {folder!r})
from server import bus, options, server

@server.tool
def touch(name: str) -> int:
    server.notify_resource_updated(f"note://{{name}}")
    return os.getpid()

if __name__ == "__main__":
    server.run(http=os.environ["LISTEN"], workers=3, http_options=options, bus={bus})
"""


class Workers(Worker):
    """A main process with three workers."""

    def __init__(self, folder, redis_url, *, bus):
        super().__init__("workers", folder, redis_url)
        program = folder / "program.py"
        program.write_text(PROGRAM.format(folder=str(FILES), bus=bus))
        self._command = [sys.executable, str(program)]


@pytest.fixture
def started(request, redis_server, tmp_path):
    workers = Workers(tmp_path, redis_server.url, bus=request.param)
    try:
        yield workers.start()
    finally:
        workers.end()


async def touch_until(client, url, enough):
    """Announce changes, each with its own name, until enough processes have done so. Return the processes by name."""
    touched = {}
    async with asyncio.timeout(NET):
        while not enough(set(touched.values())):
            name = f"n{len(touched)}"
            touched[name] = (await client.call(url, "touch", name=name)).text
    return touched


@pytest.mark.parametrize("started", ["bus", "None"], ids=["redis", "no bus"], indirect=True)
def test_changes_of_every_worker_reach_every_subscription(started):
    names = [f"note://n{number}" for number in range(1000)]

    async def main():
        async with raw_client() as client, AsyncExitStack() as stack:
            listens = [await stack.enter_async_context(client.listening(started.mcp, *names)) for _ in range(9)]
            touched = await touch_until(client, started.mcp, lambda processes: len(processes) == 3)
            for listen in listens:
                assert sorted(await listen.updated(len(touched))) == sorted(f"note://{name}" for name in touched)

    asyncio.run(main())
