"""How a hub introduces itself: the instructions of all servers, each under the name of its server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from twopipes._gateway.hub.member import Member
from twopipes._protocol.types import ServerCapabilities

CAPABILITIES: Final = ServerCapabilities(
    tools={"listChanged": True},
    prompts={"listChanged": True},
    resources={"subscribe": True, "listChanged": True},
    completions={},
    logging={},
)
"""Everything that a server may offer: it may be added, or get ready, after a host has read this."""
# Characters. Hosts put the instructions into the context of a model, and no server may use it up.
_MAX_EACH: Final = 4_000
_MAX_ALL: Final = 24_000
_CUT: Final = " [...]"


def instructions_of(members: Iterable[Member], separator: str, *, is_searched: bool = False) -> str:
    """Return the instructions for a model. ``is_searched`` means that the tools are not listed."""
    members = list(members)
    names = ", ".join(member.name for member in members)
    text = f"These are the tools, prompts and resources of several servers: {names}." if names else "No server is configured."
    parts = [f"{_cut(text, _MAX_EACH)} The name of a tool or prompt begins with that of its server and {separator!r}."]
    if is_searched:
        parts.append("The tools are not listed: find them with search_tools, then use describe_tool and call_tool.")
    left = _MAX_ALL - sum(map(len, parts))
    for member in members:
        own = None if member.opened is None else member.opened.instructions
        if own and own.strip():
            part = f"# {member.name}\n\n{_cut(own.strip(), _MAX_EACH)}"
            if len(part) > left:
                break
            parts.append(part)
            left -= len(part)
    return "\n\n".join(parts)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - len(_CUT)] + _CUT
