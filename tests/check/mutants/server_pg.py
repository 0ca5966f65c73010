"""Servers that break the rules of pagination, one each."""

import itertools
import json

from check.mutation import Wire, message_mutant, wire_mutant


def is_list(message):
    return any(member in message.get("result", {}) for member in ("tools", "resources", "resourceTemplates", "prompts"))


@message_mutant("PG-01")
def counts_its_pages(message):
    if is_list(message) and "nextCursor" in message["result"]:
        message["result"]["nextCursor"] = 2
    return message


@wire_mutant("PG-01")
def begins_again_on_every_page(wire: Wire):
    wire.to_subject = _without_cursor(lambda _cursor: True)


@wire_mutant("PG-01", revision="2025-11-25")
def does_not_know_its_own_cursors(wire: Wire):
    def answer(line):
        message = json.loads(line)
        if "cursor" not in message.get("params", {}):
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "no such cursor"}})
        return b""

    wire.to_subject = answer


@wire_mutant("PG-05")
def takes_any_cursor(wire: Wire):
    wire.to_subject = _without_cursor(lambda cursor: "twopipes-check" in cursor)


def _without_cursor(condition):
    def ask(line):
        message = json.loads(line)
        cursor = message.get("params", {}).get("cursor")
        if cursor is None or not condition(cursor):
            return None
        del message["params"]["cursor"]
        return json.dumps(message).encode() + b"\n"

    return ask


@message_mutant("PG-05", revision="2025-11-25")
def rejects_a_cursor_as_its_own_fault(message):
    if message.get("error", {}).get("code") == -32602:
        message["error"]["code"] = -32603
    return message


@wire_mutant("PG-05")
def forgets_what_a_cursor_meant(wire: Wire):
    count = itertools.count()

    def answer(line):
        message = json.loads(line)
        if not is_list(message):
            return None
        for tool in message["result"].get("tools", []):
            tool["name"] += f"_{next(count)}"
        return json.dumps(message).encode() + b"\n"

    wire.from_subject = answer
