"""The client capabilities of the check, and its default answers to questions of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ALL_CAPABILITIES", "DEFAULT_ANSWERS", "SILENCE"]

ALL_CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""The capabilities of a client that can answer every question."""

SILENCE = object()
"""In place of an answer: do not answer."""

DEFAULT_ANSWERS: Mapping[str, Any] = {
    "ping": {},
    "elicitation/create": {"action": "decline"},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Nothing to say."},
        "model": "none",
        "stopReason": "endTurn",
    },
    "roots/list": {"roots": []},
}
"""By method: the results of a client that answers every question, and whose user declines."""
