"""The list of rules, for people and for programs."""

import json

from twopipes._rules.table import RULES, SECTIONS
from twopipes._tools.check.rule_pages import explained, judges_of, listed


def test_the_sections_are_in_reading_order():
    assert list(dict.fromkeys(rule.section for rule in RULES.values())) == list(SECTIONS)


def test_programs_get_every_row():
    output = json.loads(listed(set(RULES), "json"))
    assert [row["id"] for row in output] == list(RULES)
    row = next(row for row in output if row["id"] == "FR-04")
    assert row["server"]["judged_by"]
    assert "client" not in row


def test_the_page_has_every_row_and_no_broken_table():
    lines = listed(set(RULES), "markdown").splitlines()
    rows = [line for line in lines if line.startswith("| [")]
    assert len(rows) == len(RULES)
    for row in rows:
        assert row.replace("\\|", "").count("|") == 7, row


def test_the_text_lists_the_selected_rules():
    assert listed({"FR-04"}).startswith("FR-04  MUST    server")
    assert listed({"FR-04"}, side="client").startswith("\nscenarios")
    assert "sends-a-request-in-a-modern-revision  (FR-10)" in listed({"FR-10"}, side="client")


def test_the_part_of_a_rule_that_is_not_judged_is_listed():
    assert "in part: Four kinds of arguments to one tool" in explained("TL-20")
    (row,) = json.loads(listed({"TL-20"}, "json"))
    assert row["server"]["partly"].startswith("Four kinds of arguments")
    assert "*In part:* Four kinds of arguments" in listed({"TL-20"}, "markdown")


def test_what_is_accepted_is_listed():
    assert "\nnote   No revision says what to do with a second initialize.\n" in explained("LC-15")
    (row,) = json.loads(listed({"LC-15"}, "json"))
    assert row["lenient"] == "No revision says what to do with a second initialize"
    assert "<br>*No revision says what to do with a second initialize.*" in listed({"LC-15"}, "markdown")


def test_the_fix_of_a_rule_is_listed():
    fix = "Print to stderr, and keep libraries that print away from file descriptor 1."
    assert f"\nfix    {fix}\n" in explained("FR-04")
    (row,) = json.loads(listed({"FR-04"}, "json"))
    assert row["fix"] == fix


def test_a_judge_is_named():
    assert "the conversation" in judges_of(RULES["FR-04"], "server")
    assert "cut_and_joined_messages_are_read" in judges_of(RULES["FR-13"], "server")


def test_a_whole_section_is_explained_at_once():
    output = explained("fr")
    assert output.count("\nlevel  ") == sum(rule.section == "FR" for rule in RULES.values())
    assert ".." not in output.replace("...", "")
