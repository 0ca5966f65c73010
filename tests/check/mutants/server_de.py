"""Servers that mix the two eras up, each in its own way."""

from check.mutants.server_vn import VERSION, meta_of, to_subject
from check.mutation import Wire, message_mutant, wire_mutant


@wire_mutant("DE-09")
def does_not_respond_to_a_handshake(wire: Wire):
    wire.to_subject = lambda line: b"" if b'"initialize"' in line else None


@wire_mutant("DE-09")
def ends_at_a_handshake(wire: Wire):
    dead = []

    def die(message):
        if message.get("method") == "initialize":
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
            dead.append(message)
        return None if dead else message

    to_subject(wire, die)


@message_mutant("DE-10")
def answers_lists_as_it_always_did(message):
    if "tools" in message.get("result", {}):
        del message["result"]["resultType"]
    return message


@wire_mutant("DE-11")
def requires_metadata_in_a_session(wire: Wire):
    def insist(message):
        if message.get("method") == "tools/list" and VERSION not in meta_of(message):
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "no _meta"}})
            return None
        return message

    to_subject(wire, insist)


@wire_mutant("DE-12")
def leaves_requests_of_the_new_era_without_an_answer_in_a_session(wire: Wire):
    opened = []

    def swallow(message):
        if message.get("method") == "initialize":
            opened.append(message)
        return None if opened and VERSION in meta_of(message) else message

    to_subject(wire, swallow)


@wire_mutant("DE-12")
def ends_the_session_at_a_request_that_stands_alone(wire: Wire):
    ended = []

    def end(message):
        if VERSION in meta_of(message) and message.get("method") != "server/discover":
            ended.append(message)
        elif ended and "id" in message:
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32600, "message": "there is no session"}})
            return None
        return message

    to_subject(wire, end)


@wire_mutant("DE-13")
def serves_requests_without_metadata(wire: Wire):
    def serve(message):
        if message.get("method") == "tools/call" and VERSION not in meta_of(message):
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})
            return None
        return message

    to_subject(wire, serve)


@wire_mutant("DE-14")
def mistakes_old_versions_for_requests(wire: Wire):
    def overlook(message):
        if meta_of(message).get(VERSION) == "2025-11-25":
            meta_of(message)[VERSION] = "2026-07-28"
        return message

    to_subject(wire, overlook)


@wire_mutant("DE-16", revision="2025-11-25")
def asks_through_the_session(wire: Wire):
    def ask(message):
        if message.get("method") == "tools/call" and VERSION in meta_of(message):
            wire.send_to_check({"jsonrpc": "2.0", "id": f"q{message['id']}", "method": "roots/list"})
        return message

    to_subject(wire, ask)
