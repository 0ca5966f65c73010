"""The responses of a healthy server in all revisions, which a fake server gives unless its scenario replaces them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from twopipes._protocol.revisions import CACHEABLE, LEGACY, META_SERVER_INFO, META_SUBSCRIPTION_ID, MODERN
from twopipes._version import __version__

SILENCE = object()
"""In place of a response: do not respond."""

SERVER_INFO = {"name": "twopipes-check-fake-server", "version": __version__}

_NO_ARGUMENTS = {"type": "object", "properties": {}}
_SAFE = {"readOnlyHint": True, "idempotentHint": True}


class Fault(Struct, frozen=True):
    """An error response."""

    code: int
    message: str = "no"
    data: Any = None

    def member(self) -> dict[str, Any]:
        """Return the member ``error`` of the response."""
        return {"code": self.code, "message": self.message, **({"data": self.data} if self.data is not None else {})}


class RawResult(Struct, frozen=True):
    """A result that is sent unchanged. To other results, the members that the revision requires are added."""

    result: Any


def text(content: str, **more: Any) -> dict[str, Any]:
    """Return a tool result with a text."""
    return {"content": [{"type": "text", "text": content}], **more}


class HealthyServer(Struct, kw_only=True):
    """A healthy server, as data that a scenario can change."""

    speaks: tuple[str, ...]  # the revisions that it accepts
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
        default_factory=lambda: [{"uri": "fake://note", "name": "note", "mimeType": "text/plain"}]
    )
    templates: list[dict[str, Any]] = field(default_factory=lambda: [{"uriTemplate": "fake://notes/{name}", "name": "notes"}])
    prompts: list[dict[str, Any]] = field(default_factory=lambda: [{"name": "hello", "description": "Says hello."}])
    results: dict[str, Any] = field(default_factory=lambda: {"greet": text("Hello."), "work": text("Done.")})

    @property
    def modern(self) -> list[str]:
        """The modern revisions that it speaks."""
        return [each for each in self.speaks if each in MODERN]

    @property
    def legacy(self) -> list[str]:
        """The legacy revisions that it speaks."""
        return [each for each in self.speaks if each in LEGACY]

    def response(self, method: str, params: Mapping[str, Any], *, is_modern: bool) -> Any:
        """Return the response to a request: a result, a :class:`Fault` or :data:`SILENCE`."""
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
                return self.results.get(name, Fault(-32602, f"unknown tool {name!r}")) if isinstance(name, str) else Fault(-32602)
            case "resources/read":
                uri = params.get("uri")
                return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "A note."}]}
            case "prompts/get":
                return {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello."}}]}
            case "completion/complete":
                return {"completion": {"values": [], "hasMore": False}}
            case _:
                return Fault(-32601, f"unknown method {method!r}")

    def finished(self, method: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result with the members that modern revisions require."""
        more: dict[str, Any] = {} if "resultType" in result else {"resultType": "complete"}
        if method in CACHEABLE and result.get("resultType", "complete") == "complete":
            more |= {"ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover":
            more["_meta"] = {META_SERVER_INFO: SERVER_INFO}
        return {**more, **result}

    def acknowledgement(self, request_id: Any, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the acknowledgement of a ``subscriptions/listen``."""
        wanted = params.get("notifications")
        content = {"_meta": {META_SUBSCRIPTION_ID: request_id}, "notifications": wanted if isinstance(wanted, dict) else {}}
        return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": content}

    def _declared(self, revision: str) -> dict[str, Any]:
        return {key: value for key, value in self.capabilities.items() if key != "completions" or revision > LEGACY[0]}
