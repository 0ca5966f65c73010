"""Completion: suggestions while the user types an argument (section CM of the rules)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from twopipes.errors import LocalProtocolError
from twopipes.mcp.functions import is_async
from twopipes.mcp.types import CompleteResult, Completion
from twopipes.server.calling import RunBlocking
from twopipes.server.context import Context
from twopipes.server.registry import place_of

__all__ = ["CompletionEntry", "completed", "suggestions"]

_MOST_VALUES: Final = 100  # CM-02
_MOST_PARAMETERS: Final = 2


class CompletionEntry:
    """A function that suggests values for one argument."""

    __slots__ = ("_takes_context", "function", "place")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.place = place_of(function)
        parameters = list(inspect.signature(function).parameters.values())
        needed = sum(each.default is each.empty and each.kind is not each.VAR_POSITIONAL for each in parameters)
        if not parameters or needed > _MOST_PARAMETERS or any(_is_context(each.annotation) for each in parameters):
            raise LocalProtocolError(
                f"the completion at {self.place} takes what is typed so far and, if it wants it, a dict of the arguments that are "
                "settled: def suggest(typed: str, settled: dict[str, str]). There is no Context for it"
            )
        self._takes_context = len(parameters) > 1

    async def suggest(self, value: str, resolved: Mapping[str, str], run_blocking: RunBlocking) -> CompleteResult:
        """Asks the function, with what is typed so far and, if it wants it, the arguments that are settled (CM-04)."""
        call = functools.partial(self.function, value)
        if self._takes_context:
            call = functools.partial(call, dict(resolved))
        found = await call() if is_async(self.function) else await run_blocking(call)
        return completed(found)


def _is_context(annotation: Any) -> bool:
    return annotation is Context or annotation == Context.__name__


def completed(found: CompleteResult | Completion | Iterable[Any] | None) -> CompleteResult:
    """What a function found, as a result with at most a hundred values."""
    if isinstance(found, CompleteResult):
        return msgspec.structs.replace(found, completion=_cut(found.completion))
    if isinstance(found, Completion):
        return CompleteResult(_cut(found))
    values = [str(value) for value in found or ()]
    return CompleteResult(_cut(Completion(values, total=len(values), has_more=False)))


def _cut(completion: Completion) -> Completion:
    if len(completion.values) <= _MOST_VALUES:
        return completion
    return msgspec.structs.replace(completion, values=completion.values[:_MOST_VALUES], has_more=True)


def suggestions(schema: Mapping[str, Any], value: str) -> list[str]:
    """What the type of an argument itself allows: the values of an enum that begin with what is typed, or hold it."""
    choices = [str(choice) for choice in schema.get("enum", ())]
    typed = value.casefold()
    begins = [choice for choice in choices if choice.casefold().startswith(typed)]
    return begins + [choice for choice in choices if typed in choice.casefold() and choice not in begins]
