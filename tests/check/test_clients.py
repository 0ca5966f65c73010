"""The check of clients: it catches each mutant, and the healthy twin has no findings."""

import sys

import pytest

from check import full_tour
from check.mutation import all_mutants
from check.runs import missed_by_check, of_client, patiently
from twopipes._protocol.revisions import ALL
from twopipes._tools.check.client_run import CommandDriver


@pytest.mark.parametrize("mutant", all_mutants("client"), ids=str)
def test_a_mutant_is_caught(mutant):
    assert missed_by_check(mutant) == []


@pytest.mark.parametrize("revision", ALL)
def test_the_healthy_twin_has_no_findings(revision):
    outcome = patiently(lambda: of_client(revisions=[revision]))
    assert outcome.revisions == [revision]
    assert [(each.rule.id, each.probe, each.why, each.received) for each in outcome.failures] == []


@pytest.mark.parametrize("revision", ALL)
def test_the_healthy_twin_has_no_findings_as_a_program(revision):
    driver = CommandDriver([sys.executable, full_tour.__file__, "{server}"])
    outcome = patiently(lambda: of_client(driver, revisions=[revision]))
    assert outcome.revisions == [revision]
    assert [(each.rule.id, each.probe, each.why, each.received) for each in outcome.failures] == []
