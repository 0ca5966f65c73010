"""The reports of a run: for people, for programs, for CI."""

import json
from xml.etree import ElementTree as ET

import pytest

from twopipes._rules.rule import Rule
from twopipes._tools.check.report import FORMATS, exit_code, judgements, rendered
from twopipes._tools.check.verdict import CheckResult, Verdict, worst

BINDING = Rule(id="FR-04", must="Nothing but messages", page="basic/transports", side="server")
ADVICE = Rule(id="FR-08", should="Output on stderr is not a failure")
READING = Rule(id="FR-13", basis="inference", must="Pieces are joined")
FREE = Rule(id="FR-06", may="stderr is free", untestable="it permits something")


def outcome(*verdicts):
    return CheckResult(peer="python server.py", side="server", revisions=["2025-11-25"], verdicts=list(verdicts), took=1.25)


def failed(rule, **more):
    return Verdict(rule=rule, outcome="failed", revision="2025-11-25", why="it | printed \x1b[31m", probe="p", **more)


FOUND = outcome(
    failed(BINDING, sent=(b'{"id":1}',), received=(b"hello\xff",), fix="Print to stderr."),
    failed(ADVICE),
    Verdict(rule=READING, outcome="passed", revision="2025-11-25"),
    Verdict(rule=FREE, outcome="skipped", why=FREE.untestable),
)


def test_a_broken_must_counts_and_a_broken_should_only_when_strict():
    assert exit_code(outcome(failed(BINDING))) == 1
    assert exit_code(outcome(failed(ADVICE))) == 0
    assert exit_code(outcome(failed(ADVICE)), strict=True) == 1


def test_a_breach_of_our_own_reading_is_never_an_error():
    assert READING.severity_in() == "warning"
    assert exit_code(outcome(failed(READING))) == 0


def test_a_rule_may_be_our_reading_before_it_was_written_down():
    rule = Rule(id="SD-02", must="Leaves", stated_since="2026-07-28")
    old, new = (
        outcome(Verdict(rule=rule, outcome="failed", revision=each, why="it stays")) for each in ("2025-11-25", "2026-07-28")
    )
    assert ("our reading" in rendered(old, "text"), exit_code(old)) == (True, 0)
    assert ("our reading" in rendered(new, "text"), exit_code(new)) == (False, 1)


def test_the_level_of_a_rule_may_rise_with_a_revision():
    firmer = Rule(id="LC-11", should="Nothing undeclared is used", must_since="2025-06-18", until="2025-11-25")
    early = Verdict(rule=firmer, outcome="failed", revision="2024-11-05", why="x")
    late = Verdict(rule=firmer, outcome="failed", revision="2025-11-25", why="x")
    assert (early.severity, late.severity) == ("warning", "error")
    assert [each.kind for each in judgements(outcome(early, late))] == ["error"]
    assert (exit_code(outcome(early)), exit_code(outcome(early, late))) == (0, 1)
    assert "(SHOULD, MUST from 2025-06-18 on)" in rendered(outcome(early), "text")
    assert Rule(id="MR-01", may="x", since="2026-07-28", must_since="2026-07-28").degree == "MUST"


def test_one_failure_is_a_failure_and_a_skip_is_never_a_pass():
    passed = Verdict(rule=BINDING, outcome="passed")
    skipped = Verdict(rule=BINDING, outcome="skipped", why="x")
    assert worst([passed, failed(BINDING)]) == "failed"
    assert worst([passed, skipped]) == "passed"
    assert worst([skipped]) == "skipped"


def test_a_finding_has_why_the_lines_and_the_fix():
    text = rendered(FOUND, "text")
    assert "FAIL  FR-04  Nothing but messages (MUST)" in text
    assert '  sent      {"id":1}' in text
    assert "  received  hello\\xff" in text
    assert "  fix       Print to stderr." in text
    assert "https://modelcontextprotocol.io/specification/2025-11-25/basic/transports" in text
    assert "4 rules: 1 passed, 1 failed, 1 warning, 0 notes, 1 not tried" in text


