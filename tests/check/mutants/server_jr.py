"""Servers that break the rules of JSON-RPC, one each."""

import json

from check.mutation import Wire, line_mutant, message_mutant, nothing_from, wire_mutant

LEGACY = "2025-11-25"
BATCHES = "2025-03-26"
ERROR = {"code": -32603, "message": "no"}


def is_answer_about(message, member):
    return member in message.get("result", {})


@message_mutant("JR-01")
def forgets_the_version(message):
    if is_answer_about(message, "tools"):
        del message["jsonrpc"]
    return message


@wire_mutant("JR-01")
def serves_another_version(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"jsonrpc":"1.0"', b'"jsonrpc":"2.0"') + b"\n"


@message_mutant("JR-02", revision=LEGACY)
def asks_with_half_an_id(message):
    if "method" in message and "id" in message:
        message["id"] = 1.5
    return message


@message_mutant("JR-03", revision=LEGACY)
def asks_without_an_id(message):
    if "method" in message and "id" in message:
        message["id"] = None
    return message


@wire_mutant("JR-03")
def serves_the_id_null(wire: Wire):
    def serve(line):
        if line.startswith(b"{") and json.loads(line).get("id", 0) is None:
            wire.send_to_check({"jsonrpc": "2.0", "id": None, "result": {}})
            return b""
        return None

    wire.to_subject = serve


@wire_mutant("JR-04")
def asks_with_the_same_id_again(wire: Wire):
    real = []

    def ask(line):
        message = json.loads(line)
        if "method" not in message or "id" not in message:
            return None
        real.append(message["id"])
        return json.dumps({**message, "id": "again"}).encode() + b"\n"

    def answer(line):
        if b'"id":"again"' not in line:
            return None
        return json.dumps({**json.loads(line), "id": real[-1]}).encode() + b"\n"

    wire.from_subject, wire.to_subject = ask, answer


def seen_before(wire, answer):
    """Requests whose id came before never reach the server; ``answer`` says what they get."""
    seen = set()

    def receive(line):
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            return None
        if message["id"] in seen:
            answer(message)
            return b""
        seen.add(message["id"])
        return None

    wire.to_subject = receive


@wire_mutant("JR-05")
def rejects_a_reused_id(wire: Wire):
    seen_before(wire, lambda message: wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": ERROR}))


@wire_mutant("JR-05")
def ignores_a_reused_id(wire: Wire):
    seen_before(wire, lambda _message: None)


@message_mutant("JR-06")
def ids_become_texts(message):
    if message.get("id") == 700001:
        message["id"] = "700001"
    return message


@message_mutant("JR-06")
def answers_twice(message):
    return (message, message) if is_answer_about(message, "tools") else message


@message_mutant("JR-07")
def has_a_result_and_an_error(message):
    if is_answer_about(message, "tools"):
        message["error"] = ERROR
    return message


@message_mutant("JR-07")
def has_a_result_that_is_an_array(message):
    if is_answer_about(message, "tools"):
        message["result"] = message["result"]["tools"]
    return message


@message_mutant("JR-08")
def has_codes_that_are_words(message):
    if "error" in message:
        message["error"]["code"] = "E_METHOD"
    return message


@message_mutant("JR-08")
def has_no_message(message):
    if "error" in message:
        del message["error"]["message"]
    return message


@message_mutant("JR-09")
def gives_ids_to_notifications(message):
    if "method" in message:
        message.setdefault("id", 77)
    return message


@wire_mutant("JR-10")
def complains_about_notifications(wire: Wire):
    def complain(line):
        if b"check-unknown" in line:
            wire.send_to_check({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "what?"}})

    wire.to_subject = complain


@message_mutant("JR-11")
def has_params_that_are_arrays(message):
    if "method" in message:
        message["params"] = [message.get("params")]
    return message


@wire_mutant("JR-11")
def takes_params_that_are_arrays(wire: Wire):
    def take(line):
        message = json.loads(line) if line.startswith(b"{") else {}
        if not isinstance(message.get("params", {}), dict):
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {}})
            return b""
        return None

    wire.to_subject = take


@wire_mutant("JR-12")
def does_not_support_batches(wire: Wire):
    wire.to_subject = lambda line: b"" if line.startswith(b"[") else None


@line_mutant("JR-13")
def answers_a_batch_line_by_line(line):
    if not line.startswith(b"["):
        return None
    return b"".join(json.dumps(each).encode() + b"\n" for each in json.loads(line))


@wire_mutant("JR-13")
def answers_notifications_with_an_empty_array(wire: Wire):
    def answer(line):
        if line.startswith(b"[") and b'"id"' not in line:
            wire.send_to_check([])

    wire.to_subject = answer


@wire_mutant("JR-13")
def does_not_respond_to_an_empty_array(wire: Wire):
    wire.to_subject = lambda line: b"" if line == b"[]" else None


@line_mutant("JR-15")
def writes_arrays(line):
    return b"[" + line + b"]\n" if b'"tools":[' in line else None


@wire_mutant("JR-15")
def serves_arrays(wire: Wire):
    def serve(line):
        if not line.startswith(b"["):
            return None
        return b"".join(json.dumps(each).encode() + b"\n" for each in json.loads(line))

    wire.to_subject = serve


@wire_mutant("JR-15", revision=LEGACY)
def hangs_after_an_array(wire: Wire):
    wire.to_subject = nothing_from(lambda line: line.startswith(b"["))


@wire_mutant("JR-16")
def does_not_respond_to_unknown_methods(wire: Wire):
    wire.to_subject = lambda line: b"" if b"no-such-method" in line else None


@message_mutant("JR-17")
def forgets_the_ids_of_errors(message):
    if "error" in message:
        message.pop("id", None)
    return message


@wire_mutant("JR-18")
def rejects_unknown_members(wire: Wire):
    def refuse(line):
        message = json.loads(line) if line.startswith(b"{") else {}
        if isinstance(message.get("params"), dict) and "zz" in message["params"] and "id" in message:
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "zz?"}})
            return b""
        return None

    wire.to_subject = refuse


@wire_mutant("JR-19")
def hangs_after_a_stray_response(wire: Wire):
    wire.to_subject = nothing_from(lambda line: b'"never-sent"' in line)


@wire_mutant("JR-20")
def hangs_after_a_broken_line(wire: Wire):
    wire.to_subject = nothing_from(lambda line: line == b'{"jsonrpc":')


@wire_mutant("JR-20")
def hangs_after_invalid_utf8(wire: Wire):
    wire.to_subject = nothing_from(lambda line: b"\xff\xfe" in line)


@wire_mutant("JR-20")
def hangs_after_a_byte_order_mark(wire: Wire):
    wire.to_subject = nothing_from(lambda line: line.startswith(b"\xef\xbb\xbf"))
