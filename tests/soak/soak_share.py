"""Many hosts share one server through ``twopipes keep --share``: each gets its own results and questions, and memory is flat.

``make soak`` runs ten hosts for five minutes, and ``tests/processes/test_gateway_soaked.py`` a small run. Half of the hosts are
legacy. One more host sends requests and never reads the responses; the others must not wait for it. It exits with 1 and prints
what was expected if any of these does not hold:

* Every call of every host ends with its own result, and reports only its own progress. A question reaches the host whose call asks.
* There is one server process.
* The memory of the daemon and of the server at the end is close to that of the warm-up.
* With all hosts gone, no process remains.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from measuring import MIB, marked, processes

from twopipes import Client, ServerCommand, Timeouts, connect
from twopipes.types import Elicitation

SERVER = Path(__file__).with_name("soak_server.py")
NET = 60.0  # seconds; a limit for a hang
CALLERS = 4  # of each host at once
TOOLS = ("echo", "echo", "echo", "slow", "ask", "big")
# Memory is measured after each of these parts of the time. The first is the warm-up. At the end it may be this factor of it, plus
# these bytes. In a shorter run than this many seconds the warm-up is too short.
PARTS = 5
LONG_ENOUGH = 60.0
GROWTH, SLACK = 1.1, 4 * MIB
FILLER = "0123456789abcdef" * (64 * 1024 // 16)
# Requests of the host that does not read. Their responses are more than all buffers hold.
UNREAD = 2000


class Soak:
    """One run.

    Args:
        hosts: How many hosts share the server.
        folder: For state, sockets, the ledger and stderr.
        seed: Of every random choice.
    """

    def __init__(self, hosts: int, folder: Path, seed: int) -> None:
        self.hosts = hosts
        self.folder = folder
        self.random = Random(seed)
        self.mark = f"TWOPIPES_SOAK={uuid4().hex}"
        name, _, value = self.mark.partition("=")
        folders = {each: str(folder) for each in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR")}
        self.env = {**os.environ, **folders, name: value, "SOAK_LEDGER": str(folder / "ledger")}
        server = [sys.executable, str(SERVER)]
        self.command = [sys.executable, "-m", "twopipes", "keep", "--share=all", "--idle", "1s", "--", *server]
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []

    def check(self, holds: bool, what: str, found: object) -> None:  # noqa: FBT001 - it is the condition itself
        """Record a violation unless the condition holds."""
        if not holds:
            self.violations.append(f"{what}: {found}")

    async def run(self, seconds: float) -> None:
        """Connect the hosts, load the server, and compare its memory."""
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(await self._host(number)) for number in range(self.hosts)]
            await self._ignorant_host(stack)
            measured = []
            for _ in range(PARTS):
                await self._load(clients, seconds / PARTS)
                measured.append(self._resident())
        for name, size in measured[-1].items():
            sizes = [each.get(name, 0) for each in measured]
            bound = sizes[0] * GROWTH + SLACK
            self.check(
                seconds < LONG_ENOUGH or size <= bound, f"{name}: memory at most {bound / MIB:.1f} MiB", f"{size / MIB:.1f} MiB"
            )
            print(f"{name}: {', '.join(f'{each / MIB:.1f}' for each in sizes)} MiB")
        self.check(
            [name.split()[0] for name in sorted(measured[-1])] == ["daemon", "server"], "one daemon and one server", measured[-1]
        )
        await self._no_process_left()

    async def _host(self, number: int) -> Client:
        return await connect(
            ServerCommand(self.command, env=self.env, environment="inherit"),
            era="legacy" if number % 2 else "modern",
            on_elicit=self._answerer(number),
            timeouts=Timeouts(connect=NET, probe=NET, request=NET, total=NET),
        )

    def _answerer(self, number: int) -> Any:
        async def answer(question: Elicitation) -> dict[str, str]:
            self.check(question.message.startswith(f"{number}:"), f"host {number}: its own question", question.message)
            return {"word": question.message}

        return answer

    async def _ignorant_host(self, stack: AsyncExitStack) -> None:
        """Start a host that sends requests and reads nothing."""
        unread, stdout = os.pipe()
        stack.callback(os.close, unread)
        process = await asyncio.create_subprocess_exec(*self.command, stdin=asyncio.subprocess.PIPE, stdout=stdout, env=self.env)
        os.close(stdout)
        stack.push_async_callback(process.wait)
        stack.callback(suppressed_kill, process)
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
        for number in range(UNREAD):
            params = {"name": "big", "arguments": {"word": "unread", "filler": FILLER[:4096]}, "_meta": meta}
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _load(self, clients: list[Client], seconds: float) -> None:
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                for _ in range(CALLERS):
                    group.create_task(self._caller(number, client, end))

    async def _caller(self, number: int, client: Client, end: float) -> None:
        while time.monotonic() < end and len(self.violations) < 10:
            tool = self.random.choice(TOOLS)
            word = f"{number}:{uuid4().hex}"
            reports: list[str | None] = []
            more: dict[str, Any] = {"slow": {"seconds": 0.02, "steps": 3}, "big": {"filler": FILLER}}.get(tool, {})
            result = await client.call_tool(
                tool, {"word": word, **more}, on_progress=lambda report, into=reports: into.append(report.message)
            )
            expected = {"big": word + FILLER, "ask": f"{word} {word}"}.get(tool, word)
            self.check(result.text == expected, f"host {number}, {tool}: its own result", result.text[:200])
            if tool == "slow":
                self.check(reports == [word] * 3, f"host {number}: three reports of its own progress", reports)
            self.counts[tool] += 1

    def _resident(self) -> dict[str, int]:
        """Return the memory of the daemon and of the servers."""
        found = {}
        for process, path in processes():
            with suppress(OSError):
                command = (path / "cmdline").read_bytes().split(b"\0")
                if b"twopipes._gateway.daemon" in command and str(self.folder).encode() in b" ".join(command):
                    name = "daemon"
                elif str(SERVER).encode() in command and b"twopipes" not in command and process in marked(self.mark):
                    name = f"server {process.pid}"
                else:
                    continue
                found[name] = int((path / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return found

    async def _no_process_left(self) -> None:
        end = time.monotonic() + NET
        while (left := marked(self.mark)) and time.monotonic() < end:
            await asyncio.sleep(0.05)
        self.check(not left, f"no process after {NET:g} s", [*map(str, left)])
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def suppressed_kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process unless it has exited."""
    with suppress(ProcessLookupError):
        process.kill()


def main() -> int:
    """Run, print the report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="twopipes-") as folder:
        soak = Soak(options.hosts, Path(folder), options.seed)
        asyncio.run(soak.run(options.seconds))
    print(f"{options.hosts} hosts: {', '.join(f'{count} {name}' for name, count in sorted(soak.counts.items()))}")
    for violation in soak.violations:
        print(f"VIOLATION {violation}")
    return 1 if soak.violations or not soak.counts else 0


if __name__ == "__main__":
    sys.exit(main())
