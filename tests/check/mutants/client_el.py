"""Clients that break the rules of elicitation, one each."""

import asyncio
import json
from urllib.parse import urlsplit

from check.capable_client import capable_client
from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant


def _replies(message):
    """What users did, whichever way it travels."""
    found = [message.get("result"), *message.get("params", {}).get("inputResponses", {}).values()]
    return [each for each in found if isinstance(each, dict) and "action" in each]


@message_mutant("EL-04")
def joins_several_choices(message):
    for reply in _replies(message):
        reply["content"] = {
            name: ",".join(value) if isinstance(value, list) else value for name, value in reply.get("content", {}).items()
        }
    return message


@wire_mutant("EL-04", revision="2025-11-25")
def does_not_know_choices(wire: Wire):
    def refuse(line):
        message = json.loads(line)
        if message.get("method") != "elicitation/create" or b'"anyOf"' not in line:
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "what is anyOf?"}})
        return b""

    wire.to_subject = refuse


@message_mutant("EL-05")
def forgets_the_defaults(message):
    for reply in _replies(message):
        if "several" in reply.get("content", {}):
            reply["content"] = {}
    return message


@message_mutant("EL-05", revision="2025-11-25")
def sends_what_was_typed_alone(message):
    for reply in _replies(message):
        if "several" in reply.get("content", {}):
            reply["content"] = {"name": "Anna", "colour": "red"}
    return message


@message_mutant("EL-06")
def invents_an_action(message):
    for reply in _replies(message):
        reply["action"] = "perhaps"
    return message


@message_mutant("EL-06", revision="2025-11-25")
def declines_with_content(message):
    for reply in _replies(message):
        reply["action"] = "decline"
    return message


@wire_mutant("EL-07")
def does_not_answer_without_a_mode(wire: Wire):
    wire.to_subject = lambda line: b"" if b'"elicitation/create"' in line and b'"mode"' not in line else None


@wire_mutant("EL-07", revision="2025-11-25")
def rejects_without_a_mode(wire: Wire):
    def refuse(line):
        message = json.loads(line)
        if message.get("method") != "elicitation/create" or "mode" in message["params"]:
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "mode?"}})
        return b""

    wire.to_subject = refuse


@message_mutant("EL-09")
def rejects_a_mode_in_its_own_way(message):
    if "error" in message:
        message["error"]["code"] = -32603
    return message


@raw_mutant("EL-11")
def sends_content_with_its_consent():
    def mutate(wire: Wire):
        wire.from_subject = lambda line: line.replace(b'"action":"accept"}', b'"action":"accept","content":{"seen":true}}') + b"\n"

    return capable_client(mutate)


@wire_mutant("EL-12")
def fails_at_unknown_visits(wire: Wire):
    upset = []

    def be_upset(line):
        if b"notifications/elicitation/complete" in line:
            upset.append(line)
        return b"" if upset else None

    wire.to_subject = be_upset


@raw_mutant("EL-14")
def looks_the_page_up_first():
    async def look(question):
        address = urlsplit(question.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(f"HEAD {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        await reader.read()
        writer.close()
        await writer.wait_closed()
        return question.decline()

    return capable_client(on_elicit_url=look)


@message_mutant("EL-16")
def fills_forms_in_with_numbers(message):
    for reply in _replies(message):
        reply["content"] = dict.fromkeys(reply.get("content", {}), 5)
    return message


@message_mutant("EL-16", revision="2025-11-25")
def leaves_required_fields_out(message):
    for reply in _replies(message):
        reply["content"] = {}
    return message
