"""Servers that break the rules of sampling, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

ENDLESS = "again and again"


def _questions(message):
    """The params of questions to the model, whichever way they are asked."""
    if message.get("method") == "sampling/createMessage":
        return [message["params"]]
    asked = message.get("result", {}).get("inputRequests", {}).values()
    return [each["params"] for each in asked if each["method"] == "sampling/createMessage"]


@message_mutant("SA-01")
def sets_no_limit(message):
    for params in _questions(message):
        del params["maxTokens"]
    return message


@message_mutant("SA-01", revision="2025-11-25")
def sends_messages_without_a_role(message):
    for params in _questions(message):
        params["messages"] = [{"content": each["content"]} for each in params["messages"]]
    return message


@message_mutant("SA-03", revision="2025-06-18")
def sends_arrays_too_early(message):
    for params in _questions(message):
        params["messages"] = [{**each, "content": [each["content"]]} for each in params["messages"]]
    return message


@message_mutant("SA-03")
def sends_content_of_an_unknown_type(message):
    for params in _questions(message):
        params["messages"][0]["content"] = {"type": "video", "data": ""}
    return message


@message_mutant("SA-04")
def offers_tools_to_every_client(message):
    for params in _questions(message):
        params["tools"] = [{"name": "clock", "inputSchema": {"type": "object"}}]
    return message


@message_mutant("SA-06")
def talks_beside_the_results(message):
    for params in _questions(message):
        for each in params["messages"]:
            if isinstance(each["content"], list) and each["content"][0]["type"] == "tool_result":
                each["content"].append({"type": "text", "text": "There you are."})
    return message


@message_mutant("SA-06", revision="2025-11-25")
def forgets_a_result(message):
    for params in _questions(message):
        for each in params["messages"]:
            if isinstance(each["content"], list) and each["content"][0]["type"] == "tool_result":
                del each["content"][0]
    return message


@message_mutant("SA-07")
def invents_a_choice(message):
    for params in _questions(message):
        if "toolChoice" in params:
            params["toolChoice"] = {"mode": "perhaps"}
    return message


@message_mutant("SA-08")
def asks_for_the_context_of_all_servers(message):
    for params in _questions(message):
        params["includeContext"] = "allServers"
    return message


@message_mutant("SA-11")
def asks_with_an_envelope(message):
    for each in message.get("result", {}).get("inputRequests", {}).values():
        if each["method"] == "sampling/createMessage":
            each["jsonrpc"] = "2.0"
    return message


@wire_mutant("SA-11")
def asks_clients_without_a_model(wire: Wire):
    def declare(line):
        message = json.loads(line)
        declared = message.get("params", {}).get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities")
        if declared is not None:
            declared["sampling"] = {}
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = declare


@wire_mutant("SA-12")
def samples_endlessly(wire: Wire):
    questions = {}

    def ask_again(line):
        message = json.loads(line)
        questions.update(message.get("result", {}).get("inputRequests", {}))
        if b'"enough"' not in line:
            return None
        return _asking(message["id"])

    def _asking(request_id):
        last = dict([questions.popitem()]) if not questions.get("sample-1") else {"sample-1": questions["sample-1"]}
        questions.update(last)
        result = {"resultType": "input_required", "inputRequests": last, "requestState": ENDLESS}
        return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode() + b"\n"

    def retry(line):
        message = json.loads(line)
        if message.get("params", {}).get("requestState") != ENDLESS:
            return None
        wire.send_to_check(_asking(message["id"]))
        return b""

    wire.from_subject, wire.to_subject = ask_again, retry
