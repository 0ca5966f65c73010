"""Servers that break the rules of statelessness, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@wire_mutant("ST-01")
def remembers_what_the_client_can(wire: Wire):
    known = {}

    def change(line):
        message = json.loads(line)
        meta = message.get("params", {}).get("_meta", {})
        if CAPABILITIES not in meta:
            return None
        known.update(meta[CAPABILITIES])
        meta[CAPABILITIES] = dict(known)
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = change


@wire_mutant("ST-01")
def remembers_the_metadata(wire: Wire):
    known = {}

    def change(line):
        message = json.loads(line)
        meta = message.get("params", {}).get("_meta")
        if meta:
            known.update(meta)
            return None
        if known and "id" in message:
            message["params"] = {**message.get("params", {}), "_meta": known}
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = change


@wire_mutant("ST-02")
def keeps_answers_by_connection(wire: Wire):
    known = {}

    def change(line):
        message = json.loads(line)
        answers = message.get("params", {}).get("inputResponses")
        if answers is None:
            return None
        for key, value in answers.items():
            answers[key] = known.setdefault(key, value)
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = change


@wire_mutant("ST-02")
def knows_one_conversation_at_a_time(wire: Wire):
    """Only the question that was asked last can be answered."""
    last = []

    def note(line):
        state = json.loads(line).get("result", {}).get("requestState")
        if state:
            last[:] = [state]

    def refuse(line):
        message = json.loads(line)
        state = message.get("params", {}).get("requestState")
        if state is None or state in last:
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "that is over"}})
        return b""

    wire.from_subject, wire.to_subject = note, refuse


@wire_mutant("ST-03")
def knows_its_own_questions_alone(wire: Wire):
    mine = []

    def note(line):
        state = json.loads(line).get("result", {}).get("requestState")
        if state:
            mine.append(state)

    def refuse(line):
        message = json.loads(line)
        state = message.get("params", {}).get("requestState")
        if state is None or state in mine:
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "I did not ask that"}})
        return b""

    wire.from_subject, wire.to_subject = note, refuse


@wire_mutant("ST-05")
def shows_more_to_those_who_have_called(wire: Wire):
    called = []

    def note(line):
        if b'"tools/call"' in line:
            called.append(line)

    def add(line):
        message = json.loads(line)
        tools = message.get("result", {}).get("tools")
        if not called or not tools:
            return None
        tools.append({**tools[0], "name": "unlocked"})
        return json.dumps(message).encode() + b"\n"

    wire.to_subject, wire.from_subject = note, add


@message_mutant("ST-06")
def declares_what_it_does_not_list(message):
    if "prompts" in message.get("result", {}):
        message["error"] = {"code": -32601, "message": "there is no method 'prompts/list'"}
        del message["result"]
    return message
