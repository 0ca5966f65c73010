"""Clients that break the rules of content, one each."""

import json
import re
import socket

from check.mutants.client_tl import gives_up_at
from check.mutation import Wire, message_mutant, wire_mutant

CLIENT_INFO = "io.modelcontextprotocol/clientInfo"


def samples(message, block):
    """Puts a block into what the client's model has said."""
    sample = message.get("params", {}).get("inputResponses", {}).get("sample") or message.get("result", {})
    if "model" in sample:
        sample["content"] = block
    return message


@message_mutant("CT-01")
def samples_without_a_text(message):
    return samples(message, {"type": "text", "value": "Hi"})


@message_mutant("CT-01", revision="2025-11-25")
def samples_an_image_of_no_kind(message):
    return samples(message, {"type": "image", "data": ""})


@message_mutant("CT-03")
def samples_bytes_as_hexadecimal(message):
    return samples(message, {"type": "image", "data": "0x89 0x50", "mimeType": "image/png"})


@message_mutant("CT-04")
def samples_with_a_priority_of_seven(message):
    return samples(message, {"type": "text", "text": "Hi", "annotations": {"priority": 7}})


@message_mutant("CT-06")
def has_an_icon_without_a_src(message):
    info = message.get("params", {}).get("_meta", {}).get(CLIENT_INFO)
    if info is not None:
        info["icons"] = [{"mimeType": "image/png"}]
    return message


@message_mutant("CT-06", revision="2025-11-25")
def has_an_icon_and_no_list_of_them(message):
    if message.get("method") == "initialize":
        message["params"]["clientInfo"]["icons"] = {"src": "https://example.com/i.png"}
    return message


@wire_mutant("CT-07")
def fetches_every_icon(wire: Wire):
    def receive(line):
        for port in re.findall(rb"ftp://127.0.0.1:(\d+)/", line)[:1]:
            socket.create_connection(("127.0.0.1", int(port))).close()

    wire.to_subject = receive


@wire_mutant("CT-07", revision="2025-11-25")
def drops_a_list_with_unusual_icons(wire: Wire):
    def receive(line):
        message = json.loads(line)
        if b"javascript:" not in line:
            return None
        message["result"]["tools"] = []
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = receive


@wire_mutant("CT-08")
def breaks_at_a_hologram(wire: Wire):
    gives_up_at(wire, lambda result: "hologram" in json.dumps(result))
