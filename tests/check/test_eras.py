"""Servers and clients of one era have no findings because they do not know the other era."""

from functools import partial

import pytest

from check.full_tour import tour
from check.healthy import WAITS, new_server, served
from check.runs import BRISK, of_client, of_server, run
from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._rules.table import chosen
from twopipes._tools.check.client_run import InProcessDriver
from twopipes._tools.check.server_source import ChannelTarget

OPENING = chosen(["LC", "VN", "DE"])
ERAS = {"legacy": LEGACY, "modern": MODERN}


def breaches(outcome):
    return [(each.rule.id, each.revision, each.probe, each.why) for each in outcome.failures]


def passed(outcome):
    return {each.rule.id for each in outcome.verdicts if each.outcome == "passed"}


def server_of(era):
    server = new_server()
    server._revisions = ERAS[era]  # as Server(eras=...) sets it; the example speaks both
    return ChannelTarget(served(server), timeouts=WAITS)


@pytest.mark.parametrize("era", ERAS)
def test_a_server_of_one_era_has_no_findings(era):
    outcome = run(of_server(server_of(era), wanted=OPENING))
    assert outcome.revisions == list(ERAS[era])
    assert breaches(outcome) == []


def test_a_modern_server_passes_the_rule_about_rejecting_a_handshake():
    assert "DE-09" in passed(run(of_server(server_of("modern"), wanted=OPENING)))


@pytest.mark.parametrize("era", ERAS)
def test_a_client_of_one_era_has_no_findings(era):
    outcome = run(of_client(InProcessDriver(partial(tour, era=era, timeouts=BRISK)), wanted=OPENING))
    assert outcome.revisions == list(ERAS[era])
    assert breaches(outcome) == []


def test_a_modern_client_passes_the_rule_about_legacy_servers():
    driver = InProcessDriver(partial(tour, era="modern", timeouts=BRISK))
    assert "DE-08" in passed(run(of_client(driver, wanted=["DE-08"])))


def test_a_client_of_both_eras_passes_the_rules_about_falling_back():
    outcome = run(of_client(wanted=OPENING))
    assert breaches(outcome) == []
    assert {"DE-01", "DE-02", "DE-03", "DE-04", "DE-05", "DE-06", "DE-07", "DE-15", "DE-17"} <= passed(outcome)


def test_a_server_of_both_eras_passes_the_rules_about_separation():
    outcome = run(of_server(wanted=OPENING))
    assert breaches(outcome) == []
    assert {"DE-10", "DE-11", "DE-12", "DE-13", "DE-14", "DE-16"} <= passed(outcome)
