"""``connect()`` without ``await``."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from msgspec import structs

from twopipes._blocking import callbacks
from twopipes._blocking.callbacks import CallbackThread, auth_in_a_thread, in_a_thread, roots_in_a_thread
from twopipes._blocking.client import Client
from twopipes._blocking.loop import ClientLease, LoopThread
from twopipes._channels.base import Channel
from twopipes._client.client import Client as AsyncClient
from twopipes._client.connect import Given
from twopipes._client.connect import connect as connect_async
from twopipes._client.options import ClientOptions
from twopipes._client.targets import target_of
from twopipes._process.shutdown import ShutdownPlan
from twopipes.errors import LocalProtocolError
from twopipes.settings import Timeouts

P = ParamSpec("P")
T = TypeVar("T")
# Callbacks that are called one after the other in the client's callback thread, and those that answer the server.
_EVENT_CALLBACKS = ("on_log", "on_stderr", "on_stray_output", "on_restart")
_QUESTION_CALLBACKS = ("on_elicit", "on_elicit_url", "on_sample")


def _parameters_of(source: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function the parameters of another one, and its description of them."""

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        own = inspect.signature(function)
        arguments = inspect.getdoc(source) or ""
        arguments = arguments[arguments.index("Args:") :].replace("\n\nAwaiting it raises:", "")
        function.__doc__ = f"{inspect.getdoc(function)}\n\n{arguments}"
        function.__signature__ = inspect.signature(source).replace(return_annotation=own.return_annotation)  # type: ignore[attr-defined]
        return function

    return decorate


@_parameters_of(connect_async)
def connect(target: Given, /, *arguments: str, **options: Any) -> Client:
    """Connect to a server and return when it can be used. A ``with`` block, or ``close()``, ends it.

    The parameters are those of :func:`twopipes.connect`. Callbacks are plain functions, called in threads in which they may block;
    see :mod:`twopipes._blocking.callbacks`. The target cannot be a channel, because a channel belongs to an event loop.
    """
    if isinstance(target, Channel):
        raise LocalProtocolError(
            f"{target.description} belongs to an event loop, and a blocking client has one of its own; "
            "give connect() the address or the command"
        )
    where = target_of(target, *arguments)
    plan = options.get("shutdown") or where.plan or ShutdownPlan.default((options.get("timeouts") or Timeouts()).shutdown)
    lease = ClientLease(plan)
    slots = asyncio.Semaphore(callbacks.MAX_QUESTIONS)

    async def open_client(callback_thread: CallbackThread) -> AsyncClient:
        wrapped: dict[str, Any] = {
            **{name: callback_thread.wrap(options[name]) for name in _EVENT_CALLBACKS if name in options},
            **{name: in_a_thread(options[name], slots) for name in _QUESTION_CALLBACKS if name in options},
        }
        if options.get("roots") is not None:
            wrapped["roots"] = roots_in_a_thread(options["roots"], slots)
        if options.get("auth") is not None:
            # Slots of its own: a callback that answers a question may wait for a call that needs a token.
            wrapped["auth"] = auth_in_a_thread(options["auth"], asyncio.Semaphore(callbacks.MAX_QUESTIONS))
        rare: ClientOptions = options.get("options") or ClientOptions()
        wrapped["options"] = structs.replace(rare, on_notification=callback_thread.wrap(rare.on_notification))
        try:
            client = await connect_async(where, **{**options, **wrapped})
        except BaseException:
            callback_thread.end()
            raise

        async def close() -> None:
            try:
                await client.close()
            finally:
                callback_thread.end()

        lease.close = close
        return client

    try:
        loop_thread = LoopThread.acquire(lease)
        callback_thread = CallbackThread(loop_thread.call_back)
        try:
            inner = loop_thread.run(
                lambda: loop_thread.connect(lease, lambda: open_client(callback_thread)),
                unclaimed=lambda _: loop_thread.start_ending(lease),
            )
        except Exception:  # but not KeyboardInterrupt, which must not wait
            callback_thread.join()
            loop_thread.join()
            raise
        return Client(inner, loop_thread, lease, callback_thread, slots)
    except BaseException:
        LoopThread.release(lease)
        raise
