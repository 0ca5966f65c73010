"""Checks structured results against the output schemas of their tools (TL-14).

The schemas come with ``list_tools``. Each is compiled when its tool is first called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import UNSET

from twopipes._client.options import Validate
from twopipes._client.results import Validation
from twopipes._protocol.types import CallToolResult, Tool
from twopipes._schema.complexity import SchemaRefused
from twopipes._schema.validation import Validator, available, compile_schema
from twopipes.errors import InvalidOutput

_VALID: Final = Validation(verdict=True)
_OFF: Final = Validation(None, 'validation is "off"')
_NO_LIBRARY: Final = Validation(None, "install twopipes[validate]")
_UNKNOWN: Final = Validation(None, "the tool is not known yet; call list_tools() first")
_NO_SCHEMA: Final = Validation(None, "the tool has no output schema")
_FAILED: Final = Validation(None, "the tool failed, and its schema applies only to successful results")


class OutputCheck:
    """Checks structured results against the schemas of the listed tools. ``mode`` is for calls without their own."""

    def __init__(self, mode: Validate) -> None:
        self.mode = mode
        self.tools: dict[str, Tool] = {}  # of the last list, by name
        # Python does not cache a failed import, and each attempt takes a third of the time of a call.
        self._has_library: bool | None = None
        # A validator, or why the schema cannot be used.
        self._compiled: dict[str, Validator | SchemaRefused] = {}

    def learn(self, tools: Iterable[Tool]) -> None:
        """Replace the known tools by those of the last list."""
        before, self.tools = self.tools, {tool.name: tool for tool in tools}
        for name in list(self._compiled):
            if name not in self.tools or self.tools[name].output_schema != before[name].output_schema:
                del self._compiled[name]

    def check(self, name: str, result: CallToolResult, mode: Validate) -> Validation:
        """Check a result against its tool's schema, and raise ``InvalidOutput`` if ``mode`` is ``raise``."""
        if mode == "off":
            return _OFF
        tool = self.tools.get(name)
        if tool is None:
            return _UNKNOWN
        schema = tool.output_schema
        if schema is None:
            return _NO_SCHEMA
        if result.is_error:
            return _FAILED  # TL-10
        if self._has_library is None:
            self._has_library = available()
        if not self._has_library:
            return _NO_LIBRARY
        validation = self._judge(name, schema, result)
        if validation.verdict is False and mode == "raise":
            raise InvalidOutput(name, validation.why, result)
        return validation

    def _judge(self, name: str, schema: dict[str, Any], result: CallToolResult) -> Validation:
        if result.structured_content is UNSET:
            return Validation(verdict=False, why="the tool has an output schema but returned no structured content")  # TL-10
        validator = self._compiled.get(name)
        if validator is None:
            try:
                validator = compile_schema(schema)
            except SchemaRefused as refused:
                validator = refused
            assert validator is not None  # the library is installed
            self._compiled[name] = validator
        if isinstance(validator, SchemaRefused):
            # JS-02, JS-05: a result that cannot be checked counts as invalid. Other tools are not affected.
            return Validation(verdict=False, why=f"the output schema of the tool cannot be used: {validator}")
        problems = validator.check(result.structured_content)
        return Validation(verdict=False, why="; ".join(map(str, problems))) if problems else _VALID
