"""Servers that break the rules of elicitation, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant


def _questions(message, mode="form"):
    """The params of questions to the user, whichever way they are asked."""
    if message.get("method") == "elicitation/create":
        found = [message["params"]]
    else:
        asked = message.get("result", {}).get("inputRequests", {}).values()
        found = [each["params"] for each in asked if each["method"] == "elicitation/create"]
    return [each for each in found if each.get("mode", "form") == mode]


@message_mutant("EL-01")
def nests_its_forms(message):
    for params in _questions(message):
        params["requestedSchema"]["properties"]["address"] = {"type": "object", "properties": {"city": {"type": "string"}}}
    return message


@message_mutant("EL-01", revision="2025-11-25")
def asks_without_words(message):
    for params in _questions(message):
        del params["message"]
    return message


@message_mutant("EL-02")
def leaves_the_type_open(message):
    for params in _questions(message):
        params["requestedSchema"]["properties"]["maybe"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    return message


@message_mutant("EL-02")
def invents_a_format(message):
    for params in _questions(message):
        params["requestedSchema"]["properties"]["phone"] = {"type": "string", "format": "phone"}
    return message


@message_mutant("EL-03")
def offers_choices_too_early(message):
    for params in _questions(message):
        params["requestedSchema"]["properties"]["colour"] = {"type": "string", "oneOf": [{"const": "red", "title": "Red"}]}
    return message


@message_mutant("EL-03")
def offers_several_choices_too_early(message):
    for params in _questions(message):
        colours = {"type": "array", "items": {"type": "string", "enum": ["red", "green"]}}
        params["requestedSchema"]["properties"]["colours"] = colours
    return message


@wire_mutant("EL-08")
def sends_every_user_to_a_page(wire: Wire):
    wire.to_subject = _declaring


@wire_mutant("EL-08", revision="2025-11-25")
def sends_every_user_to_a_page_with_a_request(wire: Wire):
    wire.to_subject = _declaring


def _declaring(line):
    for declared in (b'"elicitation":{}', b'"elicitation":{"form":{}}', b'"elicitation":{"url":{}}'):
        line = line.replace(declared, b'"elicitation":{"form":{},"url":{}}')
    return line + b"\n"


@message_mutant("EL-08")
def rejects_the_mode_in_its_own_way(message):
    if message.get("error", {}).get("code") == -32021:
        message["error"] = {"code": -32602, "message": "the client cannot show that"}
    return message


@message_mutant("EL-08")
def fails_where_the_mode_is_missing(message):
    if message.get("error", {}).get("code") == -32021:
        del message["error"]
        message["result"] = {"resultType": "complete", "isError": True, "content": [{"type": "text", "text": "I cannot ask."}]}
    return message


@message_mutant("EL-10")
def names_its_visits_too_late(message):
    for params in _questions(message, "url"):
        params["elicitationId"] = "visit-1"
    return message


@message_mutant("EL-10", revision="2025-11-25")
def does_not_name_its_visits(message):
    for params in _questions(message, "url"):
        del params["elicitationId"]
    return message


@message_mutant("EL-12")
def announces_the_end_of_other_visits(message):
    if not _questions(message, "url"):
        return message
    return message, {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "of another"}}


@message_mutant("EL-13")
def asks_for_a_password(message):
    for params in _questions(message):
        params["requestedSchema"]["properties"]["user_password"] = {"type": "string"}
    return message


@message_mutant("EL-13")
def hands_out_addresses_with_a_key(message):
    for params in _questions(message, "url"):
        params["url"] += "?access_token=abc"
    return message


@wire_mutant("EL-15")
def waits_for_a_yes(wire: Wire):
    wire.to_subject = lambda line: b"" if b'"cancel"' in line else None


@wire_mutant("EL-15", revision="2025-11-25")
def waits_for_a_client_that_failed(wire: Wire):
    wire.to_subject = lambda line: b"" if b'"error"' in line else None


@wire_mutant("EL-16")
def mistakes_any_word_for_a_number(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"twopipes-check-no-number"', b"73") + b"\n"


@wire_mutant("EL-16", revision="2025-11-25")
def gives_any_word_back(wire: Wire):
    words = []

    def believe(line):
        if b"twopipes-check-no-number" in line:
            words.append("twopipes-check-no-number")
        return line.replace(b'"twopipes-check-no-number"', b"73") + b"\n"

    def repeat(line):
        message = json.loads(line)
        for block in message.get("result", {}).get("content", []) if words else []:
            block["text"] = block.get("text", "").replace("73", words[0])
        return json.dumps(message).encode() + b"\n"

    wire.to_subject, wire.from_subject = believe, repeat
