"""What is behind a callable: functions, methods, partials, callable objects and what decorators made of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any


def _steps(function: Any) -> list[Any]:
    """The callable and everything behind it, the outermost first."""
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


def plain_function(function: Callable[..., Any]) -> Any:
    """The function whose code runs in the end; its globals are where the annotations were written."""
    return _steps(function)[-1]


def why_no_function(thing: object) -> str:
    """Why something cannot be registered that is a class, or cannot be called."""
    if isinstance(thing, type):
        return "this is not a function but a class; make an object of it, and register that if it can be called, or its methods"
    if isinstance(thing, classmethod):
        return "this is not a function yet but a classmethod whose class is still being made; register it behind the class"
    if isinstance(thing, str):
        return f"this is not a function but a text; a name is given as name={thing!r}"
    if inspect.iscoroutine(thing):
        thing.close()
        return "this is not a function but what a call of one gave; leave the parentheses out"
    return "this is not a function, a method or a callable object"


def yields(function: Callable[..., Any]) -> bool:
    """Whether a call gives a generator. What a decorator makes of a generator is the decorator's business."""
    calls = [function] if inspect.isroutine(function) or isinstance(function, partial) else [function, type(function).__call__]
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in calls)


def lacks_its_object(function: Callable[..., Any], first: inspect.Parameter | None) -> bool:
    """Whether a function is a method as it stands in its class, where there is nothing yet to call it on."""
    return first is not None and first.name in {"self", "cls"} and first.annotation is first.empty and inspect.isfunction(function)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call gives something to await."""
    return any(inspect.iscoroutinefunction(each) for each in _steps(function))


def callable_name(function: Callable[..., Any]) -> str:
    """The name of a function; of an object that has none, the name of its class."""
    while isinstance(function, partial):
        function = function.func
    name: str = getattr(function, "__name__", None) or type(function).__name__
    return name


def qualified_name(function: Callable[..., Any]) -> str:
    """The name for a message to the author."""
    while isinstance(function, partial):
        function = function.func
    name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name


def docstring_of(function: Callable[..., Any]) -> str | None:
    """The docstring; of an object, that of its ``__call__``, else that of its class."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function):
        return function.__doc__
    return type(function).__call__.__doc__ or type(function).__doc__


def enclosing_variables(thing: Any) -> dict[str, Any]:
    """The variables of the functions and classes around a function or a class, as far as they can still be seen.

    They hold the types that are defined beside it, where its annotations are strings. What a function itself refers to is found
    in any case, the rest only while the functions around it are running, which they are where it is decorated.
    """
    module = sys.modules.get(thing.__module__)
    names = getattr(thing, "__globals__", None) or (vars(module) if module else {})
    found: dict[str, Any] = {}
    around = set()
    path = str(thing.__qualname__).rpartition(".")[0].removesuffix(".<locals>")
    while path:
        around.add(path)
        path = path.rpartition(".")[0].removesuffix(".<locals>")
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 -- the only way to the types of a local scope
    while frame is not None:
        if frame.f_globals is names and frame.f_code.co_qualname in around:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    cells = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True) if hasattr(thing, "__code__") else ()
    for name, cell in cells:
        with suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return found
