"""The client without ``await``: every method of :class:`twopipes.Client`, by the same name, waiting for its result."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from twopipes._blocking.callbacks import CallbackThread, Progress, roots_in_a_thread
from twopipes._blocking.loop import ClientShare, LoopThread
from twopipes._blocking.subscription import Subscription
from twopipes._client.caller import InputRequired as AsyncInputRequired
from twopipes._client.client import Client as AsyncClient
from twopipes._client.connection import OnProgress
from twopipes._client.input_handlers import Roots
from twopipes._client.output_check import Validate
from twopipes._client.results import CallResult
from twopipes._client.stray_output import StrayOutput
from twopipes._process.shutdown import ShutdownReport
from twopipes._protocol.types import (
    Completion,
    GetPromptResult,
    Implementation,
    InputRequest,
    LoggingLevel,
    Params,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ServerCapabilities,
    Tool,
)
from twopipes.errors import ClientClosed
from twopipes.settings import Timeouts

__all__ = ["Client", "InputRequired"]

T = TypeVar("T")


class InputRequired:
    """A server of the stateless wire needs answers before it can go on, and the caller wanted to give them.

    Attributes:
        questions: What it asks, by key.
    """

    def __init__(self, inner: AsyncInputRequired, client: Client, progress: Progress | None) -> None:
        self.questions: Mapping[str, InputRequest] = inner.questions
        self._inner = inner
        self._client = client
        self._progress = progress

    def __repr__(self) -> str:
        return repr(self._inner)

    def answer(self, answers: Mapping[str, Any] | None = None) -> Any:
        """Sends the request again with an answer to each question, and returns what comes: a result, or the next questions.

        Raises:
            LocalProtocolError: An answer is missing.
        """
        return self._client._handed_out(lambda: self._inner.answer(answers), self._progress)  # noqa: SLF001 - one house


class Client:
    """A server within reach. :func:`connect` gives it; its block, or :meth:`close`, ends it and the server with it.

    Every call ends: with a result, or with a :class:`~twopipes.TwopipesError` that says what happened. Ctrl-C during a call tells
    the server that nobody waits any more, and leaves the client usable. Several threads may use one client at once. Where callbacks
    are called is written in :mod:`twopipes._blocking.callbacks`.
    """

    def __init__(
        self,
        inner: AsyncClient,
        house: LoopThread,
        share: ClientShare,
        callback_thread: CallbackThread,
        question_slots: asyncio.Semaphore,
    ) -> None:
        self._inner = inner
        self._house = house
        self._lease = share
        self._callback_thread = callback_thread
        self._question_slots = question_slots

    def __repr__(self) -> str:
        return repr(self._inner)

    # What is known of the server

    @property
    def timeouts(self) -> Timeouts:
        """How long calls wait that bring no timeouts of their own."""
        return self._inner.timeouts

    @property
    def era(self) -> Literal["legacy", "modern"]:
        """Which era the two sides speak."""
        return self._inner.era

    @property
    def revision(self) -> str:
        """Which revision of the protocol, such as ``2025-11-25``."""
        return self._inner.revision

    @property
    def server_info(self) -> Implementation | None:
        """Name and version, by the server's own account (VN-14: nothing to rely on)."""
        return self._inner.server_info

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server offers."""
        return self._inner.capabilities

    @property
    def instructions(self) -> str | None:
        """How the server should be used, for the model."""
        return self._inner.instructions

    @property
    def pid(self) -> int | None:
        """The process id of the server, where we launched it."""
        return self._inner.pid

    @property
    def stderr(self) -> Sequence[str]:
        """The last lines that the server wrote to its stderr."""
        return self._inner.stderr

    @property
    def stray(self) -> Sequence[StrayOutput]:
        """What the server wrote to its stdout that is no message: the first of it."""
        return self._inner.stray

    @property
    def stray_count(self) -> int:
        """How much of that there was."""
        return self._inner.stray_count

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many events were dropped because a callback was too slow for them, by its name: ``{"on_log": 12}``.

        How much may wait is ``Limits.max_backlog``. A subscription counts its own: :attr:`Subscription.dropped`.
        """
        return self._inner.dropped

    @property
    def restarts(self) -> int:
        """How often the server was started again."""
        return self._inner.restarts

    @property
    def closed(self) -> ShutdownReport | None:
        """How the server was ended; ``None`` until it was."""
        return self._inner.closed

    # Tools

    def list_tools(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[Tool]:
        """All tools, from all pages, in the server's order. From the cache while the server allows it, unless ``fresh``.

        None where the server did not declare tools: it is not asked then (LC-11), unless ``connect(undeclared="raise")`` says that
        this is a ``CapabilityMissing``. The same holds for the other lists.
        """
        return self._run(lambda: self._inner.list_tools(fresh=fresh, timeouts=timeouts))

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
        log_level: LoggingLevel | None = None,
        validate: Validate | None = None,
    ) -> CallResult:
        """Calls a tool.

        Args:
            name: The tool.
            arguments: Its arguments.
            on_progress: Called in this thread with each report of progress: ``.progress``, ``.total``, ``.message``.
            timeouts: Instead of the client's; ``request`` and ``total`` are read.
            meta: Keys of your own for ``_meta``.
            log_level: On the stateless wire, the least level of log messages wanted during this call.
            validate: Instead of the client's: what to do about the tool's output schema.

        Returns:
            What the tool gave, also if it failed (``.is_error``): that is for the model.

        Raises:
            McpError: There is no such tool, or the server refused the call.
            RequestTimedOut: No answer in time.
            ServerExited: The server died, and the call is not one that may be sent twice.
            InvalidOutput: The structured result breaks the tool's own schema, and ``validate`` is ``raise``.
            CapabilityMissing: The server did not declare tools; nothing was sent.
        """
        progress = _progress(on_progress)
        return self._run(
            lambda: self._inner.call_tool(
                name, arguments, on_progress=progress, timeouts=timeouts, meta=meta, log_level=log_level, validate=validate
            ),
            progress,
        )

    # Resources

    def list_resources(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[Resource]:
        """All resources, from all pages."""
        return self._run(lambda: self._inner.list_resources(fresh=fresh, timeouts=timeouts))

    def list_resource_templates(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[ResourceTemplate]:
        """All resource templates, from all pages."""
        return self._run(lambda: self._inner.list_resource_templates(fresh=fresh, timeouts=timeouts))

    def read_resource(
        self,
        uri: str,
        *,
        fresh: bool = False,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ReadResourceResult:
        """Reads a resource; ``.text`` and ``.data`` give what most have, ``.contents`` all.

        Raises:
            NotFound: There is no such resource.
            CapabilityMissing: The server did not declare resources; nothing was sent.
        """
        progress = _progress(on_progress)
        return self._run(
            lambda: self._inner.read_resource(uri, fresh=fresh, on_progress=progress, timeouts=timeouts, meta=meta), progress
        )

    # Prompts and completion

    def list_prompts(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[Prompt]:
        """All prompts, from all pages."""
        return self._run(lambda: self._inner.list_prompts(fresh=fresh, timeouts=timeouts))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> GetPromptResult:
        """A prompt with its arguments, which are strings, filled in (PM-02).

        Raises:
            CapabilityMissing: The server did not declare prompts; nothing was sent.
        """
        progress = _progress(on_progress)
        return self._run(
            lambda: self._inner.get_prompt(name, arguments, on_progress=progress, timeouts=timeouts, meta=meta), progress
        )

    def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        context: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> Completion:
        """Suggestions for an argument of a prompt, or a variable of a resource template, that the user is typing.

        None where the server did not declare completions; see :meth:`list_tools`.

        Args:
            argument: Which argument.
            value: What is typed so far.
            prompt: The prompt, or
            resource: the URI template.
            context: The arguments that are known already.
            timeouts: Instead of the client's.
        """
        return self._run(
            lambda: self._inner.complete(argument, value, prompt=prompt, resource=resource, context=context, timeouts=timeouts)
        )

    # Changes

    def subscribe(
        self, *, tools: bool = False, prompts: bool = False, resource_list: bool = False, resources: Sequence[str] = ()
    ) -> Subscription:
        """Changes as they happen: ``for change in client.subscribe(tools=True)``; see :class:`Subscription`.

        Args:
            tools: When the list of tools changes.
            prompts: When the list of prompts changes.
            resource_list: When the list of resources changes.
            resources: When one of these resources changes.

        Iterating raises ``LocalProtocolError`` where the server delivers none of this; ``ready()`` tells what it delivers. With
        ``connect(undeclared="raise")``, this raises ``CapabilityMissing`` where the server declared none of it.
        """
        inner = self._inner.subscribe(tools=tools, prompts=prompts, resource_list=resource_list, resources=resources)
        return Subscription(inner, self._house, self._inner.timeouts.request, self)

    # The rest

    def ping(self, *, timeouts: Timeouts | None = None) -> None:
        """Returns if the server answers: to a ``ping``, or, on the stateless wire, which has none, to a ``server/discover``."""
        self._run(lambda: self._inner.ping(timeouts=timeouts))

    def set_log_level(self, level: LoggingLevel, *, timeouts: Timeouts | None = None) -> None:
        """Which log messages ``on_log`` gets from now on: of the session, or, on the stateless wire, of each later call.

        Does nothing where the server did not declare logging; see :meth:`list_tools`.
        """
        self._run(lambda: self._inner.set_log_level(level, timeouts=timeouts))

    def set_roots(self, roots: Roots) -> None:
        """Replaces the roots; a legacy server is told that they have changed (RT-03).

        Raises:
            LocalProtocolError: The client was connected without roots, so none were declared.
        """

        async def set_them() -> None:
            self._inner.set_roots(roots_in_a_thread(roots, self._question_slots))

        self._run(set_them)

    def request(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Any request. Of a method that twopipes knows, the typed result; of any other, what came, as plain Python."""
        progress = _progress(on_progress)
        return self._run(lambda: self._inner.request(method, params, on_progress=progress, timeouts=timeouts, meta=meta), progress)

    def request_once(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any | InputRequired:
        """As :meth:`request`, but a server that asks back is not answered by the callbacks: its questions are handed out."""
        progress = _progress(on_progress)
        return self._handed_out(
            lambda: self._inner.request_once(method, params, on_progress=progress, timeouts=timeouts, meta=meta), progress
        )

    def close(self) -> None:
        """Ends the connection and the server: stdin is closed, then it is waited for, then signals say so.

        From any thread, any number of times. Calls that are still open end with ``ClientClosed``. Ctrl-C does not stop the ending.
        In a process that was forked from the one that connected, this does nothing: the server is not its own.
        """
        house, share = self._house, self._lease
        if house.is_foreign:
            return
        with suppress(ClientClosed):  # long ago
            house.run(lambda: house.end(share))
        self._callback_thread.join()
        house.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # An object whose making failed has nothing to end.
        house, share = getattr(self, "_house", None), getattr(self, "_lease", None)
        if house is None or share is None or share.ending is not None or house.is_foreign or house.loop.is_closed():
            return
        house.post(house.begin_end, share)
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)

    # Underneath

    def _run(self, run: Callable[[], Coroutine[Any, Any, T]], progress: Progress | None = None) -> T:
        try:
            result = self._house.run(run, progress=progress)
        except Exception:
            self._callback_thread.catch_up()
            raise
        self._callback_thread.catch_up()  # whoever has the answer has heard what was said before it
        return result

    def _handed_out(self, run: Callable[[], Coroutine[Any, Any, Any]], progress: Progress | None) -> Any:
        result = self._run(run, progress)
        return InputRequired(result, self, progress) if isinstance(result, AsyncInputRequired) else result


def _progress(on_progress: OnProgress | None) -> Progress | None:
    return None if on_progress is None else Progress(on_progress)
