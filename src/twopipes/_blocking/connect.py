"""``connect()`` without ``await``."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import structs

from twopipes._blocking import callbacks
from twopipes._blocking.callbacks import CallbackThread, auth_in_a_thread, in_a_thread, roots_in_a_thread
from twopipes._blocking.client import Client
from twopipes._blocking.loop import ClientLease
from twopipes._blocking.waiting import open_in_loop, parameters_of
from twopipes._channels.base import Channel
from twopipes._client.client import Client as AsyncClient
from twopipes._client.connect import Given
from twopipes._client.connect import connect as connect_async
from twopipes._client.options import ClientOptions
from twopipes._client.targets import target_of
from twopipes._process.shutdown import ShutdownPlan
from twopipes.errors import LocalProtocolError
from twopipes.settings import Timeouts

# Callbacks that are called one after the other in the client's callback thread, and those that answer the server.
_EVENT_CALLBACKS = ("on_log", "on_stderr", "on_stray_output", "on_restart")
_QUESTION_CALLBACKS = ("on_elicit", "on_elicit_url", "on_sample")


@parameters_of(connect_async)
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
        return await connect_async(where, **{**options, **wrapped})

    return open_in_loop(lease, open_client, lambda inner, loop, callbacks: Client(inner, loop, lease, callbacks, slots))
