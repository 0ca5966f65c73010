"""Servers that break the rules of roots, one each."""

from check.mutation import Wire, message_mutant, wire_mutant


def _questions(message):
    return [each for each in message.get("result", {}).get("inputRequests", {}).values() if each["method"] == "roots/list"]


@message_mutant("RT-04")
def asks_with_an_envelope(message):
    for each in _questions(message):
        each |= {"jsonrpc": "2.0", "id": 1}
    return message


@wire_mutant("RT-04")
def asks_clients_without_roots(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"sampling":{}}', b'"sampling":{},"roots":{}}') + b"\n"
