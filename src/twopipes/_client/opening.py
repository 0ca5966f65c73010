"""Opens a server: launches it or connects to it, detects its era, and relaunches it if it did not survive the probe.

The protocol steps are in :mod:`twopipes._session.client_handshake`. This module provides the channels and the deadlines. The
detected era is cached, so that the next opening is faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from twopipes._client.callbacks import CallbackRunner
from twopipes._client.connection import ClientConnection
from twopipes._client.era_cache import EraCache, EraRecord
from twopipes._client.input_handlers import InputHandlers
from twopipes._client.server_handle import ServerHandle
from twopipes._client.stray_output import StrayCollector
from twopipes._client.targets import Target
from twopipes._error_text import OptionHint
from twopipes._process.shutdown import ShutdownPlan
from twopipes._process.stderr import StderrLine
from twopipes._session.client import ClientSession
from twopipes._session.events import ClientOpened, OpeningEnded
from twopipes._session.identity import ClientProfile
from twopipes.errors import OpeningFailed, TwopipesError
from twopipes.settings import Limits, Timeouts

__all__ = ["ServerOpener"]


class _Failed(Struct, frozen=True):
    """A failed attempt to open a server.

    Attributes:
        error: The reason.
        respawn: Whether a fresh process, opened as a legacy server, may still work (DE-06).
        read_nothing: Whether the process exited without reading any input, so that another attempt would fail in the same way.
    """

    error: TwopipesError
    respawn: bool
    read_nothing: bool


class ServerOpener:
    """Opens a target, as often as needed.

    Args:
        target: The server to open.
        profile: The identity and capabilities of this client.
        questions: Answers requests of a legacy server.
        notified: Called with each notification and its size in bytes.
        callbacks: Calls ``on_stderr``.
        stray: Collects output that is not a message.
        on_stderr: The user's callback for lines of the child's stderr.
        timeouts: ``connect`` limits the whole opening, ``probe`` the probe.
        limits: Limits of the connection.
        era_cache: The known eras of commands.
        plan: How to shut a child down whose opening failed.
    """

    def __init__(
        self,
        target: Target,
        profile: ClientProfile,
        questions: InputHandlers,
        *,
        notified: Callable[[str, Any, int], None],
        callbacks: CallbackRunner,
        stray: StrayCollector,
        on_stderr: Callable[[StderrLine], Any] | None,
        timeouts: Timeouts,
        limits: Limits,
        era_cache: EraCache,
        plan: ShutdownPlan,
    ) -> None:
        self._target = target
        self._profile = profile
        self._questions = questions
        self._notified = notified
        self._callbacks = callbacks
        self._stray = stray
        self._on_stderr = on_stderr
        self._timeouts = timeouts
        self._limits = limits
        self._era_cache = era_cache
        self._plan = plan
        self._session: ClientSession | None = None
        self._loop = asyncio.get_running_loop()

    async def open(self) -> ServerHandle:
        """Open the server.

        Raises:
            StartFailed: The command cannot be started.
            ServerExited: It exited before the connection was open.
            OpeningFailed: There is no agreement on a revision, or no response.
            ChannelBroken: No server listens at the socket.
        """
        limit = self._timeouts.connect
        deadline = None if limit is None else self._loop.time() + limit
        known = await self._recall()
        handle = await self._attempt(deadline, known)
        if isinstance(handle, _Failed) and handle.read_nothing:
            raise handle.error
        if isinstance(handle, _Failed) and known is not None and (known.era == "legacy" or handle.respawn):
            # DE-07: the cached era is wrong; or a modern server, which survived the probe before, exited for another reason.
            known = None
            handle = await self._attempt(deadline, known)
        died = isinstance(handle, _Failed) and handle.respawn and not handle.read_nothing and self._target.reopens
        if died:
            handle = await self._attempt(deadline, EraRecord("legacy", "", "died"))  # DE-06
        if isinstance(handle, _Failed):
            raise handle.error
        opened = handle.opened
        probed = "died" if died else handle.connection.session.probed
        if known is None or known.era != opened.era:
            try:
                await self._remember(EraRecord(opened.era, opened.revision, probed))
            except BaseException:  # cancelled while the disk was slow: the caller never sees this server
                await handle.end(self._plan)
                raise
        return handle

    async def _recall(self) -> EraRecord | None:
        identity = self._target.identity
        if identity is None or self._profile.eras != "both":
            return None
        if self._era_cache.path is None:
            return self._era_cache.recall(identity)
        return await asyncio.to_thread(self._era_cache.recall, identity)  # the disk may be slow

    async def _remember(self, record: EraRecord) -> None:
        identity = self._target.identity
        if identity is None or self._profile.eras != "both":
            return
        if self._era_cache.path is None:
            self._era_cache.remember(identity, record)
        else:
            await asyncio.to_thread(self._era_cache.remember, identity, record)

    async def _attempt(self, deadline: float | None, known: EraRecord | None) -> ServerHandle | _Failed:
        """Open one channel and try to open a session over it. After a failure, everything is shut down before this returns."""
        handle: ServerHandle | None = None
        is_silent = True

        def on_stderr(line: StderrLine) -> None:
            nonlocal is_silent
            if is_silent and handle is not None and not hasattr(handle, "opened"):
                # Only the first line extends the probe: a server that only ever logs must not delay it for ever.
                is_silent = False
                handle.connection.note_activity()
            if self._on_stderr is not None:
                self._callbacks.call("on_stderr", self._on_stderr, line, size=len(line.text))

        endpoint = await self._target.open(on_stderr)
        handle = ServerHandle(endpoint, self._stray, self._target.description)
        left = None if deadline is None else max(0.0, deadline - self._loop.time())
        # A server that was modern before is not taken for a legacy one because it is slow today.
        probe = left if known is not None and known.era == "modern" else self._timeouts.probe
        session = ClientSession(
            self._profile,
            timeouts=structs.replace(self._timeouts, connect=left, probe=probe),
            limits=self._limits,
            skip_probe=known is not None and known.era == "legacy",
        )
        if self._session is not None:
            # SD-05: a request that is resent to a fresh process is a new request with a new id.
            session.outgoing.last_id = self._session.outgoing.last_id
        connection = handle.connection = ClientConnection(
            session,
            endpoint.channel,
            stray=self._stray,
            answer=self._questions.answer_call,
            notified=self._notified,
            callbacks=self._callbacks,
            post_mortem=handle.post_mortem,
        )
        self._session = session
        handle.watch()
        try:
            async with asyncio.timeout(left):
                outcome = await connection.open()
        except TimeoutError:
            limit = self._timeouts.connect
            outcome = OpeningEnded(
                OpeningFailed(
                    f"the server did not finish its opening within the connect limit of {limit:.3g} s",
                    hint=OptionHint("connect", 2 * (limit or 0.0), "if the server needs longer"),
                )
            )
        except BaseException:
            await handle.end(self._plan)
            raise
        if isinstance(outcome, ClientOpened):
            handle.opened = outcome
            self._questions.server = outcome.server_info
            return handle
        return await self._fail(handle, outcome)

    async def _fail(self, handle: ServerHandle, outcome: OpeningEnded) -> _Failed:
        error: TwopipesError = outcome.error
        child = handle.endpoint.child
        read_nothing = False
        # Collect the error before the shutdown: what the server writes while it is shut down is not the cause.
        if handle.exited_unexpectedly and child is not None:
            error = handle.exit_error()
            read_nothing = not child.running and child.unread_input == handle.connection.sent
        elif isinstance(error, OpeningFailed):
            error = OpeningFailed(
                error.why,
                offered=error.offered,
                supported=self._profile.revisions,
                hint=error.hint,
                stderr=() if child is None else child.stderr.lines(),
                stray_stdout=self._stray.lines(),
            )
        await handle.end(self._plan)
        return _Failed(error, outcome.respawn, read_nothing)
