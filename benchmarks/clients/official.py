"""The client of the official Python SDK 2.x: ``official.py JOB``."""

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

from job import MODERN, Clock, Job, report, resident
from mcp import Client, StdioServerParameters


async def main(job: Job) -> dict:
    """Open the connections, make the calls, and report what they took."""
    command, *arguments = job.command
    async with AsyncExitStack() as stack:
        started = time.perf_counter()
        mode = "legacy" if job.era == "legacy" else MODERN
        clients = [Client(StdioServerParameters(command=command, args=arguments), mode=mode) for _ in range(job.servers)]
        # Its contexts must be left in the task that entered them, so each connection gets a task that stays.
        ready_ones = await asyncio.gather(*(opened(client, stack) for client in clients))
        ready = time.perf_counter() - started
        remaining = iter(())

        async def call(client: Any) -> None:
            for _ in remaining:
                result = await client.call_tool("echo", {"text": job.text})
                if result.content[0].text != job.text:
                    raise ValueError(f"a wrong answer: {result}")

        async def calls(count: int) -> None:
            nonlocal remaining
            remaining = iter(range(count))
            await asyncio.gather(*(call(client) for client in ready_ones for _ in range(job.in_flight)))

        await calls(job.warm_up)
        large = Clock()
        if job.large:
            text = "x" * job.large
            with large:
                result = await ready_ones[0].call_tool("echo", {"text": text})
            if result.content[0].text != text:
                raise ValueError("the long text did not come back")
        with Clock() as clock:
            await calls(job.calls)
        held = resident()
    return report(job, clock, large=large, ready=ready, resident=held)


async def opened(client: Any, stack: AsyncExitStack) -> Any:
    """Enter a client in its own task, which exits it when the stack ends."""
    ready, over = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def stay() -> None:
        try:
            async with client as open_client:
                ready.set_result(open_client)
                await over.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
                return
            raise

    task = asyncio.create_task(stay())

    async def leave() -> None:
        over.set()
        await task

    stack.push_async_callback(leave)
    return await ready


job = Job(**json.loads(sys.argv[1]))
print(json.dumps(asyncio.run(main(job))))
