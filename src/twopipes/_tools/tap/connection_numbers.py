"""Numbers for the conversations that share one HTTP endpoint, so that each reads like one on a byte stream.

A legacy session is named by its header. Other requests carry no name, and ids of different clients collide. So a request belongs
to the last conversation of its client in which its id is new.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

# Further sessions and clients replace those that were used least recently, and further ids the oldest.
MAX_SESSIONS = 10_000
MAX_CLIENTS = 1000
MAX_IDS = 1000
# Conversations of one client: the last ones only.
MAX_PER_CLIENT = 50


class _Unnamed:
    """A conversation without a session, and the last ids in it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_open = True  # no session has taken it over
        self.has_handshake = False
        self._ids: OrderedDict[Any, None] = OrderedDict()

    def takes(self, request_id: Any, *, is_handshake: bool) -> bool:
        """Whether a message can belong to it."""
        return self.is_open and not (is_handshake and self.has_handshake) and _key(request_id) not in self._ids

    def add(self, request_id: Any, *, is_handshake: bool) -> None:
        self.has_handshake |= is_handshake
        if request_id is None:
            return
        self._ids[_key(request_id)] = None
        if len(self._ids) > MAX_IDS:
            self._ids.popitem(last=False)


class ConnectionNumbers:
    """Assigns a number to each HTTP exchange."""

    def __init__(self) -> None:
        self._next = 0
        self._sessions: OrderedDict[str, int] = OrderedDict()
        self._clients: OrderedDict[object, list[_Unnamed]] = OrderedDict()

    def of_session(self, session: str) -> int:
        """Return the number of a legacy session. One that began before the recording gets a new number."""
        if session not in self._sessions:
            self.bind(session, self._new_number())
        self._sessions.move_to_end(session)
        return self._sessions[session]

    def bind(self, session: str, number: int) -> None:
        """Give a session the number of the exchange that created it."""
        self._sessions[session] = number
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        for conversations in self._clients.values():
            for each in conversations:
                each.is_open = each.is_open and each.number != number

    def of_client(self, client: object, request_id: Any = None, *, is_handshake: bool = False) -> int:
        """Return the number for a message without a session.

        Args:
            client: What is known about the sender.
            request_id: The id of a request; ``None`` for other messages.
            is_handshake: It is ``initialize``, which a conversation contains once.
        """
        known = self._clients.setdefault(client, [])
        self._clients.move_to_end(client)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        found = next((each for each in reversed(known) if each.takes(request_id, is_handshake=is_handshake)), None)
        if found is None:
            found = _Unnamed(self._new_number())
            known.append(found)
            del known[:-MAX_PER_CLIENT]
        found.add(request_id, is_handshake=is_handshake)
        return found.number

    def _new_number(self) -> int:
        self._next += 1
        return self._next - 1


def _key(request_id: Any) -> Any:
    """Return a key that keeps 7 and "7" apart (JR-06). It is unique if there is no valid id."""
    return (type(request_id), request_id) if isinstance(request_id, str | int | float) else object()
