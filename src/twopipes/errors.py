"""Every error twopipes raises, in one tree.

The classes say whose fault it is. :class:`LocalProtocolError`: this side was called wrongly. :class:`RemoteProtocolError`:
the peer broke a rule. :class:`McpError`: the peer answered, and its answer is an error (or a handler wants to give such an
answer). Everything else, a timeout, a closed channel, a lost connection, is nobody's answer and never looks like one (ER-16).

An error holds data and phrases itself when it is printed, so raising one costs nothing but the object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

__all__ = [
    "CapabilityMissing",
    "ChannelBroken",
    "ChannelClosed",
    "ConnectionLost",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "ListenFailed",
    "LocalProtocolError",
    "McpError",
    "MethodNotFound",
    "NotFound",
    "OpeningFailed",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestId",
    "RequestTimedOut",
    "ToolError",
    "TwopipesError",
    "UnsupportedRevision",
    "UrlsRequired",
    "UserRefused",
]

RequestId = str | int
"""A JSON-RPC id. Its JSON type is part of its value: ``7`` and ``"7"`` are two requests."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002  # legacy revisions only
CAPABILITY_MISSING = -32021  # from 2026-07-28
UNSUPPORTED_REVISION = -32022  # from 2026-07-28
URLS_REQUIRED = -32042  # 2025-11-25 only
USER_REFUSED = -1  # legacy revisions, sampling


class TwopipesError(Exception):
    """The root: ``except TwopipesError`` catches whatever twopipes raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The inherited way calls the class with `args`, which a keyword-only signature refuses: no copy, no process pool.
        return _revive, (type(self), self.args), self.__dict__


def _revive(kind: type[TwopipesError], args: tuple[Any, ...]) -> TwopipesError:
    error = kind.__new__(kind)
    error.args = args
    return error


class LocalProtocolError(TwopipesError):
    """This side was asked to do what the protocol forbids. Nothing was sent; mend the call."""


class RemoteProtocolError(TwopipesError):
    """The peer broke a rule of the protocol.

    Attributes:
        what: What the peer did, in words.
        excerpt: The offending bytes, cut to a bounded length; empty where there are none.
    """

    def __init__(self, what: str, *, excerpt: bytes = b"") -> None:
        super().__init__(what, excerpt)
        self.what = what
        self.excerpt = excerpt

    def __str__(self) -> str:
        return f"{self.what}: {self.excerpt!r}" if self.excerpt else self.what


class ToolError(TwopipesError):
    """A tool failed in a way that the model should know: its message becomes the tool's answer, marked as an error (TL-05)."""


class ListenFailed(TwopipesError, OSError):
    """A socket cannot be listened on: the address is taken, out of reach, or held by something that is no socket."""


