"""Bounds that uvicorn lacks: the time that the headers of a request take, with httptools their size, and the time without reading.

Without them a client can hold a connection forever by sending one byte of a header now and then, or by not reading a response.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Base
else:
    _Base = object

# Bytes of the headers of one request. A token, the mirrored parameters and what proxies add fit in many times over.
MAX_HEADERS: Final = 64 * 1024
# What uvicorn logs about requests; each exception of the application is an error of its own.
_log: Final = logging.getLogger("twopipes.http.requests")
_INCOMPLETE: Final = "ASGI callable returned without"
_TOO_LARGE: Final = "The headers of the request are too large."


class _Bounded(_Base):
    """Closes a connection on which a request has begun but does not arrive."""

    read_timeout: float
    write_timeout: float

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _log
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        self._stop_write_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._stop_deadline()  # the application has the request, and limits the time of the body itself
        elif self._deadline is None:
            # Half of the next request; or the rest of a body whose request was refused.
            self._start_deadline()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_write_deadline()

    def resume_writing(self) -> None:
        self._stop_write_deadline()
        super().resume_writing()

    def _start_write_deadline(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._write_deadline = self.loop.call_later(self.write_timeout, self._check_writing, unsent)

    def _check_writing(self, unsent: int) -> None:
        """Give up a client that has read nothing since the last look. The application cannot: it can only close, which waits."""
        if self.transport.get_write_buffer_size() < unsent:
            self._start_write_deadline()
        else:
            self.transport.abort()

    def _stop_write_deadline(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def _is_answering(self) -> bool:
        """Return whether the application has a request and has not completed the response."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _start_deadline(self) -> None:
        if not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.read_timeout, self._give_up)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if not self._is_answering():
            self.transport.abort()  # close() would wait until the client has read everything


def _lower_what_clients_cause(record: logging.LogRecord) -> bool:
    """Log at the level DEBUG what any client can cause any number of times: malformed requests, and responses that are not read."""
    if record.levelno < logging.ERROR or str(record.msg).startswith(_INCOMPLETE):
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return _log.isEnabledFor(logging.DEBUG)
    return True


_log.addFilter(_lower_what_clients_cause)


def bounded_protocol(*, read_timeout: float, write_timeout: float) -> type[asyncio.Protocol]:
    """Return the protocol class for uvicorn: with httptools if it is installed, and with h11 otherwise."""
    base = _httptools_protocol() if importlib.util.find_spec("httptools") is not None else _h11_protocol()
    return type(base.__name__, (base,), {"read_timeout": read_timeout, "write_timeout": write_timeout})


def _h11_protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class BoundedH11(_Bounded, H11Protocol):
        """h11 limits headers that arrive in parts to 64 KiB, and those that arrive at once are as long as one read at most."""

    return BoundedH11


def _httptools_protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHttpTools(_Bounded, HttpToolsProtocol):  # type: ignore[misc] # the two bases of uvicorn differ in private attributes
        """Limits the size of headers as h11 does; httptools would keep all of them."""

        _received = -1  # bytes of the headers that are being received; -1 between them
        _chunk = 0  # bytes of the part that is being parsed

        def on_message_begin(self) -> None:
            self._received = 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            # The sum is needed only if they arrived together with a large part of the body.
            if self._received + self._chunk > MAX_HEADERS and self._size() > MAX_HEADERS:
                raise ValueError(_TOO_LARGE)  # uvicorn responds with 400 to every error of the parser
            self._received = -1
            super().on_headers_complete()

        def _size(self) -> int:
            return sum(len(name) + len(value) for name, value in self.headers)

        def data_received(self, data: bytes) -> None:
            self._chunk = len(data)
            super().data_received(data)
            if self._received >= 0:
                self._received += len(data)
                if self._received > MAX_HEADERS and not self.transport.is_closing():
                    self.send_400_response(_TOO_LARGE)

    return BoundedHttpTools
