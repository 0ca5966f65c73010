"""Servers that break the rules of calls in rounds, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant


def _asks(message):
    return message.get("result", {}).get("resultType") == "input_required"


@message_mutant("MR-01")
def asks_before_it_lists(message):
    if "tools" in message.get("result", {}):
        message["result"] = {"resultType": "input_required", "requestState": "later"}
    return message


@message_mutant("MR-02")
def requires_input_without_requests(message):
    if _asks(message):
        message["result"] = {"resultType": "input_required"}
    return message


@message_mutant("MR-03")
def puts_requests_into_results(message):
    for number, each in enumerate(message.get("result", {}).get("inputRequests", {}).values()):
        each |= {"jsonrpc": "2.0", "id": number}
    return message


@message_mutant("MR-03")
def asks_for_a_list_of_tools(message):
    for each in message.get("result", {}).get("inputRequests", {}).values():
        each["method"] = "tools/list"
    return message


@wire_mutant("MR-04")
def asks_clients_that_cannot_answer(wire: Wire):
    def declare(line):
        message = json.loads(line)
        meta = message.get("params", {}).get("_meta", {})
        if "io.modelcontextprotocol/clientCapabilities" in meta:
            everything = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
            meta["io.modelcontextprotocol/clientCapabilities"] = everything
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = declare


def _answering_retries(wire: Wire, changed):
    """Lets a function have a look at each retry and say what it is answered with; ``None``: by the twin, as ever."""

    def look(line):
        message = json.loads(line)
        if "inputResponses" not in message.get("params", {}):
            return None
        answer = changed(message)
        if answer is None:
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], **answer})
        return b""

    wire.to_subject = look


REFUSED = {"error": {"code": -32602, "message": "no"}}
DONE = {"result": {"resultType": "complete", "content": []}}


@wire_mutant("MR-11")
def forgets_the_first_round(wire: Wire):
    _answering_retries(wire, lambda message: REFUSED if "elicit-2" in message["params"]["inputResponses"] else None)


@wire_mutant("MR-11")
def never_answers_the_second_round(wire: Wire):
    wire.to_subject = lambda line: b"" if b'"elicit-2"' in line else None


@wire_mutant("MR-12")
def rejects_what_is_not_complete(wire: Wire):
    _answering_retries(wire, lambda message: None if message["params"]["inputResponses"] else REFUSED)


@wire_mutant("MR-13")
def rejects_unrequested_answers(wire: Wire):
    _answering_retries(wire, lambda message: REFUSED if "zz" in str(message["params"]["inputResponses"]) else None)


@wire_mutant("MR-14")
def mistakes_anything_for_an_answer(wire: Wire):
    _answering_retries(wire, lambda message: DONE if message["params"]["inputResponses"] == 5 else None)


def needing_states(wire: Wire, changed):
    """Does the same for a server that continues only with a state. The twin also takes answers without one."""
    _answering_retries(wire, lambda message: changed(message) if "requestState" in message["params"] else REFUSED)


@wire_mutant("MR-15")
def believes_every_state(wire: Wire):
    needing_states(wire, lambda _message: DONE)


@wire_mutant("MR-15")
def believes_half_a_state(wire: Wire):
    known = set()

    def note(line):
        known.add(json.loads(line).get("result", {}).get("requestState", "-"))

    def answer(message):
        state = message["params"].get("requestState")
        return DONE if state and any(each != state and each.startswith(state) for each in known) else None

    wire.from_subject = note
    needing_states(wire, answer)


@wire_mutant("MR-16")
def mistakes_the_state_of_one_call_for_another(wire: Wire):
    known = set()

    def note(line):
        known.add(json.loads(line).get("result", {}).get("requestState", "-"))

    wire.from_subject = note
    needing_states(wire, lambda message: DONE if message["params"]["requestState"] in known else None)


@wire_mutant("MR-17")
def redeems_twice(wire: Wire):
    given = []

    def note(line):
        if b"redeemed" in line and not given:
            given.append(json.loads(line)["result"])

    wire.from_subject = note
    _answering_retries(wire, lambda message: {"result": given[0]} if given else None)


@wire_mutant("MR-18")
def waits_for_every_retry(wire: Wire):
    waiting = []

    def wait(line):
        waiting.append(line)
        return b"" if len(waiting) > 30 else None

    wire.to_subject = wait
