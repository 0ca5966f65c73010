"""What an author wrote by hand and could get wrong: schemas, and conversations for the client's model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from twopipes._protocol.input_requests import conversation_fault
from twopipes._protocol.rejections import Problem
from twopipes._protocol.types import SamplingMessage
from twopipes.errors import LocalProtocolError

if TYPE_CHECKING:
    from twopipes._schema.validation import Validator

__all__ = ["WrittenSchema", "check_conversation", "check_schema"]


class WrittenSchema:
    """A schema that an author wrote by hand, and the judge of values by it.

    The judge is made by the first value: a server that starts has other things to do. Without ``twopipes[validate]`` there is
    none; values pass then as they are, and stderr says so once in the life of the process.

    Args:
        schema: The schema.
        subject: What it is, for the messages.
    """

    __slots__ = ("_refusal", "_schema", "_subject", "_validator")

    def __init__(self, schema: Mapping[str, Any], subject: str) -> None:
        self._schema: Mapping[str, Any] | None = schema
        self._subject = subject
        self._validator: Validator | None = None
        self._refusal: str | None = None

    def problems(self, data: bytes | Raw) -> list[Problem]:
        """What is wrong with a value, given as JSON.

        Raises:
            LocalProtocolError: The schema is none (JS-02). Every call says so, and other tools are not concerned.
        """
        if self._schema is not None:
            self._compile(self._schema)
            self._schema = None
        if self._refusal is not None:
            raise LocalProtocolError(self._refusal)
        return [] if self._validator is None else self._validator.check(data)

    def _compile(self, schema: Mapping[str, Any]) -> None:
        from twopipes._schema.validation import NOT_VALIDATED, SchemaRefused, compile_schema  # noqa: PLC0415 - only for such schemas

        try:
            self._validator = compile_schema(schema)
        except SchemaRefused as error:
            self._refusal = f"{self._subject} cannot be used: {error}"
        else:
            if self._validator is None:
                _say_once(f"Warning: {self._subject}, and any other schema written by hand, is {NOT_VALIDATED}\n")


_said: set[str] = set()


def _say_once(text: str) -> None:
    if not _said:
        _said.add(text)
        sys.stderr.write(text)


def check_schema(schema: Mapping[str, Any], what: str) -> None:
    """Refuses a hand-written schema that a careful client would refuse. This needs no library, and takes no time.

    Raises:
        LocalProtocolError: Its dialect is unknown (JS-02), it refers to something outside of itself (JS-04, JS-05), or it is
            beyond all bounds (JS-06).
    """
    from twopipes._schema.complexity import SchemaLimits, SchemaRefused, Workload  # noqa: PLC0415 - likewise
    from twopipes._schema.validation import check_dialect  # noqa: PLC0415 - most servers have no such schema

    try:
        check_dialect(schema)
        Workload(schema, SchemaLimits())
    except SchemaRefused as error:
        raise LocalProtocolError(f"{what} cannot be used: {error}") from None


def check_conversation(messages: Sequence[SamplingMessage]) -> None:
    """Refuses a conversation in which tools and their results do not match (SA-06).

    Raises:
        LocalProtocolError: A message mixes tool results with something else, or a tool use is not answered in the very next one.
    """
    if fault := conversation_fault(messages):
        raise LocalProtocolError(fault)
