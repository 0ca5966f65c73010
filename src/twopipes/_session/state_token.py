"""Sealing of ``requestState``, which a stateless server gives to the client and must verify when it comes back.

A sealed state is the text ``payload.expiry.mac``, each part in base64url. The MAC covers a version, the expiry, the binding and the
payload, so none of them can be changed, and a state made for one request is invalid for another (MR-15, MR-16). It is not
encrypted: it contains the client's own answers, which the client knows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

from twopipes._wire import encode_line
from twopipes.errors import InvalidParams, LocalProtocolError

_VERSION: Final = b"twopipes requestState 1"
_MIN_KEY_SIZE: Final = 16
T = TypeVar("T")
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def binding_of(method: str, params: Any, *, principal: str = "") -> bytes:
    """Return a digest of what a state is valid for: the principal, the method, and the params.

    Members that differ between a request and its retry are left out, and the order of members does not matter.
    """
    from hashlib import sha256  # it loads OpenSSL, which is slow, and most servers never ask for input

    members = msgspec.json.decode(encode_line(params))
    for changing in ("_meta", "inputResponses", "requestState"):
        members.pop(changing, None)
    return sha256(_encode_sorted([principal, method, members])).digest()


class StateSealer:
    """Seals and opens states with one key.

    Args:
        key: At least 16 secret bytes, or a function that returns them at the first use. Processes with the same key can open each
            other's states (ST-03). By default, or if the function returns ``None``, a random key is generated, and states are
            invalid after the process has ended.
    """

    def __init__(self, key: bytes | Callable[[], bytes | None] | None = None) -> None:
        if isinstance(key, bytes) and len(key) < _MIN_KEY_SIZE:
            raise LocalProtocolError(f"a state key needs at least {_MIN_KEY_SIZE} bytes, got {len(key)}")
        self._source = key

    @cached_property
    def _key(self) -> bytes:
        from secrets import token_bytes

        key = self._source() if callable(self._source) else self._source
        return _digest(key or token_bytes(32), _VERSION)

    def __repr__(self) -> str:
        return "<StateSealer>"  # never the key

    def seal(self, payload: Any, *, binding: bytes, expires: float) -> str:
        """Wrap a payload for one request. ``expires`` is Unix time, which has the same meaning in a new process."""
        body = msgspec.json.encode(payload)
        deadline = str(int(expires)).encode()
        return ".".join(_to_text(part) for part in (body, deadline, self._mac(body, deadline, binding)))

    def open(self, state: str, payload_type: type[T], *, binding: bytes, now: float) -> T:
        """Verify and unwrap a state as the type that was sealed.

        Raises:
            InvalidParams: It was changed, made with another key, made for another request, or has expired. The first three are
                deliberately not distinguished.
        """
        try:
            body, deadline, mac = map(_from_text, state.split("."))
        except ValueError:  # not three parts, or not base64
            raise InvalidParams("requestState was not issued by this server") from None
        from hmac import compare_digest

        if not compare_digest(mac, self._mac(body, deadline, binding)):
            raise InvalidParams("requestState does not belong to this request, or was changed")
        if int(deadline) <= now:
            raise InvalidParams("requestState has expired; start the request again without it")
        try:
            return msgspec.json.decode(body, type=payload_type)
        except msgspec.DecodeError:  # the key is shared with a program that stores other payloads
            raise InvalidParams("requestState was not issued by this server") from None

    def _mac(self, body: bytes, deadline: bytes, binding: bytes) -> bytes:
        # Lengths first: different triples must not give the same bytes when they are joined.
        lengths = b"%d %d %d " % (len(body), len(deadline), len(binding))
        return _digest(self._key, lengths + body + deadline + binding)


def _digest(key: bytes, message: bytes) -> bytes:
    from hmac import digest

    return digest(key, message, "sha256")


def _to_text(data: bytes) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _from_text(text: str) -> bytes:
    """Decode what :func:`_to_text` returned, and reject any other spelling of the same bytes."""
    from base64 import b64decode

    data = b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _to_text(data) != text:
        raise ValueError(text)
    return data
