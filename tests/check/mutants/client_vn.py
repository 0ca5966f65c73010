"""Clients that break the rules of requests that stand alone, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

META = "io.modelcontextprotocol/"


@message_mutant("VN-01")
def says_what_it_can_do_only_once(message):
    if message.get("method") == "tools/list":
        del message["params"]["_meta"][META + "clientCapabilities"]
    return message


@message_mutant("VN-03")
def does_not_say_who_it_is(message):
    message.get("params", {}).get("_meta", {}).pop(META + "clientInfo", None)
    return message


@wire_mutant("VN-05")
def goes_round_in_circles(wire: Wire):
    probes = []

    def remember(line):
        if b'"server/discover"' in line:
            probes.append(json.loads(line))

    def try_again(line):
        if b"-32022" not in line or len(probes) > 20:
            return None
        probes.append({**probes[0], "id": 9000 + len(probes)})
        wire.send_to_check(probes[-1])
        return b""

    wire.from_subject, wire.to_subject = remember, try_again


@wire_mutant("VN-05")
def asks_for_the_tools_again_and_again(wire: Wire):
    """It takes the probe for a success, and does not learn from what follows."""
    lists = []

    def use(line):
        if b'"server/discover"' in line:
            lists.append({**json.loads(line), "method": "tools/list"})
            return json.dumps(lists[0]).encode() + b"\n"
        return None

    def try_again(line):
        if b"-32022" not in line or len(lists) > 20:
            return None
        lists.append({**lists[0], "id": 9000 + len(lists)})
        wire.send_to_check(lists[-1])
        return b""

    wire.from_subject, wire.to_subject = use, try_again


@wire_mutant("VN-05")
def tries_again_under_the_same_id(wire: Wire):
    probes = []

    def remember(line):
        if b'"server/discover"' in line:
            probes.append(json.loads(line))

    def try_again(line):
        if b"-32022" not in line or len(probes) > 1:
            return None
        probes.append(probes[0])
        wire.send_to_check(probes[0])
        return b""

    wire.from_subject, wire.to_subject = remember, try_again


@wire_mutant("VN-10")
def insists_on_the_type_of_a_result(wire: Wire):
    def insist(line):
        message = json.loads(line)
        if "tools" in message.get("result", {}) and "resultType" not in message["result"]:
            return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "?"}}).encode() + b"\n"
        return None

    wire.to_subject = insist


@wire_mutant("VN-11")
def does_not_look_at_the_type_of_a_result(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"resultType":"weird"', b'"resultType":"complete"') + b"\n"


@wire_mutant("VN-14")
def calls_only_known_servers(wire: Wire):
    unknown = []

    def look(line):
        if b'"supportedVersions"' in line and b"twopipes-check-fake-server" not in line:
            unknown.append(line)

    def refrain(line):
        message = json.loads(line)
        if unknown and message.get("method") == "tools/call":
            wire.send_to_subject({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "who is that?"}})
            return b""
        return None

    wire.to_subject, wire.from_subject = look, refrain
