"""Results of ``initialize`` and ``server/discover`` for a client of an era that the recording does not open with."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from twopipes._protocol.revisions import LATEST_LEGACY, LEGACY, META_SERVER_INFO, MODERN
from twopipes._tools.mock.exchanges import Recording
from twopipes._tools.mock.raw_json import Members, decode, members, raw
from twopipes._trace.message import Message

_UNKNOWN_SERVER = {"name": "mock", "version": "0"}
# The capability that a method needs, by the start of the method.
_CAPABILITIES = {
    "tools/": "tools",
    "resources/": "resources",
    "prompts/": "prompts",
    "completion/": "completions",
    "logging/": "logging",
}


def initialize_result(recording: Recording, requested: Any) -> tuple[Raw, str]:
    """Return the result of ``initialize`` for a revision that was not recorded, and the negotiated revision."""
    opening = _opening_result(recording, "initialize")
    recorded = decode(opening["protocolVersion"]) if opening is not None else LATEST_LEGACY
    revision = requested if requested in LEGACY else recorded
    result = {
        "protocolVersion": revision,
        "capabilities": _capabilities(recording, without="extensions"),
        "serverInfo": recording.server_info or _UNKNOWN_SERVER,
    }
    return raw(result | _instructions(recording)), revision


def discover_result(recording: Recording) -> Raw:
    """Return the result of ``server/discover`` for a recording that has none (VN-06)."""
    result = {
        "resultType": "complete",
        "supportedVersions": MODERN,
        "capabilities": _capabilities(recording, without="tasks"),
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {META_SERVER_INFO: recording.server_info or _UNKNOWN_SERVER},
    }
    return raw(result | _instructions(recording))


def _opening_result(recording: Recording, *methods: str) -> Members | None:
    """Return the members of the first recorded result of one of these methods."""
    for method in methods:
        recording.find((method,), 0)
        for exchange in recording.by_method.get(method, ()):
            recording.complete(exchange)
            for step in exchange.steps:
                if isinstance(step, Message) and step.shape == "result":
                    return members(step.raw_result)
    return None


def _capabilities(recording: Recording, *, without: str) -> Members | dict[str, Any]:
    opening = _opening_result(recording, "initialize", "server/discover")
    if opening is not None and "capabilities" in opening:
        return {name: text for name, text in members(opening["capabilities"]).items() if name != without}
    # The recording starts in the middle of a conversation: derive the capabilities from the recorded methods.
    recording.read_everything()
    found = {name for method in recording.by_method for start, name in _CAPABILITIES.items() if method.startswith(start)}
    return {name: {} for name in sorted(found)}


def _instructions(recording: Recording) -> Members:
    opening = _opening_result(recording, "initialize", "server/discover")
    return {"instructions": opening["instructions"]} if opening is not None and "instructions" in opening else {}
