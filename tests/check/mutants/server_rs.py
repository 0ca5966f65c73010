"""Servers that break the rules of resources, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant
from check.response_mutants import become_error, become_result, response_mutant

UPDATED = "notifications/resources/updated"


@response_mutant("RS-01", "resources/list")
def lists_resources_without_names(message, request):
    for item in message["result"]["resources"]:
        item.pop("name")


@response_mutant("RS-01", "resources/templates/list")
def lists_templates_without_their_uris(message, request):
    for item in message["result"]["resourceTemplates"]:
        item["uri"] = item.pop("uriTemplate")


@response_mutant("RS-01", "resources/templates/list", revision="2025-11-25")
def forgets_to_close_a_brace(message, request):
    for item in message["result"]["resourceTemplates"]:
        item["uriTemplate"] = item["uriTemplate"].replace("}", "")


@response_mutant("RS-02", "resources/read")
def reads_neither_text_nor_blob(message, request):
    for item in message.get("result", {}).get("contents", []):
        item.pop("text", None)
        item.pop("blob", None)


@response_mutant("RS-02", "resources/read", revision="2025-11-25")
def reads_one_thing(message, request):
    if "result" in message:
        message["result"]["contents"] = message["result"]["contents"][0]


@message_mutant("RS-03")
def never_announces_a_change(message):
    return None if message.get("method") == UPDATED else message


@response_mutant("RS-03", "resources/subscribe")
def rejects_what_it_has_declared(message, request):
    become_error(message, -32601)


@response_mutant("RS-03", "resources/subscribe")
def confirms_with_the_address(message, request):
    message["result"]["uri"] = request["params"]["uri"]


@wire_mutant("RS-03")
def never_forgets_a_subscription(wire: Wire):
    def ask(line):
        message = json.loads(line)
        if message.get("method") != "resources/unsubscribe":
            return None
        wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {}})
        return b""

    wire.to_subject = ask


@wire_mutant("RS-04")
def notifies_every_client(wire: Wire):
    def ask(line):
        if json.loads(line).get("params", {}).get("name") == "touch":
            wire.send_to_check({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": "note://first"}})

    wire.to_subject = ask


@response_mutant("RS-05", "resources/subscribe")
def still_takes_subscriptions(message, request):
    become_result(message)


@response_mutant("RS-05", "resources/unsubscribe")
def does_not_know_what_to_unsubscribe(message, request):
    become_error(message, -32602)


@response_mutant("RS-06", "resources/read")
def reads_nothing_where_nothing_is(message, request):
    if "error" in message:
        become_result(message, contents=[], ttlMs=0, cacheScope="private")


@message_mutant("RS-07")
def does_not_notify_listeners(message):
    return None if message.get("method") == "notifications/resources/list_changed" else message


@message_mutant("RS-07", revision="2025-11-25")
def does_not_announce_changes(message):
    return None if message.get("method") == "notifications/resources/list_changed" else message


@response_mutant("RS-08", "resources/read")
def reads_outside_its_folder(message, request):
    uri = request["params"]["uri"]
    if ".." in uri or "%2e" in uri:
        held = {"uri": uri, "text": "root:x:0:0:root:/root:/bin/sh\n"}
        become_result(message, contents=[held], ttlMs=0, cacheScope="private")


@response_mutant("RS-08", "resources/read", revision="2025-11-25")
def reads_what_has_no_address(message, request):
    if ":" not in request["params"]["uri"]:
        become_result(message, contents=[{"uri": request["params"]["uri"], "text": "something"}])


@response_mutant("RS-09", "resources/list")
def has_spaces_in_its_addresses(message, request):
    for item in message["result"]["resources"]:
        item["uri"] = item["uri"].replace("://", "://my ")


@response_mutant("RS-09", "resources/list", revision="2025-06-18")
def has_addresses_without_a_scheme(message, request):
    for item in message["result"]["resources"]:
        item["uri"] = item["uri"].partition(":")[2]


@message_mutant("RS-11")
def takes_subscriptions_that_it_has_not_declared(message):
    message.get("result", {}).get("capabilities", {}).get("resources", {}).pop("subscribe", None)
    return message
