"""The ASGI server and the client behind it, for tests of replies."""

import asyncio

from twopipes._http.options import HttpOptions
from twopipes._server.http.deadlines import HttpDeadlines
from twopipes._server.http.reply import Reply


class Client:
    """Receives what a reply sends. It can stop reading (``reads``) and go away (``gone``)."""

    def __init__(self):
        self.sent = []
        self.wrote = asyncio.Event()
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self.closed = []

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        await self.reads.wait()
        self.sent.append(message)
        self.wrote.set()

    def reply(self, **given):
        options = HttpOptions(**{key: given.pop(key) for key in list(given) if key in HttpOptions.__struct_fields__})
        send, on_closed = given.pop("send", self.send), given.pop("on_closed", self.closed.append)
        return Reply(self.receive, send, options, HttpDeadlines(options), on_closed, **given)

    async def receives(self, text):
        """Wait until the client has received a text."""
        while text not in self.body:
            self.wrote.clear()
            await asyncio.wait_for(self.wrote.wait(), 10)

    @property
    def status(self):
        return self.sent[0]["status"]

    @property
    def headers(self):
        return dict(self.sent[0]["headers"])

    @property
    def body(self):
        return b"".join(message["body"] for message in self.sent[1:])

    @property
    def is_complete(self):
        return bool(self.sent[1:]) and not self.sent[-1].get("more_body", False)


def run(test):
    """Run a test with a client, and make sure that it leaves no task behind."""

    async def main():
        async with asyncio.timeout(20):
            await test(Client())
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:  # cancelled, and about to end
            _, left_behind = await asyncio.wait(others, timeout=5)
            assert not left_behind

    asyncio.run(main())
