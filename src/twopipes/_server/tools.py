"""Tools: functions that a model may call (section TL of the rules)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from twopipes._protocol.rejections import ArgumentsRejected, Problem, ReturnRejected
from twopipes._protocol.types import CallToolParams, CallToolResult, Icon, TextContent, Tool, ToolAnnotations
from twopipes._schema.custom_types import encode
from twopipes._schema.signature import Signature, describe
from twopipes._server.checks import WrittenSchema, check_schema
from twopipes._server.context import Context
from twopipes._server.registry import place_of
from twopipes._server.results import CONTENT_TYPES, ToolResult, blocks_of, is_content
from twopipes._server.text_arguments import RunBlocking, call_function
from twopipes.errors import InvalidParams, LocalProtocolError, ToolError

__all__ = ["ToolEntry", "make_tool"]

_HINTS: Final = tuple(field.encode_name for field in msgspec.structs.fields(ToolAnnotations))
_GOOD_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# From here on bad arguments are the tool's answer, which a model can read and mend; before, they were a protocol error (TL-06).
_ARGUMENT_ERRORS_ARE_RESULTS_SINCE: Final = "2025-11-25"


class ToolEntry:
    """A tool: how it is described, and how it is called.

    Args:
        tool: What clients are told.
        signature: What the function takes and gives.
        function: What is called.
        written_input: The schema of the arguments if it was written by hand. One from the signature is enforced by reading them.
        written_output: The schema of the structured content, likewise.
    """

    __slots__ = ("_written_input", "_written_output", "function", "place", "signature", "tool")

    def __init__(
        self,
        tool: Tool,
        signature: Signature,
        function: Callable[..., Any],
        *,
        written_input: WrittenSchema | None = None,
        written_output: WrittenSchema | None = None,
    ) -> None:
        self.tool = tool
        self.signature = signature
        self.function = function
        self.place = place_of(function)
        self._written_input = written_input
        self._written_output = written_output

    async def call(self, context: Context, run_blocking: RunBlocking, *, lenient: bool = False) -> CallToolResult:
        """Binds the arguments, runs the function, and turns what it returns into a result."""
        params: CallToolParams = context.call.params
        try:
            if self._written_input is not None:
                self._check_arguments(self._written_input, params.arguments)
            arguments = self.signature.bind(params.arguments, lenient=lenient)
        except ArgumentsRejected as error:
            is_result = context.call.dialect.revision >= _ARGUMENT_ERRORS_ARE_RESULTS_SINCE
            raise (ToolError(str(error)) if is_result else InvalidParams(str(error))) from None
        value = await call_function(self.function, self.signature, arguments, context, run_blocking)
        result = self.result_of(value)
        if self.signature.output_schema is not None and result.structured_content is UNSET and not result.is_error:
            # TL-10. Clients refuse such a result, so its author had better hear of it.
            raise LocalProtocolError(f"{self.tool.name} has an output schema, but what it returned has no structured content")
        if self._written_output is not None and not result.is_error:
            self._check_structured(self._written_output, result.structured_content)
        return result

    def _check_arguments(self, schema: WrittenSchema, arguments: Raw | None) -> None:
        problems = schema.problems(b"{}" if arguments is None else arguments)
        if problems:
            raise ArgumentsRejected(self.tool.name, problems)

    def _check_structured(self, schema: WrittenSchema, structured: Any) -> None:
        problems = schema.problems(structured if isinstance(structured, Raw) else encode(structured))
        if problems:
            raise ReturnRejected(self.tool.name, problems)  # TL-10: an error, which its author hears of, and not bad data

    def result_of(self, value: Any) -> CallToolResult:
        """What a function returned, as a result: blocks for the model and, where the tool has a schema, the value for programs."""
        if isinstance(value, CallToolResult):
            return value
        try:
            if isinstance(value, ToolResult):
                return value.result()
            if self.signature.output_schema is None or is_content(value):
                return CallToolResult(blocks_of(value))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ReturnRejected(self.tool.name, [Problem("", str(error))]) from error
        structured = self.signature.structured(value)  # TL-10: a value that does not fit is an error, not bad data
        text = value if isinstance(value, str) else self.signature.text(structured)
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
    """Describes a function as a tool.

    Raises:
        LocalProtocolError: The name or a schema is not what a tool may have, or the signature cannot be described.
    """
    for schema, kind in ((input_schema, "input"), (output_schema, "output")):
        if schema is not None:
            check_schema(schema, f"the {kind} schema of the tool at {place_of(function)}")
    signature = describe(
        function, injected=(Context,), content=CONTENT_TYPES, input_schema=input_schema, output_schema=output_schema
    )
    name = signature.name if name is None else name
    signature.name = name  # what a model is told about its arguments is about the tool that it knows
    if not _GOOD_NAME.fullmatch(name):  # TL-15
        raise LocalProtocolError(
            f"{name!r} at {place_of(function)} cannot be the name of a tool: 1 to 128 of A-Z a-z 0-9 _ - . are; give name=..."
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
    return ToolEntry(
        tool,
        signature,
        function,
        written_input=None if input_schema is None else WrittenSchema(input_schema, f"the input schema of the tool {name}"),
        written_output=None if output_schema is None else WrittenSchema(output_schema, f"the output schema of the tool {name}"),
    )


def _hints(given: Mapping[str, Any], whose: str) -> ToolAnnotations:
    if unknown := given.keys() - _HINTS:
        raise LocalProtocolError(f"the annotations of {whose} can be {', '.join(_HINTS)}, and not {', '.join(sorted(unknown))}")
    try:
        return msgspec.convert(dict(given), ToolAnnotations)
    except msgspec.ValidationError as error:
        raise LocalProtocolError(f"the annotations of {whose} do not make sense: {error}") from None
