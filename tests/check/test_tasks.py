"""Hand-written peers with tasks, apps and listens: all rules are tried, and there are no findings."""

import sys
from uuid import UUID

import pytest

from check.healthy import WAITS
from check.mutants.server_su import RAW
from check.raw_tasks import LEGACY, MODERN, task_server
from check.raw_tasks_client import listening_client, task_client
from check.runs import of_client, of_server, run
from twopipes._process.command import ServerCommand
from twopipes._rules.table import RULES
from twopipes._tools.check.server_source import CommandTarget
from twopipes._tools.check.tasks_2025.receiver import are_guessable
from twopipes._tools.check.verdict import worst


def rules_of(*sections):
    return {rule.id for rule in RULES.values() if rule.section in sections}


def outcomes(outcome):
    """Return the outcome of each rule, with the reasons for the message of a failed test."""
    return {rule: (worst(outcome.of(rule)), [each.why for each in outcome.of(rule)]) for rule in RULES if outcome.of(rule)}


def with_outcome(outcome, wanted):
    return {rule for rule, (found, _why) in outcomes(outcome).items() if found == wanted}


def test_a_server_that_runs_tasks_in_a_session_keeps_all_rules_of_them():
    outcome = run(of_server(task_server(), revisions=[LEGACY], wanted=rules_of("TK") | {"TX-16"}))
    assert with_outcome(outcome, "failed") == set(), outcomes(outcome)
    # It declares tasks, so its behaviour without them is not visible.
    assert with_outcome(outcome, "skipped") == {"TK-02"}, outcomes(outcome)


def test_a_server_with_the_extension_keeps_all_rules_of_it():
    outcome = run(of_server(task_server(), revisions=[MODERN], wanted=rules_of("TX", "AP")))
    assert with_outcome(outcome, "failed") == set(), outcomes(outcome)
    assert with_outcome(outcome, "skipped") == {"TX-16"}, outcomes(outcome)


def test_a_client_that_runs_tasks_in_a_session_keeps_all_rules_of_them():
    outcome = run(of_client(task_client(), revisions=[LEGACY], wanted=rules_of("TK")))
    assert with_outcome(outcome, "failed") == set(), outcomes(outcome)
    assert with_outcome(outcome, "skipped") == {"TK-02", "TK-14"}, outcomes(outcome)


def test_a_client_without_tasks_ignores_them():
    outcome = run(of_client(task_client("undeclared"), revisions=[LEGACY], wanted={"TK-02"}))
    assert with_outcome(outcome, "passed") == {"TK-02"}, outcomes(outcome)


def test_a_client_with_the_extension_keeps_all_rules_of_it():
    outcome = run(of_client(task_client(revision=MODERN), revisions=[MODERN], wanted=rules_of("TX")))
    assert with_outcome(outcome, "failed") == set(), outcomes(outcome)
    assert with_outcome(outcome, "skipped") == set(), outcomes(outcome)


def test_a_client_that_listens_first_and_again_keeps_all_rules_of_listens():
    outcome = run(of_client(listening_client(), revisions=[MODERN], wanted=rules_of("SU", "AP")))
    assert with_outcome(outcome, "failed") == set(), outcomes(outcome)
    assert {"SU-01", "SU-03", "SU-07", "SU-15", "SU-16", "AP-01"} <= with_outcome(outcome, "passed"), outcomes(outcome)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal for an orderly shutdown")
@pytest.mark.parametrize("ending", [[], ["result-alone"]])
def test_a_server_that_announces_the_end_of_a_listen_has_no_findings(ending):
    target = CommandTarget(ServerCommand([sys.executable, str(RAW), *ending]), timeouts=WAITS)
    outcome = run(of_server(target, revisions=[MODERN], wanted={"SU-13", "SU-14"}))
    assert with_outcome(outcome, "passed") == {"SU-13", "SU-14"}, outcomes(outcome)


@pytest.mark.parametrize(
    ("ids", "guessable"),
    [
        (["task-000001", "task-000002", "task-000003"], True),
        (["1", "2", "3"], True),
        ([str(UUID(int=seed * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)) for seed in (1, 2, 3)], False),
        (["a8f0c1d2e3b4", "b8f0c1d2e3b4", "c8f0c1d2e3b4"], False),
        (["91375523017744", "20954417700213", "55017239944102"], False),
    ],
)
def test_sequential_ids_can_be_guessed(ids, guessable):
    assert are_guessable(ids) is guessable
