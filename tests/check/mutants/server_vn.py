"""Servers that break the rules of requests that stand alone, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

VERSION = "io.modelcontextprotocol/protocolVersion"
ABLE = "io.modelcontextprotocol/clientCapabilities"
NEVER = "2099-01-01"


def meta_of(message):
    return message.get("params", {}).get("_meta", {})


def to_subject(wire: Wire, change):
    """Changes each message to the twin; ``None`` swallows it."""

    def changed(line):
        found = change(json.loads(line))
        return b"" if found is None else json.dumps(found).encode() + b"\n"

    wire.to_subject = changed


@wire_mutant("VN-02")
def remembers_what_earlier_requests_said(wire: Wire):
    known = {}

    def fill_in(message):
        known.update(meta_of(message) if isinstance(meta_of(message).get(ABLE), dict) and VERSION in meta_of(message) else {})
        if message.get("method") == "server/discover":
            message["params"] = {**message.get("params", {}), "_meta": {**known, **meta_of(message)}}
        return message

    to_subject(wire, fill_in)


@message_mutant("VN-02")
def has_a_code_of_its_own(message):
    if message.get("error", {}).get("code") == -32602:
        message["error"]["code"] = -32600
    return message


@wire_mutant("VN-03")
def requires_client_info(wire: Wire):
    def ask(message):
        if "id" in message and VERSION in meta_of(message) and "io.modelcontextprotocol/clientInfo" not in meta_of(message):
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "who are you?"}})
            return None
        return message

    to_subject(wire, ask)


@wire_mutant("VN-04")
def does_not_look_at_the_version_of_lists(wire: Wire):
    def overlook(message):
        if message.get("method") == "tools/list":
            meta_of(message)[VERSION] = "2026-07-28"
        return message

    to_subject(wire, overlook)


@message_mutant("VN-06")
def does_not_say_for_whom_discovery_is(message):
    if "supportedVersions" in message.get("result", {}):
        del message["result"]["cacheScope"]
    return message


@wire_mutant("VN-07")
def requires_discovery_first(wire: Wire):
    discovered = []

    def insist(message):
        if message.get("method") == "server/discover":
            discovered.append(message)
        if not discovered and "id" in message:
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32600, "message": "discover first"}})
            return None
        return message

    to_subject(wire, insist)


@message_mutant("VN-08")
def does_not_say_who_it_is(message):
    message.get("result", {}).pop("_meta", None)
    return message


@message_mutant("VN-09")
def does_not_say_the_type_of_lists(message):
    if "tools" in message.get("result", {}):
        del message["result"]["resultType"]
    return message


@wire_mutant("VN-12")
def answers_pings(wire: Wire):
    def pong(message):
        if message.get("method") == "ping":
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete"}})
            return None
        return message

    to_subject(wire, pong)


@wire_mutant("VN-13")
def judges_all_by_the_last_version_it_refused(wire: Wire):
    refused = []

    def remember(message):
        if meta_of(message).get(VERSION) == NEVER:
            refused.append(message)
        elif refused:
            meta_of(message)[VERSION] = NEVER
        return message

    to_subject(wire, remember)


@wire_mutant("VN-14")
def hides_its_tools_from_unknown_clients(wire: Wire):
    unknown = set()

    def look(message):
        if message.get("method") == "tools/list" and "twopipes-check" not in json.dumps(message):
            unknown.add(message["id"])
        return message

    def hide(line):
        message = json.loads(line)
        if message.get("id") in unknown:
            message["result"]["tools"] = []
            return json.dumps(message).encode() + b"\n"
        return None

    to_subject(wire, look)
    wire.from_subject = hide


@wire_mutant("VN-13")
def serves_all_versions_once_it_has_served_one(wire: Wire):
    served = []

    def remember(message):
        if meta_of(message).get(VERSION) == NEVER and served:
            meta_of(message)[VERSION] = served[-1]
        elif message.get("method") != "server/discover" and meta_of(message):
            served.append(meta_of(message)[VERSION])
        return message

    to_subject(wire, remember)


@wire_mutant("VN-15")
def mistakes_a_notification_for_the_old_era(wire: Wire):
    decided = []

    def decide(message):
        if not decided and message.get("method") != "server/discover":
            decided.append("new" if "id" in message else "old")
        is_strange = decided == ["old"] and message.get("method") == "server/discover"
        return {**message, "method": "gone"} if is_strange else message

    to_subject(wire, decide)


@wire_mutant("VN-15")
def requires_metadata_in_notifications(wire: Wire):
    def complain(message):
        if "id" not in message and not meta_of(message):
            wire.send_to_check({"jsonrpc": "2.0", "error": {"code": -32602, "message": "no _meta"}})
            return None
        return message

    to_subject(wire, complain)


@wire_mutant("VN-15")
def ignores_notifications_without_metadata(wire: Wire):
    to_subject(wire, lambda message: message if "id" in message or meta_of(message) else None)
