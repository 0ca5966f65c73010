"""The handlers of one session over HTTP: what belongs to a request goes to the response of that request."""

from __future__ import annotations

from typing import Final, cast

from twopipes._codes import CAPABILITY_MISSING, METHOD_NOT_FOUND
from twopipes._http.status import OK, status_of_code
from twopipes._jsonrpc import Batch, Message
from twopipes._server.call_runner import CallRunner
from twopipes._server.http.reply import Reply
from twopipes._server.http.stream import LegacyStream
from twopipes._session.base import Outbound
from twopipes._session.events import CallCancelled, Event
from twopipes._session.ledger import Call
from twopipes._wire import LineRejected

# Errors with a status of their own even if a handler raised them. In a gateway, the server behind it knows which methods it has.
_REFUSED_BY_HANDLERS: Final = frozenset({CAPABILITY_MISSING, METHOD_NOT_FOUND})
Target = Reply | LegacyStream
"""Where the messages of a request go."""


class HttpServerConnection(CallRunner):
    """Serves the requests of many clients in the modern era, each with a reply of its own; legacy sessions extend it."""

    def receive(self, message: Message | Batch | LineRejected, size: int, reply: Target | None) -> None:
        """Handle a message. Everything that belongs to it goes to the reply."""
        self._handle(self.session.receive_message(message, size=size, now=self.loop.time(), route=reply))
        self._set_timer()
        if self.session.outbox:
            self._flush()

    def end_input(self) -> None:
        """Expect no further request: abandon the handlers that wait for an answer, which then reaches another process."""
        self._process(self.session.receive_eof(now=self.loop.time()))

    def lose(self, reply: Target) -> None:
        """Cancel the requests of a reply that nothing can be sent to any more (HT-30)."""
        self._process(self.session.cancel_route(reply, "the client closed the response"))

    def _handle(self, events: list[Event]) -> None:
        super()._handle(events)
        for event in events:
            if isinstance(event, CallCancelled) and event.call.route is not None and not self.session.awaits(event.call.route):
                cast("Target", event.call.route).end()  # a cancelled request gets no response (CA-04)

    # Sending

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        if self._is_over:
            return
        messages = self.session.messages_to_send()
        last_of = {message.about: message for message in messages}
        for message in messages:
            reply = message.about
            if reply is None:
                self._send_unrelated(message)
            else:
                self._send_to(reply, message, is_last=message is last_of[reply] and not self.session.awaits(reply))

    def _send_to(self, reply: Target, message: Outbound, *, is_last: bool) -> None:
        is_refused = message.is_refusal or message.error_code in _REFUSED_BY_HANDLERS
        reply.add(message.line, is_last=is_last, status=status_of_code(message.error_code) if is_refused else OK)

    def _send_unrelated(self, message: Outbound) -> None:
        """Send a message that belongs to no request. In the modern era there is none."""

    def is_blocked_for(self, call: Call) -> bool:
        """Whether the client does not read the reply to this call."""
        return call.route is not None and cast("Target", call.route).is_blocked

    async def drain_for(self, call: Call) -> None:
        """Wait while the client does not read the reply to this call."""
        if call.route is not None:
            await cast("Target", call.route).drain()

    async def _flush_completely(self) -> None:
        self._flush()  # each reply is then written by its ASGI call

    async def close(self) -> None:
        """Stop sending."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
