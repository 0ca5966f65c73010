"""The grammar of ``_meta`` keys, and which of them are reserved (section MT of the rules)."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from twopipes._protocol.revisions import META_KEYS

_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PREFIX = rf"{_LABEL}(?:\.{_LABEL})*/"
_NAME = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_MCP_LABELS = ("modelcontextprotocol", "mcp")


@cache
def _grammar() -> re.Pattern[str]:
    # Compiled on first use: most connections never send their own keys.
    return re.compile(rf"({_PREFIX})?{_NAME}")


def meta_key_fault(key: str, revision: str) -> Literal["grammar", "reserved"] | None:
    """Return why an implementation may not use a ``_meta`` key: its grammar (MT-01), or its prefix (MT-02, MT-03)."""
    if revision < "2025-06-18":
        return None
    match = _grammar().fullmatch(key)
    if match is None:
        return "grammar"
    known = META_KEYS.get(key)
    if known is not None and known.has(revision):
        return None
    prefix = match[1]
    if prefix is not None and _is_reserved(prefix[:-1].split("."), revision):
        return "reserved"
    return None


def _is_reserved(labels: list[str], revision: str) -> bool:
    if revision < "2025-11-25":
        # MT-03: a label of MCP with one more label after it, as in `tools.mcp.com/`.
        return any(label in _MCP_LABELS for label in labels[:-1])
    # MT-02: a label of MCP in second place, as in `com.mcp.tools/`.
    return len(labels) > 1 and labels[1] in _MCP_LABELS


def is_extension_name(name: str) -> bool:
    """Return whether a name is a valid key of ``extensions``: a ``_meta`` key with a prefix (CP-07)."""
    match = _grammar().fullmatch(name)
    return match is not None and match[1] is not None
