"""Servers that break the rules of metadata, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant


def with_key(message, key, value=1):
    if isinstance(message.get("result"), dict):
        message["result"].setdefault("_meta", {})[key] = value
    return message


@message_mutant("MT-01")
def writes_an_invalid_key(message):
    return with_key(message, "-bad key-")


@message_mutant("MT-01", revision="2025-06-18")
def writes_an_invalid_prefix(message):
    return with_key(message, "1.example/key")


@message_mutant("MT-01", revision="2025-11-25")
def writes_an_invalid_key_into_a_tool(message):
    for tool in message.get("result", {}).get("tools", []):
        tool["_meta"] = {"com.example/": 1, "/": 2}
    return message


@message_mutant("MT-02")
def takes_a_key_of_the_protocol(message):
    return with_key(message, "com.mcp.tools/key")


@message_mutant("MT-02", revision="2025-11-25")
def takes_a_key_of_the_protocol_in_a_session(message):
    return with_key(message, "io.modelcontextprotocol/mine")


@message_mutant("MT-03")
def takes_a_key_of_the_older_protocol(message):
    return with_key(message, "mcp.dev/key")


@message_mutant("MT-05")
def sends_an_invalid_trace(message):
    return with_key(message, "traceparent", "junk")


@message_mutant("MT-05")
def sends_an_invalid_state(message):
    return with_key(message, "tracestate", "UPPER CASE")


@message_mutant("MT-05")
def sends_invalid_baggage(message):
    return with_key(message, "baggage", ["a=b"])


@message_mutant("MT-07", revision="2025-11-25")
def writes_metadata_as_text(message):
    if isinstance(message.get("result"), dict):
        message["result"]["_meta"] = "text"
    return message


@message_mutant("MT-07")
def writes_metadata_of_tools_as_a_list(message):
    for tool in message.get("result", {}).get("tools", []):
        tool["_meta"] = []
    return message


def reject_what_has(wire: Wire, word):
    def refuse(line):
        message = json.loads(line)
        if word.encode() not in line or "id" not in message:
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": f"what is {word}?"}})
        return b""

    wire.to_subject = refuse


@wire_mutant("MT-04")
def rejects_keys_of_the_future(wire: Wire):
    reject_what_has(wire, "io.modelcontextprotocol/future")


@wire_mutant("MT-06")
def rejects_a_trace_that_it_cannot_read(wire: Wire):
    reject_what_has(wire, "junk")


@wire_mutant("MT-06", revision="2024-11-05")
def does_not_respond_to_a_trace_that_it_cannot_read(wire: Wire):
    wire.to_subject = lambda line: b"" if b"junk" in line else None
