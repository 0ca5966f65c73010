"""The client without ``await``: every method of :class:`twopipes.Client`, by the same name, waiting for its result."""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from twopipes._blocking.callbacks import CallbackThread, Progress, roots_in_a_thread
from twopipes._blocking.loop import ClientLease, LoopThread
from twopipes._blocking.subscription import Subscription
from twopipes._client.caller import InputRequired as AsyncInputRequired
from twopipes._client.client import Client as AsyncClient
from twopipes._client.input_handlers import Roots
from twopipes._client.server_info import ServerInfo
from twopipes._protocol.types import InputRequest
from twopipes.errors import ClientClosed
from twopipes.settings import Timeouts

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Client, P], T]:
    """Turn a method of the async client into one that waits for its result. Signature and docstring are taken over."""
    call: Callable[..., Coroutine[Any, Any, T]] = method

    def wait(self: Client, /, *args: Any, **kwargs: Any) -> T:
        progress = None
        if kwargs.get("on_progress") is not None:
            progress = kwargs["on_progress"] = Progress(kwargs["on_progress"])

        async def run() -> T:  # called in the loop, so that a wrong argument fails like any other error
            return await call(self._inner, *args, **kwargs)

        return self._run(run, progress)

    functools.update_wrapper(wait, method)
    return wait


class InputRequired:
    """Questions of a server on the stateless wire, for a caller that answers them itself.

    Attributes:
        questions: The requests for input, by key.
    """

    def __init__(self, inner: AsyncInputRequired, client: Client, progress: Progress | None) -> None:
        self.questions: Mapping[str, InputRequest] = inner.questions
        self._inner = inner
        self._client = client
        self._progress = progress

    def __repr__(self) -> str:
        return repr(self._inner)

    def answer(self, answers: Mapping[str, Any] | None = None) -> Any:
        """Send the request again with an answer to each question. Returns the result, or the next questions.

        Raises:
            LocalProtocolError: An answer is missing.
        """
        return self._client._run(lambda: self._inner.answer(answers), self._progress)  # noqa: SLF001 - the same package


class Client(ServerInfo):
    """A connected server. :func:`connect` returns it; leaving its ``with`` block, or :meth:`close`, shuts the server down.

    Every call ends with a result or with a :class:`~twopipes.TwopipesError`. Ctrl-C during a call cancels it at the server and
    leaves the client usable. Several threads may use one client at the same time. ``on_progress`` is called in the thread that made
    the call; :mod:`twopipes._blocking.callbacks` describes the threads of the other callbacks.
    """

    def __init__(
        self,
        inner: AsyncClient,
        loop_thread: LoopThread,
        lease: ClientLease,
        callback_thread: CallbackThread,
        question_slots: asyncio.Semaphore,
    ) -> None:
        super().__init__(inner._supervisor)  # noqa: SLF001 - both clients show the same state
        self._inner = inner
        self._loop_thread = loop_thread
        self._lease = lease
        self._callback_thread = callback_thread
        self._question_slots = question_slots

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts of calls without their own."""
        return self._inner.timeouts

    list_tools = _blocking(AsyncClient.list_tools)
    call_tool = _blocking(AsyncClient.call_tool)
    list_resources = _blocking(AsyncClient.list_resources)
    list_resource_templates = _blocking(AsyncClient.list_resource_templates)
    read_resource = _blocking(AsyncClient.read_resource)
    list_prompts = _blocking(AsyncClient.list_prompts)
    get_prompt = _blocking(AsyncClient.get_prompt)
    complete = _blocking(AsyncClient.complete)
    ping = _blocking(AsyncClient.ping)
    set_log_level = _blocking(AsyncClient.set_log_level)
    request = _blocking(AsyncClient.request)
    request_once = _blocking(AsyncClient.request_once)

    def subscribe(
        self, *, tools: bool = False, prompts: bool = False, resource_list: bool = False, resources: Sequence[str] = ()
    ) -> Subscription:
        """Subscribe to changes: iterate over the :class:`Subscription` to get them; see :meth:`twopipes.Client.subscribe`.

        Args:
            tools: Changes of the list of tools.
            prompts: Changes of the list of prompts.
            resource_list: Changes of the list of resources.
            resources: Changes of these resources.
        """
        inner = self._inner.subscribe(tools=tools, prompts=prompts, resource_list=resource_list, resources=resources)
        return Subscription(inner, self._loop_thread, self._inner.timeouts.request, self)

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots; see :meth:`twopipes.Client.set_roots`."""

        async def set_in_loop() -> None:
            self._inner.set_roots(roots_in_a_thread(roots, self._question_slots))

        self._run(set_in_loop)

    def close(self) -> None:
        """Close the connection and shut the server down: close its stdin, wait, then send signals.

        Any thread may call this, any number of times. Calls in progress end with ``ClientClosed``. Ctrl-C does not stop the
        shutdown. In a process that was forked from the one that connected, this does nothing, because the server belongs to the
        parent.
        """
        loop_thread, lease = self._loop_thread, self._lease
        if loop_thread.is_foreign:
            return
        with suppress(ClientClosed):  # it is already closed
            loop_thread.run(lambda: loop_thread.end(lease))
        self._callback_thread.join()
        loop_thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The attributes are missing if __init__ failed.
        loop_thread, lease = getattr(self, "_loop_thread", None), getattr(self, "_lease", None)
        if loop_thread is None or lease is None or lease.ending is not None:
            return
        if loop_thread.is_foreign or loop_thread.loop.is_closed():
            return
        loop_thread.post(loop_thread.start_ending, lease)
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)

    def _run(self, run: Callable[[], Coroutine[Any, Any, T]], progress: Progress | None = None) -> T:
        try:
            result = self._loop_thread.run(run, progress=progress)
        except Exception:  # but not KeyboardInterrupt, which must not wait
            self._callback_thread.catch_up()
            raise
        self._callback_thread.catch_up()  # callbacks for events before the response run before the call returns
        if isinstance(result, AsyncInputRequired):
            return InputRequired(result, self, progress)  # type: ignore[return-value]
        return result
