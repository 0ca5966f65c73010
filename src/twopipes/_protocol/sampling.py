"""Rules about the messages of a sampling conversation (section SA of the rules)."""

from __future__ import annotations

from collections.abc import Sequence

from twopipes._protocol.types import SamplingMessage, ToolResultContent, ToolUseContent


def conversation_fault(messages: Sequence[SamplingMessage]) -> str | None:
    """Return why the tool uses and tool results of a conversation do not match, or ``None`` if they do (SA-06)."""
    unanswered: set[str] = set()
    for message in messages:
        results = {block.tool_use_id for block in message.blocks if isinstance(block, ToolResultContent)}
        if results and len(results) != len(message.blocks):
            return "a message with tool results must not contain other blocks"
        if results != unanswered:
            return (
                f"the message after the tool uses {sorted(unanswered) or '(none)'} must have exactly their results; "
                f"it has the results of {sorted(results) or '(none)'}"
            )
        unanswered = {block.id for block in message.blocks if isinstance(block, ToolUseContent)}
    return f"the tool uses {sorted(unanswered)} have no results" if unanswered else None


def tool_turns(messages: Sequence[SamplingMessage]) -> int:
    """Return in how many turns the model has used tools."""
    return sum(any(isinstance(block, ToolUseContent) for block in message.blocks) for message in messages)
