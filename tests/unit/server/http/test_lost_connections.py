"""Legacy clients that lose their connections again and again: every call still gets exactly one response."""

import asyncio
import json
import random

import aiohttp
import pytest

from http_server import serve_asgi
from twopipes import Context, Server
from twopipes._http.sse import SseParser
from twopipes.http import HttpOptions

pytestmark = pytest.mark.slow  # real sockets

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
CLIENTS, CALLS = 12, 8


def a_server():
    server = Server("storm", version="1")

    @server.tool
    async def count(ctx: Context, steps: int, tag: str) -> str:
        for step in range(steps):
            await ctx.log("error", f"{tag} {step}")
            if step % 3 == 0:
                await asyncio.sleep(0)
        answer = await ctx.elicit(tag, {"type": "object", "properties": {"tag": {"type": "string"}}})
        return f"{tag}: {answer.content['tag']}"

    return server


class UnsteadyClient:
    """A client that drops each stream after a random number of events, and resumes it."""

    def __init__(self, http, url, seed):
        self.http = http
        self.url = url
        self.random = random.Random(seed)
        self.headers = dict(ACCEPT)
        self.dropped = 0

    async def post(self, message):
        async with self.http.post(self.url, json=message, headers=self.headers) as response:
            return response.status, response.headers, await response.read()

    async def open(self):
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "c", "version": "1"},
        }
        _, headers, _ = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
        status, _, _ = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert status == 202

    async def call(self, id_):
        """Call the tool, and return every message in the order of its events."""
        params = {"name": "count", "arguments": {"steps": 20, "tag": f"t{id_}"}}
        message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
        messages, last_id = [], ""
        while not messages or "result" not in messages[-1]:
            if last_id:
                request = self.http.get(self.url, headers=self.headers | {"Last-Event-ID": last_id})
            else:
                request = self.http.post(self.url, json=message, headers=self.headers)
            async with request as response:
                assert response.status == 200, await response.text()
                last_id = await self.read(response, messages) or last_id
        return messages

    async def read(self, response, messages):
        """Read some events, and return the id of the last one."""
        parser = SseParser()
        left = self.random.randrange(1, 12)
        while left > 0 and (chunk := await response.content.readany()):
            for event in parser.feed(chunk):
                left -= 1
                if not event.data:
                    continue
                messages.append(json.loads(event.data))
                if messages[-1].get("method") == "elicitation/create":
                    await self.answer(messages[-1])
        self.dropped += left <= 0
        response.close()
        return parser.last_id

    async def answer(self, question):
        content = {"tag": question["params"]["message"]}
        status, _, _ = await self.post({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": content}})
        assert status == 202


def test_every_call_gets_one_response_and_no_message_is_lost_or_repeated():
    async def converse(http, url, seed):
        client = UnsteadyClient(http, url, seed)
        await client.open()
        conversations = await asyncio.gather(*(client.call(id_) for id_ in range(1, CALLS + 1)))
        for id_, messages in enumerate(conversations, 1):
            logged = [message["params"]["data"] for message in messages if message.get("method") == "notifications/message"]
            assert logged == [f"t{id_} {step}" for step in range(20)]
            questions = [message for message in messages if message.get("method") == "elicitation/create"]
            assert len(questions) == 1
            assert [message["id"] for message in messages if "result" in message] == [id_]
            assert messages[-1]["result"]["content"][0]["text"] == f"t{id_}: t{id_}"
        return client.dropped

    async def main(url):
        async with aiohttp.ClientSession() as http, asyncio.timeout(60):
            return sum(await asyncio.gather(*(converse(http, url, seed) for seed in range(CLIENTS))))

    app = a_server().asgi(HttpOptions())
    with serve_asgi(app) as port:
        dropped = asyncio.run(main(f"http://127.0.0.1:{port}/mcp"))
        sessions = app._owner.runtime.sessions
        assert len(sessions) == CLIENTS
        for session in sessions._sessions.values():
            assert not session.connection.session.incoming
            assert not session.connection.session.outgoing
            assert len(session._streams) <= 1 + 16
    assert dropped > CLIENTS * CALLS
    assert sessions._budget.used == 0
