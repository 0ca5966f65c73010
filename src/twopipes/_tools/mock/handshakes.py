"""What a mock says at the beginning to a client that comes in an era in which its recording does not begin."""

from __future__ import annotations

from twopipes._tools.mock.exchanges import META_SERVER_INFO, Answer, Recording
from twopipes._tools.mock.scan import members, object_of, quoted, with_member

TYPE_CHECKING = False  # as in twopipes/__init__.py
if TYPE_CHECKING:
    from typing import Any

__all__ = ["LEGACY", "MODERN", "discovered", "initialized"]

# As twopipes._protocol.revisions has them, which would cost the time of importing msgspec; a test compares the two.
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = ("2026-07-28",)

_NOBODY = '{"name":"mock","version":"0"}'
# By the beginning of a method: the capability of a server that answers it.
_CAPABILITIES = {
    "tools/": "tools",
    "resources/": "resources",
    "prompts/": "prompts",
    "completion/": "completions",
    "logging/": "logging",
}


def initialized(recording: Recording, wanted: Any) -> tuple[str, str]:
    """The result of ``initialize`` for a revision that was not recorded, and the revision it settles on."""
    opening = _opening(recording, "initialize")
    spoken = opening["protocolVersion"][0] if opening is not None else LEGACY[-1]
    revision = wanted if wanted in LEGACY else spoken
    parts = {
        "protocolVersion": quoted(revision),
        "capabilities": _capabilities(recording, without="extensions"),
        "serverInfo": recording.server_info or _NOBODY,
    }
    return object_of(_with_instructions(recording, parts)), revision


def discovered(recording: Recording) -> str:
    """The result of ``server/discover`` for a recording that has none (VN-06)."""
    parts = {
        "resultType": '"complete"',
        "supportedVersions": "[" + ",".join(map(quoted, MODERN)) + "]",
        "capabilities": _capabilities(recording, without="tasks"),
        "ttlMs": "0",
        "cacheScope": '"private"',
        "_meta": object_of({META_SERVER_INFO: recording.server_info or _NOBODY}),
    }
    return object_of(_with_instructions(recording, parts))


def _opening(recording: Recording, *methods: str) -> dict[str, tuple[Any, str]] | None:
    """The parts of the first good answer to one of these, if there is one."""
    for method in methods:
        recording.find((method,), 0)
        for exchange in recording.by_method.get(method, ()):
            recording.complete(exchange)
            for step in exchange.steps:
                if isinstance(step, Answer) and not step.is_error:
                    return members(step.text)
    return None


def _capabilities(recording: Recording, *, without: str) -> str:
    opening = _opening(recording, "initialize", "server/discover")
    if opening is not None and "capabilities" in opening:
        return with_member(opening["capabilities"][1], without, None)
    # A recording that begins in the middle: what was answered can be asked for.
    recording.read_everything()
    found = {name for method in recording.by_method for start, name in _CAPABILITIES.items() if method.startswith(start)}
    return object_of(dict.fromkeys(sorted(found), "{}"))


def _with_instructions(recording: Recording, parts: dict[str, str]) -> dict[str, str]:
    opening = _opening(recording, "initialize", "server/discover")
    if opening is not None and "instructions" in opening:
        parts["instructions"] = opening["instructions"][1]
    return parts
