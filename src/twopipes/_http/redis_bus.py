"""A bus on Redis: the processes of one server publish to a channel and subscribe to it."""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from twopipes._http.bus import Bus, Deliver, Lost, Missed
from twopipes._http.pending_changes import ChangeMessage, PendingChanges, decode_changes, encode_changes
from twopipes._session.subscriptions import Change
from twopipes.errors import LocalProtocolError

try:
    from redis import asyncio as aioredis
    from redis.asyncio.retry import Retry
    from redis.backoff import EqualJitterBackoff, NoBackoff
    from redis.exceptions import RedisError
except ImportError as error:
    raise ImportError("RedisBus needs redis-py: pip install 'twopipes[redis]'") from error

if TYPE_CHECKING:
    from redis.asyncio.client import PubSub

_log = logging.getLogger("twopipes.server.bus")

# Seconds. How long to wait for a response of Redis, and for a new connection to it.
_TIMEOUT: Final = 5.0
# Seconds without a message after which Redis is asked for a sign of life. A lost network reports nothing.
_PING_AFTER: Final = 15.0
# Seconds between two attempts to connect: at first about a tenth, at most about ten. The random part spreads the load of many
# processes that lost the same Redis.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
_MAX_EXPONENT: Final = 16  # redis-py computes 2**failures as a float, which overflows
# Changes in one message. 500 long URIs are about 100 kB.
_MAX_BATCH: Final = 500


class RedisBus(Bus):
    """Carries changes over Redis publish/subscribe. It stores nothing in Redis.

    Each process has two connections: one to publish, one to subscribe. They are made in :meth:`open`, so a bus may be created
    before the process forks.

    Args:
        url: The address, such as ``redis://host:6379``, ``rediss://user:password@host`` or ``unix:///run/redis.sock``.
        channel: The name of the channel. Servers that share a Redis should each have a channel.
        client_options: More options for ``redis.asyncio.Redis``, such as ``ssl_ca_certs`` or ``credential_provider``.

    Raises:
        ValueError: The address is malformed.
        ImportError: redis-py is not installed.
    """

    def __init__(self, url: str, *, channel: str = "twopipes", **client_options: Any) -> None:
        # Without retries of its own: redis-py would reconnect without a report, and changes in between would be lost unnoticed.
        never = Retry(NoBackoff(), 0, supported_errors=())
        defaults: dict[str, Any] = {"socket_timeout": _TIMEOUT, "socket_connect_timeout": _TIMEOUT, "client_name": "twopipes"}
        self._new_client = functools.partial(aioredis.Redis.from_url, url, **defaults | client_options, retry=never)
        self._redis = self._new_client()  # here too, because it checks the address
        self._channel = channel
        self._origin = ""
        self._backoff = EqualJitterBackoff(cap=_LONGEST_PAUSE, base=_FIRST_PAUSE)
        self._failures = 0
        self._is_connected = False
        self._was_lost = False
        self._is_closing = False
        self._pending = PendingChanges()
        self._wake = asyncio.Event()  # there is something to publish, or the bus is closing
        self._tried = asyncio.Event()  # the first attempt to connect is over
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<RedisBus {self._channel!r} {'connected' if self._is_connected else 'not connected'}>"

    async def open(self, deliver: Deliver, lost: Lost, missed: Missed) -> None:
        """Subscribe; see :meth:`Bus.open`. A Redis that cannot be reached is reported to ``lost`` and tried again."""
        if self._task is not None:
            raise LocalProtocolError("this RedisBus is open already; create one for each application")
        self._deliver, self._lost, self._missed = deliver, lost, missed
        self._origin = secrets.token_hex(8)
        self._redis = self._new_client()
        self._is_closing = self._was_lost = False
        self._tried.clear()
        self._task = asyncio.create_task(self._run(), name="twopipes redis bus")
        await self._tried.wait()

    def publish(self, change: Change) -> None:
        """Publish a change soon. While Redis is away, up to 10,000 different changes wait for it."""
        self._pending.add(change)
        self._wake.set()

    @property
    def is_connected(self) -> bool:
        """Whether the subscription is active."""
        return self._is_connected

    async def close(self) -> None:
        """Publish the remaining changes if Redis responds, and disconnect."""
        if self._task is None:
            return
        self._is_closing = True
        self._wake.set()
        if not self._is_connected:
            self._task.cancel()
        try:
            await asyncio.wait([self._task], timeout=_TIMEOUT)
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._disconnect()
            self._task = None

    # The connection

    async def _run(self) -> None:
        """Connect, and connect again after every loss, until the bus is closed."""
        while not self._is_closing:
            try:
                async with asyncio.TaskGroup() as tasks:
                    pubsub = await self._subscribe()
                    receiving = tasks.create_task(self._receive(pubsub))
                    await self._send()
                    receiving.cancel()
            except* Exception as group:
                self._lose(group.exceptions[0])  # the task must survive also what redis-py does not document
            await self._disconnect()
            if not self._is_closing:
                await asyncio.sleep(self._backoff.compute(min(self._failures, _MAX_EXPONENT)))
                self._failures += 1

    async def _subscribe(self) -> PubSub:
        """Subscribe, and publish what waited. Only then is the bus connected: each of the two may be forbidden."""
        pubsub = self._redis.pubsub()
        await pubsub.subscribe(self._channel)
        if await pubsub.get_message(timeout=_TIMEOUT) is None:
            raise TimeoutError(f"Redis did not confirm the subscription within {_TIMEOUT:g} s")
        await self._publish_pending()
        self._failures = 0
        self._is_connected = True
        self._tried.set()
        if self._was_lost:
            self._was_lost = False
            self._missed()
        return pubsub

    def _lose(self, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        was_connected, self._is_connected = self._is_connected, False
        self._tried.set()
        if was_connected or not self._was_lost:
            self._was_lost = True
            self._lost(f"{type(error).__name__}: {error}")

    async def _disconnect(self) -> None:
        self._is_connected = False
        with suppress(RedisError, OSError):
            await self._redis.aclose()
            await self._redis.connection_pool.disconnect()

    # Receiving

    async def _receive(self, pubsub: PubSub) -> None:
        while True:
            message = await pubsub.get_message(timeout=_PING_AFTER)
            if message is None:
                await pubsub.ping()
                message = await pubsub.get_message(timeout=_TIMEOUT)
            if message is None:
                raise TimeoutError(f"Redis did not respond within {_TIMEOUT:g} s")
            if message["type"] == "message":
                self._take(message["data"])

    def _take(self, data: bytes) -> None:
        try:
            message = decode_changes(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("ignored a message on the Redis channel %r that is not a change: %s", self._channel, error)
            return
        if message.origin == self._origin:
            return
        for change in message.changes:
            self._deliver(change)
        if message.has_dropped:
            self._missed()

    # Publishing

    async def _send(self) -> None:
        """Publish changes as they come, until the bus is closed."""
        while not self._is_closing:
            await self._wake.wait()
            await self._publish_pending()

    async def _publish_pending(self) -> None:
        self._wake.clear()
        while self._pending:
            batch, has_dropped = self._pending.take(_MAX_BATCH)
            try:
                await self._redis.publish(self._channel, encode_changes(ChangeMessage(self._origin, batch, has_dropped)))
            except BaseException:
                self._pending.put_back(batch, has_dropped=has_dropped)
                raise
