"""JSON objects read one level deep, so that a value can be passed on exactly as it was written."""

from __future__ import annotations

import json as stdlib_json
from typing import Any

from msgspec import DecodeError, Raw
from msgspec.json import Decoder, encode

Members = dict[str, Raw]
"""The members of an object, each as the bytes it was written in."""

_decode_object = Decoder(Members).decode
_decode_array = Decoder(list[Raw]).decode
_decode_any = Decoder().decode


class NotJson(ValueError):
    """The bytes are not JSON, or not a JSON value of the expected type."""


def read_line(line: bytes) -> Members | list[Members]:
    """Read a message, or the messages of a batch (JR-12).

    Raises:
        NotJson: The line is not UTF-8, not JSON, or not an object or an array of objects.
    """
    try:
        line.decode()  # msgspec does not check the encoding of a Raw
        if line.lstrip()[:1] == b"[":
            return [members(element) for element in _decode_array(line)]
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson(str(error)) from None
    try:
        return members(line)
    except NotJson:
        repaired = _without_lone_surrogates(line)
        if repaired is None:
            raise
        return members(repaired)


def members(text: bytes | Raw) -> Members:
    """Return the members of an object.

    Raises:
        NotJson: The text is not a JSON object.
    """
    try:
        return _decode_object(text)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson(str(error)) from None


def decode(text: Raw | None) -> Any:
    """Return the value of a member, or ``None`` for a missing one.

    Raises:
        NotJson: The text is not JSON.
    """
    if text is None:
        return None
    try:
        return _decode_any(text)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson(str(error)) from None


def raw(value: Any) -> Raw:
    """Write a value, which may contain :class:`~msgspec.Raw` values, as JSON."""
    return Raw(encode(value))


def _without_lone_surrogates(line: bytes) -> bytes | None:
    r"""Return the line with U+FFFD for each ``\ud800`` without its other half, which msgspec rejects; ``None`` on failure."""
    if b"\\u" not in line:
        return None
    try:
        text = stdlib_json.dumps(stdlib_json.loads(line), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
