"""Whatever an HTTP request contains, it gets exactly one well-formed response, and the next request is served."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from http_server import LEGACY, call_tool, initialize, legacy_request, listen, modern_request
from twopipes import Context, Server
from twopipes.http import HttpOptions, Identity

NAMES = [
    "accept",
    "authorization",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "x-other",
]
VALUES = [
    "application/json",
    "text/event-stream",
    "*/*",
    "localhost",
    "2026-07-28",
    LEGACY,
    "tools/call",
    "echo",
    "Bearer ada",
    "",
    "0",
]
STATUSES = {200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 503}

header = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES) | st.text(st.characters(max_codepoint=255), max_size=20))
messages = st.sampled_from(
    [
        call_tool("echo", text="x"),
        call_tool("missing"),
        modern_request("server/discover"),
        modern_request("nonsense/method"),
        modern_request("tools/list", {"cursor": "x"}),
        initialize(),
        legacy_request("tools/list"),
        legacy_request("ping", headers={"MCP-Protocol-Version": LEGACY}),
    ]
)


@st.composite
def requests(draw):
    """A request that is right, apart from what was changed in it."""
    message = draw(messages)
    headers = {"host": "localhost", "content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {name.lower(): value for name, value in message["headers"].items()}
    listed = [(name, value) for name, value in headers.items() if draw(st.integers(0, 9))]
    listed += draw(st.lists(header, max_size=4))
    body = message["body"]
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(body)))
        body = body[:cut] + draw(st.binary(max_size=20)) + body[cut + draw(st.integers(0, 5)) :]
    method = draw(st.sampled_from(["POST"] * 6 + ["GET", "DELETE", "OPTIONS", "PUT", "HEAD", "x"]))
    path = draw(st.sampled_from(["/mcp"] * 8 + ["/", "/health", "/mcp/", "/.well-known/oauth-protected-resource", "/\x00"]))
    return method, path, listed, split(body, draw(st.integers(1, 3)))


def split(body, parts):
    size = len(body) // parts + 1
    return [body[start : start + size] for start in range(0, len(body), size)] or [b""]


async def exchange(app, method, path, headers, parts):
    """Call the application as an ASGI server does, and return what it sends. A stream is left when it has begun."""
    sent = []
    is_over = asyncio.Event()
    arriving = [{"type": "http.request", "body": part, "more_body": index < len(parts) - 1} for index, part in enumerate(parts)]

    async def receive():
        if arriving:
            return arriving.pop(0)
        await is_over.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        if message["type"] == "http.response.start" and (b"content-type", b"text/event-stream") in message["headers"]:
            is_over.set()  # a stream may be endless: leave

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": b"",
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
    }
    async with asyncio.timeout(10):
        await app(scope, receive, send)
    return sent


class Apps:
    """Two applications in an event loop of their own: without and with authentication."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.apps = [self._app(None), self._app(self._verify)]

    def _app(self, auth):
        server = Server("target", version="1.0")

        @server.tool
        async def echo(text: str, ctx: Context) -> str:
            await ctx.progress(1, 2, text)
            return text

        return server.asgi(HttpOptions(max_body=10_000, read_timeout=5.0), auth=auth)

    @staticmethod
    async def _verify(token):
        return Identity(token) if token == "ada" else None

    def exchange(self, app, *request):
        return self.loop.run_until_complete(exchange(app, *request))

    def close(self):
        for app in self.apps:
            self.loop.run_until_complete(app._owner.stop())
        left = asyncio.all_tasks(self.loop)
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=5))
        assert not asyncio.all_tasks(self.loop)
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@pytest.fixture(scope="module")
def apps():
    apps = Apps()
    yield apps
    apps.close()


@given(request=requests(), is_guarded=st.booleans())
def test_every_request_gets_one_well_formed_response(apps, request, is_guarded):
    sent = apps.exchange(apps.apps[is_guarded], *request)
    start, *rest = sent
    assert start["type"] == "http.response.start"
    assert start["status"] in STATUSES
    headers = dict(start["headers"])
    for name, value in start["headers"]:
        assert name == name.lower()
        assert not set(value) & {0, 10, 13}
    assert all(message["type"] == "http.response.body" for message in rest)
    if headers.get(b"content-type") == b"text/event-stream":
        return
    body = b"".join(message.get("body", b"") for message in rest)
    assert int(headers[b"content-length"]) == len(body)
    assert not rest[-1].get("more_body", False)
    if body:
        assert json.loads(body)
    if is_guarded and request[1] == "/mcp" and request[0] == "POST" and start["status"] in {200, 202}:
        assert [value for name, value in request[2] if name == "authorization"] == ["Bearer ada"]


@given(request=requests())
def test_the_next_request_is_served(apps, request):
    apps.exchange(apps.apps[0], *request)
    message = call_tool("echo", text="still here")
    usual = {"host": "localhost", "content-type": "application/json", "accept": "*/*"}
    headers = [*usual.items(), *((name.lower(), value) for name, value in message["headers"].items())]
    sent = apps.exchange(apps.apps[0], "POST", "/mcp", headers, [message["body"]])
    assert sent[0]["status"] == 200


def test_a_stream_that_is_left_at_once_leaves_nothing(apps):
    message = listen()
    usual = {"host": "localhost", "content-type": "application/json", "accept": "*/*"}
    headers = [*usual.items(), *((name.lower(), value) for name, value in message["headers"].items())]
    before = len(asyncio.all_tasks(apps.loop))
    for _ in range(50):
        assert apps.exchange(apps.apps[0], "POST", "/mcp", headers, [message["body"]])[0]["status"] == 200
    assert len(apps.apps[0]._owner.runtime.modern.session.subscriptions) == 0
    assert len(asyncio.all_tasks(apps.loop)) <= before + 2
