"""Attack the promise that every request ends exactly once, whatever its handler does, and that nothing else is on the wire.

Random mixes of tools that raise any exception, fork in every way, take long or block, in one real server, with calls that are
cancelled while they wait or run, some with large arguments. The server has few places and few threads, so that most calls wait.
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
from typing import Any

from attacking import Attack, main

# Seconds. A limit for a server that hangs, not an assertion.
NET = 60.0
# Bytes of a large argument, number of such calls in a round, and the KiB that they may cost altogether: a fraction of them.
LARGE, MANY, GROWTH = 100_000, 400, 20_000

SERVER = """
import asyncio, multiprocessing, os, signal, subprocess, sys, time
from twopipes import Context, Server, ServerSettings

server = Server("attacked", settings=ServerSettings(max_running=8, max_threads=4))
forks = multiprocessing.get_context("fork")


class Uncommon(BaseException):
    pass


ERRORS = [ValueError, SystemExit, GeneratorExit, Uncommon, asyncio.CancelledError, StopIteration, StopAsyncIteration,
          MemoryError, RecursionError, lambda text: BaseExceptionGroup(text, [Uncommon(text)])]
ACTS = [lambda: None, lambda: sys.exit(3), lambda: os._exit(4), lambda: os.write(1, b"noise"), lambda: print("noise"),
        lambda: 1 / 0, lambda: asyncio.run(asyncio.sleep(0)), lambda: os.kill(os.getpid(), signal.SIGTERM),
        lambda: subprocess.run([sys.executable, "-S", "-c", "print(1)"])]


def fork_and(act: int) -> str:
    pid = os.fork()
    if pid == 0:
        ACTS[act]()
        return "in the child"
    os.waitpid(pid, 0)
    return "forked"


@server.tool
async def instant(error: int, text: str) -> str:
    if error < len(ERRORS):
        raise ERRORS[error]("odd")
    return "done"


@server.tool
async def waiting(error: int, text: str, ctx: Context) -> str:
    await ctx.progress(1, 2)
    await asyncio.sleep(0.001)
    await ctx.progress(2, 2)
    if error < len(ERRORS):
        raise ERRORS[error]("odd")
    return "done"


@server.tool
def threaded(error: int, text: str, ctx: Context) -> str:
    ctx.progress(1, 2)
    time.sleep(0.001)
    if error < len(ERRORS):
        raise ERRORS[error]("odd")
    return "done"


@server.tool
async def fork(act: int, text: str) -> str:
    return fork_and(act)


@server.tool
async def fork_later(act: int, text: str) -> str:
    await asyncio.sleep(0)
    return fork_and(act)


@server.tool
def fork_in_a_thread(act: int, text: str) -> str:
    return fork_and(act)


@server.tool
async def fork_and_await(text: str) -> str:
    pid = os.fork()
    if pid == 0:
        await asyncio.sleep(0)
        return "in the child"
    os.waitpid(pid, 0)
    return "forked"


@server.tool
def multiprocess(text: str) -> str:
    process = forks.Process(target=len, args=("x",))
    process.start()
    process.join()
    return "forked"


@server.tool
async def stay(seconds: float, text: str) -> str:
    await asyncio.sleep(seconds)
    return "done"


@server.tool
def block(seconds: float, text: str, ctx: Context) -> str:
    ctx.cancelled.wait(seconds)
    return "done"


