"""Inspect callables: functions, methods, partials, callable objects and decorated functions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any


def unwrap(function: Any) -> list[Any]:
    """Return the callable and everything that it wraps, the outermost first. The globals of the last are those of annotations."""
    found: list[Any] = []
    while function is not None and not any(function is each for each in found):
        found.append(function)
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif not inspect.isroutine(function) and not isinstance(function, type):
            function = type(function).__call__
        else:
            function = None
    return found


def why_not_a_function(thing: object) -> str:
    """Return why a class or an object that is not callable cannot be registered."""
    if isinstance(thing, type):
        return "this is a class, not a function; create an object and register its methods, or the object itself if it is callable"
    if isinstance(thing, classmethod):
        return "this is a classmethod of a class that does not exist yet; register it after the class statement"
    if isinstance(thing, str):
        return f"this is a string, not a function; pass a name as name={thing!r}"
    if inspect.iscoroutine(thing):
        thing.close()
        return "this is the result of a call, not a function; remove the parentheses"
    return "this is not a function, a method or a callable object"


def is_generator(function: Callable[..., Any]) -> bool:
    """Return whether a call returns a generator. A decorated generator function may return anything."""
    calls = [function] if inspect.isroutine(function) or isinstance(function, partial) else [function, type(function).__call__]
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in calls)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call returns an awaitable."""
    return any(inspect.iscoroutinefunction(each) for each in unwrap(function))


def _without_partials(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def callable_name(function: Callable[..., Any], attribute: str = "__name__") -> str:
    """Return the name of a function, or its ``__qualname__``; for an object without a name, that of its class."""
    function = _without_partials(function)
    return str(getattr(function, attribute, None) or getattr(type(function), attribute))


def docstring_of(function: Callable[..., Any]) -> str | None:
    """Return the docstring; for an object, that of its ``__call__`` or of its class."""
    function = _without_partials(function)
    return function.__doc__ if inspect.isroutine(function) else type(function).__call__.__doc__ or type(function).__doc__


def enclosing_variables(thing: Any) -> dict[str, Any]:
    """Return the variables of the functions and classes that enclose a function or a class, as far as they are accessible.

    They are needed if annotations are strings that name local types. Variables that the function itself uses are always found; the
    others only while the enclosing functions are running, which is the case when a decorator is applied.
    """
    module = sys.modules.get(thing.__module__)
    names = getattr(thing, "__globals__", None) or (vars(module) if module else {})
    found: dict[str, Any] = {}
    enclosing = set()
    path = str(thing.__qualname__).rpartition(".")[0].removesuffix(".<locals>")
    while path:
        enclosing.add(path)
        path = path.rpartition(".")[0].removesuffix(".<locals>")
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the only way to find types of a local scope
    while frame is not None:
        if frame.f_globals is names and frame.f_code.co_qualname in enclosing:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    cells = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True) if hasattr(thing, "__code__") else ()
    for name, cell in cells:
        with suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return found
