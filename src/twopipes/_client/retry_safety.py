"""Which requests may be sent a second time, when nobody knows what became of the first (SD-05)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twopipes._protocol.types import CallToolParams, Params, ToolAnnotations
from twopipes.settings import RestartPolicy

__all__ = ["is_safe_to_repeat"]

# They only look. What is not in here and not a tool, such as a request of an extension, may do anything.
_READS: Final = frozenset(
    {
        "completion/complete",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "tools/list",
    }
)
# They belong to one process: the opening of the fresh one is a new one (SD-06), and its subscriptions are renewed by whoever holds
# them (SU-16), not by sending an old request again.
_OF_ONE_PROCESS: Final = frozenset(
    {"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen"}
)


def is_safe_to_repeat(
    method: str,
    params: Params | Mapping[str, Any] | None,
    annotations_of: Callable[[str], ToolAnnotations | None],
    policy: RestartPolicy,
) -> bool:
    """Tells whether a request that was lost with a crashed server may be sent to the fresh one.

    Args:
        method: The method.
        params: What was sent with it; of a tool call, the name is read.
        annotations_of: Finds what the server says of a tool, by its name; ``None`` if it says nothing or the tool is not known.
        policy: ``resend`` is read here: ``none`` and ``all`` are the user's decision; ``safe`` means what only looks, and the tools
            that change nothing or may be called twice.
    """
    if method in _OF_ONE_PROCESS or policy.resend == "none":
        return False
    if policy.resend == "all" or method in _READS:
        return True
    if method != "tools/call":
        return False
    name = params.name if isinstance(params, CallToolParams) else params.get("name") if isinstance(params, Mapping) else None
    hints = annotations_of(name) if isinstance(name, str) else None
    # TL-08: hints prove nothing, and a missing one means no. They lift no gate here: the user has agreed to this very call, and all
    # that the server can win by a lie is to be called twice.
    return hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)
