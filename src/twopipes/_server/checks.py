"""Checks of what authors write by hand: schemas, and conversations for the client's model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from twopipes._protocol.sampling import conversation_fault
from twopipes._protocol.types import LOGGING_LEVELS, LoggingLevel, SamplingMessage
from twopipes._server.log import logger
from twopipes.errors import LocalProtocolError, Problem

if TYPE_CHECKING:
    from twopipes._schema.validation import Validator


class WrittenSchema:
    """A schema that an author wrote by hand, with a validator that is made for the first value.

    Without ``twopipes[validate]`` values are not validated, and a warning is logged once per process. ``subject`` is for messages.
    """

    __slots__ = ("_refusal", "_schema", "_subject", "_validator")

    def __init__(self, schema: Mapping[str, Any], subject: str) -> None:
        self._schema: Mapping[str, Any] | None = schema
        self._subject = subject
        self._validator: Validator | None = None
        self._refusal: str | None = None

    def problems(self, data: bytes | Raw) -> list[Problem]:
        """Return what is wrong with a value, given as JSON. Every call raises an error if the schema is not valid (JS-02)."""
        if self._schema is not None:
            self._compile(self._schema)
            self._schema = None
        if self._refusal is not None:
            raise LocalProtocolError(self._refusal)
        return [] if self._validator is None else self._validator.check(data)

    def _compile(self, schema: Mapping[str, Any]) -> None:
        from twopipes._schema.complexity import SchemaRefused
        from twopipes._schema.validation import NOT_VALIDATED, compile_schema

        try:
            self._validator = compile_schema(schema)
        except SchemaRefused as error:
            self._refusal = f"{self._subject} cannot be used: {error}"
        else:
            if self._validator is None and not _warned:
                _warned.add(self._subject)
                logger.warning("Warning: %s, and any other schema written by hand, is %s", self._subject, NOT_VALIDATED)


_warned: set[str] = set()


def check_schema(schema: Mapping[str, Any], what: str) -> None:
    """Refuse a schema of an unknown dialect (JS-02), with outside references (JS-04, JS-05) or too large (JS-06). This is fast."""
    from twopipes._schema.complexity import SchemaLimits, SchemaRefused, Workload
    from twopipes._schema.validation import check_dialect

    try:
        check_dialect(schema)
        Workload(schema, SchemaLimits())
    except SchemaRefused as error:
        raise LocalProtocolError(f"{what} cannot be used: {error}") from None


def check_level(level: LoggingLevel) -> None:
    """Refuse an unknown level, even if no client requested log messages."""
    if level not in LOGGING_LEVELS:
        raise LocalProtocolError(f"the level of a log message is one of {', '.join(LOGGING_LEVELS)}, and not {level!r}")


def check_conversation(messages: Sequence[SamplingMessage]) -> None:
    """Refuse a conversation in which tool uses and tool results do not match (SA-06)."""
    if fault := conversation_fault(messages):
        raise LocalProtocolError(fault)
