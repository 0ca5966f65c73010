"""Functions about which there is nothing to find out: their description cannot fail, so it may wait until somebody asks for it.

What reads signatures is as large as the rest of a small server, and a host waits for the first answer, which needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

__all__ = ["is_obvious"]

_PLAIN: Final = {"str": str, "int": int, "float": float, "bool": bool}
# It takes any number of arguments, or gives a generator: CO_VARARGS, CO_VARKEYWORDS, CO_GENERATOR, CO_ASYNC_GENERATOR. Where they
# have names is large.
_NOT_PLAIN: Final = 0x04 | 0x08 | 0x20 | 0x200
_LONGEST_NAME: Final = 128  # TL-15


def is_obvious(function: Callable[..., Any]) -> bool:
    """Whether a function can be offered as a tool under its own name, without a look at more than its outside.

    Every parameter is annotated as ``str``, ``int``, ``float`` or ``bool``, with a default of that type if any, and it returns
    one of these or ``None``. Everything else is looked at when it is registered, where its author sees what is wrong with it.
    """
    if type(function) is not FunctionType or hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
        return False
    code, name = function.__code__, function.__name__
    if code.co_flags & _NOT_PLAIN or code.co_posonlyargcount or not name.isascii() or len(name) > _LONGEST_NAME:
        return False
    if not name.isidentifier():
        return False
    types = {parameter: _plain_type(function, parameter) for parameter in _parameters(code)}
    if None in types.values() or (function.__annotations__.get("return") is not None and not _plain_type(function, "return")):
        return False
    positional = _parameters(code)[: code.co_argcount]
    defaults = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
    defaults.update(function.__kwdefaults__ or {})
    return all(type(default) is types[parameter] and _has_json(default) for parameter, default in defaults.items())


def _parameters(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _plain_type(function: FunctionType, parameter: str) -> type | None:
    annotation = function.__annotations__.get(parameter)
    if isinstance(annotation, str):
        # The name of a type, which may have another meaning where it was written.
        if annotation in function.__globals__ or "<locals>" in function.__qualname__:
            return None
        return _PLAIN.get(annotation)
    return annotation if annotation in _PLAIN.values() else None


def _has_json(value: Any) -> bool:
    return not isinstance(value, float) or value - value == 0  # neither infinite nor no number at all
