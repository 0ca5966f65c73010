"""The check of servers: it catches each mutant, and the healthy twin has no findings."""

import pytest

from check.mutation import all_mutants
from check.runs import missed_by_check, of_server, patiently
from twopipes._protocol.revisions import ALL


@pytest.mark.parametrize("mutant", all_mutants("server"), ids=str)
def test_a_mutant_is_caught(mutant):
    assert missed_by_check(mutant) == []


@pytest.mark.parametrize("revision", ALL)
def test_the_healthy_twin_has_no_findings(revision):
    outcome = patiently(lambda: of_server(revisions=[revision]))
    assert outcome.revisions == [revision]
    assert [(each.rule.id, each.probe, each.why, each.received) for each in outcome.failures] == []


def test_the_healthy_twin_passes_in_all_revisions_at_once():
    outcome = patiently(of_server)
    assert outcome.revisions == list(ALL)
    assert [(each.rule.id, each.revision, each.why) for each in outcome.failures] == []
