"""Servers that break the rules of tools, one each."""

import json

from check.mutation import Wire, message_mutant, wire_mutant
from check.response_mutants import become_error, become_result, response_mutant


def tools_of(message):
    return message.get("result", {}).get("tools", [])


@response_mutant("TL-01", "tools/list")
def forgets_the_type_of_arguments(message, request):
    for tool in tools_of(message):
        tool["inputSchema"].pop("type")


@response_mutant("TL-01", "tools/list", revision="2025-11-25")
def has_no_schema_where_there_are_no_arguments(message, request):
    for tool in tools_of(message):
        if not tool["inputSchema"].get("properties"):
            tool["inputSchema"] = None


@response_mutant("TL-02", "tools/call")
def insists_on_arguments(message, request):
    if "arguments" not in request["params"]:
        become_error(message, -32602)


@response_mutant("TL-02", "tools/call", revision="2025-11-25")
def fails_without_arguments(message, request):
    if "arguments" not in request["params"]:
        become_result(message, content=[{"type": "text", "text": "expected an object, received undefined"}], isError=True)


@response_mutant("TL-03", "tools/call")
def gives_content_that_is_a_text(message, request):
    if "result" in message:
        message["result"]["content"] = "text"


@response_mutant("TL-03", "tools/call", revision="2025-11-25")
def says_is_error_in_words(message, request):
    if "result" in message:
        message["result"]["isError"] = "no"


@response_mutant("TL-04", "tools/call")
def mistakes_an_unknown_tool_for_a_failed_one(message, request):
    if "error" in message:
        become_result(message, content=[{"type": "text", "text": "unknown tool"}], isError=True)


@response_mutant("TL-05", "tools/call")
def mistakes_a_failed_tool_for_a_failed_request(message, request):
    if message.get("result", {}).get("isError"):
        become_error(message, -32603)


@response_mutant("TL-06", "tools/call")
def mistakes_bad_arguments_for_a_bad_request(message, request):
    if message.get("result", {}).get("isError"):
        become_error(message, -32602)


@response_mutant("TL-10", "tools/call")
def gives_text_alone(message, request):
    message.get("result", {}).pop("structuredContent", None)


@response_mutant("TL-10", "tools/call", revision="2025-06-18")
def forgets_a_member_that_it_promised(message, request):
    structured = message.get("result", {}).get("structuredContent")
    if isinstance(structured, dict):
        structured.pop("celsius", None)


@response_mutant("TL-10", "tools/call")
def gives_a_number_as_text(message, request):
    structured = message.get("result", {}).get("structuredContent")
    if isinstance(structured, dict) and "celsius" in structured:
        structured["celsius"] = "warm"


@response_mutant("TL-11", "tools/list")
def promises_an_array(message, request):
    for tool in tools_of(message):
        if "outputSchema" in tool:
            tool["outputSchema"] = {"type": "array"}


@response_mutant("TL-11", "tools/call", revision="2025-06-18")
def gives_an_array(message, request):
    if "structuredContent" in message.get("result", {}):
        message["result"]["structuredContent"] = [message["result"]["structuredContent"]]


@response_mutant("TL-12", "tools/call")
def wraps_an_array_without_need(message, request):
    structured = message.get("result", {}).get("structuredContent")
    if isinstance(structured, list):
        message["result"]["structuredContent"] = {"result": structured}


@response_mutant("TL-12", "tools/list")
def has_a_schema_that_is_true(message, request):
    for tool in tools_of(message):
        if "outputSchema" in tool:
            tool["outputSchema"] = True


@response_mutant("TL-13", "tools/call")
def refers_to_the_structure(message, request):
    if "structuredContent" in message.get("result", {}):
        message["result"]["content"] = [{"type": "text", "text": "see structuredContent"}]


@response_mutant("TL-15", "tools/list")
def has_a_name_with_a_space(message, request):
    for tool in tools_of(message):
        tool["name"] = tool["name"].replace("_", " ")


@response_mutant("TL-15", "tools/list", revision="2025-11-25")
def lists_a_tool_on_each_page(message, request):
    tools_of(message).append({"name": "again", "inputSchema": {"type": "object"}})


@wire_mutant("TL-15")
def does_not_care_for_upper_case(wire: Wire):
    def ask(line):
        message = json.loads(line)
        if message.get("method") != "tools/call":
            return None
        message["params"]["name"] = message["params"]["name"].lower()
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = ask


@wire_mutant("TL-16")
def lists_the_other_way_round_every_other_time(wire: Wire):
    walks = 0
    pages = {}

    def ask(line):
        nonlocal walks
        message = json.loads(line)
        if message.get("method") == "tools/list":
            walks += "cursor" not in message["params"]
            pages[message["id"]] = walks

    def answer(line):
        message = json.loads(line)
        if pages.get(message.get("id"), 0) % 2 or not tools_of(message):
            return None
        tools_of(message).reverse()
        return json.dumps(message).encode() + b"\n"

    wire.to_subject, wire.from_subject = ask, answer


@message_mutant("TL-17")
def does_not_notify_listeners(message):
    return None if message.get("method") == "notifications/tools/list_changed" else message


@message_mutant("TL-17", revision="2025-11-25")
def does_not_announce_changes(message):
    return None if message.get("method") == "notifications/tools/list_changed" else message


@wire_mutant("TL-17")
def notifies_clients_that_do_not_listen(wire: Wire):
    def ask(line):
        if json.loads(line).get("params", {}).get("name") == "mutate":
            wire.send_to_check({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    wire.to_subject = ask


@wire_mutant("TL-20")
def hangs_when_it_meets_a_prototype(wire: Wire):
    met = []

    def ask(line):
        if b"__proto__" in line:
            met.append(line)
        return b"" if met else None

    wire.to_subject = ask


@wire_mutant("TL-20", revision="2025-11-25")
def mistakes_an_object_for_a_text(wire: Wire):
    def ask(line):
        message = json.loads(line)
        arguments = message.get("params", {}).get("arguments", {})
        if not isinstance(arguments.get("text", ""), dict):
            return None
        arguments["text"] = "[object Object]"
        return json.dumps(message).encode() + b"\n"

    wire.to_subject = ask


@response_mutant("TL-21", "tools/list")
def sometimes_runs_as_a_task(message, request):
    for tool in tools_of(message):
        tool["execution"] = {"taskSupport": "sometimes"}
