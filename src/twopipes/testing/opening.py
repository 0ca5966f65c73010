"""``pair`` and ``child``: connect a client to a server under test, in memory or through real pipes."""

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
from twopipes._client.options import ClientOptions
from twopipes._client.targets import CommandTarget, Endpoint, OnStderr, Servable, Target
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

# The default identity of the client: always the same, so that stored conversations stay valid in later versions.
_CLIENT_INFO = Implementation("twopipes.testing", "1")
# A test that expects a process to exit must not fail because the machine is busy.
_SHUTDOWN = ShutdownPlan.patient(10.0)


def pair(server: Servable, /, *, faults: Iterable[Fault] = (), **options: Any) -> Opening:
    """Connect a client to a server object in this process, in memory.

    Args:
        server: A :class:`twopipes.Server`, or anything that can ``serve(channel=...)``.
        faults: Faults between the two; see :func:`drop` and the other functions.
        **options: As for :func:`twopipes.connect`: ``era``, ``revision``, ``timeouts``, ``on_elicit``, ...

    Returns:
        A context manager: ``with`` for a client without ``await``, ``async with`` for one with ``await``.

    Raises:
        LocalProtocolError: ``server`` is not a server.
    """
    given: object = server  # of any type, if the caller has no type checker
    if not isinstance(given, Servable) or isinstance(given, type):
        raise LocalProtocolError(f"pair() takes a Server object, got {server!r}; for a file or a command use child()")
    if wrong := sorted({"env", "cwd"} & options.keys()):
        raise LocalProtocolError(f"pair() does not take {'= and '.join(wrong)}=, because it starts no process; use child()")
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
    """Start a server in a process of its own, and connect a client to it through real pipes.

    Args:
        target: A Python file, which is run by the Python that runs the test; a command, followed by its arguments or as one
            list; or a :class:`ServerCommand`.
        *arguments: Arguments of the file or the command.
        faults: Faults between the two; see :func:`drop` and the other functions.
        env: Variables to add to the child's environment, which is minimal.
        cwd: The folder to start the child in.
        **options: As for :func:`twopipes.connect`: ``era``, ``revision``, ``timeouts``, ``on_elicit``, ...

    Returns:
        A context manager: ``with`` for a client without ``await``, ``async with`` for one with ``await``.

    Raises:
        LocalProtocolError: There is no such file, or the command is not valid.
    """
    command = _command(target, arguments)
    if env is not None:
        command = structs.replace(command, env={**(command.env or {}), **env})
    if cwd is not None:
        command = structs.replace(command, cwd=os.fspath(cwd))
    tested = _InAProcess(command)
    if tested.plan is None and "timeouts" not in options:
        options.setdefault("shutdown", _SHUTDOWN)
    # A cache of its own: another test of the same command must not change the result of this one.
    return Opening(tested, faults, options, era_cache=EraCache())


class Opening:
    """A conversation that can be opened once: ``with pair(server) as talk:``, or ``async with pair(server) as talk:``.

    Attributes:
        conversation: The value of the ``with`` block. It has no client before the block, or if the connection fails.
    """

    def __init__(
        self, target: _Tested, faults: Iterable[Fault], options: Mapping[str, Any], *, era_cache: EraCache | None = None
    ) -> None:
        self.conversation: LiveConversation[Any] = LiveConversation(WireLog(), FaultPlan(faults))
        self._target = target
        given: ClientOptions = options.get("options") or ClientOptions()
        completed = structs.replace(given, client_info=given.client_info or _CLIENT_INFO, era_cache=given.era_cache or era_cache)
        self._options = {**options, "options": completed}
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
        self._raise_failure(error)

    async def __aenter__(self) -> LiveConversation[Client]:
        from twopipes._client.connect import connect  # noqa: PLC0415 - likewise

        self._enter()
        self.conversation.connected(await connect(self._target, **self._options))
        return self.conversation

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.conversation.client.close()
        self._raise_failure(error)

    def _raise_failure(self, error: BaseException | None) -> None:
        """Raise an error of the test's own function, or add it to the error that the test already raises."""
        failure = self.conversation.faults.failure
        if failure is None:
            return
        if error is None:
            raise failure
        error.add_note(f"a function of a fault failed: {failure!r}")

    def _enter(self) -> None:
        if self._is_entered:
            raise LocalProtocolError("a conversation can be opened once; call pair() or child() again for another one")
        self._is_entered = True
        self._target.log, self._target.faults = self.conversation.log, self.conversation.faults


