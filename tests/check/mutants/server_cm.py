"""Servers that break the rules of completion, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant


def changed(message, **members):
    completion = message.get("result", {}).get("completion")
    if completion is not None:
        completion.update(members)
    return message


@message_mutant("CM-02")
def suggests_too_much(message):
    return changed(message, values=[str(number) for number in range(101)])


@message_mutant("CM-02")
def suggests_numbers(message):
    return changed(message, values=[1, 2])


@message_mutant("CM-02", revision="2025-11-25")
def says_how_many_in_words(message):
    return changed(message, total="many")


def answering(wire, condition, **answer):
    """Answers a request for completion itself, where a function of its params says so."""

    def ask(line):
        message = json.loads(line)
        if message.get("method") != "completion/complete" or not condition(message["params"]):
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], **answer})
        return b""

    wire.to_subject = ask


@wire_mutant("CM-03")
def suggests_something_for_everything(wire: Wire):
    result = {"resultType": "complete", "completion": {"values": []}}
    answering(wire, lambda params: "no-such-prompt" in str(params), result=result)


@wire_mutant("CM-03", revision="2025-11-25")
def does_not_miss_the_argument(wire: Wire):
    answering(wire, lambda params: "argument" not in params, result={"completion": {"values": []}})


@wire_mutant("CM-03", revision="2025-06-18")
def rejects_what_it_lacks_as_a_fault_of_the_caller(wire: Wire):
    def undeclare(line):
        message = json.loads(line)
        message.get("result", {}).get("capabilities", {}).pop("completions", None)
        return json.dumps(message).encode() + b"\n"

    wire.from_subject = undeclare


@wire_mutant("CM-04")
def does_not_know_context(wire: Wire):
    answering(wire, lambda params: "context" in params, error={"code": -32602, "message": "what is context?"})


@message_mutant("CM-05")
def asks_back(message):
    if "completion" in message.get("result", {}):
        message["result"] = {"resultType": "input_required", "requestState": "x"}
    return message
