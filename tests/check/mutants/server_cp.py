"""Servers that break the rules of capabilities, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant


def declared(message):
    """The capabilities in an answer to initialize or server/discover; nothing in all others."""
    result = message.get("result", {})
    return result.get("capabilities", {}) if isinstance(result, dict) else {}


@message_mutant("CP-01")
def has_undeclared_prompts(message):
    declared(message).pop("prompts", None)
    return message


@message_mutant("CP-01", revision="2024-11-05")
def has_undeclared_resources(message):
    declared(message).pop("resources", None)
    return message


@message_mutant("CP-01", revision="2025-11-25")
def has_undeclared_completions(message):
    declared(message).pop("completions", None)
    return message


@message_mutant("CP-03")
def declares_a_flag_in_words(message):
    if "tools" in declared(message):
        declared(message)["tools"]["listChanged"] = "yes"
    return message


@message_mutant("CP-03", revision="2025-03-26")
def declares_logging_as_true(message):
    if "logging" in declared(message):
        declared(message)["logging"] = True
    return message


def declares_for_the_client(wire: Wire, capability, value):
    """What a client declares is taken for more than it is."""

    def change(line):
        message = json.loads(line)
        params = message.get("params", {})
        for can in (params.get("capabilities"), params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities")):
            if isinstance(can, dict) and capability in can:
                can[capability] = value
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = change


@wire_mutant("CP-04")
def mistakes_nothing_for_everything(wire: Wire):
    declares_for_the_client(wire, "elicitation", {"form": {}, "url": {}})


@wire_mutant("CP-04", revision="2025-11-25")
def mistakes_nothing_for_everything_in_a_session(wire: Wire):
    declares_for_the_client(wire, "elicitation", {"form": {}, "url": {}})


@message_mutant("CP-04")
def cannot_send_a_user_to_a_page(message):
    if message.get("error", {}).get("code") == -32021 and '"url"' in json.dumps(message["error"]):
        message["error"] = {"code": -32603, "message": "the client takes forms alone"}
    return message


TOOLS = [{"name": "look", "inputSchema": {"type": "object"}}]


@message_mutant("CP-05")
def offers_tools_to_every_client(message):
    for each in message.get("result", {}).get("inputRequests", {}).values():
        if each["method"] == "sampling/createMessage":
            each["params"]["tools"] = TOOLS
    return message


@message_mutant("CP-05", revision="2025-11-25")
def offers_tools_to_every_client_in_a_session(message):
    if message.get("method") == "sampling/createMessage":
        message["params"]["tools"] = TOOLS
    return message


@message_mutant("CP-06")
def rejects_in_its_own_way(message):
    if message.get("error", {}).get("code") == -32021:
        message["error"] = {"code": -32603, "message": "the client cannot do that"}
    return message


@wire_mutant("CP-06")
def asks_every_client(wire: Wire):
    def change(line):
        message = json.loads(line)
        meta = message.get("params", {}).get("_meta", {})
        if "io.modelcontextprotocol/clientCapabilities" in meta:
            meta["io.modelcontextprotocol/clientCapabilities"] = {
                "elicitation": {"form": {}, "url": {}},
                "sampling": {},
                "roots": {},
            }
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = change


@message_mutant("CP-07")
def declares_an_extension_without_a_prefix(message):
    if declared(message):
        declared(message)["extensions"] = {"mine": {}}
    return message


@message_mutant("CP-08")
def makes_tasks_for_every_client(message):
    if "content" in message.get("result", {}):
        message["result"] = {"resultType": "task", "taskId": "1", "status": "working"}
    return message


@wire_mutant("CP-09")
def rejects_unknown_capabilities(wire: Wire):
    reject_what_has(wire, "x-unknown")


@wire_mutant("CP-09", revision="2025-11-25")
def rejects_unknown_capabilities_in_a_session(wire: Wire):
    reject_what_has(wire, "x-unknown")


def reject_what_has(wire: Wire, word):
    def refuse(line):
        message = json.loads(line)
        if word.encode() not in line or "id" not in message:
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": f"what is {word}?"}})
        return b""

    wire.to_subject = refuse