class ChannelClosed(TwopipesError):
    """The channel was closed on this side, so it can be neither read nor written any more."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "the channel was closed on this side"


class ChannelBroken(TwopipesError, ConnectionError):
    """The far end of the channel is gone: a broken pipe or a connection reset by the peer."""


class ConnectionLost(TwopipesError):
    """The connection ended before the answer came. Whether the peer acted on the request is unknown."""

    def __init__(self, method: str, request_id: RequestId) -> None:
        super().__init__(method, request_id)
        self.method = method
        self.request_id = request_id

    def __str__(self) -> str:
        return f"the connection ended before {self.method} (id {self.request_id!r}) was answered"


class RequestTimedOut(TwopipesError, TimeoutError):
    """No answer in time. The request was given up, and the peer was told so where the revision allows.

    Attributes:
        waited: Seconds since the request was sent.
        limit: Which limit ran out: ``idle`` (nothing heard for so long) or ``total``.
    """

    def __init__(self, method: str, request_id: RequestId, *, waited: float, limit: Literal["idle", "total"]) -> None:
        super().__init__()  # OSError would read the arguments as errno, strerror and file names
        self.args = (method, request_id, waited, limit)
        self.method = method
        self.request_id = request_id
        self.waited = waited
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{self.method} (id {self.request_id!r}) was not answered within its {self.limit} limit; "
            f"given up after {self.waited:.3g} s"
        )


class RequestCancelled(TwopipesError):
    """The request was cancelled on this side before it was answered."""

    def __init__(self, method: str, request_id: RequestId, reason: str | None = None) -> None:
        super().__init__(method, request_id, reason)
        self.method = method
        self.request_id = request_id
        self.reason = reason

    def __str__(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        return f"{self.method} (id {self.request_id!r}) was cancelled{because}"


class OpeningFailed(TwopipesError):
    """The two sides could not agree on a revision, or the peer did not complete the opening.

    Attributes:
        why: What happened, in words.
        offered: The revisions the server named, where it named any.
    """

    def __init__(self, why: str, *, offered: Sequence[str] = ()) -> None:
        super().__init__(why, tuple(offered))
        self.why = why
        self.offered = tuple(offered)

    def __str__(self) -> str:
        offered = f" (the server offers {', '.join(self.offered)})" if self.offered else ""
        return f"{self.why}{offered}"


class McpError(TwopipesError):
    """An error answer: received from the peer, or raised by a handler so that it is sent.

    Attributes:
        message: One sentence for people.
        code: The JSON-RPC code. For the subclasses the dialect picks it by revision when the error is sent.
        data: Anything JSON can hold, or ``None``.
    """

    default_code = INTERNAL_ERROR

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message, code, data)
        self.message = message
        self.code = self.default_code if code is None else code
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} (code {self.code})"


class InvalidRequest(McpError):
    """The message is JSON but not a request that can be served at this point."""

    default_code = INVALID_REQUEST


class MethodNotFound(McpError):
    """The method does not exist here, in this revision or with these capabilities."""

    default_code = METHOD_NOT_FOUND


class InvalidParams(McpError):
    """The params do not fit the method: a missing member, a wrong type, an unknown name, a bad cursor."""

    default_code = INVALID_PARAMS


class InternalError(McpError):
    """Something broke while the request was served."""


class NotFound(McpError):
    """There is no such tool, prompt, resource or task.

    A resource that is not found is ``-32002`` in the legacy revisions and ``-32602`` from 2026-07-28 on (ER-12, ER-13).
    """

    default_code = INVALID_PARAMS

    def __init__(self, kind: str, name: str, *, message: str | None = None, code: int | None = None, data: Any = None) -> None:
        super().__init__(message or f"Unknown {kind}: {name}", code=code, data=data)
        self.args = (kind, name, message, code, data)
        self.kind = kind
        self.name = name


class CapabilityMissing(McpError):
    """The request needs something that the client did not declare.

    Attributes:
        required: The missing part as a ClientCapabilities object, such as ``{"elicitation": {}}`` (ER-10).
    """

    default_code = CAPABILITY_MISSING

    def __init__(self, required: Mapping[str, Any], *, message: str | None = None) -> None:
        names = ", ".join(sorted(required))
        super().__init__(
            message or f"This request needs a client that declares the capability {names}",
            data={"requiredCapabilities": dict(required)},
        )
        self.required = dict(required)


class UnsupportedRevision(McpError):
    """The request names a revision that is not served here (ER-09)."""

    default_code = UNSUPPORTED_REVISION

    def __init__(self, requested: str, supported: Sequence[str], *, message: str | None = None) -> None:
        super().__init__(
            message or f"Unsupported protocol version {requested!r}; supported: {', '.join(supported)}",
            data={"supported": list(supported), "requested": requested},
        )
        self.requested = requested
        self.supported = tuple(supported)


class UrlsRequired(McpError):
    """The user must visit these URLs first; exists as an error in 2025-11-25 alone (ER-11)."""

    default_code = URLS_REQUIRED

    def __init__(self, elicitations: Sequence[Mapping[str, Any]], *, message: str | None = None) -> None:
        super().__init__(
            message or "This request needs the user to visit a URL first",
            data={"elicitations": [dict(each) for each in elicitations]},
        )


class UserRefused(McpError):
    """The user said no to a sampling request (ER-15)."""

    default_code = USER_REFUSED
