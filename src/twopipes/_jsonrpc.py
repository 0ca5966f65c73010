"""JSON-RPC 2.0 as MCP uses it: four kinds of messages (section JR of the rules).

``params`` and ``result`` stay raw JSON until the method is known, so each part of a message is parsed once. Ids keep their value
and their JSON type (JR-06).
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final, Literal

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError, structs
from msgspec.json import Decoder

from twopipes._wire import MAX_DEPTH, LineRejected, encode_line, nests_too_deeply
from twopipes.errors import RequestId
from twopipes.settings import Limits

# The tag writes "jsonrpc":"2.0" first in every message (JR-01), without a field that callers could set.


class Request(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """A request. ``params`` is a ``msgspec.Raw`` in a received request, and any JSON value in one to send."""

    id: RequestId
    method: str
    params: Any = UNSET


class Notification(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """A message without a response (JR-09, JR-10)."""

    method: str
    params: Any = UNSET


class Response(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """The successful response to a request. ``result`` is an object (JR-07), raw when received."""

    id: RequestId
    result: Any


class ErrorObject(Struct, frozen=True):
    """The error of an error response (JR-08). ``data`` is absent if it is ``UNSET``."""

    code: int
    message: str
    data: Any = UNSET


class ErrorResponse(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    """An error response. ``id`` is absent or null only if the id of the request could not be read (JR-17, CON-09)."""

    id: RequestId | UnsetType | None
    error: ErrorObject


Message = Request | Notification | Response | ErrorResponse


class Batch(Struct, frozen=True):
    """An array of messages on one line; valid only in 2025-03-26 (JR-12)."""

    members: list[Message | LineRejected]


_ABSENT: Final = Raw()
_OBJECT: Final = ord("{")
_NULL: Final = ord("n")
# The longest line whose depth is not checked here. Before 3.14 CPython counts the levels while it decodes, and stops at MAX_DEPTH
# or earlier. Since 3.14 it stops only where its stack ends, so one machine would accept what another refuses.
_MAX_UNCHECKED: Final = MAX_DEPTH if sys.version_info >= (3, 14) else sys.maxsize
# A batch with more commas is rejected before it is decoded; this many take about 20 MB.
_MAX_COMMAS: Final = 250_000


class _Envelope(Struct, gc=False):
    """All members that a message can have, with their valid types."""

    jsonrpc: Literal["2.0"]
    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = _ABSENT
    result: Raw = _ABSENT
    error: ErrorObject | UnsetType | None = UNSET


class RawMembers(Struct):
    """The same members with any type, to find out what is wrong with an invalid message."""

    jsonrpc: Raw = _ABSENT
    id: Raw = _ABSENT
    method: Raw = _ABSENT
    params: Raw = _ABSENT
    result: Raw = _ABSENT
    error: Raw = _ABSENT


_decode_envelope = Decoder(_Envelope).decode
decode_members = Decoder(RawMembers).decode
_decode_anything = Decoder(Raw).decode
_decode_array = Decoder(list[Raw]).decode
_decode_id = Decoder(RequestId).decode
_decode_string = Decoder(str).decode
_decode_error = Decoder(ErrorObject).decode


def encode(message: Message | list[Message]) -> bytes:
    """Encode a message, or the responses to a batch, as one line."""
    return encode_line(message)


def decode(
    line: bytes | Raw, *, max_batch: int | None = 0, max_excerpt: int = Limits().max_excerpt
) -> Message | Batch | LineRejected:
    """Decode one line.

    Args:
        line: Valid UTF-8 without the newline, as :class:`~twopipes._wire.LineDecoder` returns it.
        max_batch: How many messages one array may contain. 0 rejects arrays; only 2025-03-26 allows them (JR-15).
        max_excerpt: How many bytes of an invalid line to keep.

    Returns:
        The message, or a :class:`~twopipes._wire.LineRejected` that describes what is wrong. Never raises.
    """
    if len(line) > _MAX_UNCHECKED and nests_too_deeply(bytes(line)):
        return _too_deep(line, max_excerpt)
    try:
        envelope = _decode_envelope(line)
    except UnicodeDecodeError as error:
        return salvage_id(_rejected(line, "not UTF-8", str(error), max_excerpt))
    except (DecodeError, RecursionError):
        return _diagnose(line, max_batch, max_excerpt)

    request_id = envelope.id
    if envelope.method is not UNSET:
        params: Raw | UnsetType = envelope.params
        if envelope.params is _ABSENT:
            params = UNSET
        elif (first := memoryview(envelope.params)[0]) != _OBJECT:
            if first != _NULL:  # some libraries write null for an absent member
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
    """Return the first byte, which shows the kind of a JSON value; 0 if the member is absent."""
    view = memoryview(raw)
    return view[0] if view.nbytes else 0


def _diagnose(line: bytes | Raw, max_batch: int | None, max_excerpt: int) -> Message | Batch | LineRejected:
    """Decode a line again that is not a valid single message, to find a batch or the reason for a rejection."""
    try:
        return _decode_again(line, max_batch, max_excerpt)
    except DecodeError as error:
        repaired = without_lone_surrogates(bytes(line))
        if repaired is None:
            return salvage_id(_rejected(line, "not JSON", str(error), max_excerpt))
    except UnicodeDecodeError as error:
        return salvage_id(_rejected(line, "not UTF-8", str(error), max_excerpt))
    except RecursionError:
        return _too_deep(line, max_excerpt)
    again = decode(repaired, max_batch=max_batch, max_excerpt=max_excerpt)
    if isinstance(again, LineRejected):
        return structs.replace(again, excerpt=bytes(memoryview(line)[:max_excerpt]))  # the line as it was received
    return again


def _decode_again(line: bytes | Raw, max_batch: int | None, max_excerpt: int) -> Batch | LineRejected:
    """Decode a batch, or find out what is wrong with JSON that is not a message and which id to respond to (ER-02)."""
    try:
        found = decode_members(line)
    except ValidationError:
        if bytes(memoryview(line)[:64]).lstrip().startswith(b"["):
            return _decode_batch(line, max_batch, max_excerpt)
        _decode_anything(line)  # ER-01 comes before ER-02
        return _rejected(line, "not an object", "a message is a JSON object", max_excerpt)
    request_id: RequestId | None
    try:
        request_id = _decode_id(found.id)
    except (DecodeError, UnicodeDecodeError):
        request_id = None
    has_id = _first_byte(found.id) != 0
    has_method = _first_byte(found.method) != 0
    is_response = not has_method and bool(_first_byte(found.result) or _first_byte(found.error))
    return LineRejected(
        reason="not JSON-RPC",
        detail=_fault(found, request_id, is_response=is_response),
        excerpt=bytes(memoryview(line)[:max_excerpt]),
        size=memoryview(line).nbytes,
        request_id=request_id,
        is_response=is_response,
        is_notification=not has_id and _first_byte(found.method) == ord('"'),
    )


def _fault(found: RawMembers, request_id: RequestId | None, *, is_response: bool) -> str:
    """Return the first fault, in the order in which a reader of the line would find it."""
    if bytes(found.jsonrpc) != b'"2.0"':
        return '"jsonrpc" must be "2.0"'  # JR-01
    if request_id is None and (is_response or _first_byte(found.id)):
        return f'"id" must be a string or an integer, not {_shown(found.id)}'  # JR-02, JR-03
    if is_response:
        return _response_fault(found)
    if not _first_byte(found.method):
        return 'neither a request ("method") nor a response ("result" or "error")'
    try:
        _decode_string(found.method)
    except DecodeError:
        return f'"method" must be a string, not {_shown(found.method)}'
    return f'"params" must be an object, not {_shown(found.params)}'  # JR-11


def _response_fault(found: RawMembers) -> str:
    if _first_byte(found.error) in (0, _NULL):
        return f'"result" must be an object, not {_shown(found.result)}'
    try:
        _decode_error(found.error)
    except ValidationError as why:
        return f'"error" is malformed: {why}'  # JR-08
    return 'both "result" and "error"'  # JR-07; a valid error alone would have been a message


def _shown(raw: Raw) -> str:
    """Return a JSON value as text, shortened to fit into a sentence."""
    view = memoryview(raw)
    limit = 40
    text = bytes(view[:limit]).decode("utf-8", "replace")
    return (text + "..." if view.nbytes > limit else text) or "absent"


def _decode_batch(line: bytes | Raw, max_batch: int | None, max_excerpt: int) -> Batch | LineRejected:
    if max_batch == 0:
        _decode_anything(line)  # ER-01 comes before JR-15
        return _rejected(line, "not an object", "an array; only revision 2025-03-26 has batches", max_excerpt)
    # A rough count before decoding: members of two bytes would take forty times the size of the line.
    if bytes(line).count(b",") > _MAX_COMMAS:
        return _rejected(line, "too long", f"a batch with more than {_MAX_COMMAS:,} commas", max_excerpt)
    members = _decode_array(line)
    if max_batch is not None and len(members) > max_batch:
        return _rejected(line, "too long", f"a batch of {len(members):,} messages; the limit is {max_batch:,}", max_excerpt)
    decoded = (decode(member, max_batch=0, max_excerpt=max_excerpt) for member in members)
    return Batch([member for member in decoded if not isinstance(member, Batch)])  # max_batch=0 rejects nested batches


def _rejected(line: bytes | Raw, reason: Any, detail: str, max_excerpt: int) -> LineRejected:
    view = memoryview(line)
    return LineRejected(reason=reason, detail=detail, excerpt=bytes(view[:max_excerpt]), tail=bytes(view[-256:]), size=view.nbytes)


def _too_deep(line: bytes | Raw, max_excerpt: int) -> LineRejected:
    return salvage_id(_rejected(line, "too deep", "nested too deeply to be decoded", max_excerpt))


# Patterns are not compiled at import, because only invalid lines need them.
_SURROGATE = (
    rb"(?<!\\)(?:\\\\)*"  # an even number of backslashes before it, which escape each other
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2}))"  # or one alone
)


def without_lone_surrogates(line: bytes) -> bytes | None:
    r"""Replace each lone surrogate such as ``\ud800`` by U+FFFD; return ``None`` if there is none.

    JSON's grammar allows them, and JavaScript and Python write them for broken strings. They must not cost the whole message.
    """
    repaired: bytearray | None = None
    for surrogate in re.finditer(_SURROGATE, line):
        if surrogate[1]:
            if repaired is None:
                repaired = bytearray(line)
            repaired[surrogate.start(1) : surrogate.end(1)] = rb"\ufffd"  # in place: a long line may have millions of escapes
    return None if repaired is None else bytes(repaired)


_SCALAR = rb'("[^"\\\x00-\x1f]*"|-?[0-9]+(?=\s*[,}]))'
_MEMBER = rb'\s*[{,]\s*"([a-z]+)"\s*:\s*' + _SCALAR + rb"?"
_LAST_MEMBERS = rb'[{,]\s*"id"\s*:\s*' + _SCALAR + rb'\s*(?:,\s*"(?:jsonrpc|method)"\s*:\s*' + _SCALAR + rb"\s*)*\}\s*$"


def salvage_id(rejected: LineRejected) -> LineRejected:
    """Look for the id in a line that could not be decoded, so that the sender can get an error response (JR-17).

    Implementations write the id before ``params`` and ``result``, or as the last member. So this searches both ends of the line,
    and only for simple members at the top level.
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
        identifier = last[1]  # the end of a line means something only if the line is JSON
    method = members.get(b"method")
    is_response = b"method" not in members and (b"result" in members or b"error" in members)
    if b"method" not in members and b"params" not in members and not is_response:
        return rejected
    try:
        request_id = _decode_id(identifier) if identifier else None
    except (DecodeError, UnicodeDecodeError):
        request_id = None
    return structs.replace(
        rejected,
        request_id=request_id,
        is_response=is_response,
        is_notification=request_id is None and method is not None and method.startswith(b'"notifications/'),
    )
