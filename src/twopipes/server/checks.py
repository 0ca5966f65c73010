"""What an author wrote by hand and could get wrong: schemas, and conversations for the client's model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from twopipes.errors import LocalProtocolError
from twopipes.mcp.types import SamplingMessage, ToolResultContent, ToolUseContent

__all__ = ["check_conversation", "check_schema"]

_DIALECTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
)
# Schemas nested deeper than this, or with more parts, cost a client more than they can tell it (JS-06).
_DEEPEST: Final = 100
_MOST_PARTS: Final = 10_000


def check_schema(schema: Mapping[str, Any], what: str) -> None:
    """Refuses a hand-written schema that a careful client would refuse.

    Raises:
        LocalProtocolError: Its dialect is unknown (JS-02), it refers to something outside of itself (JS-05), or it is beyond
            all bounds (JS-06).
    """
    dialect = schema.get("$schema")
    if dialect is not None and str(dialect).rstrip("#") not in _DIALECTS:
        raise LocalProtocolError(f"{what} is written in {dialect!r}; clients know {', '.join(_DIALECTS)}")
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    parts = 0
    while waiting:
        part, depth = waiting.pop()
        parts += 1
        if depth > _DEEPEST or parts > _MOST_PARTS:
            raise LocalProtocolError(f"{what} is nested deeper than {_DEEPEST} or has more than {_MOST_PARTS:,} parts")
        if isinstance(part, Mapping):
            reference = part.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                # JS-04: nobody fetches it, so nothing would ever fit.
                raise LocalProtocolError(f"{what} refers to {reference!r}; put it into $defs and refer to #/$defs/...")
            waiting += [(each, depth + 1) for each in part.values()]
        elif isinstance(part, list | tuple):
            waiting += [(each, depth + 1) for each in part]


def check_conversation(messages: Sequence[SamplingMessage]) -> None:
    """Refuses a conversation in which tools and their results do not match (SA-06).

    Raises:
        LocalProtocolError: A message mixes tool results with something else, or a tool use is not answered in the very next one.
    """
    unanswered: set[str] = set()
    for message in messages:
        results = {block.tool_use_id for block in message.blocks if isinstance(block, ToolResultContent)}
        if results and len(results) != len(message.blocks):
            raise LocalProtocolError("a message with tool results holds nothing else")
        if results != unanswered:
            raise LocalProtocolError(
                f"the tool uses {sorted(unanswered) or 'of nobody'} must be answered in the very next message; "
                f"it answers {sorted(results) or 'none'}"
            )
        unanswered = {block.id for block in message.blocks if isinstance(block, ToolUseContent)}
    if unanswered:
        raise LocalProtocolError(f"the tool uses {sorted(unanswered)} are not answered")
