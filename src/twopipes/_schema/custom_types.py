"""The types that msgspec does not know: how it is taught to read and to write them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import CoroutineType
from typing import Any

from msgspec import ValidationError, convert
from msgspec.json import Decoder, Encoder

from twopipes._protocol.rejections import Refused
from twopipes._schema import pydantic_bridge
from twopipes._schema.wording import problems_in

# How values are read, also inside stand-ins, which msgspec tells nothing about it.
_is_strict: ContextVar[bool] = ContextVar("twopipes reads strictly", default=True)


class _StandIn(type):
    """The class of all stand-ins. Whatever :func:`read_custom` made of a value passes for an instance."""

    read: Callable[[Any], Any]

    def __instancecheck__(cls, instance: object) -> bool:
        return True


def stand_in(read: Callable[[Any], Any]) -> type[Any]:
    """Makes a class that stands in a type for msgspec; ``read`` is given the plain JSON value and makes of it what is wanted."""
    return _StandIn("StandIn", (), {"read": staticmethod(read)})


def is_stand_in(kind: Any) -> bool:
    """Whether a type is a stand-in."""
    return isinstance(kind, _StandIn)


def is_path(kind: type[Any]) -> bool:
    """Whether a class is one of pathlib's. The author has imported that if so; this room does not."""
    return any(each.__name__ == "PurePath" and each.__module__.startswith("pathlib") for each in kind.__mro__)


def plain_base(kind: type[Any]) -> type[Any] | None:
    """What a class such as ``class UserId(str)`` is on the wire."""
    return next((base for base in (str, int, float) if issubclass(kind, base) and kind is not bool), None)


def read_custom(kind: Any, value: Any) -> Any:
    """Makes an instance of a class that msgspec does not know, of a plain JSON value; its ``dec_hook``."""
    try:
        return _read(kind, value)
    except ValidationError as error:
        # msgspec would let its own error pass as it is, and forget to say where the value stands.
        raise Refused(problems_in(error, value)) from error


def _read(kind: Any, value: Any) -> Any:
    if isinstance(kind, _StandIn):
        return kind.read(value)
    if pydantic_bridge.is_foreign(kind):
        return pydantic_bridge.read(kind, value)
    base = str if is_path(kind) else plain_base(kind)
    if base is None:
        raise TypeError(f"{kind.__qualname__} cannot be read from JSON")
    return kind(convert(value, base))


def write_custom(value: Any) -> Any:
    """Makes something that msgspec can write of a value that it does not know; its ``enc_hook``."""
    kind = type(value)
    if is_path(kind):
        return str(value)
    if pydantic_bridge.is_foreign(kind):
        return pydantic_bridge.write(value)
    base = plain_base(kind)
    if base is None:
        raise TypeError(f"A value of type {kind.__qualname__} cannot be written as JSON{_advice(value)}")
    return base(value)


def _advice(value: Any) -> str:
    kind = type(value)
    if isinstance(value, CoroutineType):
        value.close()  # said here, and not once more by the interpreter
    if hasattr(kind, "__await__"):
        return "; an await is missing before it"
    if isinstance(value, BaseException):
        return "; an error is raised, not returned"
    if hasattr(kind, "__next__") or hasattr(kind, "__anext__"):
        return "; make a list of it"
    return "; give text, numbers, lists, dicts, or a dataclass"


encode: Callable[[Any], bytes] = Encoder(enc_hook=write_custom).encode
"""Writes a value as JSON."""


def is_readable(kind: Any) -> bool:
    """Whether msgspec takes a type as it is. We know its rules; this is for those that a version of it does not share."""
    try:
        Decoder(kind, dec_hook=read_custom)
    except (TypeError, NotImplementedError):
        return False
    return True


def converted(value: Any, kind: Any) -> Any:
    """Makes what a type wants of a plain JSON value.

    Raises:
        msgspec.ValidationError: The value does not fit.
    """
    return convert(value, kind, strict=_is_strict.get(), dec_hook=read_custom, str_keys=True)


def converted_leniently(value: Any, kind: Any) -> Any:
    """Does the same, and reads a string as the number or the truth value in it where the type asks for one.

    Raises:
        msgspec.ValidationError: The value does not fit.
    """
    before = _is_strict.set(False)
    try:
        return converted(value, kind)
    finally:
        _is_strict.reset(before)
