"""Clients that break the rules of the handshake, one each."""

import asyncio
import json
import sys
from pathlib import Path

from check.mutation import Wire, line_mutant, message_mutant, raw_mutant, wire_mutant
from check.raw_connection import RawConnection
from twopipes._tools.check.client_run import CommandDriver, InProcessDriver

RAW = Path(__file__).parents[1] / "raw_session.py"


@wire_mutant("LC-01")
def asks_for_tools_first(wire: Wire):
    def ask(line):
        if b'"server/discover"' in line:
            return json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "method": "tools/list"}).encode() + b"\n"
        return None

    wire.from_subject = ask


@message_mutant("LC-01")
def asks_for_tools_behind_the_probe(message):
    if message.get("method") == "initialize":
        return {"jsonrpc": "2.0", "id": 9001, "method": "tools/list"}, message
    return message


@message_mutant("LC-02")
def does_not_say_who_it_is(message):
    if message.get("method") == "initialize":
        del message["params"]["clientInfo"]
    return message


@line_mutant("LC-04")
def never_says_that_it_is_ready(line):
    return b"" if b'"notifications/initialized"' in line else None


@message_mutant("LC-05")
def does_not_wait_for_the_handshake(message):
    if message.get("method") == "initialize":
        return message, {"jsonrpc": "2.0", "id": 9001, "method": "tools/list"}
    return message


@message_mutant("LC-07")
def asks_for_what_it_does_not_support(message):
    if message.get("method") == "initialize":
        message["params"]["protocolVersion"] = "1999-12-31"
    return message


@wire_mutant("LC-10")
def takes_any_version(wire: Wire):
    wire.to_subject = lambda line: line.replace(b"1999-01-01", b"2025-11-25") + b"\n"


@raw_mutant("LC-10")
def waits_silently_after_another_version():
    async def sit(launcher):
        async with RawConnection(launcher) as connection:
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
            agreed = await connection.request("initialize", params)
            if agreed["result"]["protocolVersion"] != "2025-11-25":
                await asyncio.Event().wait()
            connection.send("notifications/initialized")
            await connection.request("tools/list")

    return InProcessDriver(sit)


@message_mutant("LC-11")
def asks_for_prompts_that_the_server_did_not_declare(message):
    if message.get("method") == "tools/list":
        return message, {"jsonrpc": "2.0", "id": 9001, "method": "prompts/list"}
    return message


@message_mutant("LC-11", revision="2025-03-26")
def asks_for_resources_that_the_server_did_not_declare(message):
    if message.get("method") == "tools/list":
        return message, {"jsonrpc": "2.0", "id": 9001, "method": "resources/list"}
    return message


@message_mutant("LC-11")
def asks_for_tasks_that_the_server_did_not_declare(message):
    if message.get("method") == "tools/list":
        return message, {"jsonrpc": "2.0", "id": 9001, "method": "tasks/list"}
    return message


@message_mutant("LC-12")
def cancels_the_handshake(message):
    if message.get("method") == "initialize":
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}}
        return message, cancel
    return message


@raw_mutant("LC-13", is_slow=True)
def exits_at_an_error():
    return CommandDriver([sys.executable, str(RAW), "dies-of-an-error", "{server}"])
