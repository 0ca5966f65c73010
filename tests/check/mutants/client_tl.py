"""Clients that break the rules of tools, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant


@message_mutant("TL-02")
def calls_with_a_list(message):
    if message.get("method") == "tools/call":
        message["params"]["arguments"] = ["now"]
    return message


@message_mutant("TL-02", revision="2025-11-25")
def calls_nothing_in_particular(message):
    if message.get("method") == "tools/call":
        message["params"]["tool"] = message["params"].pop("name")
    return message


@wire_mutant("TL-12")
def breaks_at_an_array(wire: Wire):
    gives_up_at(wire, lambda result: isinstance(result.get("structuredContent"), list))


@wire_mutant("TL-12")
def breaks_at_null(wire: Wire):
    gives_up_at(wire, lambda result: result.get("structuredContent", 0) is None)


@wire_mutant("TL-18")
def drops_all_tools_when_the_header_of_one_is_wrong(wire: Wire):
    def answer(line):
        message = json.loads(line)
        result = message.get("result", {})
        if "tools" not in result or b"x-mcp-header" not in line:
            return None
        result["tools"] = []
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = answer


def gives_up_at(wire: Wire, breaks):
    """A client that asks nothing any more, once it has seen a result that it cannot read."""
    seen = []

    def receive(line):
        result = json.loads(line).get("result")
        if isinstance(result, dict) and breaks(result):
            seen.append(result)

    def say(line):
        message = json.loads(line)
        if not seen:
            return None
        if "id" in message:
            wire.send_to_subject({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "broken"}})
        return b""

    wire.to_subject, wire.from_subject = receive, say
