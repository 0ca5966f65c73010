"""Clients that break the rules of progress, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

PROGRESS = "notifications/progress"
QUESTIONS = ("elicitation/create", "sampling/createMessage", "roots/list")


def note(token, progress=1):
    return {"jsonrpc": "2.0", "method": PROGRESS, "params": {"progressToken": token, "progress": progress}}


@message_mutant("PR-01")
def mistakes_half_a_number_for_a_token(message):
    meta = message.get("params", {}).get("_meta", {})
    if "progressToken" in meta:
        meta["progressToken"] = 1.5
    return message


@wire_mutant("PR-02", revision="2025-11-25")
def reports_progress_without_a_token(wire: Wire):
    def change(line):
        message = json.loads(line)
        if message.get("method") in QUESTIONS:
            wire.send_to_check(note(message["id"]))

    wire.to_subject = change


@message_mutant("PR-05")
def reports_progress_in_a_modern_revision(message):
    return (note(1), message) if message.get("method") == "tools/call" else message


def when_asked_with_a_token(wire: Wire, before, after=lambda _token: ()):
    """Says something before and after the answer to a question that gave a token."""
    given = {}

    def receive(line):
        message = json.loads(line)
        token = message.get("params", {}).get("_meta", {}).get("progressToken") if message.get("method") in QUESTIONS else None
        if token is not None:
            given[message["id"]] = token
            for each in before(token):
                wire.send_to_check(each)

    def answer(line):
        message = json.loads(line)
        if "method" not in message and message["id"] in given:
            notes = after(given.pop(message["id"]))
            return line + b"\n" + b"".join(json.dumps(each).encode() + b"\n" for each in notes)
        return None

    wire.to_subject, wire.from_subject = receive, answer


@wire_mutant("PR-03", revision="2025-11-25")
def reports_progress_that_falls(wire: Wire):
    when_asked_with_a_token(wire, lambda token: [note(token, 2), note(token, 1)])


@wire_mutant("PR-04", revision="2025-11-25")
def reports_progress_after_its_answer(wire: Wire):
    when_asked_with_a_token(wire, lambda _token: (), after=lambda token: [note(token)])


@wire_mutant("PR-08", revision="2025-11-25")
def writes_tokens_as_text(wire: Wire):
    when_asked_with_a_token(wire, lambda token: [note(str(token))])


@wire_mutant("PR-06", revision="2025-11-25")
def goes_on_with_the_progress_of_a_task(wire: Wire):
    """The twin knows no tasks; what there is to know of them stands here."""
    given = []

    def declare(line):
        message = json.loads(line)
        if message.get("method") != "initialize":
            return None
        message["params"]["capabilities"]["tasks"] = {"requests": {"sampling": {"createMessage": {}}}}
        return json.dumps(message).encode() + b"\n"

    def work(line):
        message = json.loads(line)
        task = {"taskId": "task-1", "status": "working", "ttl": 60000}
        if "task" in message.get("params", {}):
            given.append(message["params"]["_meta"]["progressToken"])
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {"task": task}})
            wire.send_to_check(note(given[0]))
            return b""
        if message.get("method") == "tasks/get":
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {**task, "status": "completed"}})
            wire.send_to_check(note(given[0], 2))
            return b""
        return None

    wire.from_subject, wire.to_subject = declare, work
