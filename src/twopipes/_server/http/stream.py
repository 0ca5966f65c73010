"""A stream of events of a legacy session, which goes on when its connection is lost.

The events are kept for a while. A client that lost its connection resumes the stream with another request, which continues where
the lost one ended. A lost connection does not cancel the request that the stream belongs to (HT-22).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twopipes._http.auth import Identity
from twopipes._http.event_store import EventStore
from twopipes._http.sse import encode_event
from twopipes._http.status import OK
from twopipes._server.http.reply import Reply
from twopipes._session.ledger import Route

# Milliseconds that a client waits before it connects again.
_RETRY: Final = 1_000


class LegacyStream(Route):
    """The messages of one POST, or those of a session that belong to no request.

    Args:
        events: The events of the session.
        is_primed: Start with an event that has an id and no data, so that a client can resume at once (HT-32). Clients of
            revisions before 2025-11-25 do not expect that.
        identity: The caller, if the server asks for one.
        on_finished: Called once when the last message was added.

    Attributes:
        number: Its number in the store.
        is_finished: Whether its last message was added.
        has_events: Whether there was anything else than a JSON body.
    """

    def __init__(
        self,
        events: EventStore,
        *,
        is_primed: bool,
        identity: Identity | None = None,
        on_finished: Callable[[LegacyStream], None] | None = None,
    ) -> None:
        self.identify(identity)
        self.is_finished = False
        self.has_events = False
        self._on_finished = on_finished
        self._events = events
        self._is_primed = is_primed
        self.number = events.open()
        self._last_sent = events.start_of(self.number)  # the id of the last event that a client may have received
        self._reply: Reply | None = None
        self._is_unreachable = False  # the client is gone and has no id to resume from

    # For the connection

    @property
    def is_attached(self) -> bool:
        """Whether a client is connected."""
        return self._reply is not None

    @property
    def is_blocked(self) -> bool:
        """Whether handlers should wait until the client has read more."""
        return self._reply is not None and self._reply.is_blocked

    async def drain(self) -> None:
        """Wait while the client does not read. Raises nothing."""
        if self._reply is not None:
            await self._reply.drain()

    def add(self, line: bytes, *, is_last: bool, status: int = OK) -> None:
        """Add a message. The last one ends the stream."""
        if self.is_finished:
            return
        self.is_finished = is_last
        reply = self._reply
        if is_last and reply is not None and (reply.can_be_json or status != OK):
            reply.add(line, is_last=True, status=status)
        elif not self._is_unreachable:
            self.has_events = True
            event_id = self._events.add(self.number, line)
            if reply is not None:
                self._last_sent = event_id
                reply.add(line, is_last=is_last, event_id=event_id)
        if is_last and self._on_finished is not None:
            self._on_finished(self)

    def end(self) -> None:
        """End the stream without a response, as after a cancellation."""
        if self.is_finished:
            return
        self.is_finished = True
        if self._reply is not None:
            self._reply.end()
        if self._on_finished is not None:
            self._on_finished(self)

    # For the ASGI calls

    @property
    def opening(self) -> bytes:
        """What a client receives first."""
        return encode_event(b"", id=self._last_sent, retry=_RETRY) if self._is_primed else b""

    def attach(self, reply: Reply) -> None:
        """Send further messages to this client, in place of another one that may be connected still."""
        if self._reply is not None:
            self._reply.end()
        self._reply = reply

    def detach(self, reply: Reply) -> None:
        """Keep further messages until another client is attached."""
        if self._reply is reply:
            self._reply = None
            self._is_unreachable = reply.can_be_json

    def disconnect(self) -> None:
        """Close the connection to the client. It resumes the stream after a moment."""
        if self._reply is not None:
            self._reply.end()
            self._reply = None

    def resume(self, reply: Reply, last_event_id: str | None = None) -> bool:
        """Continue with a client that received events up to this id; without an id, with the first event that no client received.

        Return False if events after the id are gone (HT-31).
        """
        missed = self._events.after(last_event_id or self._last_sent, has_gap=last_event_id is None)
        if missed is None:
            return False
        self.attach(reply)
        if missed:
            self._last_sent = missed[-1].id
            # At once, so that a long list does not look like a client that does not read.
            reply.add_event(b"".join([encode_event(event.line, id=event.id) for event in missed]))
        if self.is_finished:
            reply.end()
        return True
