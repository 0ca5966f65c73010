"""Clients that break the rules of pagination, one each."""

import json

from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant
from check.raw_connection import META, RawConnection
from twopipes._tools.check.client_run import InProcessDriver


@message_mutant("PG-01")
def sends_cursors_in_an_object(message):
    cursor = message.get("params", {}).get("cursor")
    if cursor is not None:
        message["params"]["cursor"] = {"at": cursor}
    return message


@message_mutant("PG-01", revision="2025-03-26")
def sends_null_for_the_first_page(message):
    if message.get("method") == "tools/list":
        message["params"] = {"cursor": None, **message.get("params", {})}
    return message


@message_mutant("PG-02")
def trims_cursors(message):
    cursor = message.get("params", {}).get("cursor")
    if cursor is not None:
        message["params"]["cursor"] = cursor.strip()
    return message


@wire_mutant("PG-02", revision="2025-11-25")
def mistakes_an_empty_page_for_the_end(wire: Wire):
    wire.to_subject = _without_next_cursor(lambda result: result["tools"] == [])


@wire_mutant("PG-04")
def mistakes_an_empty_cursor_for_the_end(wire: Wire):
    wire.to_subject = _without_next_cursor(lambda result: result.get("nextCursor") == "")


def _without_next_cursor(condition):
    def change(line):
        message = json.loads(line)
        result = message.get("result", {})
        if "tools" not in result or not condition(result):
            return None
        result.pop("nextCursor", None)
        return json.dumps(message).encode() + b"\n"

    return change


@wire_mutant("PG-03")
def goes_on_after_the_last_page(wire: Wire):
    asked = []

    def ask(line):
        message = json.loads(line)
        if message.get("method") == "tools/list" and message.get("params", {}).get("cursor"):
            asked.append(message)

    def answer(line):
        result = json.loads(line).get("result", {})
        if "tools" in result and "nextCursor" not in result and asked:
            wire.send_to_check({**asked[-1], "id": "one-more"})
            asked.clear()

    wire.from_subject, wire.to_subject = ask, answer


@raw_mutant("PG-06")
def follows_repeated_cursors_endlessly():
    async def walk(launcher):
        async with RawConnection(launcher) as connection:
            params = {"_meta": META}
            while params is not None:
                answer = await connection.request("tools/list", params)
                cursor = answer["result"].get("nextCursor")
                params = None if cursor is None else {"cursor": cursor, "_meta": META}

    return InProcessDriver(walk)
