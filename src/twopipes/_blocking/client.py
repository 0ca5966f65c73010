"""The client without ``await``: every method of :class:`twopipes.Client`, by the same name, waiting for its result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from twopipes._blocking.callbacks import CallbackThread, Progress, roots_in_a_thread
from twopipes._blocking.loop import ClientLease, LoopThread
from twopipes._blocking.subscription import Subscription
from twopipes._blocking.waiting import Waiting, blocking
from twopipes._client.caller import InputRequired as AsyncInputRequired
from twopipes._client.client import Client as AsyncClient
from twopipes._client.input_handlers import Roots
from twopipes._client.server_info import ServerInfo
from twopipes._protocol.types import InputRequest
from twopipes.settings import Timeouts

T = TypeVar("T")


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


class Client(Waiting, ServerInfo):
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
        Waiting.__init__(self, inner, loop_thread, lease, callback_thread)
        ServerInfo.__init__(self, inner._supervisor)  # noqa: SLF001 - both clients show the same state
        self._inner: AsyncClient = inner
        self._question_slots = question_slots

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts of calls without their own."""
        return self._inner.timeouts

    list_tools = blocking(AsyncClient.list_tools)
    call_tool = blocking(AsyncClient.call_tool)
    list_resources = blocking(AsyncClient.list_resources)
    list_resource_templates = blocking(AsyncClient.list_resource_templates)
    read_resource = blocking(AsyncClient.read_resource)
    list_prompts = blocking(AsyncClient.list_prompts)
    get_prompt = blocking(AsyncClient.get_prompt)
    complete = blocking(AsyncClient.complete)
    ping = blocking(AsyncClient.ping)
    set_log_level = blocking(AsyncClient.set_log_level)
    request = blocking(AsyncClient.request)
    request_once = blocking(AsyncClient.request_once)

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

    def _shown(self, result: T, progress: Progress | None) -> T:
        if isinstance(result, AsyncInputRequired):
            return InputRequired(result, self, progress)  # type: ignore[return-value]
        return result
