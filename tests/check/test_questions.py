"""Questions and answers (RT, SA, EL, MR), with a client that can answer everything."""

import json

import pytest

from check.capable_client import capable_client, changing_roots, uses_a_tool
from check.healthy import WAITS, new_server, served
from check.mutants.server_mr import needing_states
from check.mutation import MutatingChannel
from check.runs import HASTY, of_client, of_server, patiently, run
from check.time_scale import scaled
from twopipes._client.form_check import form_errors
from twopipes._protocol.revisions import ALL
from twopipes._rules.table import RULES
from twopipes._tools.check.probe import Permissions
from twopipes._tools.check.questions import (
    content_faults,
    declares,
    filled_form,
    form_faults,
    kinds_of_fields,
    old_form_faults,
    secrets_in,
    tool_sequence_faults,
    url_faults,
)
from twopipes._tools.check.server_run import check_server
from twopipes._tools.check.server_source import ChannelTarget
from twopipes._tools.check.verdict import worst
from twopipes.errors import UserRefused

SECTIONS = ("RT", "SA", "EL", "MR")
MINE = {rule.id for rule in RULES.values() if rule.section in SECTIONS}


def passed(outcome):
    return {rule for rule in MINE if outcome.of(rule) and worst(outcome.of(rule)) == "passed"}


def failures(outcome):
    return [(each.rule.id, each.revision, each.probe, each.why) for each in outcome.failures]


# The healthy ones


def test_a_server_that_asks_everything_passes_everything():
    outcome = run(of_server(wanted=MINE))
    assert failures(outcome) == []
    mine = {rule.id for rule in RULES.values() if rule.id in MINE and rule.binds("server") and not rule.why_untestable("server")}
    # Our server is not notified of the end of a visit, and takes answers without a state; see below for one that does not.
    assert mine - passed(outcome) == {"EL-12", "MR-15", "MR-16"}


@pytest.mark.parametrize("revision", ALL)
def test_a_client_that_can_answer_everything_has_no_findings(revision):
    outcome = run(of_client(capable_client(), revisions=[revision], wanted=MINE))
    assert failures(outcome) == []


def test_a_client_that_can_answer_everything_passes_the_rules_with_an_occasion():
    outcome = run(of_client(capable_client(), revisions=ALL[-2:], wanted=MINE))
    assert failures(outcome) == []
    assert passed(outcome) >= {"RT-01", "RT-02", "SA-02", "SA-03", "SA-07", "SA-09"}
    assert passed(outcome) >= {"EL-04", "EL-05", "EL-06", "EL-07", "EL-11", "EL-12", "EL-14", "EL-16"}
    assert passed(outcome) >= {"MR-05", "MR-06", "MR-07", "MR-08", "MR-09", "MR-10", "MR-11"}
    assert "MR-19" not in passed(outcome)  # it says yes to everything


def test_a_client_with_forms_only_rejects_other_modes():
    outcome = run(of_client(capable_client(on_elicit_url=None, options=None), revisions=["2025-11-25"], wanted={"EL-09", "SA-05"}))
    assert passed(outcome) == {"EL-09", "SA-05"}


def test_a_client_that_announces_changed_roots_passes():
    outcome = run(of_client(changing_roots(), revisions=ALL[-2:], wanted={"RT-03", "RT-05"}))
    assert failures(outcome) == []
    assert passed(outcome) == {"RT-03", "RT-05"}


def test_a_refusal_by_the_user_has_its_own_code():
    def refuse(_question):
        raise UserRefused

    outcome = run(of_client(capable_client(on_sample=refuse), revisions=["2025-11-25"], wanted={"SA-10"}))
    assert passed(outcome) == {"SA-10"}


def test_a_client_that_limits_its_rounds_passes():
    outcome = run(of_client(capable_client(on_sample=uses_a_tool), revisions=["2026-07-28"], wanted={"SA-12"}))
    assert passed(outcome) == {"SA-12"}


def test_a_client_that_declines_everything_has_no_findings():
    def decline(question):
        return question.decline()

    outcome = run(of_client(capable_client(on_elicit=decline, on_elicit_url=decline), revisions=ALL[-2:], wanted=MINE))
    assert failures(outcome) == []
    assert passed(outcome) >= {"MR-19"}


def test_a_client_that_fills_in_all_forms_alike_is_not_judged_by_defaults():
    def mutate(wire):
        def alike(line):
            message = json.loads(line)
            for each in message.get("params", {}).get("inputResponses", {}).values():
                each["content"] = {"name": "Anna"}
            return json.dumps(message).encode() + b"\n"

        wire.from_subject = alike

    outcome = run(of_client(capable_client(mutate), revisions=["2026-07-28"], wanted={"EL-05"}))
    assert [each.outcome for each in outcome.verdicts] == ["skipped"]


def test_a_client_that_stops_answering_is_not_judged_by_its_roots():
    def mutate(wire):
        received = []

        def hear(line):
            received.append(b'"roots/list"' in line)
            return b"" if any(received) else None

        wire.to_subject = hear

    outcome = run(of_client(capable_client(mutate), revisions=["2025-11-25"], wanted={"RT-02"}, timeouts=HASTY))
    assert [each.outcome for each in outcome.verdicts] == ["skipped"]


