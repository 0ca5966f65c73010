"""A function that an author registered, and how it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from twopipes._schema.problems import ArgumentsRejected
from twopipes._schema.signature import Signature
from twopipes._server.context import Context
from twopipes._server.registry import place_of
from twopipes.errors import InvalidParams

RunBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]


class FunctionEntry(Struct, eq=False):
    """A function and what it takes and returns."""

    function: Callable[..., Any]
    signature: Signature

    @property
    def place(self) -> str:
        """Where the function is defined."""
        return place_of(self.function)

    async def call_with_texts(self, texts: Mapping[str, str], context: Context, run_blocking: RunBlocking) -> Any:
        """Call the function with template variables or prompt arguments, converted to the types of its parameters."""
        taken = {field.wire_name for field in self.signature.fields}
        try:
            arguments = self.signature.bind_strings({name: text for name, text in texts.items() if name in taken})
        except ArgumentsRejected as error:
            raise InvalidParams(str(error)) from None
        return await self.call_with(arguments, context, run_blocking)

    async def call_with(self, arguments: dict[str, Any], context: Context, run_blocking: RunBlocking) -> Any:
        """Call the function with valid arguments: a coroutine function here, any other in a thread, where it may block."""
        for name in self.signature.injected_names:
            arguments[name] = context
        if self.signature.is_async:
            return await self.function(**arguments)
        value = await run_blocking(functools.partial(self.function, **arguments))
        # A plain function may still return an awaitable, for example because of a decorator.
        return await value if inspect.isawaitable(value) else value
