"""Clients that break the rules of sampling, one each."""

import json

from check.capable_client import capable_client, uses_a_tool
from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant
from twopipes import McpError


def _samples(message):
    """The answers of the model, whichever way they travel."""
    replies = [message.get("result"), *message.get("params", {}).get("inputResponses", {}).values()]
    return [each for each in replies if isinstance(each, dict) and "model" in each]


@message_mutant("SA-02")
def does_not_say_which_model(message):
    for reply in _samples(message):
        del reply["model"]
    return message


@message_mutant("SA-02", revision="2025-11-25")
def does_not_say_who_speaks(message):
    for reply in _samples(message):
        del reply["role"]
    return message


@message_mutant("SA-03", revision="2025-06-18")
def answers_with_an_array_too_early(message):
    for reply in _samples(message):
        reply["content"] = [reply["content"]]
    return message


@message_mutant("SA-03")
def answers_with_an_unknown_type(message):
    for reply in _samples(message):
        reply["content"] = {"type": "video"}
    return message


@wire_mutant("SA-03", revision="2025-11-25")
def does_not_understand_an_array(wire: Wire):
    def refuse(line):
        message = json.loads(line)
        if message.get("method") != "sampling/createMessage" or not isinstance(message["params"]["messages"][0]["content"], list):
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "one block, please"}})
        return b""

    wire.to_subject = refuse


@wire_mutant("SA-05")
def overlooks_the_tools(wire: Wire):
    def overlook(line):
        message = json.loads(line)
        if message.get("method") == "sampling/createMessage":
            message["params"].pop("tools", None)
            message["params"].pop("toolChoice", None)
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = overlook


@raw_mutant("SA-07")
def uses_tools_that_it_must_not_use():
    return capable_client(on_sample=uses_a_tool)


@raw_mutant("SA-07", revision="2025-11-25")
def uses_tools_that_it_must_not_use_in_a_session():
    return capable_client(on_sample=uses_a_tool)


@raw_mutant("SA-09")
def talks_without_a_limit():
    return capable_client(on_sample=lambda _question: "and so on " * 200)


@raw_mutant("SA-10")
def rejects_with_another_code():
    def refuse(_question):
        raise McpError("The user rejected the request", code=-32000)

    return capable_client(on_sample=refuse)


@raw_mutant("SA-12")
def uses_tools_endlessly():
    def mutate(wire: Wire):
        last = {}

        def note(line):
            message = json.loads(line)
            if "inputResponses" in message.get("params", {}):
                last.update(message)

        def go_on(line):
            result = json.loads(line).get("result", {})
            if not last or result.get("resultType") != "input_required" or last["params"]["name"] != "sample-for-ever":
                return None
            last["id"] = f"again {last['id']}"[-200:]
            last["params"]["requestState"] = result["requestState"]
            wire.send_to_check(last)
            return b""

        wire.from_subject, wire.to_subject = note, go_on

    return capable_client(mutate, on_sample=uses_a_tool)
