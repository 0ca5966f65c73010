"""Which server serves which host: one for all, or one for each connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from twopipes._gateway.back import Back
from twopipes._server.call_runner import CallRunner


class Backs:
    """The servers behind a gateway.

    Args:
        open_back: Makes a server that is not started yet.
        isolated: Whether each connection of a host gets its own.
        shared: Whether several hosts may use one. It is then opened with all the capabilities that a host may have; otherwise with
            those of the first host.

    Attributes:
        on_made: Called with each new server.
    """

    def __init__(self, open_back: Callable[[], Back], *, isolated: bool = False, shared: bool = False) -> None:
        self.isolated = isolated
        self.shared = shared
        self.on_made: Callable[[Back], None] | None = None
        self._open_back = open_back
        self._shared: Back | None = None
        self._own: dict[CallRunner, Back] = {}

    def __iter__(self) -> Iterator[Back]:
        shared = () if self._shared is None else (self._shared,)
        return iter([*shared, *self._own.values()])

    def of(self, runner: CallRunner) -> Back:
        """Return the server of a connection. It is made if necessary, and started by its first use."""
        if not self.isolated:
            if self._shared is None:
                self._shared = self._make()
            return self._shared
        back = self._own.get(runner)
        if back is None:
            back = self._own[runner] = self._make()
        return back

    def find(self, runner: CallRunner) -> Back | None:
        """Return the server of a connection, if it has one already."""
        return self._own.get(runner) if self.isolated else self._shared

    async def release(self, runner: CallRunner) -> None:
        """End the server of a connection that has ended, if it is its own."""
        back = self._own.pop(runner, None)
        if back is not None:
            await back.close()

    async def close(self) -> None:
        """End every server."""
        backs = list(self)
        self._shared = None
        self._own.clear()
        await asyncio.gather(*(back.close() for back in backs))

    def _make(self) -> Back:
        back = self._open_back()
        if self.on_made is not None:
            self.on_made(back)
        return back
