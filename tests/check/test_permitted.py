"""What the text permits to servers, or leaves open: they are let pass, or the rule is skipped."""

import asyncio
import json

import pytest

from check.test_well_behaved import outcomes, server_of

UPDATED = "notifications/resources/updated"


def answering(wire, name, answer):
    """Lets a function answer the calls of one tool."""

    def look(line):
        message = json.loads(line)
        params = message.get("params", {})
        if message.get("method") != "tools/call" or params.get("name") != name:
            return None
        wire.say({"jsonrpc": "2.0", "id": message["id"], **answer(params)})
        return b""

    wire.to_subject = look


def test_the_end_of_a_visit_that_an_error_has_asked_for_may_be_told():
    def by_an_error(wire):
        def answer(params):
            visit = {"mode": "url", "elicitationId": "visit-7", "url": "https://example.com/", "message": "There."}
            told = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "visit-7"}}
            asyncio.get_running_loop().call_later(0.01, wire.say, told)
            return {"error": {"code": -32042, "message": "Go there first.", "data": {"elicitations": [visit]}}}

        answering(wire, "ask_url", answer)

    assert outcomes(server_of(by_an_error, "2025-11-25", "EL-12"), "EL-12") == {"passed"}


@pytest.mark.parametrize(("revision", "rule"), [("2025-11-25", "RS-03"), ("2026-07-28", "SU-09")])
def test_updates_may_be_gathered_for_a_while(revision, rule):
    def gathering(wire):
        def hold(line):
            if json.loads(line).get("method") != UPDATED:
                return None
            asyncio.get_running_loop().call_later(0.3, wire.say, line + b"\n")
            return b""

        wire.from_subject = hold

    assert outcomes(server_of(gathering, revision, rule), rule) == {"passed"}


def test_what_was_written_again_need_not_be_told():
    def only_once(wire):
        told = []

        def listen(line):
            # It takes no text: each time it writes the same.
            message = json.loads(line)
            if message.get("params", {}).get("name") == "touch":
                message["params"]["arguments"]["text"] = "the same"
                return json.dumps(message).encode() + b"\n"
            return None

        def tell(line):
            if json.loads(line).get("method") != UPDATED:
                return None
            told.append(line)
            return None if len(told) == 1 else b""

        wire.to_subject, wire.from_subject = listen, tell

    assert "failed" not in outcomes(server_of(only_once, "2026-07-28", "SU-09"), "SU-09")


def test_a_tool_may_ask_until_it_has_what_it_needs():
    def never_content(wire):
        asking = {}

        def keep(line):
            result = json.loads(line).get("result", {})
            if "elicit-2" in result.get("inputRequests", {}):
                asking["result"] = result

        def again(line):
            message = json.loads(line)
            if "elicit-2" not in message.get("params", {}).get("inputResponses", {}):
                return None
            wire.say({"jsonrpc": "2.0", "id": message["id"], **asking})
            return b""

        wire.from_subject, wire.to_subject = keep, again

    assert outcomes(server_of(never_content, "2026-07-28", "MR-11"), "MR-11") == {"skipped"}


def test_a_listen_for_nothing_may_be_acknowledged_with_nothing():
    def obliging(wire):
        def listen(line):
            message = json.loads(line)
            if message.get("method") != "subscriptions/listen" or "notifications" in message["params"]:
                return None
            told = {"notifications": {}, "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]}}
            wire.say({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told})
            return b""

        wire.to_subject = listen

    assert outcomes(server_of(obliging, "2026-07-28", "SU-01"), "SU-01") == {"passed"}
