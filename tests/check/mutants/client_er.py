"""Clients that use or read error codes as they should not, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

LEGACY = "2025-11-25"


@message_mutant("ER-02", revision=LEGACY)
def mistakes_an_invalid_request_for_a_failure(message):
    if message.get("error", {}).get("code") == -32600:
        message["error"]["code"] = -32603
    return message


@message_mutant("ER-03", revision=LEGACY)
def mistakes_an_unknown_method_for_a_failure(message):
    if message.get("error", {}).get("code") == -32601:
        message["error"]["code"] = -32603
    return message


@wire_mutant("ER-07")
def mistakes_a_code_for_a_timeout(wire: Wire):
    def receive(line):
        message = json.loads(line)
        if message.get("error", {}).get("code") == -32001:
            params = {"requestId": message["id"], "reason": "timeout"}
            wire.send_to_check({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    wire.to_subject = receive


@wire_mutant("ER-07")
def stops_at_a_code(wire: Wire):
    over = []

    def receive(line):
        over.extend([line] if json.loads(line).get("error", {}).get("code") == -32001 else [])

    wire.to_subject, wire.from_subject = receive, lambda _line: b"" if over else None


@message_mutant("ER-15")
def has_no_roots_and_says_so_oddly(message):
    if message.get("method") == "initialize":
        message["params"]["capabilities"].pop("roots", None)
    if "roots" in message.get("result", {}):
        del message["result"]
        message["error"] = {"code": -32603, "message": "no roots"}
    return message
