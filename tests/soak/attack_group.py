"""Kill servers of a group, close it and cancel its opening at random moments. Every call ends, and only the victim is affected.

Each group has servers of both eras, which count their calls in a ledger. In each round:

* Every call ends: with its own result or with an error. Calls of servers that were not killed end with their results.
* A killed server is used again by a later call.
* No call that is not read-only is run twice.
* When the group is closed, no process and no task is left, at whatever moment it was closed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from attacking import Attack, main
from measuring import marked

from twopipes import RestartPolicy, TwopipesError
from twopipes.host import Allow, ServerConfig, ServerGroup

HERE = Path(__file__).parent
# Seconds that a call, an opening or an end may take on a busy machine.
BOUND = 60.0
ERAS = ("legacy", "modern", "both")
SERVERS = ("one", "two", "three")
TOOLS = ("look", "work", "ask")
# How a round ends: after all calls, in the middle of them, or in the middle of the opening.
ENDS = ("calm", "calm", "calm", "closed", "removed", "cancelled")
# Restarts are not what is attacked here, so a server may crash as often as it is killed.
POLICY = RestartPolicy(first_delay=0.0, max_delay=0.0, max_restarts=None)


class Round:
    """One group."""

    def __init__(self, run: Attack, folder: Path) -> None:
        self.run = run
        self.random = run.random
        self.end = run.random.choice(ENDS)
        self.eras = {name: run.random.choice(ERAS) for name in SERVERS}
        self.lazy = run.random.random() < 0.3
        self.victim = run.random.choice(SERVERS)
        self.mark = f"TWOPIPES_ATTACK={uuid4().hex}"
        self.ledgers = {name: folder / name for name in SERVERS}
        name, _, value = self.mark.partition("=")
        configs = {
            server: ServerConfig(
                command=[sys.executable, str(HERE / "counting_server.py"), era],
                env={name: value, "GATEWAY_LEDGER": str(self.ledgers[server])},
            )
            for server, era in self.eras.items()
        }
        self.group = ServerGroup(configs, lazy=self.lazy, restart=POLICY, on_elicit=self._answer, approve=self._approve)

    def __str__(self) -> str:
        return f"{self.eras}{', lazy' if self.lazy else ''}, {self.victim} killed, {self.end}"

    @staticmethod
    def _answer(server: str, question: object) -> dict[str, str]:
        return {"word": question.message}

    async def _approve(self, server: str, tool: object, arguments: object) -> Allow:
        await asyncio.sleep(self.random.choice((0, 0, 0.01)))
        return Allow()

    def check(self, holds: bool, expected: str, found: object) -> None:  # noqa: FBT001 - it is the condition itself
        """Record a violation unless the condition holds."""
        self.run.check(holds, str(self), expected, found)

    async def play(self) -> None:
        """Open the group, make calls, kill, close, and check."""
        try:
            async with asyncio.timeout(BOUND):
                if self.end == "cancelled":
                    await self._cancel_the_opening()
                else:
                    await self._use()
        except TimeoutError:
            self.check(False, f"the end of the round within {BOUND:g} s", repr(self.group))
        finally:
            await self.group.close()
            self._check_the_end()
        self.run.counts[f"rounds: {self.end}"] += 1

    async def _cancel_the_opening(self) -> None:
        opening = asyncio.create_task(self.group.open())
        await asyncio.sleep(self.random.uniform(0, 1.0))
        opening.cancel()
        await asyncio.wait([opening])

    async def _use(self) -> None:
        await self.group.open()
        calls = [asyncio.create_task(self._call(server, tool)) for server in SERVERS for tool in (*TOOLS, *TOOLS)]
        killing = asyncio.create_task(self._kill())
        if self.end != "calm":
            await asyncio.sleep(self.random.uniform(0, 0.3))
            await (self.group.close() if self.end == "closed" else self.group.remove(self.victim))
        await asyncio.gather(*calls, killing)
        if self.end == "calm":
            await self._check_the_victim()

    async def _call(self, server: str, tool: str) -> None:
        word = uuid4().hex
        await asyncio.sleep(self.random.uniform(0, 0.3))
        try:
            result = await self.group.call(f"{server}__{tool}", {"word": word, "seconds": self.random.choice((0.0, 0.05))})
        except TwopipesError as error:
            self.run.counts[f"calls: {type(error).__name__}"] += 1
            self.check(server == self.victim or self.end == "closed", f"a result of {server}__{tool}", repr(error))
        else:
            self.run.counts["calls: result"] += 1
            self.check(result.text == word, f"the result of {server}__{tool}", result.text)

    async def _kill(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            await asyncio.sleep(self.random.uniform(0, 0.2))
            if (pid := self._newest(self.victim)) is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.run.counts["kills"] += 1

    def _newest(self, server: str) -> int | None:
        found = self.group.servers.get(server)
        return None if found is None or found.client is None or found.client.closed else found.client.pid

    async def _check_the_victim(self) -> None:
        """A call after the kills succeeds, unless it was sent before the death could be noticed; then the next one."""
        for _ in range(2):
            with suppress(TwopipesError):
                result = await self.group.call(f"{self.victim}__work", {"word": "again", "seconds": 0})
                self.check(result.text == "again", "a result after the kill", result.text)
                break
        else:
            self.check(False, "a result after the kill", self.group.problems)
        states = {name: server.state for name, server in self.group.servers.items()}
        self.check(set(states.values()) <= {"ready"}, "servers that are ready", states)

    def _check_the_end(self) -> None:
        left = list(marked(self.mark))
        self.check(not left, "no process", [*map(str, left)])
        lines = [line for path in self.ledgers.values() if path.exists() for line in path.read_text().splitlines()]
        effects = Counter(line for line in lines if line.startswith("effect ") and line != "effect again")
        self.check(max(effects.values(), default=0) <= 1, "one run of each unsafe call", effects.most_common(3))


async def attack(run: Attack) -> None:
    """Play one round after the other, until the time is up."""
    for _ in run.rounds():
        with tempfile.TemporaryDirectory(prefix="twopipes-") as folder:
            await Round(run, Path(folder)).play()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, others = await asyncio.wait(others, timeout=BOUND)
        run.check(not others, "after a round", "no task", others)


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
