"""An ASGI application on a real uvicorn, in a thread, and raw connections to it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import uvicorn

from twopipes._server.http.uvicorn_protocol import bounded_protocol

# Seconds. No wait in a test comes near it; a wait that ends with it has failed.
PATIENCE = 30.0


@contextmanager
def serve_asgi(app: Any, *, read_timeout: float = PATIENCE, write_timeout: float = PATIENCE) -> Iterator[int]:
    """Serve an application on loopback and return its port. At the end the server has stopped, and every task of it has ended."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # as the server does, for its delay
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    protocol = bounded_protocol(read_timeout=read_timeout, write_timeout=write_timeout)
    config = uvicorn.Config(app, http=protocol, lifespan="auto", ws="none", log_config=None, access_log=False)
    config.timeout_graceful_shutdown = 5
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
        assert not thread.is_alive(), "the server did not stop"


class RawConnection:
    """A TCP connection that sends any bytes and reads HTTP responses."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.file = self.socket.makefile("rb")
        self.port = port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def request(
        self, method: str = "POST", path: str = "/mcp", headers: Any = (), body: bytes = b"", *, length: Any = None
    ) -> Response:
        """Send a whole request and read the response."""
        self.send(request_bytes(method, path, headers, body, length=length, host=f"127.0.0.1:{self.port}"))
        return self.read_response()

    def read_head(self) -> Response:
        """Read the status and the headers of a response."""
        status_line = self.file.readline()
        if not status_line:
            raise ConnectionError("the server closed the connection without a response")
        headers: dict[str, str] = {}
        while (line := self.file.readline()) not in {b"\r\n", b""}:
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return Response(int(status_line.split()[1]), headers)

    def read_response(self) -> Response:
        """Read a whole response."""
        response = self.read_head()
        if "content-length" in response.headers:
            response.body = self.file.read(int(response.headers["content-length"]))
        elif response.headers.get("transfer-encoding") == "chunked":
            while chunk := self.read_chunk():
                response.body += chunk
        return response

    def read_chunk(self) -> bytes:
        """Read one part of a response with chunks; empty at its end."""
        size = int(self.file.readline().strip() or b"0", 16)
        chunk = self.file.read(size)
        self.file.readline()
        return chunk

    def read_event(self) -> Any:
        """Read parts of a stream of events until one has data, and return the data as JSON."""
        while chunk := self.read_chunk():
            for line in chunk.split(b"\n"):
                if line.startswith(b"data: ") and line != b"data: ":
                    return json.loads(line[6:])
        raise ConnectionError("the stream ended without an event")

    def wait_until_closed(self) -> bytes:
        """Read until the server closes the connection, and return what came before."""
        try:
            return self.file.read()
        except ConnectionResetError:
            return b""


class Response:
    """A response as it arrived."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.body = b""

    @property
    def json(self) -> Any:
        """The body, which is JSON or a stream whose last event is."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return json.loads([line[6:] for line in self.body.split(b"\n") if line.startswith(b"data: {")][-1])
        return json.loads(self.body)


def request_bytes(
    method: str = "POST", path: str = "/mcp", headers: Any = (), body: bytes = b"", *, length: Any = None, host: str = "localhost"
) -> bytes:
    """Write a request. ``headers`` are added to the usual ones; a value ``None`` removes one, a list repeats it."""
    named: dict[str, Any] = {"Host": host, "Content-Length": len(body) if length is None else length}
    if body:
        named |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    named |= dict(headers)
    lines = [f"{method} {path} HTTP/1.1"]
    for name, value in named.items():
        values = value if isinstance(value, list) else [] if value is None else [value]
        lines += [f"{name}: {each}" for each in values]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


# Messages of the protocol

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"


def modern_request(method: str, params: Any = (), *, id: Any = 1, headers: Any = ()) -> dict[str, Any]:  # noqa: A002 - as in JSON-RPC
    """Return headers and body of a modern request, as arguments for :meth:`RawConnection.request`."""
    meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {"elicitation": {}}}
    content = {"_meta": meta, **dict(params)}
    content["_meta"] = {**meta, **content["_meta"]}
    named = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if name := content.get("name", content.get("uri")):
        named["Mcp-Name"] = name
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": content}).encode()
    return {"headers": {**named, **dict(headers)}, "body": body}


def call_tool(name: str, headers: Any = (), **arguments: Any) -> dict[str, Any]:
    """Return headers and body of a modern tool call that wants progress and log messages."""
    meta = {"progressToken": "p", f"{META}logLevel": "debug"}
    return modern_request("tools/call", {"name": name, "arguments": arguments, "_meta": meta}, headers=headers)


def listen(headers: Any = (), **notifications: Any) -> dict[str, Any]:
    """Return headers and body of a subscription."""
    return modern_request("subscriptions/listen", {"notifications": notifications or {"toolsListChanged": True}}, headers=headers)


def initialize(headers: Any = ()) -> dict[str, Any]:
    """Return headers and body of the request that opens a legacy session."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "hostile", "version": "1"}}
    return legacy_request("initialize", params, headers=headers)


def legacy_request(method: str, params: Any = (), *, id: Any = 1, headers: Any = ()) -> dict[str, Any]:  # noqa: A002 - as in JSON-RPC
    """Return headers and body of a legacy request."""
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params)}).encode()
    return {"headers": dict(headers), "body": body}
