"""Prompts: texts for a conversation, with arguments filled in (section PM of the rules)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twopipes._protocol.types import GetPromptResult, Icon, Prompt, PromptArgument
from twopipes._schema.signature import describe
from twopipes._server.context import Context
from twopipes._server.function_entry import FunctionEntry, RunBlocking
from twopipes._server.results import messages_of
from twopipes.errors import InvalidParams


class PromptEntry(FunctionEntry):
    """A prompt: its description, and the function that makes it."""

    prompt: Prompt

    async def get(self, texts: Mapping[str, str], context: Context, run_blocking: RunBlocking) -> GetPromptResult:
        """Fill in the arguments, or raise InvalidParams if one is missing or cannot be read (PM-04)."""
        missing = [argument.name for argument in self.prompt.arguments or () if argument.required and argument.name not in texts]
        if missing:
            raise InvalidParams(f"Prompt {self.prompt.name} needs {', '.join(missing)}")
        value = await self.call_with_texts(texts, context, run_blocking)
        if isinstance(value, GetPromptResult):
            return value
        return GetPromptResult(messages_of(value), description=self.prompt.description)


def make_prompt(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[Icon] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> PromptEntry:
    """Describe a function as a prompt. Its parameters are the arguments, which always arrive as text (PM-02)."""
    signature = describe(function, injected=(Context,))
    required = set(signature.input_schema.get("required", ()))
    arguments = [
        PromptArgument(argument, description=schema.get("description"), required=argument in required)
        for argument, schema in signature.input_schema.get("properties", {}).items()
    ]
    signature.name = name or signature.name  # error messages about arguments use the name that clients know
    prompt = Prompt(
        signature.name,
        title=title,
        description=(description if description is not None else signature.description) or None,
        arguments=arguments or None,
        icons=None if icons is None else list(icons),
        meta=None if meta is None else dict(meta),
    )
    return PromptEntry(function, signature, prompt)
