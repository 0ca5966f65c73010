"""Tools, content, resources and prompts: correct ones have no findings, and what is not visible is not judged."""

import json

import pytest

from check.healthy import WAITS, new_server, served
from check.mutation import MutatingChannel, Wire
from check.response_mutants import become_result
from check.runs import HASTY, of_client, of_server, run
from twopipes import Server, connect
from twopipes._tools.check.client_run import InProcessDriver
from twopipes._tools.check.content.blocks import faults_of_annotations, faults_of_block, faults_of_icon, is_mime_type
from twopipes._tools.check.server_source import ChannelTarget

PIXEL = "iVBORw0KGgo="


@pytest.mark.parametrize(
    ("block", "revision"),
    [
        ({"type": "text", "text": ""}, "2024-11-05"),
        ({"type": "image", "data": PIXEL, "mimeType": "image/svg+xml"}, "2024-11-05"),
        ({"type": "resource", "resource": {"uri": "a:b", "text": ""}}, "2024-11-05"),
        ({"type": "resource", "resource": {"uri": "a:b", "blob": PIXEL, "mimeType": "a/b; c=d"}}, "2024-11-05"),
        ({"type": "audio", "data": "", "mimeType": "audio/wav"}, "2025-03-26"),
        ({"type": "resource_link", "uri": "a:b", "name": "c"}, "2025-06-18"),
        ({"type": "text", "text": "a", "annotations": {"audience": [], "priority": 1}}, "2025-06-18"),
        ({"type": "text", "text": "a", "annotations": {"lastModified": "2025-01-12T15:00:58Z"}}, "2025-06-18"),
        ({"type": "text", "text": "a", "annotations": {"lastModified": "yesterday"}}, "2024-11-05"),
        ({"type": "text", "text": "a", "_meta": {}, "more": 1}, "2026-07-28"),
    ],
)
def test_a_good_block_has_no_faults(block, revision):
    assert list(faults_of_block(block, revision)) == []


@pytest.mark.parametrize(
    ("block", "revision", "rule"),
    [
        ("text", "2025-11-25", "CT-01"),
        ({"text": "a"}, "2025-11-25", "CT-01"),
        ({"type": "audio", "data": "", "mimeType": "audio/wav"}, "2024-11-05", "CT-02"),
        ({"type": "hologram"}, "2025-11-25", "CT-01"),
        ({"type": "hologram"}, "2026-07-28", "CT-01"),
        ({"type": "resource_link", "uri": "a:b"}, "2025-11-25", "CT-01"),
        ({"type": "resource", "resource": {"uri": "a:b"}}, "2025-11-25", "CT-01"),
        ({"type": "resource", "resource": "a:b"}, "2025-11-25", "CT-01"),
        ({"type": "resource", "resource": {"uri": "a:b", "blob": "?"}}, "2025-11-25", "CT-03"),
        ({"type": "image", "data": "a", "mimeType": "image/png"}, "2025-11-25", "CT-03"),
        ({"type": "image", "data": PIXEL, "mimeType": ".png"}, "2025-11-25", "CT-03"),
        ({"type": "text", "text": "a", "annotations": []}, "2025-11-25", "CT-04"),
        ({"type": "text", "text": "a", "annotations": {"priority": True}}, "2025-11-25", "CT-04"),
        ({"type": "text", "text": "a", "annotations": {"audience": "user"}}, "2025-11-25", "CT-04"),
        ({"type": "text", "text": "a", "annotations": {"lastModified": 5}}, "2025-11-25", "CT-04"),
    ],
)
def test_a_bad_block_says_which_rule_it_breaks(block, revision, rule):
    assert [broken for broken, _ in faults_of_block(block, revision)] == [rule]


def test_missing_members_have_no_faults():
    assert list(faults_of_annotations(None, "2025-11-25", "it")) == []
    assert list(faults_of_icon({"src": "http://example.com/i.png"}, "it")) == []
    assert [rule for rule, _ in faults_of_icon("https://example.com/i.png", "it")] == ["CT-06"]
    assert [rule for rule, _ in faults_of_icon({"src": "data:,", "mimeType": 1}, "it")] == ["CT-06"]
    assert not is_mime_type("text")


