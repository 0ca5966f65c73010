"""Judges of framing and JSON-RPC: what a line must be (sections FR and JR of the rules)."""

from __future__ import annotations

import codecs
import json

from msgspec import UNSET

from twopipes._jsonrpc import decode
from twopipes._protocol.methods import NOTIFICATIONS
from twopipes._trace.judges.table import ConnectionState, rule
from twopipes._trace.judges.values import Faults, is_json, shown
from twopipes._trace.message import OTHER_WAY, Message, Shape, decoded, raw_members
from twopipes._wire import LineRejected

# Lines of a message that is split at newlines.
_MOST_PIECES = 10_000
_SINGLE: tuple[Shape, ...] = ("request", "notification", "result", "error")
_decode_next = json.JSONDecoder().raw_decode
_NOTIFICATIONS = {row.method for row in NOTIFICATIONS}


@rule("FR-01", "noise")
def two_messages_on_a_line(message: Message, state: ConnectionState) -> Faults:
    if _count_of_objects(message) > 1:
        yield "several messages on one line; each needs its own line"


@rule("FR-02", "noise")
def message_on_several_lines(message: Message, state: ConnectionState) -> Faults:
    pieces = state.partial[message.direction]
    if message.line.startswith(b"{"):
        pieces[:] = [message.line]
    elif pieces and len(pieces) < _MOST_PIECES:
        pieces.append(message.line)
    if len(pieces) > 1 and message.line.startswith(b"}"):
        read = decode(b"\n".join(pieces))
        if not isinstance(read, LineRejected):
            yield f"the last {len(pieces)} lines are one message; it must be on one line"
        pieces.clear()


@rule("FR-03", *_SINGLE, "noise", "batch")
def utf_8(message: Message, state: ConnectionState) -> Faults:
    if message.batch is None and message.data.startswith(codecs.BOM_UTF8):
        yield "starts with a byte order mark; messages are UTF-8 without one"
    if message.fault is not None and message.fault.reason == "not UTF-8":
        yield f"not UTF-8: {message.fault.detail}"


@rule("FR-04", "noise", "blank", by="server")
def noise_of_the_server(message: Message, state: ConnectionState) -> Faults:
    return _noise(message, "stdout")


@rule("FR-05", "noise", "blank", by="client")
def noise_of_the_client(message: Message, state: ConnectionState) -> Faults:
    return _noise(message, "stdin")


@rule("FR-15", *_SINGLE, "batch", once=True)
def carriage_return(message: Message, state: ConnectionState) -> Faults:
    if message.batch is None and message.data.endswith(b"\r"):
        yield "lines end with a carriage return and a newline; use only a newline"


def _noise(message: Message, stream: str) -> Faults:
    if not message.is_whole:
        return  # cut off by the end of the process or of the recording, so it may have been a valid message
    if message.shape == "blank":
        yield f"a blank line on {stream}"
    elif message.fault is None or message.fault.reason not in ("not JSON", "not an object", "not JSON-RPC"):
        return
    elif _count_of_objects(message) <= 1:  # several objects are messages that share a line (FR-01)
        what = "this is not JSON" if message.fault.reason == "not JSON" else message.fault.detail
        yield f"not a message on {stream}: {what}"


def _count_of_objects(message: Message) -> int:
    """Return how many JSON objects an invalid line consists of; 0 if it has anything else."""
    fault = message.fault
    if fault is None or fault.reason != "not JSON" or message.line[:1] != b"{" or message.line[-1:] != b"}":
        return 0
    try:
        text = message.line.decode()
        count = position = 0
        while position < len(text):
            value, position = _decode_next(text, position)
            if not isinstance(value, dict):
                return 0
            count += 1
            position += len(text[position : position + 8]) - len(text[position : position + 8].lstrip())
    except (ValueError, RecursionError):
        return 0
    return count


@rule("JR-01", *_SINGLE)
def version_of_json_rpc(message: Message, state: ConnectionState) -> Faults:
    found = raw_members(message.line) if message.fault is not None else None
    if found is not None and (version := decoded(found.jsonrpc)) != "2.0":
        yield f'"jsonrpc" must be "2.0", and is {shown(version)}'


@rule("JR-02", "request")
def type_of_ids(message: Message, state: ConnectionState) -> Faults:
    if message.id is not None and not is_json(message.id, str) and not is_json(message.id, int):
        yield f"the id of a request is a string or an integer, not {shown(message.id)}"


@rule("JR-03", "request")
def null_as_an_id(message: Message, state: ConnectionState) -> Faults:
    if message.id is None:
        yield "the id of a request is null"


@rule("JR-07", "result", "error")
def result_or_error(message: Message, state: ConnectionState) -> Faults:
    line = message.line
    found = raw_members(line) if b'"result"' in line and b'"error"' in line else None
    if found is not None and bytes(found.result) and bytes(found.error):
        yield 'has both "result" and "error"'
    elif message.shape == "result" and bytes(memoryview(message.raw_result)[:1]) != b"{":
        yield f"a result is an object, not {shown(message.result)}"


@rule("JR-08", "error")
def shape_of_errors(message: Message, state: ConnectionState) -> Faults:
    if message.fault is None:
        return  # a valid error was decoded
    error = message.error
    if not isinstance(error, dict):
        yield f"an error is an object, not {shown(error)}"
        return
    if not is_json(error.get("code"), int):
        yield f"the code of an error is an integer, not {shown(error.get('code', UNSET))}"
    if not isinstance(error.get("message"), str):
        yield f"the message of an error is a string, not {shown(error.get('message', UNSET))}"


@rule("JR-09", "request")
def notification_with_an_id(message: Message, state: ConnectionState) -> Faults:
    if message.method in _NOTIFICATIONS:
        yield f"{message.method} is a notification, but has an id"


@rule("JR-11", "request", "notification")
def shape_of_params(message: Message, state: ConnectionState) -> Faults:
    first = bytes(memoryview(message.raw_params)[:1])
    if not first and b'"params"' in message.line:
        found = raw_members(message.line)  # the decoder treats null as absent
        first = bytes(memoryview(found.params)[:1]) if found is not None else b""
    if first not in (b"", b"{"):
        yield f"params is an object, not {'null' if first == b'n' else shown(message.params)}"


@rule("JR-14", "request", by="client", methods=("initialize",))
def initialize_in_a_batch(message: Message, state: ConnectionState) -> Faults:
    if message.batch is not None:
        yield "initialize inside a batch"


@rule("JR-15", "batch")
def batch(message: Message, state: ConnectionState) -> Faults:
    if state.negotiated is not None:
        yield f"an array of messages; revision {state.negotiated} has no batches"
    elif state.is_stateless:
        yield "an array of messages; modern revisions have no batches"


@rule("JR-17", "error")
def error_without_an_id(message: Message, state: ConnectionState) -> Faults:
    if message.id in (UNSET, None) and state.is_certain and not state.may_be_unreadable[OTHER_WAY[message.direction]]:
        yield "an error without an id, although every request had a readable one"
