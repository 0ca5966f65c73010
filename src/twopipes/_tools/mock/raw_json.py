"""JSON objects read one level deep, so that a value can be passed on exactly as it was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import DecodeError, Raw
from msgspec.json import Decoder, encode

from twopipes._jsonrpc import without_lone_surrogates

T = TypeVar("T")
Members = dict[str, Raw]
"""The members of an object, each as the bytes it was written in."""

_decode_object = Decoder(Members).decode
_decode_array = Decoder(list[Raw]).decode
_decode_any = Decoder().decode


class NotJson(ValueError):
    """The bytes are not JSON, or not a JSON value of the expected type."""


def read_line(line: bytes) -> Members | list[Members]:
    """Read a message, or the messages of a batch (JR-12)."""
    _read(bytes.decode, line)  # msgspec does not check the encoding of a Raw
    if line.lstrip()[:1] == b"[":
        return [members(element) for element in _read(_decode_array, line)]
    try:
        return members(line)
    except NotJson:
        repaired = without_lone_surrogates(line)
        if repaired is None:
            raise
        return members(repaired)


def members(text: bytes | Raw) -> Members:
    """Return the members of an object."""
    return _read(_decode_object, text)


def decode(text: Raw | None) -> Any:
    """Return the value of a member, or ``None`` for a missing one."""
    return None if text is None else _read(_decode_any, text)


def raw(value: Any) -> Raw:
    """Write a value, which may contain :class:`~msgspec.Raw` values, as JSON."""
    return Raw(encode(value))


def _read(read: Callable[[Any], T], text: bytes | Raw) -> T:
    try:
        return read(text)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson(str(error)) from None
