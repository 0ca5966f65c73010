"""Helpers for tests of the sessions: both sides, and the messages between them."""

import json
from typing import Any

from twopipes._jsonrpc import encode
from twopipes._protocol import types
from twopipes._protocol.dialect import dialect
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY
from twopipes._session.client import ClientSession
from twopipes._session.identity import ClientProfile, ServerProfile
from twopipes._session.ledger import Call
from twopipes._session.server import ServerSession
from twopipes._session.state_token import StateSealer
from twopipes.settings import InputPolicy, Limits

KEY = b"a key that only the tests use..."
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
TAG = "io.modelcontextprotocol/subscriptionId"
EVERYTHING = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}
ABLE = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
FORM = types.ElicitRequest(
    types.ElicitParams("Your name?", requested_schema={"type": "object", "properties": {"name": {"type": "string"}}})
)
URL = types.ElicitRequest(types.ElicitParams("Go there", mode="url", url="https://example.com/"))
SAMPLE = types.CreateMessageRequest(
    types.CreateMessageParams([types.SamplingMessage("user", types.TextContent("Hello"))], max_tokens=10)
)
ROOTS = types.ListRootsRequest()
ANNA = {"action": "accept", "content": {"name": "Anna"}}
DONE = types.CallToolResult([types.TextContent("done")])
METHODS = ("tools/call", "prompts/get", "resources/read")


def server_session(
    *,
    capabilities: Any = EVERYTHING,
    limits: Limits | None = None,
    questions: InputPolicy | None = None,
    key: bytes | None = KEY,
    principal: str = "",
    unix_offset: float = 0.0,
    shared: bool = False,
    **profile: Any,
) -> ServerSession:
    return ServerSession(
        ServerProfile(info=types.Implementation("s", "1"), capabilities=types.ServerCapabilities(**capabilities), **profile),
        limits=limits,
        questions=questions,
        sealer=None if key is None else StateSealer(key),
        principal=principal,
        unix_offset=unix_offset,
        shared=shared,
    )


def opened_server(revision: str = LATEST_LEGACY, *, client: Any = ABLE, initialized: bool = True, **options: Any) -> ServerSession:
    """Return a server after the handshake with a legacy client."""
    session = server_session(**options)
    feed(session, initialize(revision=revision, capabilities=client))
    if initialized:
        feed(session, note("notifications/initialized"))
    said(session)
    return session


def client_session(*, capabilities: Any = ABLE, **options: Any) -> ClientSession:
    chosen = {"revisions": options.pop("revisions")} if "revisions" in options else {}
    profile = ClientProfile(info=types.Implementation("c", "1"), capabilities=types.ClientCapabilities(**capabilities), **chosen)
    return ClientSession(profile, **options)


def opened_client(revision: str = LATEST_MODERN, *, server: Any = EVERYTHING, **options: Any) -> ClientSession:
    """Return a client after its opening. Its output so far is discarded."""
    legacy = revision in LEGACY
    session = client_session(skip_probe=legacy, **options)
    session.open(now=0.0)
    (opening,) = said(session)
    if legacy:
        result = {"protocolVersion": revision, "capabilities": server, "serverInfo": {"name": "s", "version": "1"}}
    else:
        result = {
            "supportedVersions": [revision],
            "capabilities": server,
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        }
    feed(session, answer(opening["id"], **result))
    said(session)
    return session


def feed(session: Any, *messages: Any, now: float = 0.0) -> list[Any]:
    """Let a session receive messages, and return its events."""
    return session.receive(b"".join(encode(message) for message in messages), now=now)


def said(session: Any) -> list[Any]:
    """Return the messages that the session has written since the last call."""
    data = session.data_to_send()
    assert not data or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def asks(session: ServerSession, message: Any, *, now: float = 0.0) -> Call:
    """Let a server receive a request for a handler, and return the call."""
    (event,) = feed(session, message, now=now)
    return event.call


def request(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def modern(request_id: Any, method: str, *, can: Any = None, meta: Any = None, **params: Any) -> dict[str, Any]:
    """Return a modern request, which carries its own revision and capabilities."""
    carried = {VERSION: LATEST_MODERN, CAPABILITIES: {} if can is None else can, **(meta or {})}
    return request(request_id, method, _meta=carried, **params)


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}


def cancelled(request_id: Any, **more: Any) -> dict[str, Any]:
    return note("notifications/cancelled", requestId=request_id, **more)


def answer(request_id: Any, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error(request_id: Any, code: int, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, **more}}


def initialize(request_id: Any = 0, *, revision: str = LATEST_LEGACY, capabilities: Any = None) -> dict[str, Any]:
    params = {
        "protocolVersion": revision,
        "capabilities": {} if capabilities is None else capabilities,
        "clientInfo": {"name": "c", "version": "1"},
    }
    return request(request_id, "initialize", **params)


def code(line: dict[str, Any]) -> int:
    return line["error"]["code"]


def call(request_id: Any = 1, *, revision: str = LATEST_MODERN, token: Any = None) -> Call:
    """Return a call without a session."""
    return Call(
        request_id,
        "tools/call",
        types.CallToolParams("echo"),
        dialect=dialect(revision),
        capabilities=types.ClientCapabilities(),
        progress_token=token,
    )
