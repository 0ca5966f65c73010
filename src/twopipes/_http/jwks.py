"""The public keys of an authorization server (JWKS, RFC 7517): fetched when they are needed, and not more often."""

from __future__ import annotations

import asyncio
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from twopipes.settings import MIB

# Bytes and number. Real key sets have a few keys of a few hundred bytes.
_MAX_SIZE: Final = 1 * MIB
_MAX_KEYS: Final = 100
# Seconds for one attempt to fetch the keys.
_FETCH_TIMEOUT: Final = 5.0
# Seconds after which the keys are fetched again in the background, so that a key that was withdrawn is forgotten.
_FRESH: Final = 600.0
# Seconds after which old keys are not used any more if they cannot be fetched again.
_USABLE: Final = 86_400.0
# Seconds between two attempts that unknown key ids cause, and after an attempt that failed. Anyone can invent key ids, so
# these requests must not become a flood on the authorization server.
_UNKNOWN_INTERVAL: Final = 30.0
_RETRY_INTERVAL: Final = 5.0

_log = logging.getLogger("twopipes.http")

Jwk = dict[str, Any]


class _Document(Struct):
    keys: list[Any]


class KeySet:
    """The keys at one address.

    Args:
        url: Where the keys are.
        fetch: Returns the document at an address. It runs in a thread.
        clock: The time in seconds.
    """

    def __init__(
        self, url: str, *, fetch: Callable[[str], bytes] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._fetch = fetch or fetch_document
        self._clock = clock
        self._keys: tuple[Jwk, ...] = ()
        self._fetched_at: float | None = None
        self._next_attempt = float("-inf")
        self._attempt: asyncio.Task[None] | None = None
        self.generation = 0  # counts the changes of the keys

    async def find(self, key_id: str | None) -> tuple[Jwk, ...]:
        """Return the keys with an id, or all of them without one. Unknown ids cause a fetch, but not each of them.

        Raises:
            ConnectionError: There are no keys, or they are too old, and they cannot be fetched.
        """
        await self._ensure_keys()
        found = self._with_id(key_id)
        if not found and self._may_attempt():
            await asyncio.shield(self._start_attempt())
            found = self._with_id(key_id)
        return found

    def _with_id(self, key_id: str | None) -> tuple[Jwk, ...]:
        return self._keys if key_id is None else tuple(key for key in self._keys if key.get("kid") == key_id)

    async def _ensure_keys(self) -> None:
        age = float("inf") if self._fetched_at is None else self._clock() - self._fetched_at
        if age < _FRESH:
            return
        if self._may_attempt():
            attempt = self._start_attempt()
            if age >= _USABLE:  # a caller that is cancelled does not end the attempt of the others
                await asyncio.shield(attempt)
        if self._fetched_at is None or self._clock() - self._fetched_at >= _USABLE:
            raise ConnectionError(f"the keys at {self._url} could not be fetched; see the log of twopipes.http for the reason")

    def _may_attempt(self) -> bool:
        return self._is_attempting() or self._clock() >= self._next_attempt

    def _is_attempting(self) -> bool:
        return self._attempt is not None and not self._attempt.done() and self._attempt.get_loop() is asyncio.get_running_loop()

    def _start_attempt(self) -> asyncio.Task[None]:
        """Return the running attempt, or start one: callers share it."""
        if not self._is_attempting() or self._attempt is None:
            self._attempt = asyncio.create_task(self._load())
        return self._attempt

    async def _load(self) -> None:
        self._next_attempt = self._clock() + _UNKNOWN_INTERVAL
        try:
            keys = _parse(await asyncio.to_thread(self._fetch, self._url))
        except Exception as error:
            self._next_attempt = self._clock() + _RETRY_INTERVAL
            _log.warning("the keys at %s could not be fetched: %s", self._url, error)
            return
        if keys != self._keys:
            self._keys = keys
            self.generation += 1
        self._fetched_at = self._clock()


def fetch_document(url: str) -> bytes:
    """Return the body at an address, which must have status 200. Size, time and redirects are limited."""
    deadline = time.monotonic() + _FETCH_TIMEOUT
    opener = urllib.request.build_opener(_NoRedirects)
    request = urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": "twopipes"})  # noqa: S310 - its scheme was checked
    body = bytearray()
    try:
        response = opener.open(request, timeout=_FETCH_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()  # it is also an open response
        raise
    with response:
        while chunk := response.read1(65_536):
            body += chunk
            if len(body) > _MAX_SIZE:
                raise ValueError(f"the document is larger than {_MAX_SIZE} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the document did not arrive within {_FETCH_TIMEOUT:g} s")
    return bytes(body)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they could lead to an address without TLS, or into the network of the server."""

    def redirect_request(self, *args: Any, **options: Any) -> None:
        """Return no request to follow; the response then counts as an error."""


def _parse(body: bytes) -> tuple[Jwk, ...]:
    """Return the keys of a document that can verify signatures."""
    keys = msgspec.json.decode(body, type=_Document).keys
    if len(keys) > _MAX_KEYS:
        raise ValueError(f"the document contains more than {_MAX_KEYS} keys")
    return tuple(key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig")
