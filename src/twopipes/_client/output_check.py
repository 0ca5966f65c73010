"""Whether tools keep the promise of their output schemas (TL-14).

The schemas come with ``list_tools``; each is compiled when its tool is first called, and not before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import UNSET

from twopipes._client.results import Validation
from twopipes._protocol.types import CallToolResult, Tool
from twopipes._schema.validation import SchemaRefused, Validator, available, compile_schema
from twopipes.errors import InvalidOutput

__all__ = ["OutputCheck", "Validate"]

Validate = Literal["flag", "raise", "off"]
"""What to do about a result that breaks its tool's schema: say so in the result, raise ``InvalidOutput``, or do not look."""

_VALID: Final = Validation(verdict=True)
_NOT_ASKED: Final = Validation(None, "nobody asked for it")
_NO_LIBRARY: Final = Validation(None, "install twopipes[validate]")
_UNKNOWN: Final = Validation(None, "the tool is not known yet; list_tools() makes it so")
_NO_SCHEMA: Final = Validation(None, "the tool has no output schema")
_FAILED: Final = Validation(None, "the tool failed, and its schema is for results")


class OutputCheck:
    """Checks structured results against what their tools were listed with.

    Args:
        mode: What to do unless a call says otherwise.
    """

    def __init__(self, mode: Validate) -> None:
        self.mode = mode
        # An import that fails is not remembered by Python, and takes as long as a third of a call.
        self._has_library: bool | None = None
        self._schemas: dict[str, dict[str, Any] | None] = {}
        # A validator, or why there can be none.
        self._compiled: dict[str, Validator | SchemaRefused] = {}

    def learn(self, tools: Iterable[Tool]) -> None:
        """Takes the tools as they were listed last."""
        schemas = {tool.name: tool.output_schema for tool in tools}
        self._compiled = {
            name: compiled for name, compiled in self._compiled.items() if schemas.get(name) == self._schemas.get(name)
        }
        self._schemas = schemas

    def check(self, name: str, result: CallToolResult, mode: Validate) -> Validation:
        """Says whether a result is what its tool promised.

        Raises:
            InvalidOutput: It is not, and ``mode`` is ``raise``.
        """
        if mode == "off":
            return _NOT_ASKED
        if name not in self._schemas:
            return _UNKNOWN
        schema = self._schemas[name]
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
            return Validation(verdict=False, why="the tool has an output schema, and gave no structured content")  # TL-10
        validator = self._compiled.get(name)
        if validator is None:
            try:
                validator = compile_schema(schema)
            except SchemaRefused as refused:
                validator = refused
            assert validator is not None
            self._compiled[name] = validator
        if isinstance(validator, SchemaRefused):
            # JS-02, JS-05: what cannot be judged is not taken for good. The other tools are not concerned.
            return Validation(verdict=False, why=f"the output schema of the tool cannot be used: {validator}")
        problems = validator.check(result.structured_content)
        return Validation(verdict=False, why="; ".join(map(str, problems))) if problems else _VALID
