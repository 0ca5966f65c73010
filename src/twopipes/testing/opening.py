"""``pair`` and ``child``: connect a client to a server under test, in memory or through real pipes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import structs

from twopipes._blocking.connect import connect as connect_blocking
from twopipes._channels.base import Channel
from twopipes._client.connect import connect
from twopipes._client.era_cache import EraCache
from twopipes._client.options import ClientOptions
from twopipes._client.targets import CommandTarget, Endpoint, MemoryTarget, OnStderr, Servable, Target
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import SIGKILL
from twopipes._process.shutdown import ShutdownPlan
from twopipes._protocol.types import Implementation
from twopipes._trace.channel import ChildRecording
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
    return Opening(MemoryTarget(server), faults, options)


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
    if command.shutdown is None and "timeouts" not in options:
        options.setdefault("shutdown", _SHUTDOWN)
    # A cache of its own: another test of the same command must not change the result of this one.
    return Opening(CommandTarget(command), faults, options, era_cache=EraCache())


class Opening:
    """A conversation that can be opened once: ``with pair(server) as talk:``, or ``async with pair(server) as talk:``.

    Attributes:
        conversation: The value of the ``with`` block. It has no client before the block, or if the connection fails.
    """

    def __init__(
        self,
        target: CommandTarget | MemoryTarget,
        faults: Iterable[Fault],
        options: Mapping[str, Any],
        *,
        era_cache: EraCache | None = None,
    ) -> None:
        self.conversation: LiveConversation[Any] = LiveConversation(WireLog(), FaultPlan(faults))
        self._target = _Tested(target, self.conversation.log, self.conversation.faults)
        given: ClientOptions = options.get("options") or ClientOptions()
        completed = structs.replace(given, client_info=given.client_info or _CLIENT_INFO, era_cache=given.era_cache or era_cache)
        self._options = {**options, "options": completed}
        self._is_entered = False

    def __enter__(self) -> LiveConversation[BlockingClient]:
        self._enter()
        self.conversation.connected(connect_blocking(self._target, **self._options))
        return self.conversation

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.conversation.client.close()
        self._raise_failure(error)

    async def __aenter__(self) -> LiveConversation[Client]:
        self._enter()
        self.conversation.connected(await connect(self._target, **self._options))
        return self.conversation

    async def __aexit__(self, error_type: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
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


class _Tested(Target):
    """A server under test, with a log of the conversation and with faults between it and its client."""

    def __init__(self, inner: CommandTarget | MemoryTarget, log: WireLog, faults: FaultPlan) -> None:
        self.description, self.identity, self.plan = inner.description, inner.identity, inner.plan
        self._inner = inner
        self._log = log
        self._faults = faults
        self._connections = count()

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Start the child, or serve a new connection in memory."""
        observer = _FaultyChild(self._log, self._faults, next(self._connections))
        if isinstance(self._inner, MemoryTarget):
            endpoint = await self._inner.open(on_stderr)
            assert endpoint.channel is not None
            endpoint.channel = observer.recorded(endpoint.channel)
        elif clock_of(asyncio.get_running_loop()) is not None:
            raise LocalProtocolError(
                "a ManualClock does not work for a child, which runs in real time; use pair() with the server object"
            )
        else:
            endpoint = await self._inner.open(on_stderr, observer=observer)
        observer.endpoint = endpoint
        return endpoint


class _FaultyChild(ChildRecording):
    """Records a child or a server in memory, and applies the faults."""

    endpoint: Endpoint

    def __init__(self, log: WireLog, faults: FaultPlan, connection: int) -> None:
        super().__init__(log, connection=connection)
        self._log = log
        self._faults = faults

    def recorded(self, channel: Channel) -> Channel:
        """Wrap a channel, to record it and to apply the faults."""
        faulty = FaultyChannel(channel, self._faults, self._log, connection=self.connection, kill=self._kill)
        return super().recorded(faulty)

    def _kill(self) -> None:
        if self.endpoint.child is not None:
            self.endpoint.child.signal(SIGKILL)
        elif self.endpoint.serving is not None:
            self.endpoint.serving.cancel()


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
