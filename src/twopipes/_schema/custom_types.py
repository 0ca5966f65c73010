"""Hooks to read and write types that msgspec does not know."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import CoroutineType
from typing import Any

from msgspec import ValidationError, convert
from msgspec.json import Decoder, Encoder

from twopipes._schema import pydantic_bridge
from twopipes._schema.problems import Refused, problems_in

# Whether values are read strictly. msgspec does not pass this on to the hooks of stand-ins.
_is_strict: ContextVar[bool] = ContextVar("twopipes reads strictly", default=True)


class StandIn(type):
    """The metaclass of stand-ins. Every result of :func:`read_custom` counts as an instance."""

    read: Callable[[Any], Any]

    def __instancecheck__(cls, instance: object) -> bool:
        return True


def stand_in(read: Callable[[Any], Any]) -> type[Any]:
    """Return a class that msgspec does not know, so that it calls ``read`` with the plain JSON value."""
    return StandIn("StandIn", (), {"read": staticmethod(read)})


def is_path(kind: type[Any]) -> bool:
    """Return whether a class is a path of pathlib, without importing pathlib."""
    return any(each.__name__ == "PurePath" and each.__module__.startswith("pathlib") for each in kind.__mro__)


def plain_base(kind: type[Any]) -> type[Any] | None:
    """Return the JSON type of a class such as ``class UserId(str)``."""
    return next((base for base in (str, int, float) if issubclass(kind, base) and kind is not bool), None)


def read_custom(kind: Any, value: Any) -> Any:
    """Create an instance of a class that msgspec does not know from a plain JSON value; the ``dec_hook``."""
    try:
        return _read(kind, value)
    except ValidationError as error:
        # msgspec does not add the path to an error of its own type.
        raise Refused(problems_in(error, value)) from error


def _read(kind: Any, value: Any) -> Any:
    if isinstance(kind, StandIn):
        return kind.read(value)
    if pydantic_bridge.is_foreign(kind):
        return pydantic_bridge.read(kind, value)
    base = str if is_path(kind) else plain_base(kind)
    if base is None:
        raise TypeError(f"{kind.__qualname__} cannot be read from JSON")
    return kind(convert(value, base))


def write_custom(value: Any) -> Any:
    """Return a value that msgspec can write in place of one that it does not know; the ``enc_hook``."""
    kind = type(value)
    if is_path(kind):
        return str(value)
    if pydantic_bridge.is_foreign(kind):
        return pydantic_bridge.write(value)
    base = plain_base(kind)
    if base is None:
        raise TypeError(f"A value of type {kind.__qualname__} cannot be written as JSON{_fix_for(value)}")
    return base(value)


def _fix_for(value: Any) -> str:
    kind = type(value)
    if isinstance(value, CoroutineType):
        value.close()  # avoids a second warning from the interpreter
    if hasattr(kind, "__await__"):
        return "; add the missing await"
    if isinstance(value, BaseException):
        return "; raise an error instead of returning it"
    if hasattr(kind, "__next__") or hasattr(kind, "__anext__"):
        return "; convert it to a list"
    return "; return strings, numbers, lists, dicts or a dataclass"


encode: Callable[[Any], bytes] = Encoder(enc_hook=write_custom).encode
"""Encode a value as JSON."""


def is_readable(kind: Any) -> bool:
    """Return whether this version of msgspec accepts a type as it is."""
    try:
        Decoder(kind, dec_hook=read_custom)
    except (TypeError, NotImplementedError):
        return False
    return True


def converted(value: Any, kind: Any) -> Any:
    """Convert a plain JSON value to a type, or raise :class:`msgspec.ValidationError`."""
    return convert(value, kind, strict=_is_strict.get(), dec_hook=read_custom, str_keys=True)


def converted_leniently(value: Any, kind: Any) -> Any:
    """Do the same, and read a string as a number or a boolean if the type requires one."""
    before = _is_strict.set(False)
    try:
        return converted(value, kind)
    finally:
        _is_strict.reset(before)
