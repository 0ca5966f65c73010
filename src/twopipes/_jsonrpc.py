"""JSON-RPC 2.0 as MCP uses it: four kinds of message, read in one pass (section JR of the rules).

``params`` and ``result`` stay raw until somebody knows the method, so a message is parsed once and only as deep as it is used.
Ids keep their value and their JSON type (JR-06).
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError, structs
from msgspec.json import Decoder

from twopipes._wire import LineRejected, encode_line
from twopipes.errors import RequestId
from twopipes.settings import Limits

__all__ = [
    "Batch",
    "ErrorObject",
    "ErrorResponse",
    "Message",
    "Notification",
    "Request",
    "Response",
    "decode",
    "encode",
    "salvage_id",
]

# The tag writes "jsonrpc":"2.0" first in every message (JR-01) without a field that anybody could get wrong.


class Request(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """A question that wants an answer. ``params`` is a ``msgspec.Raw`` when received, and anything JSON can hold to be sent."""

    id: RequestId
    method: str
    params: Any = UNSET


class Notification(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """A message that is never answered (JR-09, JR-10)."""

    method: str
    params: Any = UNSET


class Response(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """The answer to a request: an object (JR-07), raw when received."""

    id: RequestId
    result: Any


class ErrorObject(Struct, frozen=True):
    """What went wrong, as it travels (JR-08). ``data`` is absent when ``UNSET``."""

    code: int
    message: str
    data: Any = UNSET


class ErrorResponse(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """The other answer. ``id`` is absent or null only where the request's own could not be read (JR-17, CON-09)."""

    id: RequestId | UnsetType | None
    error: ErrorObject


Message = Request | Notification | Response | ErrorResponse


class Batch(Struct, frozen=True):
    """An array of messages on one line: legal in 2025-03-26 alone (JR-12)."""

    members: list[Message | LineRejected]


_NOTHING: Final = Raw()
_OBJECT: Final = ord("{")
_NULL: Final = ord("n")
# What a batch may hold before it is not even looked at; about 20 MB of bookkeeping.
_MOST_COMMAS: Final = 250_000


class _Envelope(Struct, gc=False):
    """All members a message can have, with the types of a good one: what decodes here needs only a look at what is there."""

    jsonrpc: Literal["2.0"]
    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = _NOTHING
    result: Raw = _NOTHING
    error: ErrorObject | UnsetType | None = UNSET


class _Members(Struct):
    """The same members with no expectations, to find out what is wrong with a bad one."""

    jsonrpc: Raw = _NOTHING
    id: Raw = _NOTHING
    method: Raw = _NOTHING
    params: Raw = _NOTHING
    result: Raw = _NOTHING
    error: Raw = _NOTHING


_decode_envelope = Decoder(_Envelope).decode
_decode_members = Decoder(_Members).decode
_decode_anything = Decoder(Raw).decode
_decode_array = Decoder(list[Raw]).decode
_decode_id = Decoder(RequestId).decode
_decode_string = Decoder(str).decode
_decode_error = Decoder(ErrorObject).decode


def encode(message: Message | list[Message]) -> bytes:
    """Writes a message, or the answers to a batch, as one line."""
    return encode_line(message)


def decode(
    line: bytes | Raw, *, max_batch: int | None = 0, max_excerpt: int = Limits().max_excerpt
) -> Message | Batch | LineRejected:
    """Reads one line.

    Args:
        line: Strict UTF-8 without the newline, as :class:`~twopipes._wire.LineDecoder` gives it.
        max_batch: How many messages one array may hold. 0 refuses arrays, as every revision but 2025-03-26 does (JR-15).
        max_excerpt: How much of a bad line to keep.

    Returns:
        The message, or a :class:`~twopipes._wire.LineRejected` that says what is wrong with it. Never raises, whatever the bytes.
    """
    try:
        envelope = _decode_envelope(line)
    except UnicodeDecodeError as error:
        return salvage_id(_rejected(line, "not UTF-8", str(error), max_excerpt))
    except (DecodeError, RecursionError):
        return _diagnose(line, max_batch, max_excerpt)

    request_id = envelope.id
    if envelope.method is not UNSET:
        params: Raw | UnsetType = envelope.params
        if envelope.params is _NOTHING:
            params = UNSET
        elif (first := memoryview(envelope.params)[0]) != _OBJECT:
            if first != _NULL:  # null: what some libraries write for absent
                return _diagnose(line, max_batch, max_excerpt)
            params = UNSET
        if request_id is UNSET:
            return Notification(envelope.method, params)
        if request_id is not None:
            return Request(request_id, envelope.method, params)
    elif envelope.error is UNSET or envelope.error is None:
        if _first_byte(envelope.result) == _OBJECT and request_id is not UNSET and request_id is not None:
            return Response(request_id, envelope.result)
    elif _first_byte(envelope.result) in (0, _NULL):
        return ErrorResponse(request_id, envelope.error)
    return _diagnose(line, max_batch, max_excerpt)


