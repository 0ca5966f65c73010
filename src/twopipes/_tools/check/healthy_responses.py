"""What a healthy server answers, in all five revisions: what a posing server does wherever its scenario does not say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from twopipes._protocol.revisions import CACHEABLE, LEGACY, META_SERVER_INFO, META_SUBSCRIPTION_ID, MODERN
from twopipes._version import __version__

__all__ = ["SILENCE", "Fault", "HealthyServer", "RawResult", "text"]

SILENCE = object()
"""Instead of an answer: none."""

SERVER_INFO = {"name": "twopipes-check-posing-server", "version": __version__}

_NO_ARGUMENTS = {"type": "object", "properties": {}}
_SAFE = {"readOnlyHint": True, "idempotentHint": True}


class Fault(Struct, frozen=True):
    """An answer that is an error."""

    code: int
    message: str = "no"
    data: Any = None

    def member(self) -> dict[str, Any]:
        """The member ``error`` of the answer."""
        return {"code": self.code, "message": self.message, **({"data": self.data} if self.data is not None else {})}


class RawResult(Struct, frozen=True):
    """A result that is sent exactly as it is; to others, what the revision wants in every result is added."""

    result: Any


def text(message: str, **more: Any) -> dict[str, Any]:
    """The result of a tool that says something."""
    return {"content": [{"type": "text", "text": message}], **more}


class HealthyServer(Struct, kw_only=True):
    """A healthy server, as data. A scenario changes what it wants to be different.

    Attributes:
        speaks: The revisions it accepts.
        capabilities: What it declares.
        tools: What it lists; each can be called without arguments. Likewise the others.
        results: What the tools return, by name.
    """

    speaks: tuple[str, ...]
    capabilities: dict[str, Any] = field(
        default_factory=lambda: {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "logging": {},
            "completions": {},
        }
    )
    tools: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"name": "greet", "description": "Says hello.", "inputSchema": _NO_ARGUMENTS, "annotations": _SAFE},
            {"name": "work", "description": "Takes three steps.", "inputSchema": _NO_ARGUMENTS, "annotations": _SAFE},
        ]
    )
    resources: list[dict[str, Any]] = field(
        default_factory=lambda: [{"uri": "posing://note", "name": "note", "mimeType": "text/plain"}]
    )
    templates: list[dict[str, Any]] = field(default_factory=lambda: [{"uriTemplate": "posing://notes/{name}", "name": "notes"}])
    prompts: list[dict[str, Any]] = field(default_factory=lambda: [{"name": "hello", "description": "Says hello."}])
    results: dict[str, Any] = field(default_factory=lambda: {"greet": text("Hello."), "work": text("Done.")})

    @property
    def modern(self) -> list[str]:
        """The stateless revisions it speaks."""
        return [each for each in self.speaks if each in MODERN]

    @property
    def legacy(self) -> list[str]:
        """Those with a handshake."""
        return [each for each in self.speaks if each in LEGACY]

    def response(self, method: str, params: Mapping[str, Any], *, is_modern: bool) -> Any:
        """The answer to a request: a result, a :class:`Fault` or :data:`SILENCE`."""
        match method:
            case "initialize" if self.legacy:
                asked = params.get("protocolVersion")
                agreed = asked if asked in self.legacy else self.legacy[-1]
                return {"protocolVersion": agreed, "capabilities": self._declared(agreed), "serverInfo": SERVER_INFO}
            case "server/discover" if is_modern and self.modern:
                return {"supportedVersions": list(reversed(self.speaks)), "capabilities": self._declared(self.modern[-1])}
            case "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" if not is_modern:
                return {}
            case "tools/list":
                return {"tools": self.tools}
            case "resources/list":
                return {"resources": self.resources}
            case "resources/templates/list":
                return {"resourceTemplates": self.templates}
            case "prompts/list":
                return {"prompts": self.prompts}
            case "tools/call":
                name = params.get("name")
                return (
                    self.results.get(name, Fault(-32602, f"there is no tool {name!r}")) if isinstance(name, str) else Fault(-32602)
                )
            case "resources/read":
                uri = params.get("uri")
                return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "A note."}]}
            case "prompts/get":
                return {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello."}}]}
            case "completion/complete":
                return {"completion": {"values": [], "hasMore": False}}
            case _:
                return Fault(-32601, f"there is no method {method!r} here")

    def finished(self, method: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """A result with what the stateless revisions want in it."""
        more: dict[str, Any] = {} if "resultType" in result else {"resultType": "complete"}
        if method in CACHEABLE and result.get("resultType", "complete") == "complete":
            more |= {"ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover":
            more["_meta"] = {META_SERVER_INFO: SERVER_INFO}
        return {**more, **result}

    def acknowledgement(self, request_id: Any, params: Mapping[str, Any]) -> dict[str, Any]:
        """The notification that answers a ``subscriptions/listen`` for as long as it is open."""
        wanted = params.get("notifications")
        told = {"_meta": {META_SUBSCRIPTION_ID: request_id}, "notifications": wanted if isinstance(wanted, dict) else {}}
        return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told}

    def _declared(self, revision: str) -> dict[str, Any]:
        return {key: value for key, value in self.capabilities.items() if key != "completions" or revision > LEGACY[0]}
