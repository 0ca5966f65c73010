"""Kill the host, the gateway, the daemon or the server at a random stage of a call. Every call has an outcome, and nothing is left.

Hosts that know nothing of twopipes launch ``bridge``, ``keep``, ``keep --lazy`` or ``keep --share`` in front of a server that
counts its calls, in all four combinations of eras. After each kill:

* Every call of a host that is alive ends: with its own result, with an error, or because its connection was closed.
* A server that was killed is started again for the next call. The connection of its host stays open.
* The calls of a host that shares the server with a killed host end with their results.
* No call that is not read-only is run twice.
* No process is left. The report counts those rounds in which that took longer than two seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from attacking import Attack, main
from measuring import Process, marked, processes

HERE = Path(__file__).parent
# Gateways at the same time.
AT_ONCE = 2
# Seconds that a call, an opening or an end may take on a busy machine, and that an end shall take on a quiet one.
BOUND = 40.0
SOON = 2.0
# Seconds after the start within which a gateway is killed, and after a stage of a call.
AFTER_START = 0.6
AFTER_STAGE = 0.005
TWOPIPES = (sys.executable, "-m", "twopipes")
FORMS = {
    "bridge": (*TWOPIPES, "bridge", "--"),
    "keep": (*TWOPIPES, "keep", "--"),
    "lazy": (*TWOPIPES, "keep", "--lazy", "--"),
    # The daemon ends soon after its last host.
    "share": (*TWOPIPES, "keep", "--share=all", "--idle", "0.1s", "--"),
}
ERAS = ("legacy", "modern")
TOOLS = ("look", "work", "ask")
# A stage is an event of the host, or a line of the server's ledger.
STAGES = ("start", "opened", "begin", "asked", "effect", "done", "outcome")
VICTIMS = ("host", "gateway", "server", "server", "daemon")
CALLS = 3
# Of one server. More would be taken for a server that cannot run.
MOST_KILLS = 3


class Host:
    """A host in a process of its own, and what it has reported."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.gateway: int | None = None
        self.events: list[dict[str, Any]] = []
        self.outcomes: dict[str, dict[str, Any]] = {}
        self.changed = asyncio.Event()
        self.reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, era: str, command: list[str], env: dict[str, str], folder: Path) -> Host:
        """Start a host."""
        with (folder / "stderr").open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(HERE / "raw_host.py"), era, *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env=env,
            )
        return cls(process)

    async def _read(self) -> None:
        async for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(event)
            if event["event"] == "pid":
                self.gateway = event["pid"]
            elif event["event"] == "outcome":
                self.outcomes[event["word"]] = event
            self.changed.set()
        self.changed.set()

    def has(self, *names: str, since: int = 0) -> bool:
        """Return whether one of these events has happened, or the host has exited."""
        return self.reader.done() or any(event["event"] in names for event in self.events[since:])

    async def wait_for(self, *names: str) -> bool:
        """Wait for one of these events; return whether it came within the bound."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BOUND):
                while not self.has(*names):
                    await self.changed.wait()
                    self.changed.clear()
        return self.has(*names)

    async def wait_for_outcomes(self, words: list[str]) -> list[str]:
        """Return the words of the calls without an outcome after the bound."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BOUND):
                while not self.reader.done() and any(word not in self.outcomes for word in words):
                    await self.changed.wait()
                    self.changed.clear()
        return [word for word in words if word not in self.outcomes]

    def call(self, tool: str, seconds: float) -> str:
        """Make a call, and return its word."""
        word = uuid4().hex
        self.process.stdin.write(json.dumps({"tool": tool, "arguments": {"word": word, "seconds": seconds}}).encode() + b"\n")
        return word

    def close(self) -> None:
        """Let the host close its connection and exit."""
        self.process.stdin.close()


