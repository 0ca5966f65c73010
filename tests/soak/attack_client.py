"""Attack the client's memory: with servers that flood it and do not read, and with slow programs on our side.

Each round launches a server, in one of two eras, that floods with pings, log messages, stderr lines, changes, progress, stray lines
or questions, and reads nothing, slowly, or normally. On our side callbacks are slow and a subscription is not read, in the
asyncio or the blocking client. The memory of this process has to stay bounded, every call has to end, close() has to end, and no
process, task or thread may remain.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from contextlib import suppress

from attacking import Attack, main
from measuring import our_children, resident

from twopipes import Limits, RestartPolicy, Timeouts, TwopipesError, blocking, connect
from twopipes._process.shutdown import ShutdownPlan
from twopipes.types import ClientOptions

MIB = 1024 * 1024
# Seconds. A limit for a hang, not an assertion.
NET = 45.0
# Seconds of flooding in one round.
FLOOD = 2.0
# The backlog of a client, and the bytes that this process may grow by: several backlogs, and what the allocator keeps of
# them. A flood that is kept takes more than that in a second or two.
LIMITS = Limits(max_backlog=MIB, max_in_flight=500)
MAX_GROWTH = 40 * MIB
TIMEOUTS = Timeouts(connect=NET, request=0.5, total=2.0, shutdown=0.2)

KINDS = ("ping", "log", "stderr", "change", "progress", "stray", "question")
READING = ("never", "slowly", "always")

# The server: era, kinds of floods, how it reads, and a seed come as arguments.
SERVER = r"""
import json, os, random, sys, threading, time

era, kinds, reading, seed, flood = sys.argv[1], sys.argv[2].split(","), sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
choose = random.Random(seed)
TAG = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}, "logging": {}}


def write(fd, data):
    while data:
        data = data[os.write(fd, data):]


def line(**message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def modern(result):
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}


def answer(message, listens, tokens):
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message or method is None:
        return
    token = (params.get("_meta") or {}).get("progressToken")
    if token is not None:
        tokens.append(token)
    if method == "server/discover" and era == "modern":
        result = modern({"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES})
    elif method == "initialize" and era == "legacy":
        info = {"name": "hostile", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
    elif method == "subscriptions/listen":
        listens.append(message["id"])
        granted = {"_meta": {TAG: message["id"]}, "notifications": params["notifications"]}
        write(1, line(method="notifications/subscriptions/acknowledged", params=granted))
        return
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "done"}]}
        result = modern(result) if era == "modern" else result
    elif method in ("resources/subscribe", "resources/unsubscribe", "ping", "logging/setLevel"):
        result = {}
    else:
        write(1, line(id=message["id"], error={"code": -32601, "message": "no"}))
        return
    write(1, line(id=message["id"], result=result))


def piece(kind, number, listens, tokens):
    tag = {"_meta": {TAG: listens[0]}} if listens else {}
    if kind == "ping":
        return line(id=number, method="ping")
    if kind == "log":
        return line(method="notifications/message", params={"level": "info", "data": "x" * choose.choice((1, 100, 10_000))})
    if kind == "change":
        return line(method="notifications/resources/updated", params={**tag, "uri": f"x://a/{number}"})
    if kind == "progress":
        token = tokens[-1] if tokens else 0
        return line(method="notifications/progress", params={"progressToken": token, "progress": number, "message": "x" * 100})
    if kind == "question":
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        asked = line(id=f"q{number}", method="elicitation/create", params={"message": "Who?", "requestedSchema": form})
        taken_back = line(method="notifications/cancelled", params={"requestId": f"q{number}"})
        return asked + (taken_back if choose.random() < 0.5 else b"")
    return b"this is not a message\n"


def drown_stderr(ends):
    while time.monotonic() < ends:
        write(2, b"all is well, all is well, all is well\n" * 500)


def read_on(rest, listens, tokens):
    while data := os.read(0, 65536):
        *lines, rest = (rest + data).split(b"\n")
        for each in lines:
            answer(json.loads(each), listens, tokens)
        if reading == "slowly":
            time.sleep(0.02)


def main():
    # The opening and the first calls are answered; then the flood begins.
    rest, listens, tokens, calls = b"", [], [], 0
    while not calls:
        data = os.read(0, 65536)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for each in lines:
            message = json.loads(each)
            calls += message.get("method") == "tools/call"
            answer(message, listens, tokens)
    ends = time.monotonic() + flood
    if "stderr" in kinds:
        threading.Thread(target=drown_stderr, args=(ends,), daemon=True).start()
    if reading != "never":
        threading.Thread(target=read_on, args=(rest, listens, tokens), daemon=True).start()
    said = [kind for kind in kinds if kind != "stderr"]
    number = 0
    while time.monotonic() < ends:
        if not said:
            time.sleep(0.05)
            continue
        kind = choose.choice(said)
        pieces = [piece(kind, number + more, listens, tokens) for more in range(500)]
        number += 500
        # What may come again as it is comes at full speed.
        write(1, b"".join(pieces) * (1 if kind in ("change", "progress", "question") else 5))


