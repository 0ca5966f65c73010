"""Shutdown of processes: healthy ones pass, and are not merely skipped."""

import sys
from pathlib import Path

import pytest

from check.full_tour import tour
from check.healthy import EXAMPLE
from check.runs import PATIENT, of_client, of_server, run
from twopipes import RestartPolicy, ServerCommand
from twopipes._tools.check.client_run import CommandDriver, InProcessDriver
from twopipes._tools.check.server_source import CommandTarget

ENDING_CLIENT = Path(__file__).parent / "raw_ending_client.py"
# A client that gives its server less time than usual, to keep the test short.
HURRIED = """
import asyncio, sys
from twopipes import Timeouts, connect

async def main():
    async with connect(sys.argv[1:], timeouts=Timeouts(shutdown=0.3)) as client:
        await client.list_tools()

asyncio.run(main())
"""
DRIVERS = {
    "by-hand": [sys.executable, str(ENDING_CLIENT), "properly", "{server}"],
    "ours": [sys.executable, "-c", HURRIED, "{server}"],
}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def outcomes(outcome, *rules):
    return {rule: {verdict.outcome for verdict in outcome.of(rule)} for rule in rules}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_client_that_ends_its_server_properly_has_no_findings(driver, revision):
    client = CommandDriver(DRIVERS[driver])
    outcome = run(of_client(client, revisions=[revision], wanted={"SD-01"}, timeouts=PATIENT))
    assert outcomes(outcome, "SD-01") == {"SD-01": {"passed"}}, outcome.failures


def test_in_a_modern_revision_a_client_may_kill_its_server_after_a_while():
    client = CommandDriver([sys.executable, str(ENDING_CLIENT), "knows-no-signal-but-one", "{server}"])
    outcome = run(of_client(client, revisions=["2026-07-28"], wanted={"SD-01"}, timeouts=PATIENT))
    assert outcomes(outcome, "SD-01") == {"SD-01": {"passed"}}, outcome.failures


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_server_that_exits_at_the_end_of_input_has_no_findings(revision):
    server = CommandTarget(ServerCommand([sys.executable, str(EXAMPLE)], env={"SERVICE_TOKEN": "not-for-your-eyes"}))
    outcome = run(of_server(server, revisions=[revision], wanted={"SD-02", "SD-07", "LG-10"}))
    assert outcome.failures == []
    assert all("passed" in found for found in outcomes(outcome, "SD-02", "SD-07", "LG-10").values())


def test_a_client_that_restarts_a_server_begins_with_a_handshake():
    client = InProcessDriver(lambda server: tour(server, restart=RestartPolicy(when="always")))
    outcome = run(of_client(client, revisions=["2025-11-25"], wanted={"SD-03", "SD-06"}))
    assert outcomes(outcome, "SD-03", "SD-06") == {"SD-03": {"passed"}, "SD-06": {"passed"}}


def test_a_lost_call_is_sent_to_a_fresh_server():
    outcome = run(of_client(revisions=["2026-07-28"], wanted={"SD-03", "SD-04", "SD-05"}))
    assert outcomes(outcome, "SD-03", "SD-04", "SD-05") == {"SD-03": {"passed"}, "SD-04": {"passed"}, "SD-05": {"passed"}}
