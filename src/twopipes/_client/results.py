"""The result of a tool call: its text, its structured value, and whether the value fits the tool's output schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, DecodeError, Raw, Struct
from msgspec import json as msgspec_json

from twopipes._protocol.types import CallToolResult, ContentBlock
from twopipes.errors import RemoteProtocolError, ToolError

# The names of these attributes in other libraries and on the wire.
_OTHER_NAMES: Final = {
    "data": "structured",
    "isError": "is_error",
    "structuredContent": "structured",
    "structured_content": "structured",
}


class Validation(Struct, frozen=True):
    """Whether a structured result fits the tool's output schema (TL-14).

    Attributes:
        verdict: ``True`` or ``False``; ``None`` if it was not checked.
        why: What is wrong with it, or why it was not checked.
    """

    verdict: bool | None
    why: str = ""

    def __str__(self) -> str:
        if self.verdict:
            return "valid"
        return f"not validated: {self.why}" if self.verdict is None else f"not valid: {self.why}"


class CallResult(Struct, eq=False):
    """The result of ``call_tool``.

    Attributes:
        raw: The result as the server sent it.
        validation: Whether :attr:`structured` was checked against the tool's output schema, and the outcome.
    """

    raw: CallToolResult
    validation: Validation

    def __repr__(self) -> str:
        return f"<CallResult {'failed: ' if self.is_error else ''}{self.text!r}>"

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return self.raw.text

    @property
    def content(self) -> list[ContentBlock]:
        """All blocks, for the model."""
        return self.raw.content

    @property
    def has_structured(self) -> bool:
        """Whether there is a structured value. JSON's null is one."""
        return self.raw.structured_content is not UNSET

    @property
    def structured(self) -> Any:
        """The structured value; ``None`` if the result has none."""
        return self.raw.structured_content if self.has_structured else None

    @property
    def is_error(self) -> bool:
        """Whether the tool failed. The text then says why; it is meant for the model (TL-07)."""
        return bool(self.raw.is_error)

    @property
    def meta(self) -> dict[str, Any] | None:
        """The server's ``_meta``."""
        return self.raw.meta

    # Hidden from type checkers, which would otherwise accept every misspelt name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            meant = _OTHER_NAMES.get(name)
            message = f"'CallResult' object has no attribute {name!r}"
            raise AttributeError(message if meant is None else f"{message}; use .{meant}", name=name, obj=self)

    def raise_for_error(self) -> CallResult:
        """Return the result itself if the tool succeeded.

        Raises:
            ToolError: The tool failed; the message is its text.
        """
        if self.is_error:
            raise ToolError(self.text or "the tool failed and gave no reason")
        return self


def plain(value: Any, method: str) -> Any:
    """Decode the value of an unknown method to plain Python. Values of known methods are typed already and returned unchanged."""
    if value is UNSET:
        return None
    if not isinstance(value, Raw):
        return value
    try:
        return msgspec_json.decode(value)
    except (DecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"the value of {method} cannot be decoded: {error}") from error
