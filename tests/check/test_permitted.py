"""What the text permits to servers or leaves open: it is accepted, or the rule is skipped."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest

from check.healthy import IMPATIENT, WAITS, new_server, served
from check.mutation import MutatingChannel
from check.runs import of_server, run
from check.test_well_behaved import outcomes, server_of
from check.time_scale import scaled
from twopipes import TwopipesError
from twopipes._channels.memory import memory_pair
from twopipes._tools.check.server_source import ChannelTarget

UPDATED = "notifications/resources/updated"


def answering(wire, name, answer):
    """Lets a function answer the calls of one tool."""

    def look(line):
        message = json.loads(line)
        params = message.get("params", {})
        if message.get("method") != "tools/call" or params.get("name") != name:
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], **answer(params)})
        return b""

    wire.to_subject = look


def test_the_end_of_a_visit_requested_by_an_error_may_be_announced():
    def by_an_error(wire):
        def answer(params):
            visit = {"mode": "url", "elicitationId": "visit-7", "url": "https://example.com/", "message": "There."}
            told = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "visit-7"}}
            asyncio.get_running_loop().call_later(0.01, wire.send_to_check, told)
            return {"error": {"code": -32042, "message": "Go there first.", "data": {"elicitations": [visit]}}}

        answering(wire, "ask_url", answer)

    assert outcomes(server_of(by_an_error, "2025-11-25", "EL-12"), "EL-12") == {"passed"}


@pytest.mark.parametrize(("revision", "rule"), [("2025-11-25", "RS-03"), ("2026-07-28", "SU-09")])
def test_updates_may_be_collected_for_a_while(revision, rule):
    def gathering(wire):
        def hold(line):
            if json.loads(line).get("method") != UPDATED:
                return None
            asyncio.get_running_loop().call_later(0.3, wire.send_to_check, line + b"\n")
            return b""

        wire.from_subject = hold

    assert outcomes(server_of(gathering, revision, rule), rule) == {"passed"}


def test_an_unchanged_write_need_not_be_announced():
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
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], **asking})
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
            wire.send_to_check({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told})
            return b""

        wire.to_subject = listen

    assert outcomes(server_of(obliging, "2026-07-28", "SU-01"), "SU-01") == {"passed"}


def listing_nothing(wire):
    """A server that cannot list its tools now, in whatever era: it needs the network, say, or a key that is wrong."""

    def look(line):
        message = json.loads(line)
        if message.get("method") != "tools/list":
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "fetch failed"}})
        return b""

    wire.to_subject = look


@pytest.mark.parametrize(
    ("rule", "revision"),
    [
        ("DE-10", "2026-07-28"),
        ("DE-11", "2025-11-25"),
        ("DE-11", "2024-11-05"),
        ("DE-12", "2025-11-25"),
        ("ST-06", "2026-07-28"),
        ("VN-07", "2026-07-28"),
    ],
)
def test_a_list_that_fails_in_every_era_breaks_no_rule_about_eras(rule, revision):
    assert "failed" not in outcomes(server_of(listing_nothing, revision, rule), rule)


def test_a_late_response_to_our_ping_is_not_a_response_to_a_notification():
    def slow_link(wire):
        pings, held = [], []

        def hear(line):
            if line.startswith(b"[") and b'"id"' not in line:
                # Now the batch of notifications is under way, and what was held up arrives.
                for late in held:
                    wire.send_to_check(late)
                held.clear()
                pings.clear()
                return
            message = json.loads(line)
            if isinstance(message, list):
                pings.append(None)
            elif pings and message.get("method") == "ping":
                pings.append(message["id"])

        def hold(line):
            message = json.loads(line)
            if isinstance(message, dict) and message.get("id") in pings[1:]:
                held.append(line + b"\n")
                return b""
            return None

        wire.to_subject, wire.from_subject = hear, hold

    assert outcomes(server_of(slow_link, "2025-03-26", "JR-13"), "JR-13") == {"passed"}


def leaving_subject(is_done):
    """A server with tools that answers one request after the other, and leaves when it is done with one."""

    @asynccontextmanager
    async def connect():
        ours, theirs = memory_pair()

        async def serve():
            rest = b""
            with suppress(TwopipesError):
                while data := await theirs.read():
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        message = json.loads(line)
                        if "id" in message:
                            response = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}
                            theirs.write(json.dumps(response).encode() + b"\n")
                        if is_done(message):
                            await theirs.flush()
                            await theirs.close()
                            return

        serving = asyncio.create_task(serve())
        yield ours
        serving.cancel()
        await theirs.close()

    def answer(message):
        if message["method"] != "initialize":
            return {"tools": []} if message["method"] == "tools/list" else {}
        capabilities, info = {"tools": {}}, {"name": "leaving", "version": "1"}
        return {"protocolVersion": message["params"]["protocolVersion"], "capabilities": capabilities, "serverInfo": info}

    return ChannelTarget(connect, timeouts=scaled(WAITS))


ABOUT_ANSWERS = {"FR-02", "FR-03", "JR-06", "JR-16", "PI-01", "MT-04", "CP-09"}


def test_a_server_that_exits_by_itself_does_not_fail_for_missing_responses():
    target = leaving_subject(lambda message: message["method"] == "notifications/initialized")
    outcome = run(of_server(target, revisions=["2025-11-25"], wanted=ABOUT_ANSWERS))
    assert outcome.failures == []
    assert "the server exits by itself, even if it gets no requests" in {verdict.why for verdict in outcome.verdicts}


def test_a_server_that_exits_because_of_a_request_fails():
    target = leaving_subject(lambda message: not isinstance(message.get("id", 0), int))
    outcome = run(of_server(target, revisions=["2025-11-25"], wanted={"FR-03", "JR-06"}))
    assert {verdict.rule.id for verdict in outcome.failures} == {"FR-03", "JR-06"}


@pytest.mark.parametrize("rule", ["LC-13", "LC-14"])
def test_a_server_that_has_not_started_yet_does_not_fail(rule):
    """On a busy machine the second start takes longer than the first, and longer than anybody waits."""
    starts = []

    def slower_and_slower(wire):
        starts.append(wire)
        wire.to_subject = (lambda _: None) if len(starts) == 1 else (lambda _: b"")

    target = ChannelTarget(
        served(new_server(), lambda inner: MutatingChannel(inner, slower_and_slower, reader_is_check=True)),
        timeouts=scaled(IMPATIENT),
    )
    found = run(of_server(target, revisions=["2025-11-25"], wanted={rule})).of(rule)
    assert {(verdict.outcome, verdict.why.partition(" to know")[0]) for verdict in found} == {
        ("skipped", "the server starts too slowly")
    }


def test_a_server_without_resources_read_does_not_fail_for_its_error_code():
    def without_reading(wire):
        def look(line):
            message = json.loads(line)
            if message.get("method") != "resources/read":
                return None
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            return b""

        wire.to_subject = look

    assert outcomes(server_of(without_reading, "2025-11-25", "ER-12"), "ER-12") == {"skipped"}


def test_a_tool_that_always_fails_shows_nothing_about_invalid_arguments():
    def unreachable(wire):
        answering(wire, "echo", lambda params: {"error": {"code": -32603, "message": "getaddrinfo failed"}})

    assert outcomes(server_of(unreachable, "2025-11-25", "TL-06"), "TL-06") == {"skipped"}


def test_a_server_that_handles_calls_one_by_one_does_not_fail():
    def one_by_one(wire):
        free_at = 0.0

        def queue(line):
            nonlocal free_at
            loop = asyncio.get_running_loop()
            free_at = max(loop.time(), free_at) + (0.1 if json.loads(line).get("method") == "tools/call" else 0)
            loop.call_at(free_at, wire.send_to_subject, line + b"\n")
            return b""

        wire.to_subject = queue

    assert outcomes(server_of(one_by_one, "2025-11-25", "CA-07"), "CA-07") == {"passed"}
