"""Passive judging: a rule is passed only if there was an occasion to break it."""

import json

import pytest

from twopipes._protocol.revisions import META_CAPABILITIES, META_VERSION
from twopipes._rules.table import RULES
from twopipes._tools.check.passive import judged, passive_rules
from twopipes._trace.format import Line
from twopipes._trace.judges.table import JUDGES

MODERN = "2026-07-28"
META = {META_VERSION: MODERN, META_CAPABILITIES: {}}
TEXT = {"resultType": "complete", "content": [{"type": "text", "text": "Hello."}]}
IMAGE = {"resultType": "complete", "content": [{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]}


def called(request_id, **more):
    params = {"name": "greet", "arguments": {}, "_meta": META, **more}
    return ">", {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def answered(request_id, result):
    return "<", {"jsonrpc": "2.0", "id": request_id, "result": result}


def refused(request_id, code):
    return "<", {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": "no"}}


def cancelled(request_id):
    return ">", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}


def passed(rule, *said):
    entries = [Line(number / 10, direction, json.dumps(message).encode()) for number, (direction, message) in enumerate(said)]
    verdicts = judged([(entries, MODERN)], side="server", wanted={rule})
    assert [verdict for verdict in verdicts if verdict.outcome == "failed"] == []
    return bool(verdicts)


@pytest.mark.parametrize(
    ("rule", "without", "with_it"),
    [
        ("CT-03", answered(1, TEXT), answered(1, IMAGE)),
        ("TL-10", answered(1, {**TEXT, "structuredContent": {"a": 1}}), None),
        ("ER-10", refused(1, -32602), None),
        ("MT-01", answered(1, TEXT), answered(1, {**TEXT, "_meta": {"com.example/mark": 1}})),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_rule_without_an_occasion_is_not_passed(rule, without, with_it):
    assert not passed(rule, called(1), without)
    if with_it is not None:
        assert passed(rule, called(1), with_it)


def test_an_empty_list_is_no_occasion_for_rules_about_items():
    def listed(*tools):
        meta = {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
        result = {"resultType": "complete", "tools": list(tools), "ttlMs": 0, "cacheScope": "public", "_meta": meta}
        return (">", asked), answered(1, result)

    assert not passed("TL-01", *listed())
    assert passed("TL-01", *listed({"name": "greet", "inputSchema": {"type": "object"}}))


@pytest.mark.parametrize("side", ["server", "client"])
def test_every_rule_that_a_conversation_can_break_has_a_fix(side):
    assert [rule for rule in passive_rules(side) if not RULES[rule].fix] == []


def test_silence_after_a_cancellation_needs_a_cancellation():
    later = called(2), answered(2, TEXT)
    assert not passed("CA-04", called(1), answered(1, TEXT), *later)
    assert not passed("CA-04", called(1), answered(1, TEXT), cancelled(1), *later)
    assert not passed("CA-04", called(1), answered(1, TEXT), cancelled("nobody-asked"), *later)
    assert passed("CA-04", called(1), cancelled(1), *later)


def test_results_of_valid_requests_do_not_show_that_invalid_ones_are_rejected():
    assert not passed("VN-02", called(1), answered(1, TEXT))


def test_every_judge_is_for_a_rule_of_the_table_that_binds_its_side():
    judges = [entry for entries in JUDGES.values() for entry in entries]
    assert [entry.rule for entry in judges if entry.rule not in RULES] == []
    assert [entry.rule for entry in judges if entry.by is not None and not RULES[entry.rule].binds(entry.by)] == []


@pytest.mark.parametrize(("revision", "severity"), [("2024-11-05", "warning"), ("2025-06-18", "error")])
def test_the_severity_of_a_missing_method_depends_on_the_revision(revision, severity):
    info = {"name": "x", "version": "1"}
    opening = {"protocolVersion": revision, "capabilities": {}}
    said = [
        (">", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**opening, "clientInfo": info}}),
        answered(1, {**opening, "serverInfo": info}),
        (">", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
        (">", {"jsonrpc": "2.0", "id": 2, "method": "tasks/list"}),
    ]
    entries = [Line(number / 10, direction, json.dumps(message).encode()) for number, (direction, message) in enumerate(said)]
    (verdict,) = judged([(entries, revision)], side="client", wanted={"LC-11"})
    assert (verdict.outcome, verdict.severity) == ("failed", severity)
