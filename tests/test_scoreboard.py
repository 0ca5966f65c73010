"""Check that page, README and scores agree, and that every failure was reviewed."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "scoreboard"


def load(name):
    # Under longer names: `page` is too general for the import path.
    spec = importlib.util.spec_from_file_location(f"scoreboard_{name}", TOOL / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


page, contestants = load("page"), load("contestants")
sys.modules.setdefault("page", page)
sys.modules.setdefault("contestants", contestants)
tool = load("__main__")
SCORES = json.loads(page.SCORES.read_text(encoding="utf-8"))
AGAIN = "; run: .venv/bin/python tools/scoreboard --show"


def test_the_page_shows_the_scores():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text, page.page_blocks(SCORES, page.read_notes())) == text, AGAIN


def test_the_readme_shows_the_scores():
    text = page.README.read_text(encoding="utf-8")
    assert page.filled(text, {"scoreboard": page.readme_block(SCORES)}) == text, AGAIN


@pytest.mark.walkthrough  # it loads every mutant
def test_the_numbers_are_those_of_the_tables():
    assert SCORES["counts"] == tool.counts(), AGAIN


def test_every_failure_and_nothing_else_has_a_note():
    broken = {(failure["rule"], key) for key, score in SCORES["contestants"].items() for failure in score["failures"]}
    noted = set(page.read_notes())
    assert sorted(broken - noted) == [], "without a note in tools/scoreboard/notes.toml"
    assert sorted(noted - broken) == [], "noted, and not broken any more"


@pytest.mark.parametrize("key", ["twopipes", "twopipes-client"])
def test_our_programs_pass_every_rule_that_was_tried(key):
    assert SCORES["contestants"][key]["failures"] == []


def test_every_contestant_has_a_score():
    assert list(SCORES["contestants"]) == [each.key for each in contestants.CONTESTANTS]


@pytest.mark.walkthrough  # it looks at every test
def test_the_page_of_the_rules_is_the_table():
    from twopipes._rules.table import RULES  # noqa: PLC0415 - likewise
    from twopipes._tools.check.rule_pages import listed  # noqa: PLC0415 - the whole table, for this test alone

    again = "run: twopipes check --list --format markdown > docs/reference/rules.md"
    assert page.RULES_PAGE.read_text(encoding="utf-8") == listed(set(RULES), "markdown"), again


# The tool


REPORT = {
    "peer": "x",
    "side": "server",
    "revisions": ["2025-11-25"],
    "seconds": 1.2,
    "counts": {},
    "rules": [
        {"id": "FR-01", "level": "MUST", "basis": "prose", "title": "One line", "result": "passed", "verdicts": []},
        {"id": "FR-07", "level": "MAY", "basis": "prose", "title": "Or not", "result": "skipped", "verdicts": []},
        {"id": "JR-20", "level": "SHOULD", "basis": "inference", "title": "Goes on", "result": "warning", "verdicts": []},
        {
            "id": "FR-04",
            "level": "MUST",
            "basis": "prose",
            "title": "Nothing else",
            "result": "error",
            "verdicts": [
                {"revision": "2025-11-25", "outcome": "failed", "probe": "p", "why": "it said | hello"},
                {"revision": "2025-06-18", "outcome": "passed", "probe": "p"},
            ],
        },
    ],
}


def scored():
    kept = tool.score(contestants.CONTESTANTS[0], REPORT)
    counts = dict.fromkeys(("rules", "judged_server", "judged_client", "probes", "scenarios", "mutants"), 1)
    return {"date": "2026-01-01", "counts": counts, "contestants": {"twopipes": kept}}


def test_a_report_becomes_a_score():
    score = scored()["contestants"]["twopipes"]
    assert (score["passed"], score["skipped"]) == ("FR-01", "FR-07")
    ours, failure = score["failures"]
    assert (ours["rule"], ours["basis"]) == ("JR-20", "inference")
    assert (failure["rule"], failure["revisions"], failure["why"]) == ("FR-04", ["2025-11-25"], ["it said | hello"])


def test_a_failure_without_a_note_is_marked():
    rows = page.failures(scored(), {})
    assert "not reviewed yet" in rows
    assert "it said \\| hello" in rows
    assert "it greets" in page.failures(scored(), {("FR-04", "twopipes"): "it greets"})


def test_the_table_counts():
    row = page.table(scored(), "server").splitlines()[-1]
    assert row.endswith("| 2025-11-25 | 1 | **1** | 0 | 1 | 1 |")
    assert "MUST FR-04" in page.printed(scored())
    assert "our reading JR-20" in page.printed(scored())


def test_rules_of_our_own_reading_are_listed_separately():
    assert "| SHOULD, our reading |" in page.failures(scored(), {("JR-20", "twopipes"): "it stops"})


def test_a_text_without_a_place_is_refused():
    with pytest.raises(ValueError, match=r"the marks .* are missing"):
        page.filled("nothing", {"run": "x"})


@pytest.mark.parametrize("contestant", contestants.CONTESTANTS, ids=lambda each: each.key)
def test_the_program_of_a_contestant_exists(contestant):
    if contestant.home in {"ours", "official-2", "official-1", "fastmcp-4"}:
        script = next(word for word in contestant.command(Path()) if word.endswith(".py"))
        assert Path(script).is_file()
