"""A server with tools that hostile clients like, on a real uvicorn."""

import asyncio
import threading
from contextlib import contextmanager

from http_server import RawConnection, call_tool, serve_asgi
from twopipes import Context, Server
from twopipes.http import HttpOptions


class Target:
    """A server under attack: its port, and what its handlers did."""

    def __init__(self, options=None, auth=None):
        self.options = options or HttpOptions()
        self.server = Server("target", version="1.0")
        self.started = threading.Semaphore(0)  # released by each call of `wait`
        self.cancelled = threading.Semaphore(0)  # released by each call of `wait` that was cancelled
        self.loop = None
        self.port = 0
        self._add_tools()
        self.app = self.server.asgi(self.options, auth=auth)

    def _add_tools(self):
        server = self.server

        @server.resource("test://changing")
        async def changing() -> str:
            return "x"

        @server.tool
        async def echo(text: str) -> str:
            return text

        @server.tool
        async def who(ctx: Context) -> str:
            return "nobody" if ctx.identity is None else ctx.identity.subject

        @server.tool
        async def wait() -> str:
            self.started.release()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.release()
                raise
            return "never"

        @server.tool
        async def big(size: int) -> str:
            self.started.release()
            return "x" * size

        @server.tool
        async def flood(ctx: Context) -> str:
            """Report without end, as fast as the client reads."""
            self.started.release()
            try:
                for number in range(10**9):
                    await ctx.log("info", "x" * 10_000 + str(number))
            except asyncio.CancelledError:
                self.cancelled.release()
                raise
            return "never"

        @server.tool
        async def repeat(text: str, ctx: Context) -> str:
            """Send the text in a log message, in progress and in the result."""
            await ctx.log("info", text)
            await ctx.progress(1, 2, text)
            return text

        @server.tool
        async def announce(times: int) -> str:
            for _ in range(times):
                server.notify_resource_updated("test://changing")
                await asyncio.sleep(0)
            return "done"

        @server.tool
        async def tasks() -> int:
            return len(asyncio.all_tasks())

    @contextmanager
    def running(self, **options):
        with serve_asgi(self.app, **options) as self.port:
            yield self

    def connect(self):
        return RawConnection(self.port)

    def call(self, name, headers=(), **arguments):
        """Call a tool on a new connection and return the text of its result."""
        with self.connect() as connection:
            response = connection.request(**call_tool(name, headers, **arguments))
        assert response.status == 200, response.body
        return response.json["result"]["content"][0]["text"]

    def announce(self, times=1):
        """Publish a change of the resource."""
        assert self.call("announce", times=times) == "done"

    def assert_serves(self):
        """The next request is served, whatever came before."""
        assert self.call("echo", text="still here") == "still here"

    def assert_calm(self):
        """Every task of earlier requests has ended. It may take a moment until a closed connection is noticed."""
        for _ in range(2000):
            if int(self.call("tasks")) <= self.idle_tasks:
                return
        raise AssertionError(f"{self.call('tasks')} tasks are left, {self.idle_tasks} are usual")

    @property
    def idle_tasks(self):
        """The tasks of uvicorn, of the application, and of the call that counts them."""
        return self._idle_tasks

    def note_idle_tasks(self):
        self._idle_tasks = int(self.call("tasks"))
