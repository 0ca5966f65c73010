"""Servers that break the rules of logging, one each."""

import json
import sys
from pathlib import Path

from check.healthy import IMPATIENT
from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant
from check.time_scale import scaled
from twopipes import ServerCommand
from twopipes._tools.check.server_source import CommandTarget

RAW = Path(__file__).parents[1] / "raw_server.py"
LOG = "notifications/message"
LEVEL = "io.modelcontextprotocol/logLevel"


def changed_on_the_way(change):
    """What the check asks, changed before the server sees it: a function of the message that returns whether it did something."""

    def ask(line):
        message = json.loads(line)
        return json.dumps(message).encode() + b"\n" if change(message) else None

    return ask


@message_mutant("LG-01")
def logs_without_having_said_so(message):
    message.get("result", {}).get("capabilities", {}).pop("logging", None)
    return message


@message_mutant("LG-01", revision="2025-11-25")
def logs_in_a_session_without_having_said_so(message):
    message.get("result", {}).get("capabilities", {}).pop("logging", None)
    return message


@message_mutant("LG-02")
def logs_at_a_level_of_its_own(message):
    if message.get("method") == LOG:
        message["params"]["level"] = "loud"
    return message


@message_mutant("LG-02", revision="2025-11-25")
def logs_a_message_instead_of_data(message):
    if message.get("method") == LOG:
        message["params"]["message"] = message["params"].pop("data")
    return message


@message_mutant("LG-02")
def numbers_its_loggers(message):
    if message.get("method") == LOG:
        message["params"]["logger"] = 7
    return message


@wire_mutant("LG-03")
def does_not_care_about_the_level(wire: Wire):
    def set_level(message):
        if message.get("method") == "logging/setLevel":
            message["params"]["level"] = "debug"
            return True
        return False

    wire.to_subject = changed_on_the_way(set_level)


@wire_mutant("LG-03")
def returns_the_level_that_was_set(wire: Wire):
    asked = []

    def receive(line):
        if b'"logging/setLevel"' in line:
            asked.append(json.loads(line)["id"])

    def change(line):
        message = json.loads(line)
        if message.get("id") not in asked or "result" not in message:
            return None
        message["result"]["level"] = "debug"
        return json.dumps(message).encode() + b"\n"

    wire.to_subject, wire.from_subject = receive, change


@wire_mutant("LG-04")
def mistakes_any_word_for_a_level(wire: Wire):
    def set_level(message):
        if message.get("method") == "logging/setLevel":
            message["params"]["level"] = "info"
            return True
        return False

    wire.to_subject = changed_on_the_way(set_level)


@wire_mutant("LG-05")
def logs_for_every_client(wire: Wire):
    wire.to_subject = changed_on_the_way(_wants_everything)


def _wants_everything(message):
    if message.get("method") == "tools/call":
        message["params"]["_meta"][LEVEL] = "debug"
        return True
    return False


@wire_mutant("LG-06")
def logs_more_than_was_asked_for(wire: Wire):
    wire.to_subject = changed_on_the_way(lambda message: LEVEL in _meta(message) and _wants_everything(message))


def _meta(message):
    return message.get("params", {}).get("_meta", {})


@wire_mutant("LG-06")
def logs_after_the_answer(wire: Wire):
    held = []

    def late(line):
        if json.loads(line).get("method") == LOG:
            # The first of them in time, so that it shows that there are some.
            if held:
                held.append(line)
                return b""
            held.append(b"")
            return None
        lines = [line, *filter(None, held)]
        held.clear()
        return b"\n".join(lines) + b"\n"

    wire.from_subject = late


@message_mutant("LG-07")
def logs_to_a_subscription(message):
    if message.get("method") == LOG:
        message["params"]["_meta"] = {"io.modelcontextprotocol/subscriptionId": 1}
    return message


@wire_mutant("LG-07")
def remembers_who_requested_log_messages(wire: Wire):
    wanted = []

    def remember(message):
        if LEVEL in _meta(message):
            wanted.append(True)
        return bool(wanted) and _wants_everything(message)

    wire.to_subject = changed_on_the_way(remember)


@wire_mutant("LG-08")
def mistakes_any_word_for_the_level_of_a_request(wire: Wire):
    wire.to_subject = changed_on_the_way(lambda message: _meta(message).get(LEVEL) == "loud" and _wants_everything(message))


@wire_mutant("LG-09")
def still_has_set_level(wire: Wire):
    def answer(line):
        message = json.loads(line)
        if message.get("method") != "logging/setLevel":
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete"}})
        return b""

    wire.to_subject = answer


@raw_mutant("LG-10")
def logs_its_environment():
    command = ServerCommand([sys.executable, str(RAW), "logs-its-environment"], env={"SERVICE_TOKEN": "not-for-your-eyes"})
    return CommandTarget(command, timeouts=scaled(IMPATIENT))
