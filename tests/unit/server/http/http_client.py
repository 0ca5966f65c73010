"""An HTTP client that calls an ASGI application in this process."""

import asyncio
import json
from contextlib import asynccontextmanager

from sessions import CAPABILITIES, VERSION, modern
from twopipes._http.headers import request_headers
from twopipes._http.sse import SseParser
from twopipes._protocol.revisions import LATEST_MODERN

NET = 20
ACCEPT = "application/json, text/event-stream"


class Exchange:
    """One HTTP request and its response, which may still be arriving."""

    def __init__(self, app, method, path, headers, body, *, root_path="", server=("127.0.0.1", 8000)):
        self.scope = {
            "type": "http",
            "method": method,
            "path": root_path + path,
            "root_path": root_path,
            "scheme": "http",
            "server": server,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        }
        self.app = app
        self.parts = [body] if isinstance(body, bytes) else list(body)
        self.status = 0
        self.headers = {}
        self.body = b""
        self.messages = []
        self.is_complete = False
        self.changed = asyncio.Event()
        self.gone = asyncio.Event()
        self._events = SseParser()

    async def receive(self):
        if self.parts:
            part = self.parts.pop(0)
            if part is None:
                await self.gone.wait()  # the rest never comes
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": part, "more_body": bool(self.parts)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]
            self.is_complete = not message.get("more_body", False)
            if self.headers.get("content-type") == "text/event-stream":
                self.messages += [json.loads(event.data) for event in self._events.feed(message["body"]) if event.data]
            elif self.is_complete and self.body:
                self.messages = [json.loads(self.body)]
        self.changed.set()

    async def until(self, condition):
        """Wait until a condition on what has arrived is true."""
        async with asyncio.timeout(NET):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def run(self):
        async with asyncio.timeout(NET):
            await self.app(self.scope, self.receive, self.send)
        return self

    @property
    def message(self):
        """The only message of the response."""
        (message,) = self.messages
        return message

    @property
    def code(self):
        return self.message["error"]["code"]


class Http:
    """A client of one application."""

    def __init__(self, app, **defaults):
        self.app = app
        self.defaults = {
            "host": "127.0.0.1:8000",
            "content-type": "application/json",
            "accept": ACCEPT,
            **{name.replace("_", "-"): value for name, value in defaults.items()},
        }

    def exchange(self, method="POST", path="/mcp", *, headers=(), body=b"", without=(), **more):
        changed = headers.items() if isinstance(headers, dict) else headers
        sent = {name: value for name, value in self.defaults.items() if name not in without}
        names = {name.lower() for name, _ in changed}
        return Exchange(self.app, method, path, [*((n, v) for n, v in sent.items() if n not in names), *changed], body, **more)

    async def post(self, message, **more):
        return await self.begin(message, **more).run()

    def begin(self, message, **more):
        """Return an exchange that was not started yet, with the headers that belong to a modern request."""
        body = json.dumps(message).encode()
        params = message.get("params") or {}
        meta = params.get("_meta") or {}
        headers = dict(more.pop("headers", {}))
        if VERSION in meta and "method" in message:
            headers = {**request_headers(message["method"], params, meta[VERSION]), **headers}
        return self.exchange(headers=headers, body=body, **more)

    async def call(self, name, arguments=None, *, request_id=1, can=None, meta=None, **more):
        return await self.post(tool_call(name, arguments, request_id=request_id, can=can, meta=meta), **more)

    @asynccontextmanager
    async def open(self, message, **more):
        """Run an exchange in the background; at the end the client goes away."""
        exchange = self.begin(message, **more)
        task = asyncio.create_task(exchange.run())
        try:
            yield exchange
        finally:
            exchange.gone.set()
            await asyncio.wait([task], timeout=NET)


def tool_call(name, arguments=None, *, request_id=1, can=None, meta=None):
    return modern(request_id, "tools/call", can=can, meta=meta, name=name, arguments=arguments or {})


def listen(request_id=1, **wanted):
    return modern(request_id, "subscriptions/listen", notifications=wanted)


@asynccontextmanager
async def running(app):
    """Run the lifespan of an application around a block, as an ASGI server does."""
    incoming, outgoing = asyncio.Queue(), asyncio.Queue()
    task = asyncio.create_task(app({"type": "lifespan"}, incoming.get, outgoing.put))
    await incoming.put({"type": "lifespan.startup"})
    assert (await outgoing.get())["type"] == "lifespan.startup.complete"
    try:
        yield Http(app)
    finally:
        await incoming.put({"type": "lifespan.shutdown"})
        async with asyncio.timeout(NET):
            assert (await outgoing.get())["type"] == "lifespan.shutdown.complete"
            await task


__all__ = ["ACCEPT", "CAPABILITIES", "LATEST_MODERN", "VERSION", "Exchange", "Http", "listen", "running", "tool_call"]
