"""Servers that break the rules of cancellation, one each."""

import json

from check.mutation import Wire, wire_mutant

CANCELLED = "notifications/cancelled"


def cancels(line: bytes) -> bool:
    return b'"notifications/cancelled"' in line


@wire_mutant("CA-03", revision="2025-11-25")
def goes_on_and_answers(wire: Wire):
    wire.to_subject = lambda line: b"" if cancels(line) else None


@wire_mutant("CA-03", revision="2025-06-18")
def answers_that_it_was_cancelled(wire: Wire):
    def answer(line):
        if cancels(line):
            wire.send_to_check(
                {"jsonrpc": "2.0", "id": json.loads(line)["params"]["requestId"], "error": {"code": 0, "message": "cancelled"}}
            )

    wire.to_subject = answer


@wire_mutant("CA-03")
def answers_in_a_modern_revision(wire: Wire):
    wire.to_subject = lambda line: b"" if cancels(line) else None


@wire_mutant("CA-04")
def goes_on_with_everything(wire: Wire):
    wire.to_subject = lambda line: b"" if cancels(line) else None


@wire_mutant("CA-04")
def goes_on_with_progress(wire: Wire):
    """The answer is withheld, as it should be; the steps are still told."""
    gone = []

    def swallow(line):
        if cancels(line):
            gone.append(json.loads(line)["params"]["requestId"])
            return b""
        return None

    wire.to_subject = swallow
    wire.from_subject = lambda line: b"" if json.loads(line).get("id") in gone and gone else None


@wire_mutant("CA-04")
def answers_a_cancelled_call_with_an_error(wire: Wire):
    answers_that_it_was_cancelled(wire)


@wire_mutant("CA-05")
def complains_about_unknown_requests(wire: Wire):
    def complain(line):
        if cancels(line):
            wire.send_to_check({"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no such request"}})

    wire.to_subject = complain


@wire_mutant("CA-05", revision="2025-11-25")
def exits_at_a_malformed_cancellation(wire: Wire):
    dead = []

    def die(line):
        message = json.loads(line)
        if cancels(line) and not isinstance(message.get("params", {}).get("requestId"), int | str):
            dead.append(line)
        return b"" if dead else None

    wire.to_subject = die


@wire_mutant("CA-07")
def answers_what_is_answered_already(wire: Wire):
    answers_that_it_was_cancelled(wire)


@wire_mutant("CA-07", revision="2025-11-25")
def loses_its_way_in_a_race(wire: Wire):
    counted = []

    def count(line):
        if cancels(line):
            counted.append(line)
        return b"" if len(counted) > 20 else None

    wire.to_subject = count


@wire_mutant("CA-09")
def confirms_a_cancellation(wire: Wire):
    def confirm(line):
        if cancels(line):
            wire.send_to_check(line + b"\n")

    wire.to_subject = confirm


@wire_mutant("CA-13")
def compares_ids_as_text(wire: Wire):
    wire.to_subject = as_numbers


@wire_mutant("CA-13", revision="2024-11-05")
def compares_ids_as_text_in_a_session(wire: Wire):
    wire.to_subject = as_numbers


def as_numbers(line):
    message = json.loads(line)
    named = message.get("params", {}).get("requestId")
    if cancels(line) and isinstance(named, str) and named.isdigit():
        message["params"]["requestId"] = int(named)
        return json.dumps(message).encode() + b"\n"
    return None


# As the one who asked


def changes_its_cancellations(change):
    def mutate(line):
        message = json.loads(line)
        if message.get("method") != CANCELLED:
            return None
        change(message["params"])
        return json.dumps(message).encode() + b"\n"

    return mutate


@wire_mutant("CA-01", revision="2025-11-25")
def gives_no_reason_but_a_number(wire: Wire):
    wire.from_subject = changes_its_cancellations(lambda params: params.update(reason=5))


@wire_mutant("CA-01", revision="2024-11-05")
def names_its_request_by_text(wire: Wire):
    wire.from_subject = changes_its_cancellations(lambda params: params.update(requestId=f"{params['requestId']} "))


@wire_mutant("CA-02", revision="2025-11-25")
def cancels_what_the_client_asked(wire: Wire):
    wire.from_subject = changes_its_cancellations(lambda params: params.update(requestId=31337))


@wire_mutant("CA-12", revision="2025-06-18")
def cancels_nothing_in_particular(wire: Wire):
    wire.from_subject = changes_its_cancellations(lambda params: params.pop("requestId"))


@wire_mutant("CA-06", revision="2025-11-25")
def complains_about_a_late_response(wire: Wire):
    given_up = []

    def note(line):
        if cancels(line):
            given_up.append(json.loads(line)["params"]["requestId"])

    def complain(line):
        message = json.loads(line)
        if "method" not in message and message.get("id") in given_up:
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32600, "message": "not requested"}})

    wire.from_subject, wire.to_subject = note, complain


@wire_mutant("CA-11", revision="2025-11-25")
def cancels_its_task_by_the_notification(wire: Wire):
    def ask(line):
        message = json.loads(line)
        if message.get("method") not in ("elicitation/create", "sampling/createMessage", "roots/list"):
            return None
        message["params"] = {**message.get("params", {}), "task": {"ttl": 60000}}
        return json.dumps(message).encode() + b"\n"

    wire.from_subject = ask
    wire.to_subject = lambda line: b"" if b'"taskId"' in line else None  # the twin waits for an answer, not for a task