class _Tested(Target):
    """A server under test, with a log of the conversation and with faults between it and its client.

    Attributes:
        log: Records the conversation.
        faults: The faults.
    """

    log: WireLog
    faults: FaultPlan

    def __init__(self) -> None:
        self._opened = 0

    def _next_connection(self) -> int:
        number = self._opened
        self._opened += 1
        return number


class _InMemory(_Tested):
    def __init__(self, server: Servable) -> None:
        super().__init__()
        self._server = server
        self.description = f"{server!r} in this process"

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Serve a new connection."""
        number = self._next_connection()
        here, there = memory_pair()
        serving = asyncio.get_running_loop().create_task(self._serve(there), name=f"serve {self.description}")
        faulty = FaultyChannel(here, self.faults, self.log, connection=number, kill=serving.cancel)
        return Endpoint(RecordedChannel(faulty, self.log, reads="<", connection=number), serving=serving)

    async def _serve(self, channel: Channel) -> None:
        async with channel:  # closed even if serving fails at once, so that the client does not wait
            await self._server.serve(channel=channel)


class _InAProcess(_Tested):
    def __init__(self, command: ServerCommand) -> None:
        super().__init__()
        self._command = command
        plain = CommandTarget(command)
        self.description, self.identity, self.plan = plain.description, plain.identity, plain.plan

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Start the child."""
        if clock_of(asyncio.get_running_loop()) is not None:
            raise LocalProtocolError(
                "a ManualClock does not work for a child, which runs in real time; use pair() with the server object"
            )
        observer = _ChildObserver(self.log, self.faults, self._next_connection())
        child = await Child.start(self._command, on_stderr=on_stderr, observer=observer)
        observer.child = child
        return Endpoint(child.channel, child)


class _ChildObserver:
    """Observes a child; see :class:`twopipes._process.observer.ProcessObserver`."""

    child: Child

    def __init__(self, log: WireLog, plan: FaultPlan, connection: int) -> None:
        self._log = log
        self._plan = plan
        self._connection = connection

    def started(self, pid: int, channel: Channel) -> Channel:
        """Wrap the channel, to record it and to apply the faults."""
        self._log.event("spawn", pid=pid, connection=self._connection)
        faulty = FaultyChannel(channel, self._plan, self._log, connection=self._connection, kill=self._kill)
        return RecordedChannel(faulty, self._log, reads="<", connection=self._connection)

    def stderr(self, data: bytes) -> None:
        """Record what it writes to stderr."""
        self._log.chunk("!", data, connection=self._connection)

    def signalled(self, number: int) -> None:
        """Record a signal that was sent to it."""
        self._log.event("signal", signal=signal_name(number), connection=self._connection)

    def exited(self, status: ExitStatus) -> None:
        """Record how it ended."""
        self._log.event("exit", code=status.code, signal=status.signal_name, connection=self._connection)

    def _kill(self) -> None:
        self.child.signal(SIGKILL)


def _command(target: str | os.PathLike[str] | Sequence[str] | ServerCommand, arguments: Sequence[str]) -> ServerCommand:
    if isinstance(target, ServerCommand):
        if arguments:
            raise LocalProtocolError(f"a ServerCommand already contains its arguments; remove {', '.join(map(repr, arguments))}")
        return target
    if isinstance(target, Servable):
        raise LocalProtocolError(f"child() takes a file or a command, got {target!r}; for a Server object use pair()")
    words = [os.fspath(target)] if isinstance(target, str | os.PathLike) else [os.fspath(word) for word in target]
    words += arguments
    if words and words[0].endswith(".py"):
        file = Path(words[0]).absolute()
        if not file.is_file():
            raise LocalProtocolError(f"there is no server file {file}; a relative path starts at the folder that the tests run in")
        words[:1] = [sys.executable, str(file)]
    return ServerCommand(words)
