"""Many servers at once, killed, cancelled and closed at random: every call gets its own result or a named error, and nothing grows.

``make soak`` runs it for five minutes, ``tests/processes/test_soak.py`` a small one with every ``make test``. It exits with 1,
and prints what was expected, if any of these does not hold:

* A call ends with its own result, as cancelled if it was cancelled, or with an error that the soak caused.
* An unsafe call is not done twice.
* With all clients idle, descriptors, threads, tasks and processes are those of the warm-up; memory is close to it.
* With all clients closed, no resource of them remains.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
import tempfile
import time
import uuid
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from measuring import MIB, Process, Snapshot, marked, our_children, resident

from twopipes import (
    Client,
    RequestTimedOut,
    RestartPolicy,
    ServerCommand,
    ServerExited,
    ShutdownPlan,
    Timeouts,
    TwopipesError,
    connect,
)
from twopipes.errors import ClientClosed
from twopipes.types import ClientOptions, Elicitation, EraCache

SERVER = Path(__file__).with_name("soak_server.py")
# Seconds. A limit for a hang, not an assertion, also on a busy machine.
NET = 60.0
PATIENT = Timeouts(connect=NET, probe=NET, request=NET, total=NET)
# Seconds. For calls that are meant to time out; their tool takes NET.
SOON = 0.03
HURRIED = Timeouts(request=SOON, total=NET)
# The exit code of a tool that was asked to crash, and of nothing else.
CRASH_CODE = 66
CALLERS = 4  # of each server at once
ATTEMPTS = 20  # for actions that a kill may interrupt each time
STARTING_AT_ONCE = 4  # interpreters; the start of one keeps a core busy
FILLER = "0123456789abcdef" * (256 * 1024 // 16)
TOOLS = ["echo", "slow", "silent", "unsafe", "big", "ask", "spawn", "crash"]
READ_ONLY = {"echo", "slow", "silent", "big", "list"}
# How often each tool is called, of 1000 calls.
MIX = {"echo": 610, "slow": 120, "unsafe": 120, "ask": 80, "big": 30, "list": 20, "silent": 15, "spawn": 3, "crash": 2}
# Other actions, of 1000 calls: cancel the call, kill its server, kill any server, close its client and open it again.
FATES = {"none": 955, "cancel": 40, "kill": 3, "kill anyone": 1, "reopen": 1}
# Memory at the end may be this factor of the warm-up, plus these bytes: not every client had called every tool by then.
GROWTH, SLACK = 1.25, 10 * MIB


class Slot:
    """One of the servers: its current client, and how it is opened again.

    Args:
        soak: The whole run.
        number: Decides the era and the kind of restart: half are modern, one in ten is reopened only by the soak.
    """

    def __init__(self, soak: Soak, number: int) -> None:
        self.soak = soak
        self.number = number
        self.client: Client | None = None
        self.opened = asyncio.Event()
        self._changing = asyncio.Lock()
        self.era = "modern" if number % 2 == 0 else "legacy"
        self.supervised = number % 10 != 1
        when = "modern" if self.era == "modern" or not self.supervised else "always"
        self._policy = RestartPolicy(when=when, first_delay=0.01, max_delay=0.2, max_restarts=None)

    async def _connect(self) -> Client:
        client = await connect(
            ServerCommand([sys.executable, str(SERVER), str(self.number)], env=self.soak.environment),
            era="legacy" if self.era == "legacy" else "auto",
            on_elicit=_repeat_the_word,
            timeouts=PATIENT,
            restart=self._policy,
            shutdown=ShutdownPlan.default(0.3),
            options=ClientOptions(era_cache=self.soak.era_cache),
        )
        try:
            await client.list_tools()  # read-only calls are sent again
        except BaseException:
            await client.close()
            raise
        return client

    async def open(self) -> None:
        """Open the client. The server may be killed meanwhile, like any other; then try again."""
        soak, what = self.soak, f"opening server {self.number}"
        for _ in range(ATTEMPTS):
            async with soak.starting:
                try:
                    self.client = await self._connect()
                except ServerExited as error:
                    soak.outcomes["opening", "ServerExited"] += 1
                    soak.check(_was_killed(error), what, "a death that we caused", f"{error!r}: {error}")
                    continue
            soak.outcomes["opening", "ok"] += 1
            self.opened.set()
            return
        soak.violation(what, f"success in one of {ATTEMPTS} attempts", "none")

    async def open_and_give_up(self) -> None:
        """Open another client, and cancel that at some moment; leftover resources are found at the end."""
        async with self.soak.starting:
            opening = asyncio.ensure_future(self._connect())
            await asyncio.wait([opening], timeout=self.soak.random.random() * 10 * SOON)
            opening.cancel()
            with suppress(asyncio.CancelledError, ServerExited):
                await (await opening).close()
            self.soak.outcomes["opening", "cancelled"] += 1

    async def current(self) -> Client:
        """Return the client, once it is open."""
        while self.client is None:
            await self.opened.wait()
        return self.client

    async def close(self) -> None:
        """Close the client; its callers get an error."""
        client, self.client = self.client, None
        self.opened.clear()
        if client is not None:
            await client.close()
            self.soak.restarts += client.restarts
            report = client.closed
            self.soak.check(
                report is not None and not report.left_behind, f"closing server {self.number}", "no process left", repr(report)
            )

    async def reopen(self, client: Client) -> None:
        """Close this client and open another one, if it is still the current one."""
        async with self._changing:
            if self.client is client:
                self.soak.reopened += 1
                await self.close()
                await self.open_and_give_up()
                await self.open()

    async def settle(self) -> None:
        """Wait until the server runs and responds."""
        for _ in range(ATTEMPTS):
            client = await self.current()
            try:
                await client.call_tool("echo", {"word": "settled"})
            except ServerExited:
                await self.reopen(client)
            else:
                self.soak.check(client.era == self.era, f"the era of server {self.number}", self.era, client.era)
                return
        self.soak.violation(f"settling server {self.number}", f"a response to one of {ATTEMPTS} calls", "none")


class Soak:
    """All servers, all calls, and their outcomes."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments = arguments
        self.seed = arguments.seed
        self.ledger = folder / "ledger"
        self.mark = f"TWOPIPES_SOAK={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        self.environment = {name: value, "SOAK_LEDGER": str(self.ledger)}
        self.era_cache = EraCache()
        self.mix = {**MIX, "crash": MIX["crash"] * arguments.harm}
        self.fates = {fate: FATES[fate] * (arguments.harm if fate not in {"none", "cancel"} else 1) for fate in FATES}
        self.random = Random(f"{self.seed} kills")
        self.starting = asyncio.Semaphore(STARTING_AT_ONCE)
        self.slots = [Slot(self, number) for number in range(arguments.servers)]
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.violations: list[str] = []
        self.done_once: set[str] = set()  # words of the unsafe calls that returned a result
        self.calls = self.kills = self.reopened = self.restarts = 0
        self.longest = (0.0, "none")
        self.jobs: set[asyncio.Task[Any]] = set()
        self.began = time.monotonic()
        # Closing needs time too.
        self.deadline = self.began + 0.9 * arguments.seconds

    def violation(self, what: str, expected: str, found: str) -> None:
        """Record a violation."""
        self.violations.append(f"{what}: expected {expected}, found {found}")
        if len(self.violations) <= 20:
            print(f"VIOLATION {self.violations[-1]}", flush=True)

    def check(self, holds: bool, what: str, expected: str, found: object) -> None:  # noqa: FBT001 - it reads like assert
        """Record a violation unless the condition holds."""
        if not holds:
            self.violation(what, expected, str(found))

    # Calls

    async def make_calls(self, up_to: int) -> None:
        """Make calls until this many calls were made in all, or time is up."""
        callers = [
            self.keep_calling(slot, up_to, Random(f"{self.seed} {slot.number} {caller} {up_to}"))
            for slot in self.slots
            for caller in range(CALLERS)
        ]
        await asyncio.gather(*callers)
        while self.jobs:
            await self.bounded(asyncio.gather(*self.jobs), "the jobs beside the calls")

    async def keep_calling(self, slot: Slot, up_to: int, dice: Random) -> None:
        """Be one caller of one server."""
        while self.calls < up_to and time.monotonic() < self.deadline:
            self.calls += 1
            word = f"word-{slot.number}-{self.calls}"
            client = await slot.current()
            tool = dice.choices(list(self.mix), self.mix.values())[0]
            call = asyncio.create_task(self.call(client, tool, word, dice), name=f"{tool} {word}")
            fate = dice.choices(list(self.fates), self.fates.values())[0]
            match fate:
                case "cancel":
                    asyncio.get_running_loop().call_later(dice.random() * 2 * SOON, call.cancel)
                case "kill":
                    self.kill(client.pid)
                case "kill anyone":
                    self.kill(self.random.choice([process.pid for process in our_children()] or [None]))
                case "reopen":
                    self.start_job(slot.reopen(client))
            began = time.monotonic()
            if not await self.bounded(call, f"call of {tool} with {word}"):
                return
            self.longest = max(self.longest, (time.monotonic() - began, f"{tool} {word} of {client!r}"))
            outcome = self.judge(call, tool, word, slot, client, cancelled=fate == "cancel")
            self.outcomes[tool, outcome] += 1
            if outcome == "ServerExited" and not slot.supervised:
                self.start_job(slot.reopen(client))

    async def call(self, client: Client, tool: str, word: str, dice: Random) -> bool:
        """Make one call, and return whether the result is its own."""
        if tool == "list":
            return [tool.name for tool in await client.list_tools(fresh=True)] == TOOLS
        arguments: dict[str, Any] = {"word": word}
        heard = []
        options: dict[str, Any] = {}
        expected = word
        match tool:
            case "slow":
                arguments |= {"seconds": dice.random() * SOON, "steps": dice.randint(1, 5)}
                options["on_progress"] = heard.append
            case "silent":
                arguments["seconds"] = NET
                options["timeouts"] = HURRIED
            case "big":
                arguments["filler"] = FILLER
                expected += FILLER
            case "crash":
                arguments["exit_code"] = dice.choice([CRASH_CODE, 0])
            case "ask":
                expected = f"{word} {word}"
        result = await client.call_tool(tool, arguments, **options)
        if tool == "unsafe":
            self.done_once.add(word)
        return not result.is_error and result.text == expected and all(report.message == word for report in heard)

    def judge(self, call: asyncio.Task[bool], tool: str, word: str, slot: Slot, client: Client, *, cancelled: bool) -> str:
        """Return how a call ended, in a word; record a violation if the soak did not cause it."""
        what = f"call of {tool} with {word} ({client!r})"
        if call.cancelled():
            self.check(cancelled, what, "a result or an error", "a cancellation that was not requested")
            return "cancelled"
        error = call.exception()
        match error:
            case None:
                self.check(tool not in {"crash", "silent"}, what, "no result: its tool returns none", "one")
                self.check(call.result(), what, "its own result", "another one")
                return "ok"
            case ServerExited():
                self.check(_was_killed(error), what, f"SIGKILL or exit code {CRASH_CODE}", f"{error!r}: {error}")
                # A read-only call is sent again a limited number of times, and only if the client restarts the server.
                self.check(error.retryable or not (slot.supervised and tool in READ_ONLY), what, "to be sent again", f"{error}")
            case ClientClosed():
                self.check(client not in {slot.client for slot in self.slots}, what, "a result: the client is open", repr(error))
            case RequestTimedOut():
                self.check(tool == "silent", what, f"a result within {NET:g} s", repr(error))
            case _:
                kind = "another named error" if isinstance(error, TwopipesError) else "an error that is not ours"
                self.violation(what, "its result, or an error that the soak caused", f"{kind}: {error!r}: {error}")
        return type(error).__name__

    def kill(self, pid: int | None) -> None:
        """Kill a server if it is one of ours: its process id may have been reused."""
        if pid in {process.pid for process in our_children() if process.state != "Z"}:
            self.kills += 1
            os.kill(pid, signal.SIGKILL)

    def start_job(self, job: Any) -> None:
        """Run a job beside the calls."""
        task = asyncio.create_task(job)
        self.jobs.add(task)
        task.add_done_callback(self.jobs.discard)

    async def bounded(self, task: asyncio.Future[Any], what: str) -> bool:
        """Wait for a task that has to end; if it does not, continue without it."""
        _, pending = await asyncio.wait([task], timeout=2 * NET)
        if pending:
            self.violation(what, f"an end within {2 * NET:g} s", f"{task!r} still pending")
        return not pending

    # Measurements

    async def snapshot(self) -> Snapshot:
        """Measure when all servers run and no call is open."""
        await asyncio.gather(*(slot.settle() for slot in self.slots))
        leaders = {slot.client.pid for slot in self.slots if slot.client is not None}
        found = [process for process in marked(self.mark) if process.group not in leaders]
        self.check(not found, "processes beside the servers", "none", _listed(found))
        zombies = [process for process in our_children() if process.state == "Z"]
        self.check(not zombies, "zombie children", "none", _listed(zombies))
        await _give_turns()
        return Snapshot.take()

    def compare(self, name: str, before: Snapshot, now: Snapshot, warm: int) -> None:
        """Record the values that have grown."""
        counted, expected = Counter(now.descriptors), Counter(before.descriptors)
        self.check(counted == expected, f"descriptors {name}", f"{dict(expected)}", dict(counted))
        self.check(now.threads <= before.threads, f"threads {name}", f"at most {before.threads}", now.threads)
        self.check(now.tasks == before.tasks, f"tasks {name}", f"{before.tasks}", f"{now.tasks}: {asyncio.all_tasks()}")
        most = GROWTH * warm + SLACK
        self.check(now.resident <= most, f"memory {name}", f"at most {most / MIB:.1f} MiB", f"{now.resident / MIB:.1f} MiB")

    def check_ledger(self) -> None:
        """Check that no unsafe call was done twice, and that each one with a result was done."""
        done = Counter(self.ledger.read_text().split())
        twice = [word for word, times in done.items() if times > 1]
        self.check(not twice, "unsafe calls", "to be done once", f"twice: {twice}")
        lost = self.done_once - done.keys()
        self.check(not lost, "unsafe calls that returned a result", "to be done", f"not done: {lost}")

    # The run

    async def run(self) -> None:
        """Run everything, from the first start to the last end."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.violation("the event loop", "nothing to report", str(context)))
        await _give_turns()
        empty = Snapshot.take()
        progress_task = asyncio.create_task(self.print_progress())
        await asyncio.gather(*(slot.open() for slot in self.slots))
        await self.make_calls(self.arguments.calls // 10)
        warm = await self.snapshot()
        print(f"warm-up: {warm}", flush=True)
        await self.make_calls(self.arguments.calls)
        calling = time.monotonic() - self.began
        late = await self.snapshot()
        print(f"the last call: {late}", flush=True)
        self.compare("after the last call", warm, late, warm.resident)
        progress_task.cancel()
        await asyncio.gather(*(slot.close() for slot in self.slots))
        await _give_turns()
        end = Snapshot.take()
        print(f"all closed: {end}", flush=True)
        self.compare("after the end", empty, end, warm.resident)
        self.check(not marked(self.mark), "processes after the end", "none", _listed(marked(self.mark)))
        self.check(not our_children(), "children after the end", "none", _listed(our_children()))
        self.check_ledger()
        # A quiet machine with two cores has time for all calls. A busy machine may make half of them without a failure.
        wanted = self.arguments.calls
        self.check(self.calls >= wanted // 2, "calls", f"{wanted}, or half of them on a busy machine", self.calls)
        if self.calls < wanted:
            print(f"NOT ALL CALLS WERE MADE: {self.calls} of {wanted}, and then time was up. Is this machine busy?")
        self.report(calling)

    async def print_progress(self) -> None:
        """Print the progress at intervals."""
        while True:
            await asyncio.sleep(10)
            print(self.progress(), flush=True)

    def progress(self) -> str:
        """Return the progress as a line of text."""
        return (
            f"{time.monotonic() - self.began:5.0f} s  {self.calls} calls, {self.kills} kills, {self.reopened} reopened, "
            f"{resident() / MIB:.1f} MiB, {len(self.violations)} violations"
        )

    def report(self, seconds: float) -> None:
        """Print the result."""
        print(f"{self.calls} calls in {seconds:.1f} s with {len(self.slots)} servers (seed {self.seed})")
        print(f"{self.kills} kills, {self.restarts} restarts, {self.reopened} clients closed and opened again")
        print(f"the longest call: {self.longest[0]:.1f} s, {self.longest[1]}")
        for tool in [*MIX, "opening"]:
            outcomes = {outcome: count for (name, outcome), count in sorted(self.outcomes.items()) if name == tool}
            print(f"  {tool:8}", ", ".join(f"{outcome} {count}" for outcome, count in outcomes.items()) or "-")


def _repeat_the_word(question: Elicitation) -> dict[str, str]:
    return {"word": question.message}


def _was_killed(error: ServerExited) -> bool:
    return error.signal == "SIGKILL" or error.exit_code == CRASH_CODE


def _listed(found: list[Process]) -> str:
    return ", ".join(map(str, found))


async def _give_turns() -> None:
    """Let cancelled tasks finish."""
    for _ in range(10):
        await asyncio.sleep(0)


def main() -> int:
    """Run the soak, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--servers", type=int, default=50)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=300.0, help="for everything; the calls get nine tenths of it")
    parser.add_argument("--harm", type=int, default=1, help="how many times as many kills, crashes and closed clients as usual")
    parser.add_argument("--seed", type=int, default=None, help="of the random choices; the timing still differs each time")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = Random().randrange(1_000_000)
    print(f"{arguments.calls} calls of {arguments.servers} servers, seed {arguments.seed}", flush=True)
    warnings.simplefilter("error")
    complaints: list[str] = []
    sys.unraisablehook = lambda what: complaints.append(f"{what.exc_value!r} in {what.object!r}")
    with tempfile.TemporaryDirectory(prefix="twopipes-soak-") as folder:
        soak = asyncio.run(_soak(arguments, Path(folder)))
    gc.collect()
    for complaint in complaints:
        soak.violation("finalizers", "nothing to report", complaint)
    print(f"{len(soak.violations)} violations" if soak.violations else "as expected")
    return 1 if soak.violations else 0


async def _soak(arguments: argparse.Namespace, folder: Path) -> Soak:
    soak = Soak(arguments, folder)
    try:
        async with asyncio.timeout(arguments.seconds + 3 * NET):
            await soak.run()
    except TimeoutError:
        soak.violation("the whole", "to have ended", f"{asyncio.all_tasks()}")
    return soak


if __name__ == "__main__":
    sys.exit(main())
