"""Clients that have trouble with pings, one each."""

import json

from check.full_tour import tour
from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant
from twopipes._tools.check.client_run import InProcessDriver
from twopipes.settings import Timeouts

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


@message_mutant("PI-01", revision="2025-11-25")
def responds_with_pong(message):
    if message.get("result") == {}:
        message["result"] = {"pong": True}
    return message


@message_mutant("PI-01", revision="2025-11-25")
def does_not_know_ping(message):
    if message.get("result") == {}:
        del message["result"]
        message["error"] = {"code": -32601, "message": "what?"}
    return message


@wire_mutant("PI-02")
def ignores_pings_before_it_is_open(wire: Wire):
    said = []
    wire.from_subject = lambda line: said.append(line) if b"notifications/initialized" in line else None
    wire.to_subject = lambda line: b"" if b'"ping"' in line and not said else None


@wire_mutant("PI-02")
def ignores_pings_while_it_waits(wire: Wire):
    said = []
    wire.from_subject = lambda line: said.append(line) if b'"tools/call"' in line else None
    wire.to_subject = lambda line: b"" if b'"ping"' in line and said else None


@raw_mutant("PI-03")
def waits_for_a_pong_for_ever():
    async def patient(server):
        await tour(server, timeouts=Timeouts(request=None, total=None))

    return InProcessDriver(patient)


@wire_mutant("PI-04")
def still_sends_pings(wire: Wire):
    def add(line):
        if json.loads(line).get("method") == "tools/list":
            wire.send_to_check({"jsonrpc": "2.0", "id": "still-there", "method": "ping", "params": {"_meta": META}})

    wire.from_subject = add
