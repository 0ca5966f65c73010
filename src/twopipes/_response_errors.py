"""The base class of every error, and the errors that are responses. Public in :mod:`twopipes.errors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopipes import _codes, _error_text
from twopipes._error_text import PYTHON_OPTIONS


class TwopipesError(Exception):
    """The base class: ``except TwopipesError`` catches every error that twopipes raises on purpose."""

    def describe(self, options: Mapping[str, str] = PYTHON_OPTIONS) -> str:
        """Return the message, with each option written as in ``options``. Options that are missing there are not mentioned."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # The inherited method calls the class with `args`, which fails for keyword-only signatures: no copy, no process pool.
        return _error_text.restore, (type(self), self.args), self.__dict__


class McpError(TwopipesError):
    """An error response: received from the peer, or raised by a handler to send one.

    Attributes:
        message: One sentence for people.
        code: The JSON-RPC code. For the subclasses the revision decides which code is sent.
        data: Any JSON value, or ``None``.
    """

    default_code = _codes.INTERNAL_ERROR

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message, code, data)
        self.message = message
        self.code = self.default_code if code is None else code
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} (code {self.code})"


class InvalidRequest(McpError):
    """The message is JSON, but not a request that can be served now."""

    default_code = _codes.INVALID_REQUEST


class MethodNotFound(McpError):
    """The method does not exist in this revision or with these capabilities."""

    default_code = _codes.METHOD_NOT_FOUND


class InvalidParams(McpError):
    """The params do not match the method: a missing member, a wrong type, an unknown name, an invalid cursor."""

    default_code = _codes.INVALID_PARAMS


class InternalError(McpError):
    """The server failed while it handled the request."""


class NotFound(McpError):
    """There is no such tool, prompt, resource or task. The revision decides the code for a resource (ER-12, ER-13)."""

    default_code = _codes.INVALID_PARAMS

    def __init__(self, kind: str, name: str, *, message: str | None = None, code: int | None = None, data: Any = None) -> None:
        super().__init__(message or f"Unknown {kind}: {name}", code=code, data=data)
        self.args = (kind, name, message, code, data)
        self.kind = kind
        self.name = name


class CapabilityMissing(McpError):
    """The request needs a capability that the other side did not declare.

    A server sends it as a response. A client raises it without sending anything. ``required`` is the missing part as a capabilities
    object, such as ``{"elicitation": {}}`` (ER-10).
    """

    default_code = _codes.CAPABILITY_MISSING

    def __init__(self, required: Mapping[str, Any], *, message: str | None = None) -> None:
        names = ", ".join(sorted(_error_text.capability_names(required)))
        text = message or f"This request needs a client that declares the capability {names}"
        super().__init__(text, data={"requiredCapabilities": dict(required)})
        self.required = dict(required)


class UnsupportedRevision(McpError):
    """The request names a revision that the server does not support (ER-09)."""

    default_code = _codes.UNSUPPORTED_REVISION

    def __init__(self, requested: str, supported: Sequence[str], *, message: str | None = None) -> None:
        text = message or f"Unsupported protocol version {requested!r}; supported: {', '.join(supported)}"
        super().__init__(text, data={"supported": list(supported), "requested": requested})
        self.requested = requested
        self.supported = tuple(supported)


class HeaderMismatch(McpError):
    """The headers of an HTTP request are missing, malformed, or differ from its body.

    Only the HTTP server sends it, before a handler runs. A handler that raises it sends an internal error (ER-06).
    """

    default_code = _codes.HEADER_MISMATCH


class UrlsRequired(McpError):
    """The user must visit these URLs first. Exists as an error only in 2025-11-25 (ER-11)."""

    default_code = _codes.URLS_REQUIRED

    def __init__(self, elicitations: Sequence[Mapping[str, Any]], *, message: str | None = None) -> None:
        text = message or "This request needs the user to visit a URL first"
        super().__init__(text, data={"elicitations": [dict(each) for each in elicitations]})


class UserRefused(McpError):
    """The user declined a sampling request (ER-15). A callback raises it without arguments: ``raise UserRefused``."""

    default_code = _codes.USER_REFUSED

    def __init__(self, message: str = "The user declined the request", *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message, code=code, data=data)


# A traceback names the module that a user imports from.
for _error in (TwopipesError, McpError, *McpError.__subclasses__()):
    _error.__module__ = "twopipes.errors"
