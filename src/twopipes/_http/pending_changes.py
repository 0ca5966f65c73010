"""Changes that wait to be sent to other processes, and the message that carries them."""

from __future__ import annotations

import itertools
from typing import Final

import msgspec

from twopipes._session.subscriptions import Change

# Changes that may wait. Equal ones count once.
MAX_PENDING: Final = 10_000


class ChangeMessage(msgspec.Struct, array_like=True):
    """What one process sends: its id, its changes, and whether it had to drop some, so that anything may have changed."""

    origin: str
    changes: list[Change]
    has_dropped: bool = False


encode_changes = msgspec.json.Encoder().encode
decode_changes = msgspec.json.Decoder(ChangeMessage).decode


class PendingChanges:
    """A bounded set of changes in the order in which they were announced.

    Beyond the limit it forgets them all and only knows that there were some.
    """

    def __init__(self) -> None:
        self._changes: dict[Change, None] = {}
        self._has_dropped = False

    def __len__(self) -> int:
        return len(self._changes) + self._has_dropped

    def add(self, change: Change) -> None:
        """Add a change."""
        self._changes[change] = None
        self._bound()

    def take(self, count: int) -> tuple[list[Change], bool]:
        """Remove and return the first changes, at most ``count``, and whether others were dropped."""
        batch = list(itertools.islice(self._changes, count))
        for change in batch:
            del self._changes[change]
        has_dropped, self._has_dropped = self._has_dropped, False
        return batch, has_dropped

    def put_back(self, batch: list[Change], *, has_dropped: bool) -> None:
        """Put back what could not be sent; the changes that came meanwhile are newer."""
        self._changes = dict.fromkeys(batch) | self._changes
        self._has_dropped |= has_dropped
        self._bound()

    def _bound(self) -> None:
        if len(self._changes) > MAX_PENDING:
            self._changes.clear()
            self._has_dropped = True
