"""Clients that mix the two eras up, each in its own way. All but one know both."""

import json

from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant
from twopipes._channels.memory import memory_pair
from twopipes._tools.check.client_run import InProcessDriver

VERSION = "io.modelcontextprotocol/protocolVersion"


@message_mutant("DE-01")
def asks_for_tools_before_it_probes(message):
    if message.get("method") == "server/discover":
        return {**message, "id": 9001, "method": "tools/list"}, message
    return message


@wire_mutant("DE-02")
def opens_a_session_with_every_server(wire: Wire):
    def open_one(line):
        if b'"supportedVersions"' in line:
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            wire.send_to_check({"jsonrpc": "2.0", "id": 9001, "method": "initialize", "params": params})

    wire.to_subject = open_one


@wire_mutant("DE-03")
def mistakes_a_refused_version_for_the_old_era(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"code":-32022', b'"code":-32601') + b"\n"


def gives_up_after(is_reason):
    """A client that sends no initialize after what it takes for a reason not to: lines of the server, or none at all."""

    def mutate(wire: Wire):
        heard = []

        def receive(line):
            heard.append(json.loads(line))

        def refrain(line):
            return b"" if b'"initialize"' in line and is_reason(heard) else None

        wire.to_subject, wire.from_subject = receive, refrain

    return mutate


@wire_mutant("DE-04")
def gives_up_when_the_probe_makes_no_sense(wire: Wire):
    gives_up_after(lambda heard: bool(heard) and "result" in heard[-1])(wire)


@wire_mutant("DE-04")
def gives_up_when_the_probe_gets_no_answer(wire: Wire):
    gives_up_after(lambda heard: not heard)(wire)


@wire_mutant("DE-05")
def falls_back_on_one_code_alone(wire: Wire):
    gives_up_after(lambda heard: bool(heard) and heard[-1].get("error", {}).get("code") != -32601)(wire)


@wire_mutant("DE-05")
def mistakes_invalid_params_for_the_new_era(wire: Wire):
    gives_up_after(lambda heard: bool(heard) and heard[-1].get("error", {}).get("code") == -32602)(wire)


@wire_mutant("DE-06")
def launches_nothing_again(wire: Wire):
    said = []

    def refrain(line):
        said.append(line)
        # Nothing but a second process is opened without a probe.
        return b"" if len(said) == 1 and b'"initialize"' in line else None

    wire.from_subject = refrain


@wire_mutant("DE-07")
def doubts_the_era_when_a_call_fails(wire: Wire):
    def doubt(line):
        if b"-32601" in line and b"today" in line:
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            wire.send_to_check({"jsonrpc": "2.0", "id": 9001, "method": "initialize", "params": params})

    wire.to_subject = doubt


@wire_mutant("DE-07")
def probes_again_and_again(wire: Wire):
    probes = []

    def probe(line):
        message = json.loads(line)
        if message.get("method") == "server/discover":
            probes.append(message)
        if message.get("method") == "tools/list" and probes and VERSION not in message.get("params", {}).get("_meta", {}):
            return json.dumps({**probes[0], "id": 9001}).encode() + b"\n" + line + b"\n"
        return None

    wire.from_subject = probe


@raw_mutant("DE-08")
def calls_whatever_it_meets():
    async def call(launcher):
        """Neither probes nor looks at what comes back."""
        here, there = memory_pair()
        meta = {VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
        for number, method in enumerate(("tools/list", "tools/call")):
            params = {"name": "greet", "arguments": {}} if number else {}
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}
            here.write(json.dumps(message).encode() + b"\n")
        await here.close_write()
        await launcher.serve(channel=there)
        await here.close()

    return InProcessDriver(call)


@wire_mutant("DE-15")
def mistakes_old_versions_for_requests(wire: Wire):
    probes, lists = [], []

    def receive(line):
        versions = json.loads(line).get("result", {}).get("supportedVersions")
        lists.extend([versions] if versions is not None else [])

    def use(line):
        message = json.loads(line)
        if message.get("method") == "server/discover":
            probes.append(message)
        if message.get("method") == "initialize" and lists and "2026-07-28" not in lists[-1]:
            probes[0]["params"]["_meta"][VERSION] = lists[-1][0]
            return json.dumps({**probes[0], "id": message["id"], "method": "tools/list"}).encode() + b"\n"
        return None

    wire.to_subject, wire.from_subject = receive, use


@wire_mutant("DE-15")
def gives_up_where_only_old_versions_are_listed(wire: Wire):
    gives_up_after(lambda heard: bool(heard) and "supportedVersions" in heard[-1].get("result", {}))(wire)


@wire_mutant("DE-17")
def stops_when_the_probe_is_answered_late(wire: Wire):
    probes, opened, late = [], [], []

    def speak(line):
        message = json.loads(line)
        if message.get("method") == "server/discover":
            probes.append(message["id"])
        if message.get("method") == "initialize":
            opened.append(not answered)
        return b"" if late else None

    answered: list[bool] = []

    def receive(line):
        message = json.loads(line)
        if message.get("id") in probes:
            answered.append(True)
            late.extend([message] if opened and opened[0] else [])

    wire.from_subject, wire.to_subject = speak, receive


@wire_mutant("DE-17")
def uses_the_id_of_the_probe_again(wire: Wire):
    ids = {}

    def speak(line):
        message = json.loads(line)
        if message.get("method") == "server/discover":
            ids["probe"] = message["id"]
        if message.get("method") == "initialize" and "probe" in ids:
            ids["handshake"] = message["id"]
            return json.dumps({**message, "id": ids["probe"]}).encode() + b"\n"
        return None

    def receive(line):
        message = json.loads(line)
        if "handshake" in ids and message.get("id") == ids["probe"] and "result" in message:
            return json.dumps({**message, "id": ids["handshake"]}).encode() + b"\n"
        return None

    wire.from_subject, wire.to_subject = speak, receive
