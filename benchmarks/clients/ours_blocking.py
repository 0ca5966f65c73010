"""Our client without ``await``: ``ours_blocking.py JOB``. What is in flight at once is one thread each."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from job import Clock, Job, report, resident

from twopipes.blocking import Client, connect


def main(job: Job) -> dict:
    """Open the connections, make the calls, and report what they took."""
    started = time.perf_counter()
    clients = [connect(*job.command, era=job.era) for _ in range(job.servers)]
    ready = time.perf_counter() - started
    remaining = iter(())

    def call(client: Client) -> None:
        for _ in remaining:
            result = client.call_tool("echo", {"text": job.text})
            if result.text != job.text:
                raise ValueError(f"a wrong answer: {result}")

    def calls(count: int) -> None:
        nonlocal remaining
        remaining = iter(range(count))
        if job.in_flight * job.servers == 1:
            call(clients[0])
            return
        with ThreadPoolExecutor(job.in_flight * job.servers) as pool:
            for done in [pool.submit(call, client) for client in clients for _ in range(job.in_flight)]:
                done.result()

    calls(job.warm_up)
    large = Clock()
    if job.large:
        text = "x" * job.large
        with large:
            result = clients[0].call_tool("echo", {"text": text})
        if result.text != text:
            raise ValueError("the long text did not come back")
    with Clock() as clock:
        calls(job.calls)
    held = resident()
    for client in clients:
        client.close()
    return report(job, clock, large=large, ready=ready, resident=held)


job = Job(**json.loads(sys.argv[1]))
print(json.dumps(main(job)))
