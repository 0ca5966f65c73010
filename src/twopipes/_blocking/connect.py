"""``connect()`` without ``await``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from twopipes._blocking.callbacks import CallbackThread, in_a_thread, question_slots, roots_in_a_thread
from twopipes._blocking.client import Client
from twopipes._blocking.loop import ClientShare, LoopThread
from twopipes._channels.base import Channel
from twopipes._client.client import Client as AsyncClient
from twopipes._client.connect import Era, Given
from twopipes._client.connect import connect as connect_async
from twopipes._client.era_cache import EraCache
from twopipes._client.input_handlers import OnElicit, OnSample, Roots
from twopipes._client.output_check import Validate
from twopipes._client.server_info import Undeclared
from twopipes._client.stray_output import StrayOutput
from twopipes._client.targets import target_of
from twopipes._process.shutdown import ShutdownPlan
from twopipes._process.stderr import StderrLine
from twopipes._protocol.types import Implementation, LogParams
from twopipes.errors import LocalProtocolError, TwopipesError
from twopipes.settings import Limits, RestartPolicy, Timeouts

if TYPE_CHECKING:
    from twopipes._trace.recorder import Recorder

__all__ = ["connect"]


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
) -> Client:
    """Connects to a server, and returns when it can be used. A ``with`` block, or ``close()``, ends it.

    The parameters are those of :func:`twopipes.connect`. Callbacks are plain functions, called in threads that may block; see
    :mod:`twopipes._blocking.callbacks` for which. A channel cannot be connected to, because it belongs to an event loop.

    Args:
        target: A command, with its arguments behind it or as one list; a :class:`ServerCommand`; a :class:`Server` in this process;
            ``unix:/path``; or ``tcp://host:port``.
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
        on_restart: Called with the error that made a restart necessary.
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
        StartFailed: The command cannot be started.
        ServerExited: The server ended before it could be talked to.
        OpeningFailed: The two sides have no revision in common, or the server does not answer.
        ChannelBroken: Nobody listens at the socket.
    """
    if isinstance(target, Channel):
        raise LocalProtocolError(
            f"{target.description} belongs to an event loop, and a blocking client has one of its own; "
            "give connect() the address or the command"
        )
    where = target_of(target, *arguments)
    plan = shutdown or where.plan or ShutdownPlan.default((timeouts or Timeouts()).shutdown)
    share = ClientShare(plan)
    slots = question_slots()

    async def open_client(callback_thread: CallbackThread) -> AsyncClient:
        try:
            client = await connect_async(
                where,
                env=env,
                cwd=cwd,
                era=era,
                revision=revision,
                on_elicit=in_a_thread(on_elicit, slots),
                on_elicit_url=in_a_thread(on_elicit_url, slots),
                on_sample=in_a_thread(on_sample, slots),
                sample_tools=sample_tools,
                roots=None if roots is None else roots_in_a_thread(roots, slots),
                on_log=callback_thread.wrap(on_log),
                on_notification=callback_thread.wrap(on_notification),
                on_stderr=callback_thread.wrap(on_stderr),
                on_stray_output=callback_thread.wrap(on_stray_output),
                on_restart=callback_thread.wrap(on_restart),
                timeouts=timeouts,
                limits=limits,
                restart=restart,
                shutdown=shutdown,
                validate=validate,
                undeclared=undeclared,
                remember=remember,
                client_info=client_info,
                experimental=experimental,
                extensions=extensions,
                trace=trace,
                redact=redact,
            )
        except BaseException:
            callback_thread.end()
            raise

        async def close() -> None:
            try:
                await client.close()
            finally:
                callback_thread.end()

        share.close = close
        return client

    try:
        house = LoopThread.borrow(share)
        callback_thread = CallbackThread(house.call_back)
        try:
            inner = house.run(
                lambda: house.connect(share, lambda: open_client(callback_thread)), unclaimed=lambda _: house.begin_end(share)
            )
        except Exception:  # and not Ctrl-C: nobody who presses it wants to wait
            callback_thread.join()
            house.join()
            raise
        return Client(inner, house, share, callback_thread, slots)
    except BaseException:
        LoopThread.take_back(share)
        raise
