"""How a server is reached: launched or dialled, probed, and, where it did not take the probe well, launched once more.

The moves themselves are the session's (:mod:`twopipes._session.client_handshake`); this gives it a channel, time, and a second one
where the first died. What is learnt about a command is remembered, so that the next opening is cheaper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct, structs

from twopipes._client.callbacks import Callbacks
from twopipes._client.connection import ClientConnection
from twopipes._client.era_cache import EraCache, EraRecord
from twopipes._client.input_handlers import InputHandlers
from twopipes._client.stray_output import StrayReader
from twopipes._client.targets import Link, Target
from twopipes._error_text import OptionHint
from twopipes._process.child import Child
from twopipes._process.shutdown import ShutdownPlan, ShutdownReport
from twopipes._process.stderr import StderrLine
from twopipes._session.client import ClientSession
from twopipes._session.events import ClientOpened, OpeningEnded
from twopipes._session.identity import ClientProfile
from twopipes.errors import ClientClosed, ConnectionLost, OpeningFailed, ServerExited, TwopipesError
from twopipes.settings import Limits, Timeouts

__all__ = ["Opener", "ServerHandle"]

# Seconds for a child to end by itself once its output has: the error can then say how. One that dies needs milliseconds.
_FOR_THE_EXIT = 1.0
# Seconds for the output of a child that has ended. What it wrote is in the pipe; only the end of it may never come.
_FOR_THE_OUTPUT = 0.5


class _Failed(Struct, frozen=True):
    """An opening that did not work out.

    Attributes:
        error: Why.
        respawn: A fresh process, opened as a legacy one, may still do (DE-06).
        deaf: The process exited and had read nothing of what it was sent, so another way to open it would change nothing.
    """

    error: TwopipesError
    respawn: bool
    deaf: bool


class ServerHandle:
    """A server within reach: a link, the connection over it, and what is needed to tell how it ended.

    Attributes:
        link: The channel and the child.
        connection: The conversation.
        opened: What the server said of itself.
        by_itself: Whether it ended without being asked to.
    """

    connection: ClientConnection
    opened: ClientOpened

    def __init__(self, link: Link, noise: StrayReader, description: str) -> None:
        self.link = link
        self.by_itself = False
        self._noise = noise
        self._description = description
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Task[ShutdownReport] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def phase(self) -> Literal["starting", "opening", "serving"]:
        """How far it had come."""
        if hasattr(self, "opened"):
            return "serving"
        return "opening" if self.connection.heard_anything else "starting"

    def watch(self) -> None:
        """Looks after the child: its death ends the connection even if somebody else still holds its output."""
        if self.link.child is not None:
            self._watching = self._loop.create_task(self._watch(self.link.child))

    async def _watch(self, child: Child) -> None:
        await child.wait()
        await asyncio.sleep(_FOR_THE_OUTPUT)
        self.connection.hang_up()

    async def post_mortem(self) -> Callable[[ConnectionLost], TwopipesError]:
        """Nothing more comes: waits a moment for a child to end, so that everybody can be told how."""
        self.by_itself = True
        child = self.link.child
        if child is not None:
            try:
                async with asyncio.timeout(_FOR_THE_EXIT):
                    await child.wait()
            except TimeoutError:
                pass  # it has closed its output and lives on; it will be ended
        return self.explain

    def explain(self, lost: ConnectionLost) -> TwopipesError:
        """The loss of one request, told by how the server ended."""
        return self.exited(lost) if self.link.child is not None or self.connection.why_ended else lost

    def exited(self, lost: ConnectionLost | None = None) -> TwopipesError:
        """What is known of its end."""
        child = self.link.child
        if child is None or self.connection.why_ended:
            method, request_id = (f"anything more of {self._description}", None) if lost is None else (lost.method, lost.request_id)
            return ConnectionLost(method, request_id, why=self.connection.why_ended)
        return ServerExited(
            phase=self.phase,
            argv=child.argv,
            exit=child.exit,
            stderr=child.stderr.lines(),
            stray_stdout=self._noise.lines(),
            lived=child.lived,
            method=None if lost is None else lost.method,
            request_id=None if lost is None else lost.request_id,
        )

    def hang_up(self) -> None:
        """Ends the conversation, at once and from this side; the server may still be there."""
        self.connection.end(_closed)

    async def end(self, plan: ShutdownPlan) -> ShutdownReport:
        """Ends it: whoever still waits is told at once, the child by its plan, and nothing is left.

        Whoever calls second waits for the first. Cancelling neither stops it nor the waiting for it: only the owner calls this, and
        a loop that ends waits for the owner. What the end of the loop cancels underneath is hurried, and begun again where it
        was cut off.
        """
        self.hang_up()
        cancelled: asyncio.CancelledError | None = None
        while True:
            if self._ending is None or self._ending.cancelled():
                self._ending = self._loop.create_task(self._end(plan))
            ending = self._ending
            try:
                report = await asyncio.shield(ending)
            except asyncio.CancelledError as error:
                if not ending.cancelled():
                    cancelled = error
                continue
            if cancelled is not None:
                raise cancelled
            return report

    async def _end(self, plan: ShutdownPlan) -> ShutdownReport:
        child = self.link.child
        try:
            if child is not None:
                return await child.shut_down(plan)
            return ShutdownReport(steps=(), exit=None, ended_by="already gone" if self.by_itself else "close", took=0.0)
        finally:
            if self._watching is not None:
                self._watching.cancel()
            await self.connection.close()
            await self.link.release()


def _closed(lost: ConnectionLost) -> TwopipesError:
    return ClientClosed(lost.method, lost.request_id)


class Opener:
    """Opens a target, again and again if need be.

    Args:
        target: Whom to open.
        profile: What this client is.
        questions: Answers what a legacy server asks.
        notified: Told of notifications, and of their sizes in bytes.
        callbacks: Calls ``on_stderr``.
        noise: Collects what is no message.
        on_stderr: Told of every line on the child's stderr.
        timeouts: ``connect`` is for all of it; ``probe`` for the probe alone.
        limits: How much of anything a connection may hold.
        verdicts: What is known of commands.
        plan: How a child is ended that did not work out.
    """

    def __init__(
        self,
        target: Target,
        profile: ClientProfile,
        questions: InputHandlers,
        *,
        notified: Callable[[str, Any, int], None],
        callbacks: Callbacks,
        noise: StrayReader,
        on_stderr: Callable[[StderrLine], Any] | None,
        timeouts: Timeouts,
        limits: Limits,
        verdicts: EraCache,
        plan: ShutdownPlan,
    ) -> None:
        self._target = target
        self._profile = profile
        self._questions = questions
        self._notified = notified
        self._callbacks = callbacks
        self._noise = noise
        self._on_stderr = on_stderr
        self._timeouts = timeouts
        self._limits = limits
        self._verdicts = verdicts
        self._plan = plan
        self._session: ClientSession | None = None
        self._loop = asyncio.get_running_loop()

    async def open(self) -> ServerHandle:
        """Opens it.

        Raises:
            StartFailed: The command cannot be started.
            ServerExited: It ended before there was an agreement.
            OpeningFailed: There is no agreement.
            ChannelBroken: Nobody answers at the socket.
        """
        limit = self._timeouts.connect
        deadline = None if limit is None else self._loop.time() + limit
        known = await self._recall()
        reached = await self._attempt(deadline, known)
        if isinstance(reached, _Failed) and reached.deaf:
            raise reached.error
        if isinstance(reached, _Failed) and known is not None and (known.era == "legacy" or reached.respawn):
            # DE-07: the verdict has proved wrong; or a modern server died, and, as it took the probe before, of something else.
            known = None
            reached = await self._attempt(deadline, known)
        died = isinstance(reached, _Failed) and reached.respawn and not reached.deaf and self._target.reopens
        if died:
            reached = await self._attempt(deadline, EraRecord("legacy", "", "died"))  # DE-06
        if isinstance(reached, _Failed):
            raise reached.error
        opened = reached.opened
        probed = "died" if died else reached.connection.session.probed
        if known is None or known.era != opened.era:
            try:
                await self._remember(EraRecord(opened.era, opened.revision, probed))
            except BaseException:  # cancelled while a disk was slow: nobody else knows of this server yet
                await reached.end(self._plan)
                raise
        return reached

    async def _recall(self) -> EraRecord | None:
        identity = self._target.identity
        if identity is None or self._profile.eras != "both":
            return None
        if self._verdicts.path is None:
            return self._verdicts.recall(identity)
        return await asyncio.to_thread(self._verdicts.recall, identity)  # a disk may be slow

    async def _remember(self, verdict: EraRecord) -> None:
        identity = self._target.identity
        if identity is None or self._profile.eras != "both":
            return
        if self._verdicts.path is None:
            self._verdicts.remember(identity, verdict)
        else:
            await asyncio.to_thread(self._verdicts.remember, identity, verdict)

    async def _attempt(self, deadline: float | None, known: EraRecord | None) -> ServerHandle | _Failed:
        """One channel, one opening. What fails is taken down before this returns."""
        reached: ServerHandle | None = None
        silent = True

        def on_stderr(line: StderrLine) -> None:
            nonlocal silent
            if silent and reached is not None and not hasattr(reached, "opened"):
                silent = False
                reached.connection.stirred()  # the first sign of life, and no other: one that only ever logs is not waited for
            if self._on_stderr is not None:
                self._callbacks.call("on_stderr", self._on_stderr, line, size=len(line.text))

        link = await self._target.open(on_stderr)
        reached = ServerHandle(link, self._noise, self._target.description)
        left = None if deadline is None else max(0.0, deadline - self._loop.time())
        # A server that was modern is not taken for a legacy one because it is slow today.
        probe = left if known is not None and known.era == "modern" else self._timeouts.probe
        session = ClientSession(
            self._profile,
            timeouts=structs.replace(self._timeouts, connect=left, probe=probe),
            limits=self._limits,
            skip_probe=known is not None and known.era == "legacy",
        )
        if self._session is not None:
            # SD-05: what is sent again to a fresh process is a new request, by its id too.
            session.outgoing.last_id = self._session.outgoing.last_id
        connection = reached.connection = ClientConnection(
            session,
            link.channel,
            noise=self._noise,
            answer=self._questions.answer_call,
            notified=self._notified,
            callbacks=self._callbacks,
            post_mortem=reached.post_mortem,
        )
        self._session = session
        reached.watch()
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
            await reached.end(self._plan)
            raise
        if isinstance(outcome, ClientOpened):
            reached.opened = outcome
            self._questions.server = outcome.server_info
            return reached
        return await self._fail(reached, outcome)

    async def _fail(self, reached: ServerHandle, outcome: OpeningEnded) -> _Failed:
        error: TwopipesError = outcome.error
        child = reached.link.child
        deaf = False
        # Asked before it is ended: what it says about being ended is not what was wrong with it.
        if reached.by_itself and child is not None:
            error = reached.exited()
            deaf = not child.running and child.unread_input == reached.connection.sent
        elif isinstance(error, OpeningFailed):
            error = OpeningFailed(
                error.why,
                offered=error.offered,
                supported=self._profile.revisions,
                hint=error.hint,
                stderr=() if child is None else child.stderr.lines(),
                stray_stdout=self._noise.lines(),
            )
        await reached.end(self._plan)
        return _Failed(error, outcome.respawn, deaf)
