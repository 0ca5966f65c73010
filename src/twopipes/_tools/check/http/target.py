"""A server under test that is reached over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from twopipes._http.headers import ParamHeader
from twopipes._tools.check.conversation import LiveConversation, Observer
from twopipes._tools.check.http.channel import HttpChannel, HttpConversation
from twopipes._tools.check.http.wire import HttpExchange, parse_url
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.server_source import ServerTarget


class HttpTarget(ServerTarget):
    """The endpoint of a server: ``http://127.0.0.1:8000/mcp``.

    Args:
        url: The URL of the endpoint.
        headers: Headers to send with each request, such as Authorization.
    """

    is_http = True

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeouts: ProbeTimeouts | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.address = parse_url(url)
        super().__init__(self.address.url, timeouts=timeouts, observer=observer)
        self.headers = dict(headers or {})
        self._is_reached = False
        self._known_tools: dict[str, tuple[ParamHeader, ...]] = {}

    async def _open(self, number: int) -> LiveConversation:
        if not self._is_reached:
            # A refused connection is reported at once, and not as a request without a response.
            exchange = HttpExchange(self.address, "GET", self.headers)
            await exchange.send(within=self.timeouts.start)
            exchange.close()
            self._is_reached = True
        channel = HttpChannel(self.address, timeouts=self.timeouts, headers=self.headers, known_tools=self._known_tools)
        return HttpConversation(channel, timeouts=self.timeouts, number=number, observer=self.observer)
