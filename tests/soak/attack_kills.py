"""Kill clients that have launched misbehaving servers of many kinds, at random moments. No process of them may remain.

Each client is a separate process: asyncio or blocking, with several servers, or with a tap in between. It is ended by
SIGKILL, SIGTERM, SIGINT or by closing it. Every process that it started inherits a mark in the environment; within a bounded
time no process has it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from uuid import uuid4

from attacking import Attack, main
from measuring import PROC, Process, marked

# Clients that run at the same time.
AT_ONCE = 3
# Seconds until a client is ended: after its start, when it may be launching a server, or after it has connected.
AFTER_START = 1.0
AFTER_CONNECTING = 0.1
# Seconds until every process must have exited. A shutdown plan, a tap's end and a grace period take five; a busy machine more.
BOUND = 40.0
ENDS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGINT", "close")
CLIENTS = ("async", "blocking", "several", "tapped")

# Responds to the handshake, and then behaves as the name of its kind says.
SERVER = r"""
import json, os, signal, sys, time
kind = sys.argv[1]
until = time.monotonic() + 100  # a net

def stay():
    while time.monotonic() < until:
        time.sleep(1)

def ignore(*numbers):
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)

def fork_and_exit(*_):
    if os.fork():
        os._exit(0)

if kind != "deaf":
    ignore(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
if kind == "family":
    if os.fork() == 0:
        os.fork()
        stay()
if kind == "orphan":
    if (middle := os.fork()) == 0:
        if os.fork():
            os._exit(0)
        stay()
    os.waitpid(middle, 0)
if kind == "forks at its end":
    signal.signal(signal.SIGTERM, fork_and_exit)
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "nasty", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
if kind == "leaves its family":
    if os.fork():
        os._exit(0)
stay()
"""
# A twopipes server whose tool starts a stubborn child and a stubborn grandchild.
OURS = r"""
import subprocess, sys
from twopipes import Server, ServerSettings
server = Server("ours", settings=ServerSettings(drain=0.2, drain_on_signal=0.2))
TEXT = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); print(1, flush=True); time.sleep(100)"
)

@server.tool
def start() -> str:
    child = subprocess.Popen([sys.executable, "-c", TEXT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return child.stdout.readline().decode()

server.run()
"""
KINDS = ("deaf", "stubborn", "family", "orphan", "forks at its end", "leaves its family", "ours")

ASYNC_CLIENT = r"""
import asyncio, json, sys
from twopipes import ServerCommand, ShutdownPlan, connect

async def main():
    clients = []
    for words, tool in json.loads(sys.argv[1]):
        command = ServerCommand(words, environment="inherit")
        clients.append(await connect(command, era="legacy", shutdown=ShutdownPlan.default(0.3)))
        if tool:
            await clients[-1].call_tool(tool)
    print("connected", flush=True)
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, closed.set)
    await closed.wait()
    for client in clients:
        await client.close()

asyncio.run(main())
"""
BLOCKING_CLIENT = r"""
import json, sys
from twopipes import ServerCommand, ShutdownPlan
from twopipes.blocking import connect

clients = []
for words, tool in json.loads(sys.argv[1]):
    command = ServerCommand(words, environment="inherit")
    clients.append(connect(command, era="legacy", shutdown=ShutdownPlan.default(0.3)))
    if tool:
        clients[-1].call_tool(tool)
print("connected", flush=True)
sys.stdin.read()
for client in clients:
    client.close()
"""


def command_of(kind: str, random: Random) -> tuple[list[str], str | None]:
    """Return the command of a server, sometimes behind a shell that keeps running, and the tool to call."""
    words = [sys.executable, "-c", OURS] if kind == "ours" else [sys.executable, "-c", SERVER, kind]
    if random.random() < 0.5:
        words = ["sh", "-c", '"$0" "$@"; true', *words]
    return words, "start" if kind == "ours" else None


async def one_client(run: Attack, folder: Path) -> None:
    """Start a client, end it at a random moment, and look for leftover processes."""
    random = run.random
    form, how = random.choice(CLIENTS), random.choice(ENDS)
    kinds = [random.choice(KINDS) for _ in range(3 if form == "several" else 1)]
    servers = [command_of(kind, random) for kind in kinds]
    mark = f"TWOPIPES_ATTACK={uuid4().hex}"
    if form == "tapped":
        tap = [sys.executable, "-m", "twopipes", "tap", "-q", "-o", str(folder / f"{uuid4().hex}.jsonl"), "--"]
        servers = [([*tap, *words], tool) for words, tool in servers]
    is_connected = random.random() < 0.5
    moment = random.uniform(0, AFTER_CONNECTING if is_connected else AFTER_START)
    since = "connecting" if is_connected else "its start"
    what = f"{form} client of {', '.join(kinds)}, ended by {how} {moment:.3f} s after {since}"

    name, _, value = mark.partition("=")
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BLOCKING_CLIENT if form == "blocking" else ASYNC_CLIENT, json.dumps(servers)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, name: value},
    )
    assert client.stdin is not None
    assert client.stdout is not None
    if is_connected:
        async with asyncio.timeout(BOUND):
            await client.stdout.readline()
    await asyncio.sleep(moment)
    if how == "close":
        client.stdin.close()
    else:
        with suppress(ProcessLookupError):
            client.send_signal(signal.Signals[how])
    left = await leftovers_of(mark, client.pid)
    run.check(not left, what, f"no process of it after {BOUND:g} s", ", ".join(map(str, left)))
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    await client.wait()
    run.counts[f"clients ended by {how}"] += 1


async def leftovers_of(mark: str, client: int) -> list[Process | str]:
    """Wait until no process has the mark and the client has no watchdog; return those that remain after the bound."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BOUND
    while True:
        left = [*marked(mark), *watchdogs_of(client)]
        # A zombie has no environment any more; the client itself is reaped later.
        if not left or loop.time() > deadline:
            return left
        await asyncio.sleep(0.05)


def watchdogs_of(client: int) -> list[Process]:
    """Return the helper processes that end the servers of the client."""
    title = f"# twopipes: ends what process {client} has started".encode()
    found = []
    for path in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if title in (path / "cmdline").read_bytes():
                found.append(Process(int(path.name), 0, 0, "the watchdog"))
    return found


async def attack(run: Attack) -> None:
    """End some clients at a time, until the time is up."""
    with tempfile.TemporaryDirectory(prefix="twopipes-") as folder:
        for _ in run.rounds():
            await asyncio.gather(*(one_client(run, Path(folder)) for _ in range(AT_ONCE)))


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
