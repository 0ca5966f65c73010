"""The check of a client: runs it against one fake server after the other, and judges what it does."""

from __future__ import annotations

import asyncio
import shlex
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from twopipes._channels.base import Channel
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import ExitStatus
from twopipes._process.shutdown import ShutdownPlan
from twopipes._protocol.revisions import ALL, LEGACY, MODERN
from twopipes._rules.table import RULES, over
from twopipes._tools.check.fake_server import Baseline, FakeServer
from twopipes._tools.check.messages import asked_for, spoken_in
from twopipes._tools.check.passive import judged
from twopipes._tools.check.probe import revisions_for
from twopipes._tools.check.relay import RelayedChannel, listen_for_relays
from twopipes._tools.check.scenario import Scenario, ScenarioTimeouts, all_scenarios
from twopipes._tools.check.verdict import CheckResult, Skip, defect
from twopipes._trace.format import Entry
from twopipes.errors import ChannelBroken, ChannelClosed, LocalProtocolError

# Concurrent runs. Each has two processes, a client and a fake server.
_AT_ONCE = 4
# Seconds. A person has to edit a file and start a program before the first message comes.
_A_DAY = 86400.0
PLACEHOLDER = "{server}"


class Driver(ABC):
    """Runs a client against a fake server."""

    description: str  # the client, for messages
    has_processes = True  # whether the client launches its server as a process
    is_http = False  # whether the client connects over HTTP

    @abstractmethod
    async def drive(self, fake: FakeServer) -> None:
        """Run the client once, and report its end to :meth:`FakeServer.end`. It always returns."""


async def serve_relayed(fake: FakeServer, relayed: RelayedChannel) -> None:
    """Serve a relay process that has connected, until it exits."""

    def take(kind: str, data: str) -> None:
        connection = next((each for each in fake.connections if each.channel is relayed), None)
        if connection is not None and kind == "S":
            connection.take_signal(data)
        elif connection is not None and kind == "G":
            connection.grandchild = int(data)

    relayed.on_event = take
    await fake.serve(relayed, relayed)
    # Signals may come until the process exits. The timeout is for a client that exits without ending its server.
    with suppress(TimeoutError):
        async with asyncio.timeout(fake.timeouts.client):
            await relayed.watch()


class CommandDriver(Driver):
    """A client command with ``{server}`` as the placeholder for the command of the server.

    Args:
        words: The words of the command. A word ``{server}`` is replaced by the words of the command of the fake server; inside a
            word, it is replaced by that command quoted for a shell.
        env: Additional environment variables for the client.
    """

    def __init__(self, words: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        if not any(PLACEHOLDER in word for word in words):
            raise LocalProtocolError(f"the command of the client has no {PLACEHOLDER}; put it where the command of the server goes")
        self.words = list(words)
        self.description = shlex.join(words)
        self._env = env
        self._cwd = cwd

    async def drive(self, fake: FakeServer) -> None:
        """Start the client, and end it if it does not exit in time."""
        async with listen_for_relays(partial(serve_relayed, fake)) as command:
            words = filled_in(self.words, [*command, *fake.scenario.relay])
            status = await run_program(fake, ServerCommand(words, env=self._env, environment="inherit", cwd=self._cwd))
            await fake.end(status)


async def run_program(fake: FakeServer, command: ServerCommand) -> ExitStatus | None:
    """Run the program of a client against a fake server, end it if it does not exit in time, and return how it exited by itself."""
    child = await Child.start(command)
    try:
        with suppress(TimeoutError, ChannelBroken, ChannelClosed):
            async with asyncio.timeout(fake.timeouts.client):
                while await child.channel.read():
                    pass  # drain what the client prints
                await child.wait()
                fake.left_at = fake.now()
        return child.exit
    finally:
        await child.shut_down(ShutdownPlan.default(fake.timeouts.step))


class Launcher:
    """A stand-in for a server that ``twopipes.connect`` accepts. It serves each connection with the fake server."""

    def __init__(self, fake: FakeServer) -> None:
        self._fake = fake
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, *, channel: Channel) -> None:
        """Serve a new connection. If this is cancelled, the last lines are still read."""
        task = asyncio.get_running_loop().create_task(self._fake.serve(channel))
        self._serving.add(task)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task], timeout=self._fake.timeouts.step)
            raise

    async def finish(self) -> None:
        """Wait for the end of all connections."""
        if self._serving:
            _, left = await asyncio.wait(self._serving, timeout=self._fake.timeouts.step)
            for task in left:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)


