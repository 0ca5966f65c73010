"""Servers that have trouble with pings, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

PING = b'"method":"ping"'


@wire_mutant("PI-01")
def does_not_know_ping(wire: Wire):
    def refuse(line):
        if PING in line:
            wire.send_to_check({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": {"code": -32601, "message": "what?"}})
            return b""
        return None

    wire.to_subject = refuse


@message_mutant("PI-01")
def responds_with_pong(message):
    if message.get("result") == {}:
        message["result"] = {"pong": True}
    return message


@wire_mutant("PI-01")
def ignores_pings(wire: Wire):
    wire.to_subject = lambda line: b"" if PING in line else None


@wire_mutant("PI-02")
def answers_pings_when_the_session_is_open(wire: Wire):
    opened = []

    def receive(line):
        if b"notifications/initialized" in line:
            opened.append(line)
        return b"" if PING in line and not opened else None

    wire.to_subject = receive


@wire_mutant("PI-02")
def ignores_pings_while_it_works(wire: Wire):
    calls = []

    def receive(line):
        if b'"tools/call"' in line:
            calls.append(line)
        return b"" if PING in line and calls else None

    wire.to_subject = receive


@wire_mutant("PI-02")
def answers_pings_when_it_is_done(wire: Wire):
    calls, pings = [], []

    def receive(line):
        if b'"tools/call"' in line:
            calls.append(json.loads(line)["id"])
        if PING not in line or not calls:
            return None
        pings.append(line)
        return b""

    def speak(line):
        message = json.loads(line)
        if "method" not in message and message.get("id") in calls:
            calls.remove(message["id"])
            for ping in pings:
                wire.send_to_subject(ping + b"\n")
            pings.clear()

    wire.to_subject, wire.from_subject = receive, speak


@wire_mutant("PI-04")
def still_answers_pings(wire: Wire):
    def answer(line):
        if PING in line:
            wire.send_to_check({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"resultType": "complete"}})
            return b""
        return None

    wire.to_subject = answer
