"""``connect()``: the function that opens every client."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from twopipes._channels.base import Channel
from twopipes._client.client import Client
from twopipes._client.era_cache import PROCESS_WIDE
from twopipes._client.input_handlers import InputHandlers, OnElicit, OnSample, Roots
from twopipes._client.options import ClientConfig, ClientOptions
from twopipes._client.stray_output import StrayOutput
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
from twopipes.settings import Limits, RestartPolicy, Sandbox, Timeouts

if TYPE_CHECKING:
    from twopipes._client.http_auth import ClientAuth
    from twopipes._trace.recorder import Recorder

Era = Literal["auto", "legacy", "modern"]
Given = str | os.PathLike[str] | Sequence[str] | ServerCommand | Servable | Channel | Target


class Connecting:
    """The return value of :func:`connect`: enter it with ``async with``, or await it and call ``close()`` on the client later."""

    def __init__(self, open_client: Callable[[], Coroutine[Any, Any, Client]]) -> None:
        self._open = open_client
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._open()
        return self._client

    def __repr__(self) -> str:
        return "<a client that is not connected yet: await it, or enter it with async with>"

    # Help users who take it for a client. A type checker reports these mistakes by itself.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{name} is not available yet: connect() returns a client after async with connect(...) as client, "
                "or after client = await connect(...)",
                name=name,
                obj=self,
            )

        def __enter__(self) -> Any:
            raise TypeError("connect() needs async with; without await, use connect of twopipes.blocking")

        def __exit__(self, *_: object) -> None:
            """Never called, because ``__enter__`` raises."""

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()


def connect(
    target: Given,
    /,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    sandbox: Sandbox | None = None,
    headers: Mapping[str, str] | None = None,
    auth: ClientAuth | None = None,
    era: Era = "auto",
    revision: str | None = None,
    on_elicit: OnElicit | None = None,
    on_elicit_url: OnElicit | None = None,
    on_sample: OnSample | None = None,
    roots: Roots | None = None,
    on_log: Callable[[LogParams], Any] | None = None,
    on_stderr: Callable[[StderrLine], Any] | None = None,
    on_stray_output: Callable[[StrayOutput], Any] | None = None,
    on_restart: Callable[[TwopipesError], Any] | None = None,
    timeouts: Timeouts | None = None,
    limits: Limits | None = None,
    restart: RestartPolicy | None = None,
    shutdown: ShutdownPlan | None = None,
    trace: str | os.PathLike[str] | Recorder | None = None,
    redact: Iterable[str] = (),
    options: ClientOptions | None = None,
) -> Connecting:
    """Connect to a server.

    Use ``async with connect("python", "server.py") as client:``, or ``client = await connect(...)`` and ``await client.close()``.
    Callbacks may be plain functions or ``async``; a plain one must not block the event loop.

    Args:
        target: A command, with its arguments after it or as one list; a :class:`ServerCommand`; a :class:`Server` in this process;
            a URL, ``https://host/mcp``; ``unix:/path``; ``tcp://host:port``; or an open :class:`Channel`.
        *arguments: The arguments of a command.
        env: Variables to add to the child's environment, which is minimal by default. Secrets go here. ``ServerCommand`` has more.
        cwd: The folder in which the child starts.
        sandbox: What the child may reach: paths that it may read or write, and whether it may use the network.
        headers: Headers to send with each request to a URL.
        auth: The authorization for a URL: a bearer token; a function that returns one, called for each request; or an object with a
            method ``challenge``, which gets a :class:`~twopipes.http.Challenge` and returns a new token or ``None``.
        era: The protocol era; ``auto`` detects it.
        revision: The only revision to use.
        on_elicit: Answers forms of the server: a mapping accepts, ``None`` cancels; or ``question.accept(...)``, ``.decline()``.
        on_elicit_url: Answers requests of the server that the user visit a URL.
        on_sample: Answers requests of the server to the model, with a string or a ``CreateMessageResult``.
        roots: Folders and files the server may use, or a function that returns them.
        on_log: Called with each log message of the server.
        on_stderr: Called with each line of the child's stderr.
        on_stray_output: Called with each piece of output on the server's stdout that is not a message.
        on_restart: Called before a restart with the error that caused it.
        timeouts: How long to wait, for each kind of operation.
        limits: How much data to hold, for each kind of data.
        restart: When to restart a server that exited: by default one of the stateless era.
        shutdown: How to shut a child down: by default close its stdin, wait, SIGTERM, wait, SIGKILL.
        trace: A file in which to record the conversation, or a ``Recorder``, which the caller closes.
        redact: Names of members whose values are removed from the recording, in addition to those in ``TWOPIPES_REDACT``.
        options: Rarely needed options; see :class:`~twopipes.types.ClientOptions`.

    Raises:
        LocalProtocolError: An argument is invalid; nothing was started.

    Awaiting it raises:
        StartFailed: The command cannot be started.
        ServerExited: The server exited before the connection was open.
        OpeningFailed: There is no common revision, or the server does not respond.
        ChannelBroken: No server listens at the socket.
        HttpError: There is no MCP server at the URL, or it refused the authorization.
    """
    where = target_of(target, *arguments)
    if env is not None or cwd is not None or sandbox is not None:
        where = with_process(where, env, cwd, sandbox)
    if headers is not None or auth is not None:
        where = with_http(where, headers, auth)
    if timeouts is not None and not isinstance(timeouts, Timeouts):
        raise LocalProtocolError(f"timeouts= must be a Timeouts object, got {timeouts!r}; write Timeouts(request={timeouts!r})")
    if options is None:
        options = ClientOptions()
    if options.undeclared not in ("empty", "raise"):
        raise LocalProtocolError(f"undeclared must be 'empty' or 'raise', got {options.undeclared!r}")
    if trace == "1":
        raise LocalProtocolError('trace="1" writes a conversation to the stderr of a server; a client needs the name of a file')
    if redact:
        from twopipes._trace.recorder import check_redact

        check_redact(trace, redact)
    timeouts = timeouts or Timeouts()
    limits = limits or Limits()
    questions = InputHandlers(
        on_elicit=on_elicit,
        on_elicit_url=on_elicit_url,
        on_sample=on_sample,
        sample_tools=options.sample_tools,
        roots=roots,
        limits=limits,
    )
    profile = ClientProfile(
        info=options.client_info or Implementation("twopipes", __version__),
        capabilities=structs.replace(
            questions.capabilities,
            experimental=None if options.experimental is None else dict(options.experimental),
            extensions=None if options.extensions is None else dict(options.extensions),
        ),
        revisions=revisions_of(era, revision),
    )

    config = ClientConfig(
        target=where,
        profile=profile,
        questions=questions,
        timeouts=timeouts,
        limits=limits,
        restart=restart or RestartPolicy(),
        shutdown=shutdown or where.plan or ShutdownPlan.default(timeouts.shutdown),
        era_cache=options.era_cache or PROCESS_WIDE,
        validate=options.validate,
        undeclared=options.undeclared,
        on_log=on_log,
        on_notification=options.on_notification,
        on_stderr=on_stderr,
        on_stray_output=on_stray_output,
        on_restart=on_restart,
    )

    async def open_client() -> Client:
        if trace is None:
            supervisor = Supervisor(config)
        else:
            from twopipes._client.recording import RecordedTarget

            supervisor = Supervisor(structs.replace(config, target=RecordedTarget(where, trace, redact)))
        client = Client(supervisor)
        await supervisor.start()
        return client

    return Connecting(open_client)


def with_process(
    where: Target, env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None, sandbox: Sandbox | None = None
) -> Target:
    """Return a command with these variables, this folder and this sandbox."""
    if not isinstance(where, CommandTarget):
        raise LocalProtocolError(f"env=, cwd= and sandbox= are for a command; {where.description} is not a command")
    command = where.command
    if env is not None:
        command = structs.replace(command, env={**(command.env or {}), **env})
    if cwd is not None:
        command = structs.replace(command, cwd=cwd)
    return where.with_command(command if sandbox is None else structs.replace(command, sandbox=sandbox))


def with_http(where: Target, headers: Mapping[str, str] | None, auth: ClientAuth | None) -> Target:
    """Return a target at a URL with these headers and this authorization. Raises ``LocalProtocolError`` for any other target."""
    from twopipes._client.http_target import HttpTarget

    if not isinstance(where, HttpTarget):
        raise LocalProtocolError(f"headers= and auth= are for a URL; {where.description} is not a URL")
    return where.replaced(headers, auth)


def revisions_of(era: Era, revision: str | None) -> Sequence[str]:
    """Return the revisions that a client of this era supports."""
    eras = {"auto": ALL, "legacy": LEGACY, "modern": MODERN}
    if era not in eras:
        raise LocalProtocolError(f"era= must be one of {', '.join(eras)}, got {era!r}")
    if revision is None:
        return eras[era]
    if revision not in eras[era]:
        raise LocalProtocolError(f"revision= must be one of {', '.join(eras[era])}, got {revision!r}")
    return (revision,)