class InProcessDriver(Driver):
    """A client in this process: a function that connects to the server it is given, and uses it."""

    description = "a client in this process"
    has_processes = False

    def __init__(self, tour: Callable[[Launcher], Awaitable[Any]]) -> None:
        self._tour = tour

    async def drive(self, fake: FakeServer) -> None:
        """Run the tour. Its exceptions are ignored."""
        launcher = Launcher(fake)
        with suppress(TimeoutError):
            async with asyncio.timeout(fake.timeouts.client):
                with suppress(Exception):
                    await self._tour(launcher)
                fake.left_at = fake.now()
        await launcher.finish()
        await fake.end()


class PersonDriver(Driver):
    """A host that a person configures: shows the command, and waits until the host has connected and disconnected."""

    description = "a host"

    def __init__(self, show: Callable[[list[str]], object]) -> None:
        self._show = show

    async def drive(self, fake: FakeServer) -> None:
        """Wait for the host, without a timeout. Cancel it to stop."""
        gone = asyncio.Event()

        async def serve(relayed: RelayedChannel) -> None:
            await serve_relayed(fake, relayed)
            fake.left_at = fake.now()
            gone.set()

        async with listen_for_relays(serve) as command:
            self._show([*command, *fake.scenario.relay])
            await gone.wait()
            await fake.end()


