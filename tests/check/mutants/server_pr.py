"""Servers that break the rules of progress, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

PROGRESS = "notifications/progress"
QUESTIONS = ("elicitation/create", "sampling/createMessage", "roots/list")


def is_progress(message):
    return message.get("method") == PROGRESS


@message_mutant("PR-01", revision="2025-11-25")
def asks_with_half_a_token(message):
    if message.get("method") in QUESTIONS:
        message["params"] = {**message.get("params", {}), "_meta": {"progressToken": 1.5}}
    return message


@wire_mutant("PR-02")
def reports_progress_without_a_token(wire: Wire):
    def report(line):
        message = json.loads(line)
        if message.get("method") == "tools/call" and "progressToken" not in message["params"].get("_meta", {}):
            wire.send_to_check({"jsonrpc": "2.0", "method": PROGRESS, "params": {"progressToken": message["id"], "progress": 1}})

    wire.to_subject = report


@message_mutant("PR-02", revision="2025-03-26")
def makes_up_a_token(message):
    if is_progress(message) and message["params"]["progressToken"] == "mine":
        message["params"]["progressToken"] = "another"
    return message


@message_mutant("PR-03")
def does_not_rise(message):
    if is_progress(message):
        message["params"]["progress"] = 1
    return message


@message_mutant("PR-03", revision="2024-11-05")
def reports_progress_in_words(message):
    if is_progress(message):
        message["params"]["progress"] = "a little"
    return message


@wire_mutant("PR-04")
def reports_progress_after_the_answer(wire: Wire):
    last = {}

    def report(line):
        message = json.loads(line)
        if is_progress(message):
            last[message["params"]["progressToken"]] = message
        elif "method" not in message and last:
            _, note = last.popitem()
            note["params"]["progress"] += 1
            return line + b"\n" + json.dumps(note).encode() + b"\n"
        return None

    wire.from_subject = report


@wire_mutant("PR-06", revision="2025-11-25")
def goes_on_with_the_progress_of_a_task(wire: Wire):
    """The twin knows no tasks; what there is to know of them stands here."""
    pretends_to_have_tasks(wire, token=lambda given: given, late=True)


@wire_mutant("PR-06", revision="2025-11-25")
def gives_a_task_another_token(wire: Wire):
    pretends_to_have_tasks(wire, token=lambda _given: "task-1", late=False)


def pretends_to_have_tasks(wire: Wire, *, token, late):
    def declare(line):
        message = json.loads(line)
        result = message.get("result", {})
        if "protocolVersion" in result:
            result["capabilities"]["tasks"] = {"requests": {"tools": {"call": {}}}}
        for tool in result.get("tools", []):
            tool["execution"] = {"taskSupport": "optional"}
        return json.dumps(message).encode() + b"\n"

    given = []

    def report(progress):
        params = {"progressToken": token(given[0]), "progress": progress}
        wire.send_to_check({"jsonrpc": "2.0", "method": PROGRESS, "params": params})

    def work(line):
        message = json.loads(line)
        task = {"taskId": "task-1", "status": "working", "ttl": 60000}
        if "task" in message.get("params", {}):
            given.append(message["params"]["_meta"]["progressToken"])
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {"task": task}})
            report(1)
            return b""
        if message.get("method") == "tasks/get":
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {**task, "status": "completed"}})
            if late:
                report(2)
            return b""
        return None

    wire.from_subject, wire.to_subject = declare, work


@message_mutant("PR-07")
def tags_its_progress(message):
    if is_progress(message):
        message["params"]["_meta"] = {"io.modelcontextprotocol/subscriptionId": 1}
    return message


@message_mutant("PR-08")
def writes_tokens_as_text(message):
    if is_progress(message):
        message["params"]["progressToken"] = str(message["params"]["progressToken"])
    return message