try:
    main()
except BrokenPipeError:
    pass
os._exit(0)
"""


class Round:
    """The choices of one round, and the resources that it must release."""

    def __init__(self, run: Attack, program: str) -> None:
        chance = run.random
        self.run = run
        self.era = chance.choice(("legacy", "modern"))
        self.kinds = chance.sample(KINDS, chance.randint(1, 3))
        self.reading = chance.choice(READING)
        self.pause = chance.choice((0.0, 0.01, 1.0, NET))
        self.calls = chance.randint(2, 4)
        self.stays = chance.uniform(FLOOD / 2, FLOOD)
        seed = chance.randrange(2**32)
        self.command = [sys.executable, "-S", "-c", program, self.era, ",".join(self.kinds), self.reading, str(seed), str(FLOOD)]

    def __str__(self) -> str:
        return f"{self.era} {'+'.join(self.kinds)}, reads {self.reading}, callbacks take {self.pause:g} s"


def options(callback: object, on_elicit: object) -> dict[str, object]:
    """Return the options of both clients."""
    names = ("on_log", "on_stderr", "on_stray_output")
    return {
        **dict.fromkeys(names, callback),
        "options": ClientOptions(on_notification=callback),
        "on_elicit": on_elicit,
        "timeouts": TIMEOUTS,
        "limits": LIMITS,
        "restart": RestartPolicy(when="never"),
        "shutdown": ShutdownPlan.at_once(),
    }


async def with_asyncio(plan: Round) -> None:
    over = asyncio.Event()

    async def slow(*_: object) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(plan.pause):
                await over.wait()

    async def on_elicit(_: object) -> None:
        await slow()

    client = await connect(plan.command, era=plan.era, **options(slow, on_elicit))
    try:
        changes = client.subscribe(resources=["x://a"])
        async with changes:  # and never read
            tasks = [asyncio.create_task(client.call_tool("x", on_progress=slow)) for _ in range(plan.calls)]
            await asyncio.sleep(plan.stays)
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                plan.run.counts["calls ended"] += 1
                good = not isinstance(outcome, BaseException) or isinstance(outcome, TwopipesError)
                plan.run.check(good, str(plan), "a result or a TwopipesError", repr(outcome))
            plan.run.counts["events dropped"] += sum(client.dropped.values()) + changes.dropped
    finally:
        await client.close()
        over.set()


def with_threads(plan: Round) -> None:
    over = threading.Event()

    def slow(*_: object) -> None:
        over.wait(min(plan.pause, 0.2))

    client = blocking.connect(plan.command, era=plan.era, **options(slow, slow))
    try:
        with client.subscribe(resources=["x://a"]) as changes:
            for _ in range(plan.calls):
                try:
                    client.call_tool("x", on_progress=slow)
                except TwopipesError:
                    pass
                except BaseException as error:
                    plan.run.violations.append(f"{plan}: expected a result or a TwopipesError, found {error!r}")
                plan.run.counts["calls ended"] += 1
            plan.run.counts["events dropped"] += sum(client.dropped.values()) + changes.dropped
    finally:
        client.close()
        over.set()


class Watch:
    """Watch the memory of this process from a thread, so that a busy event loop does not matter."""

    def __init__(self) -> None:
        self.before = self.most = resident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            self.most = max(self.most, resident())

    def end(self) -> int:
        """Return its maximum growth."""
        self._over.set()
        self._thread.join()
        return self.most - self.before


async def attack(run: Attack) -> None:
    watch = Watch()
    threads = set(threading.enumerate())
    for _ in run.rounds():
        plan = Round(run, SERVER)
        client = run.random.choice((with_asyncio, with_threads))
        began = time.monotonic()
        try:
            async with asyncio.timeout(NET):
                if client is with_asyncio:
                    await with_asyncio(plan)
                else:
                    await asyncio.to_thread(with_threads, plan)
        except TimeoutError:
            run.violations.append(f"{plan} ({client.__name__}): expected an end, found none after {time.monotonic() - began:.0f} s")
            break
        run.counts[f"rounds {client.__name__.replace('_', ' ')}"] += 1
        left = our_children()
        run.check(not left, f"{plan} ({client.__name__})", "no process left", left)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        await asyncio.wait(tasks, timeout=NET)
    run.check(not [task for task in tasks if not task.done()], "at the end", "no task left", tasks)
    for thread in set(threading.enumerate()) - threads:
        if thread.name.startswith("twopipes"):
            thread.join(NET)
            run.check(not thread.is_alive(), "at the end", "no thread left", thread)
    grown = watch.end()
    run.counts["MiB grown"] = grown // MIB
    run.check(grown < MAX_GROWTH, "memory", f"a growth of less than {MAX_GROWTH // MIB} MiB", f"{grown // MIB} MiB")


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