def _first_byte(raw: Raw) -> int:
    """What kind of JSON value this is, told by its first byte; 0 for none at all."""
    view = memoryview(raw)
    return view[0] if view.nbytes else 0


def _diagnose(line: bytes | Raw, max_batch: int | None, max_excerpt: int) -> Message | Batch | LineRejected:
    """Takes a second, patient look at a line that is no plain message."""
    try:
        return _read_again(line, max_batch, max_excerpt)
    except DecodeError as error:
        mended = _without_lone_surrogates(bytes(line))
        if mended is None:
            return salvage_id(_rejected(line, "not JSON", str(error), max_excerpt))
    except UnicodeDecodeError as error:
        return salvage_id(_rejected(line, "not UTF-8", str(error), max_excerpt))
    except RecursionError:
        return salvage_id(_rejected(line, "too deep", "nested deeper than this side reads", max_excerpt))
    again = decode(mended, max_batch=max_batch, max_excerpt=max_excerpt)
    if isinstance(again, LineRejected):
        return structs.replace(again, excerpt=bytes(memoryview(line)[:max_excerpt]))  # what came, not what was made of it
    return again


def _read_again(line: bytes | Raw, max_batch: int | None, max_excerpt: int) -> Batch | LineRejected:
    """Finds out what is wrong with well-formed JSON that is no message, and whom to answer (ER-02).

    Raises:
        DecodeError, UnicodeDecodeError, RecursionError: The line is not well-formed, or too deep to tell.
    """
    try:
        found = _decode_members(line)
    except ValidationError:
        if bytes(memoryview(line)[:64]).lstrip().startswith(b"["):
            return _decode_batch(line, max_batch, max_excerpt)
        _decode_anything(line)  # ER-01 goes before ER-02
        return _rejected(line, "not an object", "a message is a JSON object", max_excerpt)
    request_id: RequestId | None
    try:
        request_id = _decode_id(found.id)
    except (DecodeError, UnicodeDecodeError):
        request_id = None
    has_id = _first_byte(found.id) != 0
    has_method = _first_byte(found.method) != 0
    answers = not has_method and bool(_first_byte(found.result) or _first_byte(found.error))
    return LineRejected(
        reason="not JSON-RPC",
        detail=_what_is_wrong(found, request_id, answers=answers),
        excerpt=bytes(memoryview(line)[:max_excerpt]),
        size=memoryview(line).nbytes,
        request_id=request_id,
        is_response=answers,
        is_notification=not has_id and _first_byte(found.method) == ord('"'),
    )


def _what_is_wrong(found: _Members, request_id: RequestId | None, *, answers: bool) -> str:
    """Names the first fault, in the order in which a reader of the line would meet it."""
    if bytes(found.jsonrpc) != b'"2.0"':
        return '"jsonrpc" must be "2.0"'  # JR-01
    if request_id is None and (answers or _first_byte(found.id)):
        return f'"id" must be a string or an integer, not {_shown(found.id)}'  # JR-02, JR-03
    if answers:
        return _what_is_wrong_with_the_answer(found)
    if not _first_byte(found.method):
        return 'neither a request ("method") nor a response ("result" or "error")'
    try:
        _decode_string(found.method)
    except DecodeError:
        return f'"method" must be a string, not {_shown(found.method)}'
    return f'"params" must be an object, not {_shown(found.params)}'  # JR-11


def _what_is_wrong_with_the_answer(found: _Members) -> str:
    if _first_byte(found.error) in (0, _NULL):
        return f'"result" must be an object, not {_shown(found.result)}'
    try:
        _decode_error(found.error)
    except ValidationError as why:
        return f'"error" is malformed: {why}'  # JR-08
    return 'both "result" and "error"'  # JR-07; a good error alone would have been a message


