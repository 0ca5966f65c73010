"""What the check, as a client, can be asked, and what it answers unless a probe wants something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ALL_CAPABILITIES", "DEFAULT_ANSWERS", "SILENCE"]

ALL_CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""The capabilities of a client that can answer everything it may be asked."""

SILENCE = object()
"""Instead of an answer to a question of the server: none."""

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
"""By method: the results of a client that does what it is asked, and lets its user decline."""
