"""Peers that do more than the healthy twins, and do it correctly: the rules are tried and pass."""

import json

import pytest

from check.healthy import WAITS, new_server, served
from check.mutants import client_ca, client_cp, server_ca
from check.mutants.client_pr import when_asked_with_a_token
from check.mutants.server_pr import pretends_to_have_tasks
from check.mutation import Mutant, MutatingChannel
from check.runs import _mutated, of_client, of_server, run
from twopipes._tools.check.client_run import InProcessDriver
from twopipes._tools.check.metadata.shapes import key_faults, metas, trace_fault
from twopipes._tools.check.server_source import ChannelTarget

GOOD_TRACE = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "one=1,two@three=x y", "baggage": "a=b;c=d,e=%20"}


def outcomes(outcome, rule):
    return {verdict.outcome for verdict in outcome.of(rule)}


def server_of(change, revision, rule):
    target = ChannelTarget(served(new_server(), lambda inner: MutatingChannel(inner, change, reader_is_check=True)), timeouts=WAITS)
    return run(of_server(target, revisions=[revision], wanted={rule}))


def client_of(change, revision, rule):
    changed = Mutant(rule, "client", rule[:2], "none", "wire", change, revision)
    return run(of_client(InProcessDriver(_mutated(changed)), revisions=[revision], wanted={rule}))


def with_traces(member):
    def change(line):
        message = json.loads(line)
        if isinstance(message.get(member), dict) and (member == "result" or "id" in message):
            message[member].setdefault("_meta", {}).update(GOOD_TRACE)
        return json.dumps(message).encode() + b"\n"

    def mutate(wire):
        wire.from_subject = change

    return mutate


def test_a_server_with_good_traces_passes():
    assert outcomes(server_of(with_traces("result"), "2026-07-28", "MT-05"), "MT-05") == {"passed"}


def test_a_client_with_good_traces_passes():
    assert outcomes(client_of(with_traces("params"), "2026-07-28", "MT-05"), "MT-05") == {"passed"}


def test_a_server_whose_task_sends_progress_passes():
    found = server_of(lambda wire: pretends_to_have_tasks(wire, token=lambda given: given, late=False), "2025-11-25", "PR-06")
    assert outcomes(found, "PR-06") == {"passed"}


@pytest.mark.parametrize("rule", ["PR-02", "PR-03", "PR-04", "PR-08"])
def test_a_client_that_sends_progress_passes(rule):
    def note(token, progress):
        params = {"progressToken": token, "progress": progress}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    def rises(wire):
        when_asked_with_a_token(wire, lambda token: [note(token, 0.5), note(token, 1)])

    assert outcomes(client_of(rises, "2025-11-25", rule), rule) == {"passed"}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("rule", "more"), [("CP-05", {"sampling": {"tools": {}}}), ("CP-03", {"roots": {"listChanged": True}})])
def test_a_client_that_declares_more_passes(rule, more, revision):
    def change(line):
        message = json.loads(line)
        client_cp.declared(message).update(more if client_cp.declared(message) else {})
        return json.dumps(message).encode() + b"\n"

    def mutate(wire):
        wire.from_subject = change

    assert outcomes(client_of(mutate, revision, rule), rule) == {"passed"}


def gives_tasks_up_properly(mutant, wire):
    """The mutant that cancels a task with the notification, corrected: it sends tasks/cancel instead."""
    mutant(wire)
    change = wire.from_subject

    def fix(line):
        if json.loads(line).get("method") != "notifications/cancelled":
            return change(line)
        request = {"jsonrpc": "2.0", "id": "give-up", "method": "tasks/cancel", "params": {"taskId": "fake-task"}}
        return json.dumps(request).encode() + b"\n"

    wire.from_subject = fix


def test_a_server_that_cancels_its_task_with_tasks_cancel_passes():
    found = server_of(
        lambda wire: gives_tasks_up_properly(server_ca.cancels_its_task_by_the_notification, wire), "2025-11-25", "CA-11"
    )
    assert outcomes(found, "CA-11") == {"passed"}


def test_a_client_that_cancels_its_task_with_tasks_cancel_passes():
    found = client_of(
        lambda wire: gives_tasks_up_properly(client_ca.cancels_a_task_by_the_notification, wire), "2025-11-25", "CA-11"
    )
    assert outcomes(found, "CA-11") == {"passed"}


@pytest.mark.parametrize("rule", ["CA-03", "CA-07"])
def test_a_response_of_a_client_may_cross_the_cancellation(rule):
    """It answers each question when it reads it, before it has read the cancellation that follows it."""

    def at_once(wire):
        def answer(line):
            message = json.loads(line)
            if message.get("method") == "roots/list":
                wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}})
                return b""
            return None

        wire.to_subject = answer

    assert "failed" not in outcomes(client_of(at_once, "2025-11-25", rule), rule)


@pytest.mark.parametrize("rule", ["CA-03", "CA-04"])
def test_a_response_of_a_server_may_cross_the_cancellation(rule):
    """The call is over in the moment in which the cancellation comes; it is answered before the server reads on."""

    def crossing(wire):
        def hear(line):
            message = json.loads(line)
            if message.get("method") == "notifications/cancelled":
                result = {"resultType": "complete", "content": []}
                wire.send_to_check({"jsonrpc": "2.0", "id": message["params"]["requestId"], "result": result})

        wire.to_subject = hear

    assert "failed" not in outcomes(server_of(crossing, "2026-07-28", rule), rule)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("traceparent", "00-" + "0" * 32 + "-" + "b" * 16 + "-01"),
        ("traceparent", "ff-" + "a" * 32 + "-" + "b" * 16 + "-01"),
        ("traceparent", "00-" + "a" * 32 + "-" + "b" * 16 + "-01-more"),
        ("traceparent", 7),
        ("tracestate", "no equals sign"),
        ("baggage", "=value"),
    ],
)
def test_invalid_trace_context_is_found(key, value):
    assert trace_fault(key, value)


@pytest.mark.parametrize(("key", "value"), [*GOOD_TRACE.items(), ("traceparent", f"01-{'a' * 32}-{'b' * 16}-01-more")])
def test_valid_trace_context_has_no_faults(key, value):
    assert not trace_fault(key, value)


def test_keys_of_a_declared_extension_and_of_other_revisions_are_not_custom():
    meta = {"io.modelcontextprotocol/ui": 1, "io.modelcontextprotocol/serverInfo": {}}
    assert list(key_faults(meta, "2025-11-25", extensions=["io.modelcontextprotocol/ui"])) == []
    assert list(key_faults(meta, "2025-11-25")) == [("reserved", "io.modelcontextprotocol/ui")]


def test_a_member_named_meta_in_user_data_is_not_judged():
    inner = {"structuredContent": {"_meta": "mine"}, "content": [{"type": "text", "text": "", "_meta": {}}]}
    assert list(metas({"result": inner})) == [("result.content[]._meta", {})]
