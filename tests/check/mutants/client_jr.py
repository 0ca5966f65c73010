"""Clients that break the rules of JSON-RPC, one each."""

import json

from check.mutation import Wire, line_mutant, message_mutant, nothing_from, wire_mutant

LEGACY = "2025-11-25"


def is_list(message):
    return message.get("method") == "tools/list"


@message_mutant("JR-01")
def forgets_the_version(message):
    if is_list(message):
        del message["jsonrpc"]
    return message


@message_mutant("JR-02")
def asks_with_half_an_id(message):
    if is_list(message):
        message["id"] = 1.5
    return message


@message_mutant("JR-03")
def asks_with_the_id_null(message):
    if is_list(message):
        message["id"] = None
    return message


@message_mutant("JR-04")
def asks_twice_with_one_id(message):
    return (message, message) if is_list(message) else message


@message_mutant("JR-05")
def asks_with_an_id_that_still_waits(message):
    return (message, message) if is_list(message) else message


@message_mutant("JR-06", revision=LEGACY)
def ids_become_texts(message):
    if "method" not in message:
        message["id"] = str(message["id"])
    return message


@message_mutant("JR-07", revision=LEGACY)
def has_a_result_that_is_true(message):
    if "result" in message:
        message["result"] = True
    return message


@message_mutant("JR-08", revision=LEGACY)
def has_codes_that_are_words(message):
    if "error" in message:
        message["error"]["code"] = "E_METHOD"
    return message


@message_mutant("JR-09", revision=LEGACY)
def gives_ids_to_notifications(message):
    if message.get("method", "").startswith("notifications/"):
        message["id"] = "n"
    return message


@wire_mutant("JR-10", revision=LEGACY)
def complains_about_notifications(wire: Wire):
    def complain(line):
        if b"check-unknown" in line:
            wire.send_to_check({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "what?"}})

    wire.to_subject = complain


@message_mutant("JR-11")
def has_params_that_are_arrays(message):
    if is_list(message):
        message["params"] = [message.get("params")]
    return message


@wire_mutant("JR-12")
def does_not_support_batches(wire: Wire):
    wire.to_subject = lambda line: b"" if line.startswith(b"[") else None


@line_mutant("JR-13")
def answers_a_batch_line_by_line(line):
    if not line.startswith(b"["):
        return None
    return b"".join(json.dumps(each).encode() + b"\n" for each in json.loads(line))


@wire_mutant("JR-13")
def complains_about_a_batch_of_notifications(wire: Wire):
    def complain(line):
        if line.startswith(b"[") and len(json.loads(line)) == 1:
            wire.send_to_check({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "nothing to do"}})

    wire.to_subject = complain


@wire_mutant("JR-13")
def answers_nothing_with_nothing(wire: Wire):
    wire.to_subject = lambda line: wire.send_to_check([]) if line == b"[]" else None


@line_mutant("JR-14")
def opens_with_a_batch(line):
    return b"[" + line + b"]\n" if b'"initialize"' in line else None


@line_mutant("JR-15")
def asks_in_arrays(line):
    return b"[" + line + b"]\n" if b'"tools/list"' in line else None


@wire_mutant("JR-15", revision=LEGACY)
def serves_arrays(wire: Wire):
    def serve(line):
        return line.removeprefix(b"[").removesuffix(b"]") + b"\n" if line.startswith(b"[") else None

    wire.to_subject = serve


@wire_mutant("JR-15")
def takes_answers_out_of_arrays(wire: Wire):
    serves_arrays(wire)


@message_mutant("JR-16")
def does_not_respond_to_unknown_methods(message):
    return None if "error" in message else message


@message_mutant("JR-17", revision=LEGACY)
def forgets_the_ids_of_errors(message):
    if "error" in message:
        del message["id"]
    return message


@wire_mutant("JR-18")
def rejects_unknown_members(wire: Wire):
    wire.to_subject = lambda line: b"" if b'"zz"' in line and b"supportedVersions" not in line else None


@wire_mutant("JR-19")
def hangs_after_a_stray_response(wire: Wire):
    wire.to_subject = nothing_from(lambda line: b"999999" in line)


@wire_mutant("JR-20")
def hangs_after_a_broken_line(wire: Wire):
    wire.to_subject = nothing_from(lambda line: b"{oops" in line)
