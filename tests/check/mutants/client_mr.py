"""Clients that break the rules of calls in rounds, one each."""

import json

from check.capable_client import capable_client
from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant


def _answers(message):
    return message.get("params", {}).get("inputResponses", {})


@message_mutant("MR-05")
def changes_the_call(message):
    if _answers(message):
        message["params"]["arguments"] = {"again": True}
    return message


@message_mutant("MR-05")
def answers_one_question_at_a_time(message):
    if len(_answers(message)) > 1:
        message["params"]["inputResponses"] = dict([next(iter(_answers(message).items()))])
    return message


@message_mutant("MR-05")
def forgets_what_it_can(message):
    if _answers(message):
        del message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    return message


@message_mutant("MR-06")
def says_what_type_an_answer_is(message):
    for answer in _answers(message).values():
        answer["resultType"] = "complete"
    return message


@message_mutant("MR-06")
def puts_answers_into_an_envelope(message):
    for key, answer in _answers(message).items():
        message["params"]["inputResponses"][key] = {"jsonrpc": "2.0", "id": 1, "result": answer}
    return message


@message_mutant("MR-07")
def trims_the_state(message):
    if "requestState" in message.get("params", {}):
        message["params"]["requestState"] = message["params"]["requestState"].strip("\0 ")
    return message


@message_mutant("MR-07")
def sends_no_empty_state(message):
    if message.get("params", {}).get("requestState") == "":
        del message["params"]["requestState"]
    return message


@message_mutant("MR-07")
def sends_a_state_that_it_was_not_given(message):
    if _answers(message):
        message["params"].setdefault("requestState", "")
    return message


@wire_mutant("MR-08")
def uses_the_id_again(wire: Wire):
    calls = {}
    really = {}

    def reuse(line):
        message = json.loads(line)
        name = message.get("params", {}).get("name")
        if not _answers(message):
            calls[name] = message.get("id")
            return None
        really[calls[name]] = message["id"]
        return json.dumps({**message, "id": calls[name]}).encode() + b"\n"

    def restore(line):
        message = json.loads(line)
        if message.get("id") not in really:
            return None
        return json.dumps({**message, "id": really.pop(message["id"])}).encode() + b"\n"

    wire.from_subject, wire.to_subject = reuse, restore


@message_mutant("MR-09")
def carries_the_state_along(message):
    if message.get("params", {}).get("name") == "ask-nothing":
        message["params"]["requestState"] = "the state of the first"
    return message


@message_mutant("MR-09")
def mixes_two_states_up(message):
    if message.get("params", {}).get("requestState") == "the state of the second":
        message["params"]["requestState"] = "the state of the first"
    return message


@wire_mutant("MR-10")
def retries_endlessly(wire: Wire):
    calls = {}

    def note(line):
        message = json.loads(line)
        if message.get("params", {}).get("name") == "come-back-later":
            calls[message["id"]] = message

    def knock(line):
        message = json.loads(line)
        state = message.get("result", {}).get("requestState")
        if message.get("id") not in calls or state is None:
            return None
        call = calls.pop(message["id"])
        again = {**call, "id": f"{call['id']}'", "params": {**call["params"], "requestState": state}}
        calls[again["id"]] = again
        wire.send_to_check(again)
        return b""

    wire.from_subject, wire.to_subject = note, knock


@wire_mutant("MR-11")
def brings_all_answers_back(wire: Wire):
    given = {}

    def collect(line):
        message = json.loads(line)
        if not _answers(message):
            return None
        given.update(_answers(message))
        message["params"]["inputResponses"] = dict(given)
        return json.dumps(message).encode() + b"\n"

    wire.from_subject = collect


@message_mutant("MR-19")
def answers_with_an_error(message):
    for key in _answers(message):
        message["params"]["inputResponses"][key] = {"error": {"code": -1, "message": "the user said no"}}
    return message


@raw_mutant("MR-19")
def says_no_to_a_page_by_an_error():
    def mutate(wire: Wire):
        wire.from_subject = lambda line: line.replace(b'{"action":"accept"}', b'{"code":-1,"message":"the user said no"}') + b"\n"

    return capable_client(mutate)
