"""Servers that break the rules of subscriptions, one each."""

import json
import sys
from pathlib import Path

from check.healthy import WAITS
from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant
from check.time_scale import scaled
from twopipes._process.command import ServerCommand
from twopipes._tools.check.server_source import CommandTarget

RAW = Path(__file__).parents[1] / "raw_listening_server.py"
TAG = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS_CHANGED = "notifications/tools/list_changed"


def line_of(message):
    return json.dumps(message).encode() + b"\n"


def tagged(method, listen, **params):
    return {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": {TAG: listen}}}


class Listens:
    """What a mutant knows of the listens of one connection."""

    def __init__(self, wire: Wire):
        self.open: list = []
        wire.to_subject = self.sent

    def sent(self, line):
        message = json.loads(line)
        if message.get("method") == "subscriptions/listen":
            self.open.append(message["id"])


@wire_mutant("SU-01")
def mistakes_nothing_for_everything(wire: Wire):
    def listen(line):
        message = json.loads(line)
        if message.get("method") != "subscriptions/listen" or "notifications" in message["params"]:
            return None
        wire.send_to_check(tagged(ACKNOWLEDGED, message["id"], notifications={"toolsListChanged": True}))
        return b""

    wire.to_subject = listen


@wire_mutant("SU-01")
def ends_what_is_not_asked_for(wire: Wire):
    def listen(line):
        message = json.loads(line)
        if message.get("method") != "subscriptions/listen" or "notifications" in message["params"]:
            return None
        listen = message["id"]
        wire.send_to_check({"jsonrpc": "2.0", "id": listen, "result": {"resultType": "complete", "_meta": {TAG: listen}}})
        return b""

    wire.to_subject = listen


@message_mutant("SU-02")
def never_acknowledges(message):
    return None if message.get("method") == ACKNOWLEDGED else message


@message_mutant("SU-02")
def announces_a_change_before_it_acknowledges(message):
    if message.get("method") == ACKNOWLEDGED:
        return tagged(TOOLS_CHANGED, message["params"]["_meta"][TAG]), message
    return message


@message_mutant("SU-02")
def acknowledges_without_saying_what(message):
    if message.get("method") == ACKNOWLEDGED:
        del message["params"]["notifications"]
    return message


@message_mutant("SU-04")
def has_numbers_for_ids(message):
    meta = message.get("params", {}).get("_meta", {})
    if TAG in meta:
        meta[TAG] = int(meta[TAG])
    return message


@message_mutant("SU-04")
def announces_changes_without_an_id(message):
    if message.get("method") == TOOLS_CHANGED:
        del message["params"]["_meta"]
    return message


@wire_mutant("SU-05")
def notifies_every_client(wire: Wire):
    known = Listens(wire)

    def tell(line):
        if json.loads(line).get("method") == TOOLS_CHANGED:
            return b"".join(line_of(tagged(TOOLS_CHANGED, each)) for each in known.open)
        return None

    wire.from_subject = tell


@wire_mutant("SU-05")
def announces_changes_without_a_listen(wire: Wire):
    def call(line):
        if b'"mutate"' in line:
            wire.send_to_check({"jsonrpc": "2.0", "method": TOOLS_CHANGED})

    wire.to_subject = call


@message_mutant("SU-06")
def acknowledges_more_than_was_asked_for(message):
    if message.get("method") == ACKNOWLEDGED:
        message["params"]["notifications"] = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
    return message


@message_mutant("SU-06")
def acknowledges_what_it_has_not_got(message):
    capabilities = message.get("result", {}).get("capabilities")
    if capabilities is not None:
        del capabilities["prompts"]
    return message


@message_mutant("SU-06")
def acknowledges_resources_that_it_does_not_watch(message):
    resources = message.get("result", {}).get("capabilities", {}).get("resources")
    if resources is not None:
        resources["subscribe"] = False
    return message


@message_mutant("SU-06")
def acknowledges_other_resources(message):
    if message.get("method") == ACKNOWLEDGED and "resourceSubscriptions" in message["params"]["notifications"]:
        message["params"]["notifications"]["resourceSubscriptions"].append("note://of-somebody-else")
    return message


@message_mutant("SU-09")
def never_announces_an_update(message):
    return None if message.get("method") == "notifications/resources/updated" else message


@wire_mutant("SU-09")
def announces_only_the_first_update(wire: Wire):
    told = []

    def tell(line):
        if json.loads(line).get("method") != "notifications/resources/updated":
            return None
        told.append(line)
        return None if len(told) == 1 else b""

    wire.from_subject = tell


@wire_mutant("SU-09")
def announces_other_resources(wire: Wire):
    known = Listens(wire)

    def tell(line):
        message = json.loads(line)
        if message.get("method") == "notifications/resources/updated":
            uri = message["params"]["uri"]
            return b"".join(line_of(tagged(message["method"], each, uri=uri)) for each in known.open)
        return None

    wire.from_subject = tell


@wire_mutant("SU-10")
def notifies_only_the_first_listener(wire: Wire):
    known = Listens(wire)

    def tell(line):
        message = json.loads(line)
        if message.get("method") == TOOLS_CHANGED and message["params"]["_meta"][TAG] != known.open[0]:
            return b""
        return None

    wire.from_subject = tell


@wire_mutant("SU-11")
def never_stops(wire: Wire):
    wire.to_subject = lambda line: b"" if b"notifications/cancelled" in line else None


@wire_mutant("SU-11")
def answers_what_was_cancelled(wire: Wire):
    def answer(line):
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            listen = message["params"]["requestId"]
            wire.send_to_check({"jsonrpc": "2.0", "id": listen, "result": {"resultType": "complete", "_meta": {TAG: listen}}})

    wire.to_subject = answer


@wire_mutant("SU-11")
def answers_what_was_cancelled_and_changes_nothing(wire: Wire):
    # Without a tool by the name of mutate, nobody can make it tell of anything.
    answers_what_was_cancelled(wire)
    wire.from_subject = lambda line: line.replace(b'"mutate"', b'"leave_alone"') + b"\n"


@message_mutant("SU-12")
def answers_a_listen_at_once(message):
    if message.get("method") == ACKNOWLEDGED:
        listen = message["params"]["_meta"][TAG]
        return message, {"jsonrpc": "2.0", "id": listen, "result": {"resultType": "complete", "_meta": {TAG: listen}}}
    return message


def raw_server(*faults):
    return CommandTarget(ServerCommand([sys.executable, str(RAW), *faults]), timeouts=scaled(WAITS))


@raw_mutant("SU-13")
def ends_a_listen_without_a_result():
    return raw_server("says-nothing")


@raw_mutant("SU-14")
def cancels_what_is_over():
    return raw_server("cancels-late")


@raw_mutant("SU-14")
def cancels_nothing_in_particular():
    return raw_server("cancels-nothing")


@wire_mutant("SU-16")
def remembers_listens_of_others(wire: Wire):
    # As if it knew a listen of a connection before: whoever changes something without listening is told of it all the same.
    known = Listens(wire)

    def call(line):
        known.sent(line)
        if b'"mutate"' in line and not known.open:
            wire.send_to_check(tagged(TOOLS_CHANGED, 2))

    wire.to_subject = call


@wire_mutant("SU-17")
def does_not_know_the_method(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"subscriptions/listen"', b'"oops"') + b"\n"


@wire_mutant("SU-18")
def loses_sight_of_very_many(wire: Wire):
    known = Listens(wire)

    def listen(line):
        known.sent(line)
        return b"" if b"subscriptions/listen" in line and len(known.open) > 100 else None

    wire.to_subject = listen
