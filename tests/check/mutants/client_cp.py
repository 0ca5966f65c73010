"""Clients that break the rules of capabilities, one each."""

from check.mutation import Wire, message_mutant, wire_mutant

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def declared(message):
    """The capabilities that a message declares; nothing where it declares none."""
    params = message.get("params", {})
    return params.get(
        "capabilities" if message.get("method") == "initialize" else "", params.get("_meta", {}).get(CAPABILITIES, {})
    )


@message_mutant("CP-02")
def answers_what_it_did_not_declare(message):
    declared(message).pop("roots", None)
    return message


@message_mutant("CP-02", revision="2025-11-25")
def answers_what_it_did_not_declare_in_a_session(message):
    declared(message).pop("elicitation", None)
    return message


@message_mutant("CP-02", revision="2024-11-05")
def answers_sampling_without_declaring_it(message):
    declared(message).pop("sampling", None)
    return message


@message_mutant("CP-03", revision="2025-06-18")
def declares_a_flag_in_words(message):
    if "roots" in declared(message):
        declared(message)["roots"] = {"listChanged": "yes"}
    return message


@message_mutant("CP-03")
def declares_sampling_as_true(message):
    if "sampling" in declared(message):
        declared(message)["sampling"] = True
    return message


@message_mutant("CP-04", revision="2025-11-25")
def declares_forms_that_it_cannot_show(message):
    if message.get("result", {}).get("action"):
        message["error"] = {"code": -32602, "message": "no forms here"}
        del message["result"]
    return message


@message_mutant("CP-05")
def allows_tools_by_a_flag(message):
    if "sampling" in declared(message):
        declared(message)["sampling"] = {"tools": True}
    return message


@message_mutant("CP-05", revision="2025-11-25")
def allows_context_by_a_flag(message):
    if "sampling" in declared(message):
        declared(message)["sampling"] = {"context": True}
    return message


@message_mutant("CP-07")
def declares_an_extension_without_a_prefix(message):
    if CAPABILITIES in message.get("params", {}).get("_meta", {}):
        declared(message)["extensions"] = {"mine": {}}
    return message


@message_mutant("CP-08")
def asks_for_tasks_of_a_server_that_has_none(message):
    if message.get("method") != "tools/call":
        return message
    meta = message["params"]["_meta"]
    return {
        "jsonrpc": "2.0",
        "id": f"task-{message['id']}",
        "method": "tasks/get",
        "params": {"taskId": "1", "_meta": meta},
    }, message


def stops_at(wire: Wire, word):
    deaf = []

    def stop(line):
        if word.encode() in line:
            deaf.append(line)
        return b"" if deaf else None

    wire.to_subject = stop


@wire_mutant("CP-09")
def exits_at_unknown_capabilities(wire: Wire):
    stops_at(wire, "x-unknown")


@wire_mutant("CP-09", revision="2025-11-25")
def exits_at_unknown_capabilities_in_a_session(wire: Wire):
    stops_at(wire, "x-unknown")