class Round:
    """One gateway, its hosts, and one kill."""

    def __init__(self, run: Attack, folder: Path) -> None:
        self.run = run
        self.folder = folder
        random = run.random
        self.form = random.choice(list(FORMS))
        self.front, self.back = random.choice(ERAS), random.choice(ERAS)
        self.victim = random.choice([each for each in VICTIMS if each != "daemon" or self.form == "share"])
        self.stage = random.choice(STAGES)
        self.after = random.uniform(0, AFTER_START if self.stage == "start" else AFTER_STAGE)
        # A server that asks does not say which call it asks for: with several hosts, a legacy server's question is refused.
        can_ask = (self.form, self.back) != ("share", "legacy")
        self.tools = [random.choice(TOOLS if can_ask else TOOLS[:2]) for _ in range(CALLS)]
        self.kills = random.randint(1, MOST_KILLS) if self.victim == "server" else 1
        self.lengths = [random.choice((0.0, 0.02, 0.1)) for _ in range(CALLS)]
        self.number = signal.SIGTERM if self.victim in {"host", "gateway"} and random.random() < 0.2 else signal.SIGKILL
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.mark = f"TWOPIPES_ATTACK={uuid4().hex}"
        self.hosts: list[Host] = []
        self.words: dict[Host, list[str]] = {}
        # What was in the ledger and reported by the hosts before the current calls.
        self._seen_ledger = 0
        self._seen_events: dict[Host, int] = {}

    def __str__(self) -> str:
        when = f"{self.after:.3f} s after {self.stage}"
        return (
            f"{self.form}, {self.front} host, {self.back} server, {self.tools}: {self.victim} killed by {self.number.name} {when}"
        )

    def check(self, holds: bool, expected: str, found: object) -> None:  # noqa: FBT001 - it is the condition itself
        """Record a violation unless the condition holds."""
        self.run.check(holds, str(self), expected, found)

    async def play(self) -> None:
        """Start the hosts, make calls, kill, and check."""
        name, _, value = self.mark.partition("=")
        folders = {each: str(self.folder) for each in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR")}
        env = {**os.environ, **folders, name: value, "GATEWAY_LEDGER": str(self.ledger)}
        command = [*FORMS[self.form], sys.executable, str(HERE / "counting_server.py"), self.back]
        for _ in range(2 if self.form == "share" else 1):
            self.hosts.append(await Host.start(self.front, command, env, self.folder))
        try:
            await self._play()
        finally:
            for host in self.hosts:
                host.close()
            await self._end()

    async def _play(self) -> None:
        for number in range(self.kills):
            if number:
                self.stage = self.run.random.choice(STAGES[2:])
                self._seen_ledger = len(self.ledger.read_text())
                self._seen_events = {host: len(host.events) for host in self.hosts}
            await self._play_once()

    async def _play_once(self) -> None:
        calling = [asyncio.create_task(self._call(host)) for host in self.hosts]
        await self._wait_for_stage(calling)
        await asyncio.sleep(self.after)
        killed = self._kill()
        self.run.counts[f"{self.victim} killed"] += killed
        await asyncio.gather(*calling)
        for host in self.hosts:
            await self._check_outcomes(host, was_killed=killed)
        if killed and self.victim == "server":
            await self._check_restart()

    async def _call(self, host: Host) -> None:
        """Make the calls as soon as the connection is open."""
        is_settled = await host.wait_for("opened", "refused", "closed")
        self.check(is_settled, f"an opening within {BOUND:g} s", host.events)
        words = self.words[host] = []
        if host.has("opened") and not host.reader.done():
            for tool, seconds in zip(self.tools, self.lengths, strict=True):
                words.append(host.call(tool, seconds))

    async def _wait_for_stage(self, calling: list[asyncio.Task[None]]) -> None:
        """Wait until a call has reached the stage, or cannot reach it any more."""
        if self.stage == "start":
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + BOUND
        while loop.time() < end:
            if f"{self.stage} " in self.ledger.read_text()[self._seen_ledger :]:
                return
            if any(host.has(self.stage, "closed", "refused", since=self._seen_events.get(host, 0)) for host in self.hosts):
                return
            if all(task.done() for task in calling) and all(
                word in host.outcomes for host, words in self.words.items() for word in words
            ):
                return
            await asyncio.sleep(0.002)

    def _kill(self) -> bool:
        """Kill the victim; return whether it was running."""
        pid = self._pid()
        if pid is None:
            return False
        try:
            os.kill(pid, self.number)
        except ProcessLookupError:
            return False
        return True

    def _pid(self) -> int | None:
        if self.victim == "host":
            return self.hosts[0].process.pid
        if self.victim == "gateway":
            return self.hosts[0].gateway
        if self.victim == "server":
            pids = [line.split()[1] for line in self.ledger.read_text().splitlines() if line.startswith("pid ")]
            return int(pids[-1]) if pids else None
        return self._daemon()

    def _daemon(self) -> int | None:
        """Return the newest daemon of this round."""
        return max((process.pid for process in self._daemons()), default=None)

    def _daemons(self) -> list[Process]:
        """Return the processes that do not have the environment of a host, but have our folder in their command."""
        found = []
        for process, path in processes():
            with suppress(OSError):
                command = (path / "cmdline").read_bytes()
                if b"twopipes._gateway.daemon" in command and str(self.folder).encode() in command:
                    found.append(process)
        return found

    async def _check_outcomes(self, host: Host, *, was_killed: bool) -> None:
        is_victim = host is self.hosts[0] and self.victim == "host"
        missing = await host.wait_for_outcomes(self.words[host])
        if not (was_killed and is_victim):
            self.check(not missing, "an outcome for every call", f"none for {len(missing)}; {self._stderr()}")
        found = Counter(outcome["outcome"] for word, outcome in host.outcomes.items() if word in self.words[host])
        self.run.counts.update({f"outcomes: {name}": count for name, count in found.items()})
        self.check(not any(event["event"] in {"stray", "stubborn"} for event in host.events), "only expected messages", host.events)
        may_close = was_killed and (self.victim == "daemon" or (host is self.hosts[0] and self.victim in {"host", "gateway"}))
        self.check(may_close or not host.has("closed"), "an open connection", f"{host.events}; {self._stderr()}")
        is_affected = was_killed and (may_close or self.victim == "server")
        self.check(is_affected or set(found) <= {"result"}, "results", f"{host.outcomes}; {self._stderr()}")

    async def _check_restart(self) -> None:
        """A call after the death of the server succeeds, unless it was sent before the gateway could notice; then the next one."""
        for host in self.hosts:
            if host.has("opened") and not host.has("closed"):
                first = await self._outcome_of_work(host)
                if first.get("outcome") == "error" and "exited" in first["text"]:
                    first = await self._outcome_of_work(host)
                self.check(first.get("outcome") == "result", "a result after the restart", f"{first}; {self._stderr()}")

    async def _outcome_of_work(self, host: Host) -> dict[str, Any]:
        word = host.call("work", 0.0)
        await host.wait_for_outcomes([word])
        return host.outcomes.get(word, {})

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (left := [*marked(self.mark), *self._daemons()]) and loop.time() < began + BOUND:
            await asyncio.sleep(0.02)
        took = loop.time() - began
        self.run.counts["rounds that left processes for more than 2 s"] += took > SOON
        if took > SOON:
            print(f"{took:.1f} s until every process had exited: {self}", file=sys.stderr)
        self.check(not left, f"no process after {BOUND:g} s", [*map(str, left), self._stderr()])
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for host in self.hosts:
            await host.process.wait()
            await host.reader
        effects = Counter(line for line in self.ledger.read_text().splitlines() if line.startswith("effect "))
        self.check(max(effects.values(), default=0) <= 1, "one run of each unsafe call", effects.most_common(3))

    def _stderr(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")[-1500:]


async def attack(run: Attack) -> None:
    """Play some rounds at a time, until the time is up."""
    for _ in run.rounds():
        with tempfile.TemporaryDirectory(prefix="twopipes-") as folder:
            paths = [Path(folder) / str(number) for number in range(AT_ONCE)]
            for path in paths:
                path.mkdir(mode=0o700)
            await asyncio.gather(*(Round(run, path).play() for path in paths))
            run.counts["rounds"] += AT_ONCE


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
