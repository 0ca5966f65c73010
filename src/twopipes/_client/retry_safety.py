"""Which requests are safe to send again if the first one was lost in a crash (SD-05)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twopipes._protocol.types import CallToolParams, Params, ToolAnnotations
from twopipes.settings import RestartPolicy

__all__ = ["is_safe_to_repeat"]

# Methods that only read. Other methods, except tools, may have any effect, for example those of extensions.
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
# Methods that belong to one process: a fresh process has its own opening (SD-06), and subscriptions are renewed with new requests
# (SU-16).
_PER_PROCESS: Final = frozenset(
    {"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen"}
)


def is_safe_to_repeat(
    method: str,
    params: Params | Mapping[str, Any] | None,
    annotations_of: Callable[[str], ToolAnnotations | None],
    policy: RestartPolicy,
) -> bool:
    """Whether a request that was lost in a crash may be sent to the restarted server.

    Args:
        method: The method.
        params: Its params; for a tool call, only the name matters.
        annotations_of: Returns the annotations of a tool by name; ``None`` if it has none or is unknown.
        policy: Only ``resend`` matters: ``none`` and ``all`` apply to every request; ``safe`` allows methods that only read, and
            tools that are read-only or idempotent.
    """
    if method in _PER_PROCESS or policy.resend == "none":
        return False
    if policy.resend == "all" or method in _READS:
        return True
    if method != "tools/call":
        return False
    name = params.name if isinstance(params, CallToolParams) else params.get("name") if isinstance(params, Mapping) else None
    hints = annotations_of(name) if isinstance(name, str) else None
    # TL-08: hints are not proof, and a missing hint means no. They are good enough here, because the user has agreed to this call:
    # a server that lies can only achieve that it is called twice.
    return hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)