def test_skipped_rules_are_grouped_by_reason():
    skipped = [Verdict(rule=rule, outcome="skipped", why="it does not speak") for rule in (BINDING, ADVICE)]
    text = rendered(outcome(*skipped, Verdict(rule=FREE, outcome="skipped", why=FREE.untestable)), "text")
    assert f"  {BINDING.id}, {ADVICE.id}: it does not speak\n" in text
    assert "  1 rule that cannot be judged from outside" in text


def test_control_characters_from_the_wire_are_escaped():
    assert "\x1b" not in rendered(FOUND, "text")
    assert "\\x1b[31m" in rendered(FOUND, "text")


@pytest.mark.parametrize("form", FORMATS)
def test_a_very_long_line_is_cut_in_the_report(form):
    text = rendered(outcome(failed(BINDING, sent=(b"x" * 1_000_000,), received=(b"x" * 1_000_000,))), form)
    assert len(text) < 50_000
    assert "(1000000 bytes)" in text or form != "json"


def test_json_has_all_of_it():
    data = json.loads(rendered(FOUND, "json"))
    assert data["counts"] == {"passed": 1, "error": 1, "warning": 1, "note": 0, "skipped": 1}
    assert data["rules"][0]["verdicts"][0]["received"] == ["hello\\xff"]


@pytest.mark.parametrize(("strict", "failures"), [(False, "1"), (True, "2")])
def test_junit_is_xml_that_counts_as_the_exit_code_does(strict, failures):
    suite = ET.fromstring(rendered(FOUND, "junit", strict=strict))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", failures, "1")


def test_markdown_is_a_table_that_no_pipe_breaks():
    rows = [line for line in rendered(FOUND, "markdown").splitlines() if line.startswith("| [")]
    assert len(rows) == 4
    assert "it \\| printed" in rows[0]


def test_a_rule_knows_its_revisions():
    rule = Rule(id="JR-15", must="No arrays", except_in=("2025-03-26",))
    assert not rule.applies_in("2025-03-26")
    assert rule.span == "2024-11-05, 2025-06-18, 2025-11-25, 2026-07-28"
    assert [judgement.kind for judgement in judgements(FOUND)] == ["error", "warning", "passed", "skipped"]


def test_sarif_has_a_result_for_each_broken_rule():
    (run,) = json.loads(rendered(FOUND, "sarif", subject="src/server.py"))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["FR-04", "FR-08"]
    assert [(result["ruleId"], result["ruleIndex"], result["level"]) for result in run["results"]] == [
        ("FR-04", 0, "error"),
        ("FR-08", 1, "warning"),
    ]
    first = run["results"][0]
    assert first["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "src/server.py"}
    assert first["message"]["text"].startswith("FAIL  FR-04  Nothing but messages (MUST)\n")
    assert "\x1b" not in first["message"]["text"]
    assert first["properties"] == {"revisions": ["2025-11-25"]}


def test_the_same_finding_has_the_same_fingerprint_in_every_run():
    again = outcome(Verdict(rule=BINDING, outcome="failed", revision="2025-11-25", why="something else", probe="q"))
    first, second = (json.loads(rendered(each, "sarif"))["runs"][0]["results"][0] for each in (FOUND, again))
    assert first["message"] != second["message"]
    assert first["partialFingerprints"] == second["partialFingerprints"] == {"twopipesRule/v1": "FR-04:mcp-server"}


@pytest.mark.parametrize(
    ("result", "message", "colour"),
    [
        (FOUND, "1 of 2 rules broken", "red"),
        (outcome(failed(ADVICE), Verdict(rule=BINDING, outcome="passed")), "1 rule passed", "yellow"),
        (outcome(Verdict(rule=BINDING, outcome="passed")), "1 rule passed", "brightgreen"),
        (CheckResult(peer="x", side="server"), "no connection", "lightgrey"),
    ],
)
def test_a_badge(result, message, colour):
    found = json.loads(rendered(result, "badge"))
    assert (found["schemaVersion"], found["message"], found["color"]) == (1, message, colour)
