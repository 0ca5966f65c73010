"""``pair`` and ``child``: a client and a server that a test has both in hand, joined by memory or by real pipes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import structs

from twopipes._channels.base import Channel
from twopipes._channels.memory import memory_pair
from twopipes._client.era_cache import EraCache
from twopipes._client.targets import CommandTarget, Link, OnStderr, Servable, Target
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import SIGKILL, ExitStatus, signal_name
from twopipes._process.shutdown import ShutdownPlan
from twopipes._protocol.types import Implementation
from twopipes._trace.channel import RecordedChannel
from twopipes.errors import LocalProtocolError
from twopipes.testing.clock import clock_of
from twopipes.testing.faults import Fault, FaultPlan
from twopipes.testing.faulty_channel import FaultyChannel
from twopipes.testing.live_conversation import LiveConversation
from twopipes.testing.wire_log import WireLog

if TYPE_CHECKING:
    from twopipes._blocking.client import Client as BlockingClient
    from twopipes._client.client import Client

__all__ = ["Opening", "child", "pair"]

# Who the client says that it is, unless told otherwise: always the same, so that a stored conversation outlives this version.
_CLIENT_INFO = Implementation("twopipes.testing", "1")
# A test that expects a process to end by itself must not fail because the machine is busy with others.
_SHUTDOWN = ShutdownPlan.patient(10.0)


def pair(server: Servable, /, *, faults: Iterable[Fault] = (), **options: Any) -> Opening:
    """Joins a client to a server object in this process, by memory.

    Args:
        server: A :class:`twopipes.Server`, or anything that can ``serve(channel=...)``.
        faults: What goes wrong between the two; see :func:`drop` and its like.
        **options: As for :func:`twopipes.connect`: ``era``, ``revision``, ``timeouts``, ``on_elicit``, ...

    Returns:
        To be entered: by ``with`` for a client without ``await``, by ``async with`` for one with.

    Raises:
        LocalProtocolError: What was given is no server.
    """
    given: object = server  # whatever a caller without a type checker gives
    if not isinstance(given, Servable) or isinstance(given, type):
        raise LocalProtocolError(f"pair() takes a Server object, and not {server!r}; for a file or a command there is child()")
    if wrong := sorted({"env", "cwd"} & options.keys()):
        raise LocalProtocolError(f"{'= and '.join(wrong)}= are for a process of its own, which child() starts; pair() starts none")
    return Opening(_InMemory(server), faults, options)


def child(
    target: str | os.PathLike[str] | Sequence[str] | ServerCommand,
    /,
    *arguments: str,
    faults: Iterable[Fault] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Opening:
    """Joins a client to a server in a process of its own, by real pipes.

    Args:
        target: A Python file, which is run by the Python that runs the test; a command, with its arguments behind it or as one
            list; or a :class:`ServerCommand`.
        *arguments: For the file or the command.
        faults: What goes wrong between the two; see :func:`drop` and its like.
        env: Variables to lay over the child's environment, which is a minimal one.
        cwd: The folder the child starts in.
        **options: As for :func:`twopipes.connect`: ``era``, ``revision``, ``timeouts``, ``on_elicit``, ...

    Returns:
        To be entered: by ``with`` for a client without ``await``, by ``async with`` for one with.

    Raises:
        LocalProtocolError: There is no such file, or the words make no command.
    """
    command = _command(target, arguments)
    if env is not None:
        command = structs.replace(command, env={**(command.env or {}), **env})
    if cwd is not None:
        command = structs.replace(command, cwd=os.fspath(cwd))
    tested = _InAProcess(command)
    if tested.plan is None and "timeouts" not in options:
        options.setdefault("shutdown", _SHUTDOWN)
    # What another test has learnt of the same command must not change what this one sees.
    return Opening(tested, faults, {"remember": EraCache(), **options})


class Opening:
    """A conversation to be: ``with pair(server) as talk:``, or ``async with pair(server) as talk:``. To be entered once.

    Attributes:
        talk: What the block gets. Before it is entered, and if it cannot be, it has no client.
    """

    def __init__(self, target: _Tested, faults: Iterable[Fault], options: Mapping[str, Any]) -> None:
        self.conversation: LiveConversation[Any] = LiveConversation(WireLog(), FaultPlan(faults))
        self._target = target
        self._options = {"client_info": _CLIENT_INFO, **options}
        self._is_entered = False

    def __enter__(self) -> LiveConversation[BlockingClient]:
        from twopipes._blocking.connect import connect  # noqa: PLC0415 - a test with await needs no threads

        self._enter()
        self.conversation.connected(connect(self._target, **self._options))
        return self.conversation

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.conversation.client.close()
        self._tell_failure(error)

    async def __aenter__(self) -> LiveConversation[Client]:
        from twopipes._client.connect import connect  # noqa: PLC0415 - likewise

        self._enter()
        self.conversation.connected(await connect(self._target, **self._options))
        return self.conversation

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.conversation.client.close()
        self._tell_failure(error)

    def _tell_failure(self, error: BaseException | None) -> None:
        """What went wrong in a function of the test's own goes to the test: by itself, or with what came of it."""
        failure = self.conversation.faults.failure
        if failure is None:
            return
        if error is None:
            raise failure
        error.add_note(f"a function of a fault failed: {failure!r}")

    def _enter(self) -> None:
        if self._is_entered:
            raise LocalProtocolError("a conversation is entered once; call pair() or child() again for another one")
        self._is_entered = True
        self._target.log, self._target.plan_of_faults = self.conversation.log, self.conversation.faults