def altered(method, change):
    """The check of a healthy server whose answers to one method are changed."""

    def mutate(wire: Wire) -> None:
        asked = {}

        def ask(line):
            message = json.loads(line)
            if message.get("method") == method:
                asked[message["id"]] = message

        def answer(line):
            message = json.loads(line)
            if "method" in message or message.get("id") not in asked:
                return None
            change(message)
            return json.dumps(message).encode() + b"\n"

        wire.to_subject, wire.from_subject = ask, answer

    def wrap(channel):
        return MutatingChannel(channel, mutate, reader_is_check=True)

    return ChannelTarget(served(new_server(), wrap), timeouts=WAITS)


def outcomes(outcome, rule):
    return {verdict.outcome for verdict in outcome.of(rule)}


def in_several_blocks(message):
    result = message.get("result", {})
    if isinstance(result.get("structuredContent"), list):
        result["content"] = [{"type": "text", "text": str(each)} for each in result["structuredContent"]]


def test_an_array_may_be_in_several_text_blocks():
    outcome = run(of_server(altered("tools/call", in_several_blocks), revisions=["2026-07-28"], wanted={"TL-13"}))
    assert outcomes(outcome, "TL-13") == {"passed"}


def test_without_a_validator_only_visible_faults_fail(monkeypatch):
    monkeypatch.setattr("twopipes._tools.check.tools.call_probes.compile_schema", lambda _schema: None)
    monkeypatch.setattr("twopipes._tools.check.tools.call_probes.available", lambda: False)
    outcome = run(of_server(revisions=["2025-11-25"], wanted={"TL-10"}))
    assert outcomes(outcome, "TL-10") == {"skipped"}
    outcome = run(of_server(altered("tools/call", without_a_city), revisions=["2025-11-25"], wanted={"TL-10"}))
    assert "failed" in outcomes(outcome, "TL-10")


def without_a_city(message):
    structured = message.get("result", {}).get("structuredContent")
    if isinstance(structured, dict):
        structured.pop("city", None)


def without_mime_types(message):
    for each in message.get("result", {}).get("messages", []):
        each["content"].get("resource", {}).pop("mimeType", None)


def test_a_resource_in_a_prompt_needs_no_mime_type():
    outcome = run(of_server(altered("prompts/get", without_mime_types), revisions=["2025-11-25"], wanted={"PM-06"}))
    assert outcomes(outcome, "PM-06") == {"passed"}


def empty(message):
    become_result(message, content=[])


def test_a_server_without_content_is_not_judged_by_it():
    wanted = {"TL-02", "TL-05", "TL-12", "TL-13", "TL-16", "CT-04", "CT-05", "CT-06", "RS-02", "RS-09", "PM-02", "PM-03"}
    bare = Server("bare")

    @bare.tool
    def echo(text: str):
        return text

    outcome = run(of_server(ChannelTarget(served(bare), timeouts=WAITS), revisions=["2026-07-28"], wanted=wanted))
    assert {rule for rule in wanted if outcomes(outcome, rule) != {"skipped"}} == set()
    outcome = run(of_server(altered("tools/call", empty), revisions=["2025-11-25"], wanted={"TL-05"}))
    assert outcomes(outcome, "TL-05") == {"skipped"}, "a tool that does not fail is not judged by its failure"


def test_a_resource_that_changes_with_time_need_not_announce_it():
    clock = Server("clock")
    ticks = iter(range(1000))

    @clock.resource("clock://now")
    def now() -> str:
        return str(next(ticks))

    @clock.tool
    def touch() -> str:
        return "nothing has changed"

    outcome = run(of_server(ChannelTarget(served(clock), timeouts=WAITS), revisions=["2025-11-25"], wanted={"RS-03", "RS-04"}))
    assert [verdict.why for verdict in outcome.failures] == []


def test_a_client_that_calls_nothing_is_not_judged_by_calls():
    async def look(server):
        async with connect(server) as client:
            await client.list_tools()

    wanted = {"TL-02", "TL-12", "TL-18", "CT-01", "CT-06", "CT-08", "RS-05", "PM-02"}
    outcome = run(of_client(InProcessDriver(look), revisions=["2026-07-28"], wanted=wanted, timeouts=HASTY))
    assert {rule for rule in wanted if outcomes(outcome, rule) != {"skipped"}} == set()
