"""Call an author's function, also with arguments that arrive as text: template variables and prompt arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twopipes._schema.problems import ArgumentsRejected
from twopipes._schema.signature import Signature
from twopipes._server.context import Context
from twopipes.errors import InvalidParams

__all__ = ["RunBlocking", "call_function", "call_with_texts"]

RunBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]


async def call_with_texts(
    function: Callable[..., Any],
    signature: Signature,
    texts: Mapping[str, str],
    context: Context,
    run_blocking: RunBlocking,
) -> Any:
    """Call a function with texts, converted to the types of its parameters.

    Raises:
        InvalidParams: A text cannot be converted, or a required one is missing.
    """
    taken = {field.wire_name for field in signature.fields}
    try:
        arguments = signature.bind_strings({name: text for name, text in texts.items() if name in taken})
    except ArgumentsRejected as error:
        raise InvalidParams(str(error)) from None
    return await call_function(function, signature, arguments, context, run_blocking)


async def call_function(
    function: Callable[..., Any],
    signature: Signature,
    arguments: dict[str, Any],
    context: Context,
    run_blocking: RunBlocking,
) -> Any:
    """Call a function with valid arguments: a coroutine function here, any other in a thread, where it may block."""
    for name in signature.injected_names:
        arguments[name] = context
    if signature.is_async:
        return await function(**arguments)
    value = await run_blocking(functools.partial(function, **arguments))
    # A plain function may still return an awaitable, for example because of a decorator.
    return await value if inspect.isawaitable(value) else value
