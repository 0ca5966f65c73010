"""A plain HTTP client for the tests: it sends single messages, hides nothing, and repeats nothing."""

import asyncio
import itertools
import json
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

import sessions
from scale.services import NET
from twopipes._http.headers import request_headers
from twopipes._http.sse import SseParser
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN

FORMS = {"elicitation": {"form": {}}}
YES = {"action": "accept", "content": {"confirmed": True}}
ACCEPT = {"Accept": "application/json, text/event-stream"}


class Exchange(NamedTuple):
    """One HTTP exchange: the status, the headers, and every message of the response. Status 0: the connection broke."""

    status: int
    headers: Any
    messages: list[Any]

    @property
    def result(self):
        (message,) = self.messages
        return message["result"]

    @property
    def error(self):
        (message,) = self.messages
        return message["error"]

    @property
    def text(self):
        return self.result["content"][0]["text"]


class RawClient:
    """Sends modern requests, each with its own id."""

    def __init__(self, http):
        self.http = http
        self._ids = itertools.count(1)

    async def post(self, url, method, *, can=None, **params):
        """Send a modern request and read the response to its end."""
        message = sessions.modern(next(self._ids), method, can=can, **params)
        headers = request_headers(method, message["params"], LATEST_MODERN)
        exchange = await self.exchange(url, message, headers)
        assert [each.get("id") for each in exchange.messages] == [message["id"]] or not 200 <= exchange.status < 300
        return exchange

    async def call(self, url, tool, *, can=None, **arguments):
        return await self.post(url, "tools/call", can=can, name=tool, arguments=arguments)

    async def exchange(self, url, message, headers=None):
        try:
            async with self.http.post(url, json=message, headers={**ACCEPT, **(headers or {})}) as response:
                return Exchange(response.status, response.headers, [each async for each in messages_of(response)])
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            return Exchange(0, {}, [])

    @asynccontextmanager
    async def listening(self, url, *uris):
        """Open a subscription, and yield it after it was acknowledged."""
        message = sessions.modern(f"ear {next(self._ids)}", "subscriptions/listen", notifications={"resourceSubscriptions": uris})
        headers = request_headers("subscriptions/listen", message["params"], LATEST_MODERN)
        async with self.http.post(url, json=message, headers={**ACCEPT, **headers}) as response:
            assert response.status == 200, await response.text()
            listen = Listen(messages_of(response))
            assert (await listen.next())["method"] == "notifications/subscriptions/acknowledged"
            yield listen


class Listen:
    """An open stream of messages."""

    def __init__(self, messages):
        self._messages = messages

    async def next(self):
        """Return the next message; None at the end of the stream."""
        async with asyncio.timeout(NET):
            return await anext(self._messages, None)

    async def updated(self, count):
        """Return the URIs of the next notifications of changed resources."""
        return [(await self.next())["params"]["uri"] for _ in range(count)]


class LegacySession:
    """A session of a legacy client."""

    def __init__(self, client, url):
        self._client = client
        self.url = url
        self.id = None

    async def open(self):
        exchange = await self._client.exchange(self.url, sessions.initialize(1))
        assert exchange.status == 200, exchange
        self.id = exchange.headers["Mcp-Session-Id"]
        exchange = await self.send(sessions.note("notifications/initialized"))
        assert exchange.status == 202, exchange
        return self

    @property
    def headers(self):
        return {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": LATEST_LEGACY}

    async def send(self, message):
        return await self._client.exchange(self.url, message, self.headers)

    async def request(self, method, **params):
        return await self.send(sessions.request(2, method, **params))

    @asynccontextmanager
    async def stream(self):
        """Open the GET stream."""
        async with self._client.http.get(self.url, headers={"Accept": "text/event-stream", **self.headers}) as response:
            assert response.status == 200, await response.text()
            yield Listen(messages_of(response))


async def messages_of(response):
    """Yield every message of a response, of either form. An event without data only carries an id."""
    kind = response.content_type
    if kind == "text/event-stream":
        parser = SseParser()
        async for chunk in response.content.iter_any():
            for event in parser.feed(chunk):
                if event.data:
                    yield json.loads(event.data)
    elif kind == "application/json":
        yield await response.json()
    else:
        await response.read()


@asynccontextmanager
async def raw_client():
    """Open a client that uses a connection for each request: none breaks because another end has closed it as idle."""
    timeout = aiohttp.ClientTimeout(total=None, sock_read=NET)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True, limit=0), timeout=timeout) as http:
        yield RawClient(http)


async def ask(client, url, name):
    """Call the tool of the example that asks; return its question and what the retry sends."""
    result = (await client.call(url, "erase", can=FORMS, name=name)).result
    assert result["resultType"] == "input_required", result
    ((key, question),) = result["inputRequests"].items()
    return question["params"]["message"], {"inputResponses": {key: YES}, "requestState": result["requestState"]}


async def answer(client, url, name, retry):
    """Send the retry with the answer to a question."""
    return await client.post(url, "tools/call", can=FORMS, name="erase", arguments={"name": name}, **retry)