server.run()
"""
# The number of errors and acts of the server. An index after the last error means success.
ERRORS, ACTS = 10, 9


class Host:
    """One server, the requests to it, and its responses."""

    def __init__(self, attack: Attack, process: asyncio.subprocess.Process) -> None:
        self.attack = attack
        self.process = process
        self.open: dict[int, str] = {}
        self.cancelled: set[int] = set()
        self.answered: dict[int, Any] = {}
        self._ids = 0
        self._news = asyncio.Condition()
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            try:
                self._take(json.loads(line))
            except ValueError:
                self.attack.check(not line, "on the wire", "messages alone", line)
            async with self._news:
                self._news.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        check = self.attack.check
        if message.get("method") == "notifications/progress":
            token = message["params"]["progressToken"]
            check(token not in self.answered, f"progress of call {token}", "none after the response", message)
            return
        number = message.get("id")
        check(number in self.open, f"a response to {number}", "one to a request that was sent", message)
        if number in self.open:
            check(number not in self.answered, f"call {number} of {self.open[number]}", "one response", "another one")
            self.answered[number] = message

    def send(self, method: str, **params: Any) -> int:
        assert self.process.stdin is not None
        self._ids += 1
        self.open[self._ids] = f"{method} {params.get('name', '')} {str(params.get('arguments', ''))[:40]}"
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        return self._ids

    def note(self, method: str, **params: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def cancel(self, number: int) -> None:
        self.cancelled.add(number)
        self.note("notifications/cancelled", requestId=number)

    async def sent(self) -> bool:
        """Wait until the server has room for more; return False if it does not read."""
        assert self.process.stdin is not None
        try:
            async with asyncio.timeout(NET):
                await self.process.stdin.drain()
        except (TimeoutError, ConnectionError) as error:
            self.attack.check(error is None, "the input of the server", "that it is read", repr(error))
            return False
        return True

    async def until_answered(self, what: str, *numbers: int) -> bool:
        """Wait until these calls have a response, or else all of them that were not cancelled."""

        def missing() -> set[int]:
            return (set(numbers) or self.open.keys() - self.cancelled) - self.answered.keys()

        with suppress(TimeoutError):
            async with asyncio.timeout(NET), self._news:
                await self._news.wait_for(lambda: not missing() or self.reading.done())
        left = [self.open[number] for number in missing()]
        self.attack.check(not left, what, "a response to every call", f"none to {left[:5]} ({len(left)} in all)")
        return not left

    async def ping(self) -> bool:
        """Wait until the server has read everything: a ping needs no place."""
        return await self.until_answered("a ping", self.send("ping"))

    def memory(self) -> int:
        """Return how many bytes the server has in memory; 0 if it is gone."""
        with suppress(OSError):
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 0


async def one_round(attack: Attack, host: Host) -> bool:
    """Send a mix of calls at random times, cancel some of them, and wait for the rest."""
    chance = attack.random
    for _ in range(chance.randrange(40, 80)):
        text = "x" * (LARGE if chance.random() < 0.2 else 10)
        kind = chance.choice(["error", "error", "error", "fork", "fork", "stay", "cancel"])
        if kind == "error":
            name, arguments = chance.choice(["instant", "waiting", "threaded"]), {"error": chance.randrange(ERRORS + 3)}
        elif kind == "fork":
            name, arguments = chance.choice(["fork", "fork_later", "fork_in_a_thread"]), {"act": chance.randrange(ACTS)}
            if chance.random() < 0.2:
                name, arguments = chance.choice(["fork_and_await", "multiprocess"]), {}
        else:
            name, arguments = chance.choice(["stay", "block"]), {"seconds": chance.random() * 0.02}
        attack.counts[f"calls of {name}"] += 1
        meta = {"_meta": {"progressToken": host._ids + 1}} if chance.random() < 0.5 else {}
        number = host.send("tools/call", name=name, arguments={**arguments, "text": text}, **meta)
        if kind == "cancel" or chance.random() < 0.2:
            if chance.random() < 0.7:
                await asyncio.sleep(chance.random() * 0.005)
            attack.counts["cancellations"] += 1
            host.cancel(number)
        if chance.random() < 0.3:
            await asyncio.sleep(chance.random() * 0.005)
        if not await host.sent():
            return False
    if not await host.until_answered("a round"):
        return False
    # All places and threads are taken; now calls with large arguments arrive and are cancelled.
    busy = [host.send("tools/call", name=name, arguments={"seconds": NET, "text": ""}) for name in ["block"] * 4 + ["stay"] * 8]
    before = host.memory()
    for _ in range(MANY):
        number = host.send("tools/call", name=chance.choice(["stay", "block"]), arguments={"seconds": NET, "text": "y" * LARGE})
        if chance.random() < 0.5 and not await host.ping():
            return False
        host.cancel(number)
        attack.counts["large calls that were cancelled"] += 1
        if not await host.sent():
            return False
    if not await host.ping():
        return False
    grown = (host.memory() - before) // 1024
    attack.check(
        grown < GROWTH, f"memory after {MANY} cancelled calls of {LARGE} bytes", f"at most {GROWTH} KiB more", f"{grown} KiB"
    )
    for number in busy:
        host.cancel(number)
    return await host.until_answered("the end of a round")


async def attack(attack: Attack) -> None:
    """Run rounds against one server, and look at how it ends."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "server.py"
        program.write_text(SERVER)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(program),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**environment, "XDG_STATE_HOME": folder},
            limit=16 * 1024 * 1024,
            process_group=0,
        )
        host = Host(attack, process)
        try:
            client = {"name": "attacker", "version": "1"}
            host.send("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
            await host.until_answered("the handshake")
            host.note("notifications/initialized")
            for _ in attack.rounds():
                if not await one_round(attack, host):
                    break
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.wait([host.reading], timeout=NET)
            attack.check(host.reading.done(), "the wire of a server whose input has ended", "its end", "that it is still open")
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), NET)
            attack.check(process.returncode == 0, "the end of the server", "exit code 0", process.returncode)
        finally:
            host.reading.cancel()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the server, and processes that its tools started
            await process.wait()


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
