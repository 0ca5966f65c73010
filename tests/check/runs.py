"""Run the check on healthy peers and on mutants, each time in a new event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from check.full_tour import tour
from check.healthy import IMPATIENT, PERMISSIONS, WAITS, new_server, served
from check.mutation import Mutant, MutatingChannel
from check.time_scale import TIME_SCALES, scaled, scaled_by, time_scale
from twopipes._channels.base import Channel
from twopipes._protocol.revisions import ALL
from twopipes._rules.table import RULES
from twopipes._tools.check.client_run import InProcessDriver, Launcher, check_client
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.passive import passive_rules
from twopipes._tools.check.probe import all_probes, revisions_for
from twopipes._tools.check.scenario import ScenarioTimeouts, all_scenarios
from twopipes._tools.check.server_run import check_server
from twopipes._tools.check.server_source import ChannelTarget, ServerTarget
from twopipes._tools.check.verdict import DEFECT, CheckResult
from twopipes.settings import Timeouts

# Seconds. Ends tests that hang.
NET = 100
PATIENT = ScenarioTimeouts(client=20, stimulus=10, grace=0.02, step=2, limit=8)
# Seconds. For the healthy client in memory, which needs less time than a process.
BRISK = Timeouts(connect=4, probe=2, request=4, total=5)
HASTY = ScenarioTimeouts(client=3, stimulus=1, grace=0.02, step=0.5, limit=1)


def run(work: Any) -> Any:
    """Run a coroutine in its own event loop, and assert that no task remains."""

    async def bounded() -> Any:
        async with asyncio.timeout(NET * time_scale()):
            found = await work
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            _, left = await asyncio.wait(left, timeout=2)
        assert not left, f"left behind: {left}"
        return found

    return asyncio.run(bounded())


async def of_server(
    target: ServerTarget | None = None,
    *,
    revisions: Sequence[str] = ALL,
    wanted: Iterable[str] | None = None,
    timeouts: ProbeTimeouts | None = None,
) -> CheckResult:
    """Check a server, by default the healthy one in memory."""
    target = target or ChannelTarget(served(new_server()), timeouts=timeouts or scaled(WAITS))
    return sound(await check_server(target, revisions=revisions, wanted=wanted, permissions=PERMISSIONS))


async def of_client(
    driver: Any = None,
    *,
    revisions: Sequence[str] = ALL,
    wanted: Iterable[str] | None = None,
    timeouts: ScenarioTimeouts | None = None,
) -> CheckResult:
    """Check a client, by default the healthy one in memory."""
    driver = driver or InProcessDriver(partial(tour, timeouts=scaled(BRISK)))
    return sound(await check_client(driver, revisions=revisions, wanted=wanted, timeouts=timeouts or scaled(PATIENT)))


def sound(outcome: CheckResult) -> CheckResult:
    """Assert that no probe and no scenario has raised an exception; return the result."""
    assert [verdict.why for verdict in outcome.verdicts if verdict.why.startswith(DEFECT)] == []
    return outcome


def revision_of(mutant: Mutant) -> str:
    """Return the revision in which a mutant is tried: its own, or the newest in which its rule is judged."""
    rule = RULES[mutant.rule]
    if mutant.revision is not None:
        assert rule.applies_in(mutant.revision), f"{mutant.rule} does not apply in {mutant.revision}"
        return mutant.revision
    table: Any = all_probes() if mutant.side == "server" else all_scenarios()
    tried = {each for row in table if rule.id in row.rules for each in revisions_for([rule], row.revisions, ALL)}
    return max(tried or rule.revisions)


def missed_by_check(mutant: Mutant) -> list[tuple[str, str]]:
    """Return the verdicts about a mutant's rule if the check did not find the fault; nothing if it did."""
    missed: list[tuple[str, str]] = []
    for each in TIME_SCALES:
        with scaled_by(each):
            found = run(outcome_of(mutant)).of(mutant.rule)
        if failures := [verdict for verdict in found if verdict.outcome == "failed"]:
            # Every failure needs a fix.
            return [("failed", f"{verdict.why}, and it has no fix") for verdict in failures if not verdict.fix]
        missed = [(verdict.outcome, verdict.why) for verdict in found]
    return missed or [("silent", "no verdict at all")]


def patiently(work: Callable[[], Awaitable[CheckResult]]) -> CheckResult:
    """Return the result of a check that should have no failures; after a failure it is repeated with longer timeouts."""
    for each in TIME_SCALES:
        with scaled_by(each):
            outcome: CheckResult = run(work())
        if not outcome.failures:
            break
    return outcome


async def outcome_of(mutant: Mutant) -> CheckResult:
    """Check a mutant for the rule that it breaks."""
    revisions, wanted = [revision_of(mutant)], {mutant.rule}
    if mutant.kind == "raw":
        peer = mutant.function()
        if mutant.side == "server":
            return await of_server(peer, revisions=revisions, wanted=wanted)
        return await of_client(peer, revisions=revisions, wanted=wanted, timeouts=scaled(PATIENT if mutant.is_slow else HASTY))
    if mutant.side == "server":

        def wrap(channel: Channel) -> Channel:
            return MutatingChannel(channel, mutant.function, reader_is_check=True)

        target = ChannelTarget(served(new_server(), wrap), timeouts=scaled(IMPATIENT))
        return await of_server(target, revisions=revisions, wanted=wanted)
    return await of_client(InProcessDriver(_mutated(mutant)), revisions=revisions, wanted=wanted, timeouts=scaled(HASTY))


def _mutated(mutant: Mutant) -> Any:
    async def run_tour(launcher: Launcher) -> None:
        class Mutated:
            async def serve(self, *, channel: Channel) -> None:
                # The client has the other end of this channel; the mutant is between the fake server and the client.
                await launcher.serve(channel=MutatingChannel(channel, mutant.function, reader_is_check=True))

        await tour(Mutated(), timeouts=scaled(Timeouts(connect=0.8, probe=0.5, request=0.5, total=1)))

    return run_tour


def judged(side: str) -> set[str]:
    """The rules that something judges, on one side."""
    table: Any = all_probes() if side == "server" else all_scenarios()
    return {rule for row in table for rule in row.rules} | passive_rules(side)