class _Tested(Target):
    """A server that is watched, and has faults between it and its client.

    Attributes:
        log: Where everything is noted.
        plan_of_faults: What goes wrong.
    """

    log: WireLog
    plan_of_faults: FaultPlan

    def __init__(self) -> None:
        self._opened = 0

    def _next(self) -> int:
        number = self._opened
        self._opened += 1
        return number


class _InMemory(_Tested):
    def __init__(self, server: Servable) -> None:
        super().__init__()
        self._server = server
        self.description = f"{server!r} in this process"

    async def open(self, on_stderr: OnStderr | None) -> Link:
        """Serves a fresh connection."""
        number = self._next()
        here, there = memory_pair()
        serving = asyncio.get_running_loop().create_task(self._serve(there), name=f"serve {self.description}")
        faulty = FaultyChannel(here, self.plan_of_faults, self.log, connection=number, kill=serving.cancel)
        return Link(RecordedChannel(faulty, self.log, reads="<", connection=number), serving=serving)

    async def _serve(self, channel: Channel) -> None:
        async with channel:  # also where it fails before it has begun: nobody is to wait for it
            await self._server.serve(channel=channel)


class _InAProcess(_Tested):
    def __init__(self, command: ServerCommand) -> None:
        super().__init__()
        self._command = command
        plain = CommandTarget(command)
        self.description, self.identity, self.plan = plain.description, plain.identity, plain.plan

    async def open(self, on_stderr: OnStderr | None) -> Link:
        """Launches it."""
        if clock_of(asyncio.get_running_loop()) is not None:
            raise LocalProtocolError(
                "a child lives in real time, which a ManualClock cannot move; use pair() with the server object"
            )
        witness = _Witness(self.log, self.plan_of_faults, self._next())
        child = await Child.start(self._command, on_stderr=on_stderr, witness=witness)
        witness.child = child
        return Link(child.channel, child)


class _Witness:
    """Told what happens to a child; see :class:`twopipes._process.observer.ProcessObserver`."""

    child: Child

    def __init__(self, log: WireLog, plan: FaultPlan, connection: int) -> None:
        self._log = log
        self._plan = plan
        self._connection = connection

    def started(self, pid: int, channel: Channel) -> Channel:
        """The pipes, watched and faulty from now on."""
        self._log.event("spawn", pid=pid, connection=self._connection)
        faulty = FaultyChannel(channel, self._plan, self._log, connection=self._connection, kill=self._kill)
        return RecordedChannel(faulty, self._log, reads="<", connection=self._connection)

    def stderr(self, data: bytes) -> None:
        """Notes what it says beside the wire."""
        self._log.chunk("!", data, connection=self._connection)

    def signalled(self, number: int) -> None:
        """Notes a signal that it was sent."""
        self._log.event("signal", signal=signal_name(number), connection=self._connection)

    def exited(self, status: ExitStatus) -> None:
        """Notes how it ended."""
        self._log.event("exit", code=status.code, signal=status.signal_name, connection=self._connection)

    def _kill(self) -> None:
        self.child.signal(SIGKILL)


def _command(target: str | os.PathLike[str] | Sequence[str] | ServerCommand, arguments: Sequence[str]) -> ServerCommand:
    if isinstance(target, ServerCommand):
        if arguments:
            raise LocalProtocolError(f"a ServerCommand has its arguments in it; {', '.join(map(repr, arguments))} are too many")
        return target
    if isinstance(target, Servable):
        raise LocalProtocolError(f"child() takes a file or a command, and not {target!r}; for a Server object there is pair()")
    words = [os.fspath(target)] if isinstance(target, str | os.PathLike) else [os.fspath(word) for word in target]
    words += arguments
    if words and words[0].endswith(".py"):
        file = Path(words[0]).absolute()
        if not file.is_file():
            raise LocalProtocolError(
                f"there is no server file {file}; a relative path is seen from the folder that the tests run in"
            )
        words[:1] = [sys.executable, str(file)]
    return ServerCommand(words)
