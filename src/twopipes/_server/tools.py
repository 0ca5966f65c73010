"""Tools: functions that a model may call (section TL of the rules)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from twopipes._protocol.types import CallToolParams, CallToolResult, Icon, TextContent, Tool, ToolAnnotations
from twopipes._schema.custom_types import encode
from twopipes._schema.problems import ArgumentsRejected, ReturnRejected
from twopipes._schema.signature import describe
from twopipes._server.checks import WrittenSchema, check_schema
from twopipes._server.context import Context
from twopipes._server.function_entry import FunctionEntry, RunBlocking
from twopipes._server.registry import place_of
from twopipes._server.results import CONTENT_TYPES, ToolResult, blocks_of, is_content
from twopipes.errors import InvalidParams, LocalProtocolError, Problem, ToolError

_HINTS: Final = tuple(field.encode_name for field in msgspec.structs.fields(ToolAnnotations))
_GOOD_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# From here on bad arguments are a result of the tool, which a model can read and correct; before, a protocol error (TL-06).
_ARGUMENT_ERRORS_ARE_RESULTS_SINCE: Final = "2025-11-25"


class ToolEntry(FunctionEntry):
    """A tool: its description, and how to call it.

    Attributes:
        tool: The description for clients.
        written_input: The schema of the arguments if it was written by hand. One made from the signature needs no validation.
        written_output: The schema of the structured content if it was written by hand.
    """

    tool: Tool
    written_input: WrittenSchema | None = None
    written_output: WrittenSchema | None = None

    async def call(self, context: Context, run_blocking: RunBlocking, *, lenient: bool = False) -> CallToolResult:
        """Bind the arguments, run the function, and turn its return value into a result."""
        params: CallToolParams = context.call.params
        try:
            if self.written_input is not None:
                self._check_arguments(self.written_input, b"{}" if params.arguments is None else params.arguments)
            arguments = self.signature.bind(params.arguments, lenient=lenient)
        except ArgumentsRejected as error:
            is_result = context.call.dialect.revision >= _ARGUMENT_ERRORS_ARE_RESULTS_SINCE
            raise (ToolError(str(error)) if is_result else InvalidParams(str(error))) from None
        value = await self.call_with(arguments, context, run_blocking)
        result = self.result_of(value)
        if self.signature.output is not None and result.structured_content is UNSET and not result.is_error:
            # TL-10: clients refuse such a result, so report it to the author.
            raise LocalProtocolError(f"{self.tool.name} has an output schema, but its return value has no structured content")
        if self.written_output is not None and not result.is_error:
            self._check_structured(self.written_output, result.structured_content)
        return result

    def _check_arguments(self, schema: WrittenSchema, arguments: Raw | bytes) -> None:
        if problems := schema.problems(arguments):
            raise ArgumentsRejected(self.tool.name, problems)

    def _check_structured(self, schema: WrittenSchema, structured: Any) -> None:
        if problems := schema.problems(structured if isinstance(structured, Raw) else encode(structured)):
            raise ReturnRejected(self.tool.name, problems)  # TL-10: an error that the author sees, not bad data

    def result_of(self, value: Any) -> CallToolResult:
        """Turn a return value into a result: blocks for the model and, if the tool has an output schema, the value for programs."""
        if isinstance(value, CallToolResult):
            return value
        try:
            if isinstance(value, ToolResult):
                return value.result()
            output = self.signature.output
            if output is None or is_content(value):
                return CallToolResult(blocks_of(value))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ReturnRejected(self.tool.name, [Problem("", str(error))]) from error
        structured = output.encode(value, self.tool.name)  # TL-10: a value that does not fit is an error, not bad data
        text = value if isinstance(value, str) else output.text(structured)
        return CallToolResult([TextContent(text)], structured)  # TL-13


def make_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: ToolAnnotations | Mapping[str, Any] | None = None,
    icons: Sequence[Icon] | None = None,
    meta: Mapping[str, Any] | None = None,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
) -> ToolEntry:
    """Describe a function as a tool."""
    for schema, kind in ((input_schema, "input"), (output_schema, "output")):
        if schema is not None:
            check_schema(schema, f"the {kind} schema of the tool at {place_of(function)}")
    signature = describe(
        function, injected=(Context,), content=CONTENT_TYPES, input_schema=input_schema, output_schema=output_schema
    )
    name = signature.name if name is None else name
    signature.name = name  # error messages about arguments use the name that the model knows
    if not _GOOD_NAME.fullmatch(name):  # TL-15
        raise LocalProtocolError(
            f"{name!r} at {place_of(function)} cannot be the name of a tool; pass name=... with 1 to 128 of A-Z a-z 0-9 _ - ."
        )
    if signature.input_schema.get("type") != "object":  # TL-01
        raise LocalProtocolError(f'the input schema of the tool {name!r} at {place_of(function)} must have "type": "object"')
    hints = _hints(annotations, f"the tool {name!r} at {place_of(function)}") if isinstance(annotations, Mapping) else annotations
    tool = Tool(
        name,
        signature.input_schema,
        title=title,
        description=(description if description is not None else signature.description) or None,
        output_schema=signature.output_schema,
        annotations=hints,
        icons=None if icons is None else list(icons),
        meta=None if meta is None else dict(meta),
    )
    entry = ToolEntry(function, signature, tool)
    if input_schema is not None:
        entry.written_input = WrittenSchema(input_schema, f"the input schema of the tool {name}")
    if output_schema is not None:
        entry.written_output = WrittenSchema(output_schema, f"the output schema of the tool {name}")
    return entry


def _hints(given: Mapping[str, Any], whose: str) -> ToolAnnotations:
    if unknown := given.keys() - _HINTS:
        raise LocalProtocolError(f"unknown annotations of {whose}: {', '.join(sorted(unknown))}; known are {', '.join(_HINTS)}")
    try:
        return msgspec.convert(dict(given), ToolAnnotations)
    except msgspec.ValidationError as error:
        raise LocalProtocolError(f"invalid annotations of {whose}: {error}") from None
