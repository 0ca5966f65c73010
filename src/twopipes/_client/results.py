"""What a tool gave, as a caller wants it: its text, its value, and whether the value is what the tool promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, DecodeError, Raw, Struct
from msgspec import json as msgspec_json

from twopipes._protocol.types import CallToolResult, ContentBlock
from twopipes.errors import RemoteProtocolError, ToolError

__all__ = ["CallResult", "Validation", "plain"]


# What the same is called elsewhere.
_ELSEWHERE: Final = {
    "data": "structured",
    "isError": "is_error",
    "structuredContent": "structured",
    "structured_content": "structured",
}


class Validation(Struct, frozen=True):
    """Whether a structured result is what the tool's output schema promises (TL-14).

    Attributes:
        verdict: ``True`` or ``False``; ``None`` if nobody looked.
        why: What is wrong with it, or why nobody looked.
    """

    verdict: bool | None
    why: str = ""

    def __str__(self) -> str:
        match self.verdict:
            case True:
                return "valid"
            case False:
                return f"not valid: {self.why}"
            case _:
                return f"not validated: {self.why}"


class CallResult:
    """What ``call_tool`` gives.

    Attributes:
        raw: The result as it came.
        validation: Whether :attr:`structured` was checked against the tool's output schema, and what came of it.
    """

    __slots__ = ("raw", "validation")

    def __init__(self, raw: CallToolResult, validation: Validation) -> None:
        self.raw = raw
        self.validation = validation

    def __repr__(self) -> str:
        return f"<CallResult {'failed: ' if self.is_error else ''}{self.text!r}>"

    @property
    def text(self) -> str:
        """The text blocks, one below the other."""
        return self.raw.text

    @property
    def content(self) -> list[ContentBlock]:
        """All blocks, for the model."""
        return self.raw.content

    @property
    def has_structured(self) -> bool:
        """Whether there is a value for programs; JSON's null is one."""
        return self.raw.structured_content is not UNSET

    @property
    def structured(self) -> Any:
        """The value for programs; ``None`` where there is none."""
        return self.raw.structured_content if self.has_structured else None

    @property
    def is_error(self) -> bool:
        """Whether the tool failed. Its text then says why, and is for the model (TL-07)."""
        return bool(self.raw.is_error)

    @property
    def meta(self) -> dict[str, Any] | None:
        """The server's ``_meta``."""
        return self.raw.meta

    # A type checker that saw it would take every misspelt name for a good one.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            meant = _ELSEWHERE.get(name)
            said = f"'CallResult' object has no attribute {name!r}"
            raise AttributeError(said if meant is None else f"{said}; here it is .{meant}", name=name, obj=self)

    def raise_for_error(self) -> CallResult:
        """Returns itself if the tool worked.

        Raises:
            ToolError: It did not; the message is what the tool said.
        """
        if self.is_error:
            raise ToolError(self.text or "the tool failed and did not say why")
        return self


def plain(value: Any, method: str) -> Any:
    """What came with a method that twopipes does not know, as plain Python; what it knows is typed already, and left alone.

    Raises:
        RemoteProtocolError: It is nested too deeply to be read.
    """
    if value is UNSET:
        return None
    if not isinstance(value, Raw):
        return value
    try:
        return msgspec_json.decode(value)
    except (DecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"what came with {method} cannot be read: {error}") from error
