"""The table is complete: it has each row of the page, each rule is judged or says why not, and each judged rule has a mutant."""

import re
from pathlib import Path

import pytest

from check.mutation import FOLDER, all_mutants
from check.runs import judged
from twopipes._rules.table import RULES, rules_for
from twopipes._tools.check.probe import all_probes
from twopipes._tools.check.scenario import all_scenarios

PAGE = Path(__file__).parents[3] / "shared" / "spec" / "requirements.md"
SECTIONS = sorted({rule.section for rule in RULES.values()})
# The page leaves HTTP out: these rows are ours.
NOT_ON_THE_PAGE = {"HT"}
SIDES = ["server", "client"]
# Of what may be done and what should, only the latter can be broken.
_ROW = re.compile(r"^\| ([A-Z]{2}-\d\d) \| (?:MAY / (?=SHOULD))?(MUST|SHOULD|MAY)[^|]*\|", re.MULTILINE)


def rows_of_the_page() -> dict[str, str]:
    if not PAGE.is_file():
        pytest.skip("the page of the requirements is not beside the project")
    return dict(_ROW.findall(PAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("section", [each for each in SECTIONS if each not in NOT_ON_THE_PAGE])
def test_the_rows_of_a_section_are_those_of_the_page(section):
    page = {rule: level for rule, level in rows_of_the_page().items() if rule.startswith(section)}
    assert {rule.id: rule.level for rule in RULES.values() if rule.section == section} == page


def test_every_section_of_the_page_has_a_file():
    missing = sorted({rule[:2] for rule in rows_of_the_page()} - set(SECTIONS))
    if missing:
        pytest.skip(f"{len(SECTIONS)} sections are in the table; {len(missing)} are not: {', '.join(missing)}")


def skip_without_mutants(section):
    """A section may have rows and no mutants yet; with the first mutant, all are required."""
    if not list(FOLDER.glob(f"*_{section.lower()}*.py")):
        pytest.skip(f"{section} has rows, and no mutants yet")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("section", SECTIONS)
def test_every_rule_is_judged_or_says_why_not(section, side):
    skip_without_mutants(section)
    mine = [rule for rule in rules_for(side) if rule.section == section]
    silent = [rule.id for rule in mine if rule.id not in judged(side) and not rule.why_untestable(side)]
    assert silent == []
    both = [rule.id for rule in mine if rule.id in judged(side) and rule.why_untestable(side)]
    assert both == [], "judged, and said to be untestable"


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("section", SECTIONS)
def test_every_judged_rule_has_a_mutant(section, side):
    skip_without_mutants(section)
    mine = {rule.id for rule in rules_for(side) if rule.section == section}
    assert sorted(mine & judged(side) - {mutant.rule for mutant in all_mutants(side)}) == []


@pytest.mark.parametrize("side", SIDES)
def test_probes_scenarios_and_mutants_name_rules_that_exist_on_their_side(side):
    table = all_probes() if side == "server" else all_scenarios()
    named = {rule for row in table for rule in row.rules} | {mutant.rule for mutant in all_mutants(side)}
    known = {rule.id for rule in rules_for(side)}
    # Sections come one by one: a probe may also judge a rule whose section has no file yet.
    assert sorted(rule for rule in named - known if rule[:2] in SECTIONS) == []


def test_every_rule_of_our_reading_says_what_the_text_says():
    assert [rule.id for rule in RULES.values() if (rule.basis == "inference" or rule.inferred_for) and not rule.lenient] == []


def test_a_rule_that_the_text_has_only_for_clients_is_never_an_error_of_a_server():
    # As the page of requirements has it: these bind clients, and what servers do about them is our reading.
    bound = ("JR-05", "VN-03", "PM-02", "SU-01", "SU-16", "TL-02")
    assert {RULES[name].for_side("server").severity_in() for name in bound} == {"warning"}
    assert {RULES[name].for_side("client").severity_in() for name in bound} == {"error", "warning"}


@pytest.mark.parametrize("side", SIDES)
def test_rules_that_are_judged_in_part_are_judged(side):
    other = {"server": "client", "client": "server"}[side]
    for rule in RULES.values():
        if getattr(rule, f"partly_{side}"):
            assert rule.binds(side), rule.id
            assert rule.id in judged(side), rule.id
        if rule.partly:
            assert not rule.untestable, rule.id
            assert not getattr(rule, f"partly_{side}"), rule.id
            assert rule.id in judged(side) | judged(other), rule.id


def test_the_count(capsys):
    """Show the progress with `pytest -s`; it tests nothing."""
    on = {side: len({mutant.rule for mutant in all_mutants(side)}) for side in SIDES}
    mutants = sum(len(all_mutants(side)) for side in SIDES)
    with capsys.disabled():
        print(  # noqa: T201 - that is what it is for
            f"\ncheck: {len(RULES)} rules in {len(SECTIONS)} sections, {len(all_probes())} probes, "
            f"{len(all_scenarios())} scenarios, {mutants} mutants for {on['server']} rules of servers and {on['client']} of clients"
        )
    assert RULES
