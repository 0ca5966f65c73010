"""Translation of recorded responses for a client of another revision."""

from __future__ import annotations

from msgspec import MsgspecError, Raw, convert, json

from twopipes._jsonrpc import ErrorObject
from twopipes._protocol import revisions
from twopipes._protocol.dialect import dialect
from twopipes._protocol.types import Implementation
from twopipes.errors import TwopipesError

# Members that every modern result has and no legacy one.
_MODERN_MEMBERS = ("resultType", "ttlMs", "cacheScope")


def adapted_result(method: str, text: Raw, source: str, target: str, server_info: Raw | None) -> Raw:
    """Return a result in the form of the target revision. Modern results contain the ``serverInfo`` of the recorded server."""
    if source not in revisions.ALL or target not in revisions.ALL:
        return text
    try:
        result = dialect(source).read_result(method, bytes(text))
        info = convert(json.decode(server_info), Implementation) if server_info is not None else None
        return Raw(json.encode(dialect(target).finish(method, result, server_info=info)))
    except (TwopipesError, MsgspecError):
        # A custom method, or a result that breaks a rule: change only what does not depend on the method.
        return _with_era_members(text, target)


def _with_era_members(text: Raw, target: str) -> Raw:
    members = json.decode(text)
    if revisions.is_modern(target):
        members.setdefault("resultType", "complete")
    else:
        for name in _MODERN_MEMBERS:
            members.pop(name, None)
    return Raw(json.encode(members))


def adapted_error(method: str, text: Raw, source: str, target: str) -> Raw:
    """Return an error in the form of the target revision, where some errors have other codes (ER-12, ER-13)."""
    if source not in revisions.ALL or target not in revisions.ALL:
        return text
    try:
        error = json.decode(text, type=ErrorObject)
        return Raw(json.encode(dialect(target).write_error(dialect(source).read_error(error, method=method))))
    except (TwopipesError, MsgspecError):
        return text
