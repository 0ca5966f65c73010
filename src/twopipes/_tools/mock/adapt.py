"""Answers of one revision in the words of another, for a mock whose client does not speak the one that was recorded."""

from __future__ import annotations

from msgspec import MsgspecError, convert, json

from twopipes._jsonrpc import ErrorObject
from twopipes._protocol import revisions
from twopipes._protocol.dialect import dialect
from twopipes._protocol.types import Implementation
from twopipes.errors import TwopipesError

__all__ = ["adapted_error", "adapted_result"]

# What every modern result has and no legacy one.
_MODERN_MEMBERS = ("resultType", "ttlMs", "cacheScope")


def adapted_result(method: str, text: str, source: str, target: str, server_info: str | None) -> str:
    """A result as the target revision says it.

    Args:
        method: What was asked.
        text: The result, as JSON.
        source: The revision it is in.
        target: The revision it is wanted in.
        server_info: Who answers, as JSON; modern results say so.
    """
    if source not in revisions.ALL or target not in revisions.ALL:
        return text
    try:
        result = dialect(source).read_result(method, text.encode())
        info = convert(json.decode(server_info), Implementation) if server_info is not None else None
        return json.encode(dialect(target).finish(method, result, server_info=info)).decode()
    except (TwopipesError, MsgspecError):
        # A method of the author's own, or a result that breaks a rule: what can be done without knowing it is done.
        return _adapted_blindly(text, target)


def _adapted_blindly(text: str, target: str) -> str:
    members = json.decode(text)
    if revisions.is_modern(target):
        members.setdefault("resultType", "complete")
    else:
        for name in _MODERN_MEMBERS:
            members.pop(name, None)
    return json.encode(members).decode()


def adapted_error(method: str, text: str, source: str, target: str) -> str:
    """An error as the target revision says it: some have other codes there (ER-12, ER-13)."""
    if source not in revisions.ALL or target not in revisions.ALL:
        return text
    try:
        error = json.decode(text, type=ErrorObject)
        return json.encode(dialect(target).write_error(dialect(source).read_error(error, method=method))).decode()
    except (TwopipesError, MsgspecError):
        return text
