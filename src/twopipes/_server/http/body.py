"""The body of a POST: its type, its size, and the time it may take."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from twopipes._codes import PARSE_ERROR
from twopipes._http.refusal import Refusal
from twopipes._server.http.asgi import Receive
from twopipes._server.http.deadlines import Deadlines

_WRONG_TYPE: Final = Refusal(415, "the body must be JSON; send Content-Type: application/json")
# Unpacking would let a small body fill the memory.
_COMPRESSED: Final = Refusal(415, "the body must not be compressed; send it without Content-Encoding")
_NOT_ACCEPTED: Final = Refusal(406, "the response may be JSON or a stream; send Accept: application/json, text/event-stream")
_TOO_SLOW: Final = Refusal(408, "the body did not arrive in time", ((b"connection", b"close"),))
_NOT_UTF8: Final = Refusal(400, "the body is not valid UTF-8", code=PARSE_ERROR)
_CLOSE: Final = ((b"connection", b"close"),)


async def read_body(receive: Receive, headers: Mapping[str, str], max_body: int, deadlines: Deadlines) -> bytes | Refusal | None:
    """Return the body of a POST, or why it is refused; ``None`` if the client is gone."""
    refusal = _check_types(headers) or _check_length(headers, max_body)
    if refusal is not None:
        return refusal
    try:
        with deadlines.limit():
            body = await _receive_all(receive, max_body)
    except TimeoutError:
        return _TOO_SLOW
    if isinstance(body, bytes) and not body.isascii() and not _is_utf8(body):
        return _NOT_UTF8
    return body


def _check_types(headers: Mapping[str, str]) -> Refusal | None:
    kind = headers.get("content-type", "")
    if kind != "application/json":
        kind, _, parameters = kind.partition(";")
        charset = parameters.strip().lower()
        if kind.strip().lower() != "application/json" or (charset.startswith("charset=") and charset.strip('"') not in _UTF8):
            return _WRONG_TYPE
    if headers.get("content-encoding", "identity") != "identity":
        return _COMPRESSED
    accepted = headers.get("accept")
    if accepted is not None and "*/*" not in accepted and not _accepts_both(accepted):
        return _NOT_ACCEPTED
    return None


_UTF8: Final = frozenset(("charset=utf-8", 'charset="utf-8', "charset=utf8"))


@lru_cache(maxsize=64)  # a client sends the same value with every request
def _accepts_both(accepted: str) -> bool:
    """Whether JSON and streams are both accepted (HT-07). The response may need either."""
    kinds = {part.partition(";")[0].strip() for part in accepted.lower().split(",")}
    return bool(kinds & {"application/json", "application/*"}) and bool(kinds & {"text/event-stream", "text/*"})


def _check_length(headers: Mapping[str, str], limit: int) -> Refusal | None:
    length = headers.get("content-length", "")
    if length.isdecimal() and len(length) < 20 and int(length) <= limit:
        return None
    return _too_large(limit) if length else None


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"the body is larger than {limit:,} bytes, the limit of this server", _CLOSE)


async def _receive_all(receive: Receive, limit: int) -> bytes | Refusal | None:
    event = await receive()
    if event["type"] == "http.request" and not event.get("more_body", False):
        body: bytes = event.get("body", b"")
        return body if len(body) <= limit else _too_large(limit)
    parts: list[bytes] = []
    size = 0
    while event["type"] == "http.request":
        part = event.get("body", b"")
        size += len(part)
        if size > limit:
            return _too_large(limit)
        parts.append(part)
        if not event.get("more_body", False):
            return b"".join(parts)
        event = await receive()
    return None


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
