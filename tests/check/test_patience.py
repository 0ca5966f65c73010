"""Verdicts about clients that wait, and about clients without capabilities."""

from functools import partial

from check.full_tour import tour
from check.runs import PATIENT, of_client, run
from twopipes._cli.check import _scenario_timeouts
from twopipes._tools.check.client_run import InProcessDriver
from twopipes._tools.check.scenario import ScenarioTimeouts
from twopipes.settings import Timeouts

MODERN, LEGACY = "2026-07-28", "2025-11-25"
WAITING = ("TO-01", "TO-02", "TO-03")


def outcomes(outcome):
    return {(each.rule.id, each.outcome) for each in outcome.verdicts}


def waiting_client():
    return InProcessDriver(partial(tour, timeouts=Timeouts(request=None, total=None)))


def test_a_client_that_waits_longer_than_the_check_does_not_fail():
    timeouts = ScenarioTimeouts(client=5, stimulus=0.4, grace=0.02, step=0.5)
    outcome = run(of_client(waiting_client(), revisions=[MODERN], wanted=WAITING, timeouts=timeouts))
    assert outcomes(outcome) == {(rule, "skipped") for rule in WAITING}
    assert any("--gives-up-after" in each.why for each in outcome.verdicts)


def test_a_client_that_waits_longer_than_its_declared_limit_fails():
    timeouts = ScenarioTimeouts(client=5, stimulus=0.4, grace=0.02, step=0.5, limit=0.1)
    outcome = run(of_client(waiting_client(), revisions=[MODERN], wanted=WAITING, timeouts=timeouts))
    assert outcomes(outcome) == {("TO-01", "failed"), ("TO-02", "skipped"), ("TO-03", "failed")}


def test_a_client_that_gives_up_passes():
    client = InProcessDriver(partial(tour, timeouts=Timeouts(request=0.2, total=0.4)))
    outcome = run(of_client(client, revisions=[LEGACY], wanted=(*WAITING, "PI-03"), timeouts=PATIENT))
    assert outcomes(outcome) == {(rule, "passed") for rule in (*WAITING, "PI-03")}


def test_a_client_without_roots_rejects_roots_list():
    outcome = run(of_client(InProcessDriver(partial(tour, roots=None)), revisions=[LEGACY], wanted=["ER-15"]))
    assert outcomes(outcome) == {("ER-15", "passed")}


def test_the_check_waits_longer_than_a_client_may():
    assert _scenario_timeouts(None, None) == ScenarioTimeouts()
    assert _scenario_timeouts(None, 60.0).client > 60
    assert _scenario_timeouts(5.0, 60.0).limit == 60
