"""``connect()``: the one door to a server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from twopipes._channels.base import Channel
from twopipes._client.callbacks import Callbacks
from twopipes._client.client import Client
from twopipes._client.era_cache import PROCESS_WIDE, EraCache
from twopipes._client.input_handlers import InputHandlers, OnElicit, OnSample, Roots
from twopipes._client.opening import Opener
from twopipes._client.output_check import Validate
from twopipes._client.server_info import Undeclared
from twopipes._client.stray_output import StrayOutput, StrayReader
from twopipes._client.supervisor import Supervisor
from twopipes._client.targets import CommandTarget, Servable, Target, target_of
from twopipes._process.command import ServerCommand
from twopipes._process.shutdown import ShutdownPlan
from twopipes._process.stderr import StderrLine
from twopipes._protocol.revisions import ALL, LEGACY, MODERN
from twopipes._protocol.types import Implementation, LogParams
from twopipes._session.identity import ClientProfile
from twopipes._version import __version__
from twopipes.errors import LocalProtocolError, TwopipesError
from twopipes.settings import Limits, RestartPolicy, Timeouts

if TYPE_CHECKING:
    from twopipes._trace.recorder import Recorder

__all__ = ["Connecting", "connect"]

Era = Literal["auto", "legacy", "modern"]
Given = str | os.PathLike[str] | Sequence[str] | ServerCommand | Servable | Channel | Target


class Connecting:
    """A client to be: ``async with connect(...) as client:``, or ``client = await connect(...)`` and ``await client.close()``."""

    def __init__(self, open_client: Callable[[], Coroutine[Any, Any, Client]]) -> None:
        self._open = open_client
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._open()
        return self._client

    def __repr__(self) -> str:
        return "<a client to be: await it, or enter it by async with>"

    # For those who take it for a client. A type checker knows better.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"there is no {name} yet: connect() gives a client once it is entered, "
                "async with connect(...) as client, or awaited",
                name=name,
                obj=self,
            )

        def __enter__(self) -> Any:
            raise TypeError("connect() is entered by async with; without await, use connect of twopipes.blocking")

        def __exit__(self, *_: object) -> None:
            """Never reached."""

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()


def connect(
    target: Given,
    /,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    era: Era = "auto",
    revision: str | None = None,
    on_elicit: OnElicit | None = None,
    on_elicit_url: OnElicit | None = None,
    on_sample: OnSample | None = None,
    sample_tools: bool = False,
    roots: Roots | None = None,
    on_log: Callable[[LogParams], Any] | None = None,
    on_notification: Callable[[str, Any], Any] | None = None,
    on_stderr: Callable[[StderrLine], Any] | None = None,
    on_stray_output: Callable[[StrayOutput], Any] | None = None,
    on_restart: Callable[[TwopipesError], Any] | None = None,
    timeouts: Timeouts | None = None,
    limits: Limits | None = None,
    restart: RestartPolicy | None = None,
    shutdown: ShutdownPlan | None = None,
    validate: Validate = "flag",
    undeclared: Undeclared = "empty",
    remember: EraCache | None = None,
    client_info: Implementation | None = None,
    experimental: Mapping[str, Any] | None = None,
    extensions: Mapping[str, Any] | None = None,
    trace: str | os.PathLike[str] | Recorder | None = None,
    redact: Iterable[str] = (),
) -> Connecting:
    """Connects to a server; nothing happens until the result is awaited or entered.

    Args:
        target: A command, with its arguments behind it or as one list; a :class:`ServerCommand`; a :class:`Server` in this process;
            ``unix:/path``; ``tcp://host:port``; or a channel.
        *arguments: The arguments of a command.
        env: Variables to lay over the child's environment, which is a minimal one; secrets go here. More by ``ServerCommand``.
        cwd: The folder the child starts in.
        era: ``auto`` finds out what the server speaks.
        revision: Speak this revision alone.
        on_elicit: Answers forms of the server: a mapping accepts, ``None`` cancels; or ``question.accept(...)``, ``.decline()``.
        on_elicit_url: Answers requests of the server that the user visit a URL.
        on_sample: Answers requests of the server to the model, with a string or a ``CreateMessageResult``.
        sample_tools: Whether ``on_sample`` can hand tools to the model.
        roots: Places the server may look at, or a function that returns them.
        on_log: Called with each log message of the server.
        on_notification: Called with each other notification: its method and params.
        on_stderr: Called with each line of the child's stderr.
        on_stray_output: Called with what the server writes to its stdout that is no message.
        on_restart: Called with the error that made a restart necessary, before it.
        timeouts: How long to wait for what.
        limits: How much of anything to hold.
        restart: When to start a server again that died: by default one of the stateless era.
        shutdown: How to end a child: by default close its stdin, wait, SIGTERM, wait, SIGKILL.
        validate: What to do about output schemas: ``flag`` the result, ``raise``, or ``off``.
        undeclared: What to do about lists and completions of what the server did not declare: ``empty`` ones, or ``raise``
            ``CapabilityMissing``. The server is not asked in either case.
        remember: Where verdicts about commands are kept; by default in this process.
        client_info: Who this client is.
        experimental: Experimental capabilities to declare.
        extensions: Extensions to declare, by name.
        trace: Record the conversation in this file; or with a ``Recorder`` of yours, which you close.
        redact: Names of members whose values are blanked before they are recorded, beside those of ``TWOPIPES_REDACT``.

    Raises:
        LocalProtocolError: What was given makes no sense; nothing was started.

    Awaiting it raises:
        StartFailed: The command cannot be started.
        ServerExited: The server ended before it could be talked to.
        OpeningFailed: The two sides have no revision in common, or the server does not answer.
        ChannelBroken: Nobody listens at the socket.
    """
    where = target_of(target, *arguments)
    if env is not None or cwd is not None:
        where = _with(where, env, cwd)
    if timeouts is not None and not isinstance(timeouts, Timeouts):
        raise LocalProtocolError(f"timeouts= says what may take how long: Timeouts(request={timeouts!r}), and not {timeouts!r}")
    if undeclared not in ("empty", "raise"):
        raise LocalProtocolError(f"undeclared must be 'empty' or 'raise', got {undeclared!r}")
    if trace == "1":
        raise LocalProtocolError('trace="1" shows a conversation on the stderr of a server; a client is given a file to record in')
    if redact:
        from twopipes._trace.recorder import check_redact  # noqa: PLC0415 - only where it is wanted

        check_redact(trace, redact)
    if restart is None:
        restart = RestartPolicy()
    timeouts = timeouts or Timeouts()
    limits = limits or Limits()
    questions = InputHandlers(
        on_elicit=on_elicit,
        on_elicit_url=on_elicit_url,
        on_sample=on_sample,
        sample_tools=sample_tools,
        roots=roots,
        limits=limits,
    )
    profile = ClientProfile(
        info=client_info or Implementation("twopipes", __version__),
        capabilities=structs.replace(
            questions.capabilities,
            experimental=None if experimental is None else dict(experimental),
            extensions=None if extensions is None else dict(extensions),
        ),
        revisions=_revisions(era, revision),
    )

    async def open_client() -> Client:
        client: Client
        reached = where
        recorded = None
        if trace is not None:
            from twopipes._client.recording import RecordedTarget  # noqa: PLC0415 - only where it is wanted

            reached = recorded = RecordedTarget(where, trace, redact)
        callbacks = Callbacks(asyncio.get_running_loop(), limits.max_backlog)
        noise = StrayReader(None if on_stray_output is None else partial(callbacks.call, "on_stray_output", on_stray_output))
        plan = shutdown or where.plan or ShutdownPlan.default(timeouts.shutdown)
        opener = Opener(
            reached,
            profile,
            questions,
            notified=lambda *notification: client.notified(*notification),  # noqa: PLW0108 - the client is made below
            callbacks=callbacks,
            noise=noise,
            on_stderr=on_stderr,
            timeouts=timeouts,
            limits=limits,
            verdicts=remember or PROCESS_WIDE,
            plan=plan,
        )
        supervisor = Supervisor(
            opener,
            description=where.description,
            reopens=where.reopens,
            policy=restart,
            plan=plan,
            reopened=lambda connection: client.reopened(connection),  # noqa: PLW0108 - likewise
            lost=lambda: client.lost(),  # noqa: PLW0108 - likewise
            callbacks=callbacks,
            on_restart=on_restart,
            recorded=recorded,
        )
        client = Client(
            supervisor,
            questions,
            noise,
            callbacks,
            timeouts=timeouts,
            limits=limits,
            validate=validate,
            undeclared=undeclared,
            on_log=on_log,
            on_notification=on_notification,
        )
        await supervisor.start()
        return client

    return Connecting(open_client)


def _with(where: Target, env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None) -> Target:
    if not isinstance(where, CommandTarget):
        raise LocalProtocolError(f"env= and cwd= are for a command that is launched; {where.description} is none")
    command = where.command
    if env is not None:
        command = structs.replace(command, env={**(command.env or {}), **env})
    return type(where)(command if cwd is None else structs.replace(command, cwd=cwd))


def _revisions(era: Era, revision: str | None) -> Sequence[str]:
    eras = {"auto": ALL, "legacy": LEGACY, "modern": MODERN}
    if era not in eras:
        raise LocalProtocolError(f"era= is one of {', '.join(eras)}, and not {era!r}")
    if revision is None:
        return eras[era]
    if revision not in eras[era]:
        raise LocalProtocolError(f"revision= is one of {', '.join(eras[era])}, and not {revision!r}")
    return (revision,)
