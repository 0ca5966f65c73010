"""A link with 5 to 20 ms of latency in each direction does not change the findings."""

import sys
from pathlib import Path

import pytest

from check.healthy import EXAMPLE
from check.runs import of_server, run
from twopipes._process.command import ServerCommand
from twopipes._rules.table import RULES
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.server_source import CommandTarget

LINK = Path(__file__).parent / "slow_link.py"
# Seconds. Processes on a busy machine; the grace is that of a user.
WAITS = ProbeTimeouts(start=30, response=20, exit=10, step=5)
# Those in which messages cross, and silence is judged.
SECTIONS = {"JR", "ER", "CA", "PR", "PI", "SU", "LG"}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
def test_a_good_server_behind_a_slow_link_has_no_findings(revision):
    command = ServerCommand([sys.executable, str(LINK), revision, sys.executable, str(EXAMPLE)])
    wanted = {rule.id for rule in RULES.values() if rule.section in SECTIONS}
    outcome = run(of_server(CommandTarget(command, timeouts=WAITS), revisions=[revision], wanted=wanted))
    assert [(each.rule.id, each.why) for each in outcome.failures] == []
    passed = {verdict.rule.id for verdict in outcome.verdicts if verdict.outcome == "passed"}
    assert passed >= {"2025-03-26": {"JR-12", "JR-13"}, "2025-11-25": {"CA-03"}, "2026-07-28": {"CA-03", "SU-11"}}[revision]
