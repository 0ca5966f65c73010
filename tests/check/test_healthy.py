"""Logging, pages, completion, caching, schemas: the healthy twins have an occasion for these rules, and pass."""

import pytest

from check.mutants.client_ch import needing_lists_again
from check.runs import of_client, of_server, run
from twopipes._rules.table import RULES, chosen

SECTIONS = ("LG", "PG", "CM", "CH", "JS")
# Only a process has secrets in its environment; no suggestion of the twin depends on another argument.
NOT_SHOWN_BY_THE_SERVER = {"LG-10", "CM-04"}
# The tour needs no list a second time, and its client is not of the kind that sets a level.
NOT_SHOWN_BY_THE_CLIENT = {"CH-07"}


def not_passed(outcome, side, revision):
    wanted = [RULES[rule] for rule in chosen(SECTIONS)]
    mine = [rule for rule in wanted if rule.binds(side) and rule.applies_in(revision) and not rule.why_untestable(side)]
    return {rule.id for rule in mine if not any(verdict.outcome == "passed" for verdict in outcome.of(rule.id))}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_healthy_server_passes_the_rules(revision):
    outcome = run(of_server(revisions=[revision], wanted=chosen(SECTIONS)))
    assert outcome.failures == []
    assert not_passed(outcome, "server", revision) == {rule for rule in NOT_SHOWN_BY_THE_SERVER if RULES[rule].applies_in(revision)}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_healthy_client_passes_the_rules(revision):
    outcome = run(of_client(revisions=[revision], wanted=chosen(SECTIONS)))
    assert outcome.failures == []
    assert not_passed(outcome, "client", revision) == {rule for rule in NOT_SHOWN_BY_THE_CLIENT if RULES[rule].applies_in(revision)}


def test_a_client_that_requests_a_changed_list_again_has_no_findings():
    outcome = run(of_client(needing_lists_again(keeps_tools=False), revisions=["2026-07-28"], wanted={"CH-07"}))
    assert [verdict.outcome for verdict in outcome.of("CH-07")] == ["passed"]
