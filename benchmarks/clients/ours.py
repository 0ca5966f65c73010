"""Our client, with asyncio: ``ours.py JOB``."""

import asyncio
import json
import sys
import time

from job import Clock, Job, report, resident

from twopipes import Client, connect


async def main(job: Job) -> dict:
    """Open the connections, make the calls, and report what they took."""
    started = time.perf_counter()
    clients = await asyncio.gather(*(connect(*job.command, era=job.era) for _ in range(job.servers)))
    ready = time.perf_counter() - started
    remaining = iter(())

    async def call(client: Client) -> None:
        for _ in remaining:
            result = await client.call_tool("echo", {"text": job.text})
            if result.text != job.text:
                raise ValueError(f"a wrong answer: {result}")

    async def calls(count: int) -> None:
        nonlocal remaining
        remaining = iter(range(count))
        await asyncio.gather(*(call(client) for client in clients for _ in range(job.in_flight)))

    await calls(job.warm_up)
    large = Clock()
    if job.large:
        text = "x" * job.large
        with large:
            result = await clients[0].call_tool("echo", {"text": text})
        if result.text != text:
            raise ValueError("the long text did not come back")
    with Clock() as clock:
        await calls(job.calls)
    held = resident()
    await asyncio.gather(*(client.close() for client in clients))
    return report(job, clock, large=large, ready=ready, resident=held)


job = Job(**json.loads(sys.argv[1]))
print(json.dumps(asyncio.run(main(job))))
