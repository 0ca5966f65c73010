"""A proxy between our client and the fake server. A mutant overrides one of its methods, and so breaks one rule of clients."""

import asyncio

from check.full_tour import tour
from check.time_scale import scaled
from twopipes import Timeouts
from twopipes._tools.check.http.drivers import HttpInProcessDriver
from twopipes._tools.check.http.listener import listening
from twopipes._tools.check.http.wire import HttpExchange, parse_url
from twopipes.errors import ChannelBroken

OF_THE_CONNECTION = {"transfer-encoding", "content-length", "connection"}
# Seconds for the client: a call of a tool that is stuck takes less.
WAITS = Timeouts(connect=2, probe=1, request=1, total=2)


class Proxy:
    """Passes everything on. Each client gets its own."""

    def __init__(self, url):
        self.url = url
        self.address = parse_url(url)

    # What mutants change

    def to_server(self, request):
        """Change a request of the client. A status that is returned is the response; the server does not see the request."""

    def to_client(self, request, exchange):
        """Change the head of a response."""

    def body_to_client(self, request, body):
        """Return the body of a response, or a part of a stream."""
        return body

    async def client_is_gone(self, request):
        """Called when the client closes a connection before the response has ended."""

    # Passing on

    async def handle(self, request, reply):
        status = self.to_server(request)
        if status is not None:
            reply.empty(status)
            return
        exchange = await self.send(request)
        following = asyncio.create_task(self.follow(request, exchange, reply))
        gone = asyncio.create_task(reply.is_gone.wait())
        try:
            await asyncio.wait([following, gone], return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                await self.client_is_gone(request)
        finally:
            exchange.close()
            for task in (following, gone):
                task.cancel()
            await asyncio.gather(following, gone, return_exceptions=True)

    async def send(self, request):
        headers = {name: value for name, value in request.headers if name.lower() not in {*OF_THE_CONNECTION, "host"}}
        address = parse_url(self.url.replace("/mcp", request.path))
        exchange = HttpExchange(address, request.method, headers, request.body)
        try:
            await exchange.send(within=5)
        except ChannelBroken:
            exchange.close()
        return exchange

    async def follow(self, request, exchange, reply):
        if not await exchange.read_head():
            reply.abort()
            return
        self.to_client(request, exchange)
        headers = {name: value for name, value in exchange.headers if name.lower() not in OF_THE_CONNECTION}
        if not exchange.is_stream:
            await exchange.read_all()
            reply.whole(exchange.status, headers, self.body_to_client(request, bytes(exchange.body)))
            return
        reply.stream(headers, status=exchange.status)
        try:
            while part := await exchange._next_part():
                reply.raw(self.body_to_client(request, part))
        except (OSError, asyncio.IncompleteReadError, ValueError):
            reply.abort()
        reply.end()


def through(proxy):
    """Return a client that connects through a proxy."""

    async def make_the_tour(url):
        async with listening(proxy(url).handle) as address:
            await tour(address, timeouts=scaled(WAITS))

    return HttpInProcessDriver(make_the_tour)
