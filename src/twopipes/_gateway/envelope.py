"""The members of a result that belong to an era: added for a modern host, removed for a legacy one."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw
from msgspec import json as msgspec_json
from msgspec.json import Decoder

from twopipes._protocol.dialect import Dialect
from twopipes._protocol.revisions import CACHEABLE, META_SERVER_INFO
from twopipes._protocol.types import Implementation

META: Final = "_meta"
RESULT_TYPE: Final = "resultType"
_TTL: Final = "ttlMs"
_SCOPE: Final = "cacheScope"
_COMPLETE: Final = Raw(b'"complete"')
_ZERO: Final = Raw(b"0")
_PRIVATE: Final = Raw(b'"private"')
_decode_object = Decoder(dict[str, Raw]).decode


def to_modern(method: str, members: dict[str, Any], source: Dialect, *, server: Implementation | None) -> None:
    """Add what a modern result has, in place. A legacy server allows no caching (CH-01)."""
    if not source.modern:
        members[RESULT_TYPE] = _COMPLETE
        if method in CACHEABLE:
            members[_TTL], members[_SCOPE] = _ZERO, _PRIVATE
    if server is not None:
        meta = _meta_of(members)
        meta.setdefault(META_SERVER_INFO, Raw(msgspec_json.encode(server)))
        members[META] = meta


def to_legacy(method: str, members: dict[str, Any]) -> None:
    """Remove what a legacy result does not have, in place."""
    members.pop(RESULT_TYPE, None)
    if method in CACHEABLE:
        members.pop(_TTL, None)
        members.pop(_SCOPE, None)
    meta = _meta_of(members)
    if META_SERVER_INFO in meta:
        del meta[META_SERVER_INFO]
        if meta:
            members[META] = meta
        else:
            del members[META]


def _meta_of(members: dict[str, Any]) -> dict[str, Any]:
    raw = members.get(META)
    return dict(_decode_object(raw)) if raw is not None and bytes(memoryview(raw)[:1]) == b"{" else {}
