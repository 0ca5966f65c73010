"""Clients that break the rules of cancellation, one each."""

import asyncio
import json

from check.mutation import Wire, message_mutant, wire_mutant

CANCELLED = "notifications/cancelled"


@message_mutant("CA-01")
def names_a_number_by_text(message):
    if message.get("method") == CANCELLED:
        message["params"]["requestId"] = str(message["params"]["requestId"]) + " "
    return message


@message_mutant("CA-01", revision="2025-11-25")
def gives_an_object_for_a_reason(message):
    if message.get("method") == CANCELLED:
        message["params"]["reason"] = {"why": "slow"}
    return message


@message_mutant("CA-02", revision="2025-11-25")
def cancels_what_it_never_sent(message):
    if message.get("method") == CANCELLED:
        message["params"]["requestId"] = 31337
    return message


@message_mutant("CA-08")
def cancels_what_it_never_sent_in_a_modern_revision(message):
    return cancels_what_it_never_sent(message)


@message_mutant("CA-12")
def cancels_nothing_in_particular(message):
    if message.get("method") == CANCELLED:
        del message["params"]["requestId"]
    return message


@message_mutant("CA-12", revision="2025-06-18")
def cancels_a_list(message):
    if message.get("method") == CANCELLED:
        message["params"]["requestId"] = [message["params"]["requestId"]]
    return message


def stops_at_a_late_response(wire: Wire):
    given_up = []
    broken = []

    def note(line):
        message = json.loads(line)
        if message.get("method") == CANCELLED:
            given_up.append(message["params"]["requestId"])
        return b"" if broken else None

    def stop(line):
        message = json.loads(line)
        if "method" not in message and message.get("id") in given_up:
            broken.append(line)

    wire.from_subject, wire.to_subject = note, stop


@wire_mutant("CA-06")
def exits_at_a_late_response(wire: Wire):
    stops_at_a_late_response(wire)


@wire_mutant("CA-06", revision="2025-11-25")
def complains_about_a_late_response(wire: Wire):
    given_up = []

    def note(line):
        message = json.loads(line)
        if message.get("method") == CANCELLED:
            given_up.append(message["params"]["requestId"])

    def complain(line):
        message = json.loads(line)
        if "method" not in message and message.get("id") in given_up:
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32600, "message": "not requested"}})

    wire.from_subject, wire.to_subject = note, complain


@wire_mutant("CA-07")
def exits_at_a_race(wire: Wire):
    stops_at_a_late_response(wire)


@wire_mutant("CA-07", revision="2025-11-25")
def answers_twice_a_cancelled_question(wire: Wire):
    def answer(line):
        message = json.loads(line)
        if message.get("method") == CANCELLED:
            for _ in range(2):
                wire.send_to_check(
                    {"jsonrpc": "2.0", "id": message["params"]["requestId"], "error": {"code": 0, "message": "cancelled"}}
                )

    wire.to_subject = answer


@wire_mutant("CA-03", revision="2025-11-25")
def answers_a_cancelled_question(wire: Wire):
    """Somebody fills the form in after all, a moment after the client has shown that it has read the cancellation."""
    taken_back = []

    def note(line):
        message = json.loads(line)
        if message.get("method") == CANCELLED and isinstance(message["params"]["requestId"], str):
            taken_back.append(message["params"]["requestId"])

    def answer(line):
        if taken_back and json.loads(line).get("result") == {}:
            loop = asyncio.get_running_loop()
            for each in taken_back:
                loop.call_later(0.1, wire.send_to_check, {"jsonrpc": "2.0", "id": each, "result": {"roots": []}})
            taken_back.clear()

    wire.to_subject, wire.from_subject = note, answer


@wire_mutant("CA-13", revision="2025-11-25")
def compares_ids_as_text(wire: Wire):
    def change(line):
        message = json.loads(line)
        named = message.get("params", {}).get("requestId")
        if message.get("method") == CANCELLED and isinstance(named, str) and named.isdigit():
            message["params"]["requestId"] = int(named)
            return json.dumps(message).encode() + b"\n"
        return None

    wire.to_subject = change


@wire_mutant("CA-05")
def exits_at_an_unusual_cancellation(wire: Wire):
    deaf = []

    def stop(line):
        if json.loads(line).get("method") == CANCELLED:
            deaf.append(line)
        return b"" if deaf else None

    wire.to_subject = stop


@wire_mutant("CA-05", revision="2025-11-25")
def complains_about_an_unusual_cancellation(wire: Wire):
    def complain(line):
        if json.loads(line).get("method") == CANCELLED:
            wire.send_to_check({"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no such request"}})

    wire.to_subject = complain


@wire_mutant("CA-10")
def believes_that_its_call_was_cancelled(wire: Wire):
    over = []

    def drop(line):
        message = json.loads(line)
        if message.get("method") == CANCELLED:
            over.append(message["params"]["requestId"])
        return b"" if over and message.get("id") in over else None

    wire.to_subject = drop


@wire_mutant("CA-11", revision="2025-11-25")
def cancels_a_task_by_the_notification(wire: Wire):
    def make_a_task(line):
        message = json.loads(line)
        if message.get("method") == "tools/call" and message["params"]["name"] == "stuck":
            message["params"]["task"] = {"ttl": 60000}
            return json.dumps(message).encode() + b"\n"
        return None

    wire.from_subject = make_a_task
    wire.to_subject = lambda line: b"" if b'"fake-task"' in line else None  # the twin waits for its answer
