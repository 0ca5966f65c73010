"""Servers that use other error codes than they should, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant

LEGACY = "2025-11-25"


def code_of(message):
    return message.get("error", {}).get("code")


def with_code(message, before, after):
    if code_of(message) == before:
        message["error"]["code"] = after
    return message


def instead(wire, wanted, answer):
    """Requests for which ``wanted`` is true never reach the server; ``answer`` makes the error that they get."""

    def receive(line):
        message = json.loads(line) if line.startswith(b"{") and line.endswith(b"}") else {}
        if "id" in message and wanted(message):
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": answer(message)})
            return b""
        return None

    wire.to_subject = receive


@message_mutant("ER-01")
def mistakes_a_broken_line_for_an_invalid_request(message):
    return with_code(message, -32700, -32600)


@message_mutant("ER-01")
def does_not_respond_to_broken_lines(message):
    return None if code_of(message) == -32700 else message


@message_mutant("ER-02")
def mistakes_an_invalid_request_for_invalid_params(message):
    return with_code(message, -32600, -32602)


@message_mutant("ER-02", revision=LEGACY)
def does_not_respond_to_invalid_requests(message):
    return None if code_of(message) == -32600 else message


@message_mutant("ER-03")
def mistakes_an_unknown_method_for_invalid_params(message):
    return with_code(message, -32601, -32602)


@wire_mutant("ER-03")
def mistakes_what_it_did_not_declare_for_a_failure(wire: Wire):
    def undeclare(line):
        message = json.loads(line)
        if isinstance(message.get("result"), dict) and "supportedVersions" in message["result"]:
            message["result"]["capabilities"].pop("prompts")
            return json.dumps(message).encode() + b"\n"
        return None

    wire.from_subject = undeclare
    instead(wire, lambda message: message.get("method") == "prompts/list", lambda _message: {"code": -32603, "message": "no"})


@message_mutant("ER-04")
def answers_invalid_params_with_an_internal_error(message):
    return with_code(message, -32602, -32603)


@wire_mutant("ER-04")
def mistakes_invalid_arguments_of_prompts_for_a_failure(wire: Wire):
    instead(
        wire,
        lambda message: message.get("method") == "prompts/get" and "arguments" in message["params"],
        lambda _message: {"code": -32603, "message": "expected string, received object"},
    )


@wire_mutant("ER-04", revision=LEGACY)
def takes_any_log_level(wire: Wire):
    def take(line):
        message = json.loads(line)
        if message.get("method") == "logging/setLevel":
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {}})
            return b""
        return None

    wire.to_subject = take


@message_mutant("ER-05")
def answers_failures_with_code_zero(message):
    return with_code(message, -32603, 0)


@message_mutant("ER-06")
def uses_a_reserved_code(message):
    return with_code(message, -32601, -32050)


@wire_mutant("ER-06")
def mistakes_an_unknown_tool_for_a_missing_capability(wire: Wire):
    data = {"requiredCapabilities": {"sampling": {}}}
    instead(
        wire,
        lambda message: message.get("params", {}).get("name") == "twopipes-check-no-such-name",
        lambda _message: {"code": -32021, "message": "no", "data": data},
    )


@wire_mutant("ER-06")
def mistakes_a_missing_resource_for_an_old_version(wire: Wire):
    data = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
    instead(
        wire,
        lambda message: "no-such-name" in str(message.get("params", {}).get("uri")),
        lambda _message: {"code": -32022, "message": "no", "data": data},
    )


@message_mutant("ER-07")
def uses_a_code_of_json_rpc(message):
    return with_code(message, -32602, -32500)


@message_mutant("ER-08")
def uses_the_old_code_for_missing_resources(message):
    return with_code(message, -32602, -32002)


@message_mutant("ER-08")
def uses_the_old_code_for_addresses(message):
    return with_code(message, -32021, -32042)


@wire_mutant("ER-08")
def sends_users_to_pages_by_an_error(wire: Wire):
    page = {"mode": "url", "elicitationId": "1", "url": "https://login.example", "message": "a page"}
    instead(
        wire,
        lambda message: message.get("params", {}).get("name") == "ask_url" and '"url": {}' in json.dumps(message),
        lambda _message: {"code": -32042, "message": "visit", "data": {"elicitations": [page]}},
    )


@message_mutant("ER-09")
def does_not_say_which_versions_there_are(message):
    if code_of(message) == -32022:
        message["error"]["data"].pop("supported")
    return message


@message_mutant("ER-09")
def does_not_say_which_version_was_asked_for(message):
    if code_of(message) == -32022:
        message["error"]["data"]["requested"] = "2026-07-28"
    return message


@message_mutant("ER-10")
def lists_capabilities_by_their_names(message):
    if code_of(message) == -32021:
        message["error"]["data"] = {"requiredCapabilities": ["elicitation"]}
    return message


@wire_mutant("ER-11")
def sends_users_nowhere(wire: Wire):
    instead(
        wire,
        lambda message: message.get("params", {}).get("name") == "ask_url",
        lambda _message: {"code": -32042, "message": "visit", "data": {"elicitations": [{"mode": "url", "message": "a page"}]}},
    )


@wire_mutant("ER-11")
def sends_users_away_for_what_does_not_exist(wire: Wire):
    page = {"mode": "url", "elicitationId": "1", "url": "https://login.example", "message": "a page"}
    instead(
        wire,
        lambda message: message.get("params", {}).get("name") == "twopipes-check-no-such-name",
        lambda _message: {"code": -32042, "message": "visit", "data": {"elicitations": [page]}},
    )


@message_mutant("ER-12")
def mistakes_a_missing_resource_for_invalid_params(message):
    return with_code(message, -32002, -32602)


@message_mutant("ER-13")
def mistakes_a_missing_resource_for_a_failure(message):
    return with_code(message, -32602, -32603)


@wire_mutant("ER-17")
def looks_at_the_method_first(wire: Wire):
    instead(
        wire,
        lambda message: isinstance(message.get("method"), str) and "no-such-method" in message["method"],
        lambda _message: {"code": -32601, "message": "no such method"},
    )


@wire_mutant("ER-17")
def looks_at_the_version_before_the_shape(wire: Wire):
    instead(
        wire,
        lambda message: message.get("method") == 5,
        lambda _message: {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "1900-01-01"}},
    )
