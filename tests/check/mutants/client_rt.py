"""Clients that break the rules of roots, one each."""

from check.capable_client import capable_client
from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant


def _roots(message):
    """The answers with roots, whichever way they travel."""
    replies = [message.get("result"), *message.get("params", {}).get("inputResponses", {}).values()]
    return [each for each in replies if isinstance(each, dict) and "roots" in each]


@message_mutant("RT-01")
def gives_paths(message):
    for reply in _roots(message):
        reply["roots"] = [{"uri": "/home/anna"}]
    return message


@message_mutant("RT-01", revision="2025-11-25")
def gives_pages(message):
    for reply in _roots(message):
        reply["roots"] = [{"uri": "https://example.com/"}]
    return message


@message_mutant("RT-02")
def gives_no_array(message):
    for reply in _roots(message):
        reply["roots"] = {"uri": "file:///home/anna"}
    return message


@raw_mutant("RT-03")
def does_not_announce_changed_roots():
    homes = iter(["file:///home/anna", "file:///home/bert", "file:///home/carl"])
    return capable_client(roots=lambda: [next(homes, "file:///home/dora")])


@message_mutant("RT-05")
def announces_roots_in_a_modern_revision(message):
    if message.get("method") != "tools/list":
        return message
    return {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, message


@wire_mutant("RT-02")
def never_answers_roots_list(wire: Wire):
    wire.to_subject = lambda line: b"" if b'"roots/list"' in line else None