def filled_in(words: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the words of the client's command, with ``{server}`` replaced."""
    quoted = shlex.join(command)
    return [each for word in words for each in (command if word == PLACEHOLDER else [word.replace(PLACEHOLDER, quoted)])]


def plain(revision: str) -> Scenario:
    """Return the scenario of a healthy server, which records what the client does with it."""

    async def wait(fake: FakeServer) -> None:
        await fake.client_exited()

    return Scenario(name=f"healthy-{revision}", section="", rules=(), body=wait)


async def run_scenario(driver: Driver, fake: FakeServer) -> None:
    """Run one scenario with one client. The fake server has all verdicts then."""
    scenario = fake.scenario
    if scenario.needs_process and not driver.has_processes:
        fake.skip_the_rest("it needs a client that launches a process")
        return
    if scenario.transport is not None and (scenario.transport == "http") != driver.is_http:
        only = "a client that connects over HTTP" if scenario.transport == "http" else "a stream of lines"
        fake.skip_the_rest(f"it needs {only}")
        return
    playing = asyncio.create_task(scenario.body(fake))
    # Run the scenario up to its first wait before the client starts, so that the client sees its changes.
    await asyncio.sleep(0)
    reason = "the scenario found nothing to judge the rule by"
    try:
        await driver.drive(fake)
        await asyncio.wait([playing], timeout=fake.timeouts.client)
    finally:
        playing.cancel()
        with suppress(asyncio.CancelledError):
            try:
                await playing
            except Skip as skip:
                reason = str(skip)
            except LocalProtocolError:
                raise
            except Exception as error:
                reason = defect(error)
    fake.skip_the_rest(reason)


async def check_client(
    driver: Driver,
    *,
    revisions: Sequence[str] = ALL,
    wanted: Iterable[str] | None = None,
    timeouts: ScenarioTimeouts | None = None,
    on_progress: Callable[[str], object] | None = None,
    on_run: Callable[[FakeServer], object] | None = None,
) -> CheckResult:
    """Check a client: first with a healthy server of each revision, then with each scenario in the revisions that it speaks.

    Args:
        driver: Runs the client.
        revisions: The revisions to try.
        wanted: The ids of the rules to judge; all by default.
        timeouts: The timeouts of a run.
        on_progress: Called with a short text for each step.
        on_run: Called with the fake server after each run.

    Raises:
        StartFailed: The client cannot be started.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    room = asyncio.Semaphore(_AT_ONCE)
    timeouts = timeouts or ScenarioTimeouts()
    ids = over("http" if driver.is_http else "stream", RULES if wanted is None else wanted)
    outcome = CheckResult(peer=driver.description, side="client")
    conversations: list[tuple[Iterable[Entry], str | None]] = []
    baselines: dict[str, Baseline] = {}

    async def run(scenario: Scenario, revision: str) -> FakeServer:
        async with room:
            if on_progress is not None:
                on_progress(f"{scenario.name} in {revision}")
            fake = FakeServer(scenario, revision, timeouts=timeouts, baselines=baselines)
            await run_scenario(driver, fake)
        if on_run is not None:
            on_run(fake)
        if scenario.judged and revision in revisions:
            conversations.extend((each.entries, revision) for each in fake.connections)
        outcome.verdicts += [verdict for verdict in fake.verdicts if verdict.rule.id in ids]
        return fake

    table = [
        (scenario, rules)
        for scenario in all_scenarios()
        if (rules := [RULES[rule] for rule in scenario.rules if rule in RULES and rule in ids])
    ]
    # Scenarios about both eras need a baseline of each, whatever revisions are tried.
    beside = [LEGACY[-1], MODERN[-1]] if any(scenario.eras for scenario, _ in table) else []
    tried = [*revisions, *(each for each in beside if not set(LEGACY if each in LEGACY else MODERN) & set(revisions))]
    for revision, fake in zip(tried, await _gathered([run(plain(each), each) for each in tried]), strict=True):
        if spoken_in(fake.received_lines, revision):
            asked = frozenset(asked_for(each) for each in fake.requests())
            baselines[revision] = Baseline(asked=asked, exit=fake.exit, left=fake.left_at is not None)
            outcome.revisions += [revision] if revision in revisions else []
        elif revision in revisions:
            launched = "use a server that speaks only this revision" if fake.connections else "launch the server"
            outcome.not_spoken[revision] = f"the client did not {launched}"
    await _gathered(
        [
            run(scenario, revision)
            for scenario, rules in table
            for revision in revisions_for(rules, scenario.revisions, outcome.revisions)
        ]
    )
    outcome.verdicts += judged(conversations, side="client", wanted=ids)
    outcome.finish(ids)
    outcome.took = loop.time() - began
    return outcome


async def check_one(
    name: str,
    driver: Driver,
    *,
    revisions: Sequence[str] = ALL,
    wanted: Iterable[str] | None = None,
    timeouts: ScenarioTimeouts | None = None,
    on_run: Callable[[FakeServer], object] | None = None,
) -> CheckResult:
    """Run one scenario by name, in the newest of the given revisions that it is for.

    ``healthy`` is the name of the scenario without any fault.

    Raises:
        LocalProtocolError: The scenario does not exist, or is for other revisions.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    ids = set(RULES) if wanted is None else set(wanted)
    if name == "healthy":
        scenario, revision = plain(revisions[-1]), revisions[-1]
    else:
        found = next((each for each in all_scenarios() if each.name == name), None)
        if found is None:
            raise LocalProtocolError(f"unknown scenario {name!r}; see twopipes check --client --list, or use 'healthy'")
        tried = revisions_for([RULES[rule] for rule in found.rules if rule in RULES], found.revisions, list(revisions))
        if not tried:
            raise LocalProtocolError(f"the scenario {name!r} does not apply to {', '.join(revisions)}")
        scenario, revision = found, tried[-1]
    timeouts = timeouts or ScenarioTimeouts(client=_A_DAY, stimulus=_A_DAY)
    fake = FakeServer(scenario, revision, timeouts=timeouts)
    await run_scenario(driver, fake)
    if on_run is not None:
        on_run(fake)
    outcome = CheckResult(peer=driver.description, side="client")
    outcome.revisions = [revision] if spoken_in(fake.received_lines, revision) else []
    outcome.verdicts = [verdict for verdict in fake.verdicts if verdict.rule.id in ids]
    if scenario.judged:
        outcome.verdicts += judged([(each.entries, revision) for each in fake.connections], side="client", wanted=ids)
    outcome.took = loop.time() - began
    return outcome


async def _gathered(waiting: Sequence[Awaitable[FakeServer]]) -> list[FakeServer]:
    tasks = [asyncio.ensure_future(each) for each in waiting]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
