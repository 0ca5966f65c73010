"""Completion: suggestions while the user types an argument (section CM of the rules)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from twopipes._protocol.types import CompleteResult, Completion
from twopipes._schema.functions import is_async
from twopipes._schema.signature import injected_names
from twopipes._server.context import Context
from twopipes._server.function_entry import RunBlocking
from twopipes._server.registry import place_of
from twopipes.errors import LocalProtocolError

_MAX_VALUES: Final = 100  # CM-02
_MAX_TEXTS: Final = 2  # the text typed so far, and the arguments that are filled in


class CompletionEntry:
    """A function that suggests values for one argument, from the text typed so far and the arguments that are filled in."""

    __slots__ = ("_context_names", "_signature", "_texts", "function", "place")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.place = place_of(function)
        self._signature = inspect.signature(function)
        self._context_names = injected_names(function, (Context,))
        texts = [each for each in self._signature.parameters.values() if _may_take_text(each, self._context_names)]
        required = [each for each in texts if each.default is each.empty and each.kind is not each.VAR_POSITIONAL]
        if not texts or len(required) > _MAX_TEXTS:
            raise LocalProtocolError(
                f"the completion at {self.place} must take the text typed so far, and may take a dict of the arguments that are "
                "filled in, and a Context: def suggest(typed: str, settled: dict[str, str], ctx: Context)"
            )
        self._texts = texts[:_MAX_TEXTS]

    async def suggest(self, value: str, resolved: Mapping[str, str], context: Context, run_blocking: RunBlocking) -> CompleteResult:
        """Call the function with the text typed so far and, if it takes them, the arguments that are filled in (CM-04)."""
        arguments: dict[str, Any] = dict.fromkeys(self._context_names, context)
        for parameter, given in zip(self._texts, (value, dict(resolved)), strict=False):
            arguments[parameter.name] = (given,) if parameter.kind is parameter.VAR_POSITIONAL else given
        bound = inspect.BoundArguments(self._signature, arguments)
        call = functools.partial(self.function, *bound.args, **bound.kwargs)
        found = await call() if is_async(self.function) else await run_blocking(call)
        return completed(found)


def _may_take_text(parameter: inspect.Parameter, context_names: Collection[str]) -> bool:
    if parameter.name in context_names or parameter.kind is parameter.VAR_KEYWORD:
        return False
    return parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty


def completed(found: CompleteResult | Completion | Iterable[Any] | None) -> CompleteResult:
    """Turn the return value of a function into a result with at most 100 values."""
    if isinstance(found, CompleteResult):
        return msgspec.structs.replace(found, completion=_cut(found.completion))
    if isinstance(found, Completion):
        return CompleteResult(_cut(found))
    values = [str(value) for value in found or ()]
    return CompleteResult(_cut(Completion(values, total=len(values), has_more=False)))


def _cut(completion: Completion) -> Completion:
    if len(completion.values) <= _MAX_VALUES:
        return completion
    return msgspec.structs.replace(completion, values=completion.values[:_MAX_VALUES], has_more=True)


def suggestions(schema: Mapping[str, Any], value: str) -> list[str]:
    """Return the values of an enum that start with the typed text, then those that contain it."""
    choices = [str(choice) for choice in schema.get("enum", ())]
    typed = value.casefold()
    starting = [choice for choice in choices if choice.casefold().startswith(typed)]
    return starting + [choice for choice in choices if typed in choice.casefold() and choice not in starting]
