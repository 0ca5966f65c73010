"""What the hand-written servers share: the responses of the protocol, and the tools."""

import msgspec

MODERN = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
INFO = {"name": "by-hand", "version": "1.0"}
SERVER_INFO = {"io.modelcontextprotocol/serverInfo": INFO}


class Message(msgspec.Struct):
    """A message of the client."""

    method: str
    id: int | str | None = None
    params: dict = {}


def tool(name: str, properties: dict[str, str]) -> dict:
    """The description of a tool."""
    schema = {name: {"type": kind} for name, kind in properties.items()}
    return {"name": name, "inputSchema": {"type": "object", "properties": schema, "required": list(schema)}}


TOOLS = [
    tool("echo", {"text": "string"}),
    tool("echo_def", {"text": "string"}),
    tool("weather", {"city": "string"}),
    tool("swallow", {"text": "string"}),
    tool("produce", {"size": "integer"}),
    tool("pause", {"seconds": "number"}),
    tool("pause_def", {"seconds": "number"}),
]


class Weather(msgspec.Struct):
    """A result with a structure."""

    city: str
    celsius: float


def text_result(text: str) -> dict:
    """A result of one text."""
    return {"content": [{"type": "text", "text": text}]}


def weather_result(city: str) -> dict:
    """A result with a structure, and the same as a text."""
    found = Weather(city, 7.5)
    return {**text_result(msgspec.json.encode(found).decode()), "structuredContent": found}


def is_modern(params: dict) -> bool:
    """Return whether a request is modern."""
    return params.get("_meta", {}).get(VERSION_KEY) == MODERN


def answer(message: Message, result: dict) -> dict:
    """Return the whole response, with the members of its era."""
    if is_modern(message.params):
        result = {"resultType": "complete", **result, "_meta": SERVER_INFO}
    return {"jsonrpc": "2.0", "id": message.id, "result": result}


def refusal(message: Message, code: int, said: str) -> dict:
    """Return an error response."""
    return {"jsonrpc": "2.0", "id": message.id, "error": {"code": code, "message": said}}


def protocol_answer(message: Message) -> dict:
    """Return the response to anything but a call of a tool."""
    capabilities = {"tools": {}}
    match message.method:
        case "initialize":
            revision = message.params["protocolVersion"]
            return answer(message, {"protocolVersion": revision, "capabilities": capabilities, "serverInfo": INFO})
        case "server/discover":
            found = {"supportedVersions": [MODERN], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"}
            return answer(message, found)
        case "tools/list":
            listed = {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"} if is_modern(message.params) else {"tools": TOOLS}
            return answer(message, listed)
        case "ping":
            return answer(message, {})
    return refusal(message, -32601, f"no such method: {message.method}")