def test_a_client_without_capabilities_has_no_findings():
    nothing = {"on_elicit": None, "on_elicit_url": None, "on_sample": None, "options": None, "roots": None}
    outcome = run(of_client(capable_client(**nothing), revisions=ALL[-2:], wanted=MINE))
    assert failures(outcome) == []
    assert passed(outcome) >= {"RT-02"}  # it says that it has none


def test_a_server_without_permitted_tools_has_no_findings():
    target = ChannelTarget(served(new_server()))
    outcome = run(check_server(target, revisions=ALL[-2:], wanted=MINE, permissions=Permissions()))
    assert failures(outcome) == []


# The shapes


@pytest.mark.parametrize(
    ("can", "method", "params", "may"),
    [
        ({}, "elicitation/create", {}, False),
        ({"elicitation": {}}, "elicitation/create", {}, True),
        ({"elicitation": {}}, "elicitation/create", {"mode": "url"}, False),
        ({"elicitation": {"url": {}}}, "elicitation/create", {"mode": "form"}, False),
        ({"elicitation": {"url": {}}}, "elicitation/create", {"mode": "url"}, True),
        ({"sampling": {}}, "sampling/createMessage", {"tools": []}, False),
        ({"sampling": {"tools": {}}}, "sampling/createMessage", {"tools": []}, True),
        ({"roots": {"listChanged": True}}, "roots/list", None, True),
    ],
)
def test_whether_a_client_may_be_asked(can, method, params, may):
    assert declares(can, method, params) is may


FORM = {
    "message": "Tell me.",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 6, "maxLength": 8},
            "mail": {"type": "string", "format": "email"},
            "age": {"type": "integer", "minimum": 0, "maximum": 50},
            "yes": {"type": "boolean"},
            "one": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
            "two": {"type": "array", "minItems": 2, "items": {"type": "string", "enum": ["a", "b", "c"]}},
            "any": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        },
        "required": ["name", "age"],
    },
}


def test_a_form_of_all_kinds_has_no_faults_and_can_be_filled_in():
    assert [*form_faults(FORM), *kinds_of_fields(FORM), *secrets_in(FORM)] == []
    content = filled_form(FORM)
    assert form_errors(FORM["requestedSchema"], content) == []
    assert content.keys() == FORM["requestedSchema"]["properties"].keys()
    assert len(list(old_form_faults(FORM))) == 3  # one, two and any are of a later revision


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [("password", True), ("Api-Key", True), ("new_password", True), ("token", False), ("passport_name", False), ("key", False)],
)
def test_only_names_that_mean_a_secret_are_secrets(name, is_secret):
    form = {"requestedSchema": {"type": "object", "properties": {name: {"type": "string"}}}}
    assert bool(list(secrets_in(form))) is is_secret


def test_urls_with_credentials_are_found():
    assert list(secrets_in({"url": "https://anna:secret@example.com/"}))
    assert list(secrets_in({"url": "https://example.com/?access_token=1"}))
    assert not list(secrets_in({"url": "https://example.com/start?state=abc"}))
    assert not list(secrets_in({"url": "http://[broken"}))


def test_a_url_question_needs_an_id_in_one_revision_only():
    url = {"mode": "url", "message": "Go.", "url": "https://example.com/"}
    assert not list(url_faults(url, "2026-07-28"))
    assert list(url_faults(url, "2025-11-25"))
    assert list(url_faults({**url, "elicitationId": "1"}, "2026-07-28"))


def test_content_is_judged_by_the_revision():
    block = {"type": "text", "text": ""}
    assert not list(content_faults(block, "2024-11-05"))
    assert list(content_faults([block], "2025-06-18"))
    assert not list(content_faults([block], "2025-11-25"))
    assert list(content_faults({"type": "audio"}, "2024-11-05"))


def test_tool_uses_need_their_results_in_the_next_message():
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]}
    result = {"role": "user", "content": {"type": "tool_result", "toolUseId": "1", "content": []}}
    ask = {"role": "user", "content": {"type": "text", "text": "?"}}
    assert not list(tool_sequence_faults([ask, use, result]))
    assert list(tool_sequence_faults([ask, use, ask, result]))
    assert list(tool_sequence_faults([ask, use]))


def test_a_server_that_continues_only_with_its_state_keeps_the_rules_about_states():
    def wrap(channel):
        return MutatingChannel(channel, lambda wire: needing_states(wire, lambda _message: None), reader_is_check=True)

    def work():
        target = ChannelTarget(served(new_server(), wrap), timeouts=scaled(WAITS))
        return of_server(target, revisions=["2026-07-28"], wanted={"MR-15", "MR-16"})

    outcome = patiently(work)
    assert outcome.failures == []
    assert {each.rule.id for each in outcome.verdicts if each.outcome == "passed"} == {"MR-15", "MR-16"}