def _shown(raw: Raw) -> str:
    """A value as it stands on the wire, cut to a length that fits into a sentence."""
    view = memoryview(raw)
    longest = 40
    text = bytes(view[:longest]).decode("utf-8", "replace")
    return (text + "..." if view.nbytes > longest else text) or "absent"


def _decode_batch(line: bytes | Raw, max_batch: int | None, max_excerpt: int) -> Batch | LineRejected:
    if max_batch == 0:
        _decode_anything(line)  # ER-01 goes before JR-15
        return _rejected(line, "not an object", "an array; batches exist in revision 2025-03-26 alone", max_excerpt)
    # Counted roughly before it is cut up: members of two bytes would cost forty times the length of the line.
    if bytes(line).count(b",") > _MOST_COMMAS:
        return _rejected(line, "too long", f"a batch with more than {_MOST_COMMAS:,} commas", max_excerpt)
    members = _decode_array(line)
    if max_batch is not None and len(members) > max_batch:
        return _rejected(line, "too long", f"a batch of {len(members):,} messages; the limit is {max_batch:,}", max_excerpt)
    decoded = (decode(member, max_batch=0, max_excerpt=max_excerpt) for member in members)
    return Batch([member for member in decoded if not isinstance(member, Batch)])  # max_batch=0 lets none be nested


def _rejected(line: bytes | Raw, reason: Any, detail: str, max_excerpt: int) -> LineRejected:
    view = memoryview(line)
    return LineRejected(reason=reason, detail=detail, excerpt=bytes(view[:max_excerpt]), tail=bytes(view[-256:]), size=view.nbytes)


# Patterns for bad lines are kept as text: re compiles each once, for the first line that needs it, and not at every start.
_SURROGATE = (
    rb"(?<!\\)(?:\\\\)*"  # an even number of backslashes before it: they escape each other, not the u
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2}))"  # or one alone
)


def _without_lone_surrogates(line: bytes) -> bytes | None:
    r"""Reads ``\ud800`` without its other half as U+FFFD, as JSON's grammar lets it stand; ``None`` if there is no such escape.

    JavaScript and Python both write such escapes for broken strings, and one of them must not cost the whole message.
    """
    mended: bytearray | None = None
    for surrogate in re.finditer(_SURROGATE, line):
        if surrogate[1]:
            if mended is None:
                mended = bytearray(line)
            mended[surrogate.start(1) : surrogate.end(1)] = rb"\ufffd"  # in place: a long line holds millions of escapes
    return None if mended is None else bytes(mended)


_SCALAR = rb'("[^"\\\x00-\x1f]*"|-?[0-9]+(?=\s*[,}]))'
_MEMBER = rb'\s*[{,]\s*"([a-z]+)"\s*:\s*' + _SCALAR + rb"?"
_LAST_MEMBERS = rb'[{,]\s*"id"\s*:\s*' + _SCALAR + rb'\s*(?:,\s*"(?:jsonrpc|method)"\s*:\s*' + _SCALAR + rb"\s*)*\}\s*$"


def salvage_id(rejected: LineRejected) -> LineRejected:
    """Looks for the id in a line that could not be read, so that whoever waits for its answer is not left waiting (JR-17).

    Implementations write the id before ``params`` and ``result``, or as the last member, so both ends of the line are looked
    at, for plain members of the top level only; anything less plain counts as unreadable.
    """
    members: dict[bytes, bytes | None] = {}
    position = 0
    member_at = re.compile(_MEMBER).match
    while member := member_at(rejected.excerpt, position):
        members[member[1]] = member[2]
        position = member.end()
        if member[2] is None:
            break
    identifier = members.get(b"id")
    if identifier is None and rejected.reason in {"too long", "too deep"} and (last := re.search(_LAST_MEMBERS, rejected.tail)):
        identifier = last[1]  # the end of a line says something only if the line is JSON
    method = members.get(b"method")
    answers = b"method" not in members and (b"result" in members or b"error" in members)
    if b"method" not in members and b"params" not in members and not answers:
        return rejected
    try:
        request_id = _decode_id(identifier) if identifier else None
    except (DecodeError, UnicodeDecodeError):
        request_id = None
    return structs.replace(
        rejected,
        request_id=request_id,
        is_response=answers,
        is_notification=request_id is None and method is not None and method.startswith(b'"notifications/'),
    )
