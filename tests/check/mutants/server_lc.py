"""Servers that break the rules of the handshake, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

REFUSED = {"code": -32600, "message": "no"}


@message_mutant("LC-03")
def does_not_say_who_it_is(message):
    message.get("result", {}).pop("serverInfo", None)
    return message


@wire_mutant("LC-06")
def asks_for_roots_at_once(wire: Wire):
    def ask(line):
        if b'"serverInfo"' in line:
            return line + b'\n{"jsonrpc":"2.0","id":"early","method":"roots/list"}\n'
        return None

    wire.from_subject = ask


def negotiates(offer):
    """Changes the version that is agreed to, by the one that was asked for."""

    def mutate(wire: Wire):
        asked = {}

        def ask(line):
            message = json.loads(line)
            if message.get("method") == "initialize":
                asked[message["id"]] = message.get("params", {}).get("protocolVersion")

        def answer(line):
            message = json.loads(line)
            version = asked.get(message.get("id"))
            if version not in offer or "result" not in message:
                return None
            message["result"]["protocolVersion"] = offer[version]
            return json.dumps(message).encode() + b"\n"

        wire.to_subject, wire.from_subject = ask, answer

    return mutate


@wire_mutant("LC-08")
def offers_what_it_does_not_agree_to(wire: Wire):
    negotiates({"1900-01-01": "2024-11-05", "2024-11-05": "2025-11-25"})(wire)


@wire_mutant("LC-08")
def does_not_agree_to_what_it_lists(wire: Wire):
    negotiates({"2025-03-26": "2025-11-25"})(wire)


@wire_mutant("LC-09")
def agrees_to_everything(wire: Wire):
    negotiates({"2099-01-01": "2099-01-01"})(wire)


@wire_mutant("LC-09")
def offers_what_is_no_version(wire: Wire):
    negotiates({"1900-01-01": "foo"})(wire)


@wire_mutant("LC-09")
def offers_a_version_that_it_does_not_speak(wire: Wire):
    negotiates({"2099-01-01": "2024-11-05", "2024-11-05": "2025-11-25"})(wire)


@wire_mutant("LC-09")
def offers_a_version_without_a_handshake(wire: Wire):
    negotiates({"1900-01-01": "2026-07-28", "2026-07-28": "2026-07-28"})(wire)


@wire_mutant("LC-09")
def rejects_old_versions(wire: Wire):
    def refuse(line):
        message = json.loads(line)
        if message.get("method") == "initialize" and b"1900-01-01" in line:
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": REFUSED})
            return b""
        return None

    wire.to_subject = refuse


@wire_mutant("LC-16")
def agrees_to_a_version_without_a_handshake(wire: Wire):
    negotiates({"2026-07-28": "2026-07-28"})(wire)


@wire_mutant("LC-11")
def asks_clients_that_cannot_answer(wire: Wire):
    def ask(line):
        if b'"tools/call"' in line:
            wire.send_to_check({"jsonrpc": "2.0", "id": "unasked", "method": "roots/list"})

    wire.to_subject = ask


@message_mutant("LC-11", revision="2024-11-05")
def has_content_of_the_future(message):
    content = message.get("result", {}).get("content")
    if content:
        content[0] = {"type": "audio", "data": "", "mimeType": "audio/wav"}
    return message


@wire_mutant("LC-13")
def exits_at_a_handshake_without_a_version(wire: Wire):
    dead = []

    def die(line):
        message = json.loads(line)
        if message.get("method") == "initialize" and "protocolVersion" not in message.get("params", {}):
            dead.append(message)
        return b"" if dead else None

    wire.to_subject = die


@wire_mutant("LC-14")
def serves_before_the_handshake(wire: Wire):
    opened = []

    def serve(line):
        message = json.loads(line)
        if message.get("method") == "initialize":
            opened.append(message)
        if not opened and message.get("method") == "tools/call":
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})
            return b""
        return None

    wire.to_subject = serve


@wire_mutant("LC-14")
def ignores_what_comes_before_the_handshake(wire: Wire):
    opened = []

    def ignore(line):
        opened.extend([line] if b'"initialize"' in line else [])
        return None if opened else b""

    wire.to_subject = ignore


@wire_mutant("LC-15")
def begins_again_with_each_handshake(wire: Wire):
    opened = []

    def again(line):
        message = json.loads(line)
        if message.get("method") == "initialize":
            opened.append(message)
            if len(opened) > 1:
                result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
                wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": result})
                return b""
        return None

    wire.to_subject = again


@wire_mutant("LC-15")
def ends_the_session_at_a_second_handshake(wire: Wire):
    opened = []

    def end(line):
        message = json.loads(line)
        if message.get("method") == "initialize":
            opened.append(message)
        elif len(opened) > 1 and "id" in message:
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": REFUSED})
            return b""
        return None

    wire.to_subject = end
