"""Every error twopipes raises, in one tree.

The class shows whose fault it is. :class:`LocalProtocolError`: the caller used twopipes wrongly. :class:`RemoteProtocolError`: the
peer broke a rule. :class:`McpError`: the peer sent an error response, or a handler sends one. All others, such as a timeout
or a lost connection, mean that there was no response, and never look like one (ER-16). Messages are formatted when printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from twopipes import _error_text
from twopipes._error_text import PYTHON_OPTIONS, ExitStatusLike, OptionHint, Problem
from twopipes._response_errors import (
    CapabilityMissing,
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    McpError,
    MethodNotFound,
    NotFound,
    TwopipesError,
    UnsupportedRevision,
    UrlsRequired,
    UserRefused,
)

__all__ = [
    "CallDenied",
    "CapabilityMissing",
    "ChannelBroken",
    "ChannelClosed",
    "ClientClosed",
    "ConfigError",
    "ConnectionLost",
    "FormRejected",
    "HeaderMismatch",
    "HttpError",
    "InternalError",
    "InvalidOutput",
    "InvalidParams",
    "InvalidRequest",
    "ListenFailed",
    "LocalProtocolError",
    "McpError",
    "MethodNotFound",
    "NotFound",
    "OpeningFailed",
    "Problem",
    "QuestionFailed",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestId",
    "RequestTimedOut",
    "ServerExited",
    "SignatureRejected",
    "StartFailed",
    "ToolError",
    "TwopipesError",
    "UnsupportedRevision",
    "UrlsRequired",
    "UserRefused",
    "ValueRejected",
]

RequestId = str | int
"""A JSON-RPC id. Its JSON type is part of its value: ``7`` and ``"7"`` are two requests."""

HttpReason = Literal[
    "dns",
    "refused",
    "network",
    "timeout",
    "tls",
    "not HTTP",
    "redirect",
    "unauthorized",
    "forbidden",
    "not found",
    "status",
    "HTML",
    "content type",
]
"""Why an exchange over HTTP failed; see :class:`HttpError`."""


class LocalProtocolError(TwopipesError):
    """The caller asked for something that the protocol forbids. Nothing was sent; fix the call."""


class ConfigError(TwopipesError):
    """A configuration cannot be used: the file cannot be read, or an entry of it has a problem. No message has a value of it."""


class RemoteProtocolError(TwopipesError):
    """The peer broke a rule. ``excerpt`` has the first bytes of the line; ``hint`` may name an option that would allow it."""

    def __init__(self, what: str, *, excerpt: bytes = b"", hint: OptionHint | None = None) -> None:
        super().__init__(what, excerpt)
        self.what = what
        self.excerpt = excerpt
        self.hint = hint

    def describe(self, options: Mapping[str, str] = PYTHON_OPTIONS) -> str:
        """See :meth:`TwopipesError.describe`."""
        text = f"{self.what}: {self.excerpt!r}" if self.excerpt else self.what
        return text if self.hint is None else text + self.hint.describe(options)

    __str__ = describe


class ToolError(TwopipesError):
    """A tool failed in a way that the model should see: the message becomes the tool's result, marked as an error (TL-05)."""


class ListenFailed(TwopipesError, OSError):
    """Cannot listen on a socket: the address is in use, not available, or taken by a file that is not a socket."""


class ChannelClosed(TwopipesError):
    """The channel was closed on this side and cannot be read or written any more."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "the channel was closed on this side"


class ChannelBroken(TwopipesError, ConnectionError):
    """The other end of the channel is gone: a broken pipe, or a connection reset by the peer."""


class ConnectionLost(TwopipesError):
    """The connection ended before the response arrived. It is unknown whether the peer acted on the request.

    ``request_id`` is ``None`` if the request was not sent. ``retryable`` is true if it is safe to send it again, as far as is
    known. ``why`` is the reason why this side ended the connection; empty if the peer did.
    """

    def __init__(self, method: str, request_id: RequestId | None, *, retryable: bool = False, why: str = "") -> None:
        super().__init__(method, request_id)
        self.method = method
        self.request_id = request_id
        self.retryable = retryable
        self.why = why

    def __str__(self) -> str:
        text = f"the connection ended before the response to {_error_text.request(self.method, self.request_id)}"
        return f"{text}: {self.why}" if self.why else text


class HttpError(TwopipesError):
    """An exchange over HTTP failed: there is no response of an MCP server.

    Attributes:
        url: The address, without a query.
        reason: The kind of failure. ``status`` means any other HTTP status that is an error; ``network``, any other failure to
            connect.
        status: The HTTP status, if there was a response.
        detail: More about the failure; may be empty.
        body: The start of the response, if there was one.
        challenges: The ``WWW-Authenticate`` headers of a 401 or 403.
        has_auth: Whether the request had an ``Authorization`` header.
        method: The request that got no response, if any, with its ``request_id``.
        retryable: Whether the same request may succeed later and is safe to send again.
    """

    def __init__(
        self,
        url: str,
        reason: HttpReason,
        *,
        status: int | None = None,
        detail: str = "",
        body: bytes = b"",
        challenges: Sequence[str] = (),
        has_auth: bool = False,
        retryable: bool = False,
    ) -> None:
        super().__init__(url, reason, status, detail)
        self.url = url
        self.reason: HttpReason = reason
        self.status = status
        self.detail = detail
        self.body = body
        self.challenges = tuple(challenges)
        self.has_auth = has_auth
        self.method: str | None = None
        self.request_id: RequestId | None = None
        self.retryable = retryable

    def describe(self, options: Mapping[str, str] = PYTHON_OPTIONS) -> str:
        """See :meth:`TwopipesError.describe`."""
        text = _error_text.http_failure(
            options, url=self.url, reason=self.reason, status=self.status, detail=self.detail, has_auth=self.has_auth
        )
        if self.method is not None:
            text += f"; no response to {_error_text.request(self.method, self.request_id)}"
        return text

    __str__ = describe


class ClientClosed(TwopipesError):
    """The client, or the group of servers, was closed on this side, before the call or during it."""

    def __init__(self, method: str | None = None, request_id: RequestId | None = None, *, is_group: bool = False) -> None:
        super().__init__(method, request_id)
        self.method = method
        self.request_id = request_id
        self._is_group = is_group

    def __str__(self) -> str:
        if self._is_group:
            return "the group is closed; create another ServerGroup"
        if self.request_id is None:
            return "the client is closed; call connect() to get a new one"
        return f"the client was closed before the response to {_error_text.request(self.method, self.request_id)}"


class CallDenied(TwopipesError):
    """A tool of a group was not called, because it was not approved. Nothing was sent.

    ``tool`` is the tool's name in the group. If the approval hook failed, its exception is the ``__cause__``.
    """

    def __init__(self, server: str, tool: str, reason: str = "") -> None:
        super().__init__(server, tool, reason)
        self.server = server
        self.tool = tool
        self.reason = reason

    def __str__(self) -> str:
        return f"the call of {self.tool!r} was denied{f': {self.reason}' if self.reason else ''}; nothing was sent"


class InvalidOutput(TwopipesError):
    """A tool returned structured content (``result``) that does not match its own output schema (TL-14)."""

    def __init__(self, tool: str, why: str, result: Any) -> None:
        super().__init__(tool, why)
        self.tool = tool
        self.why = why
        self.result = result

    def __str__(self) -> str:
        return f"the result of the tool {self.tool!r} does not match its output schema: {self.why}"


class QuestionFailed(TwopipesError):
    """A callback failed while it answered a question of the server, so the call that caused the question failed.

    In a legacy session a question does not name its call. The error is raised from the only open call if the server then fails
    that call; with several open calls it goes to the exception handler of the event loop. ``question`` is its method, ``method``
    the request that caused it, or ``None`` if unknown. ``reason`` describes the exception of the callback, the ``__cause__``.
    """

    def __init__(self, question: str, method: str | None, reason: str) -> None:
        super().__init__(question, method, reason)
        self.question = question
        self.method = method
        self.reason = reason

    def __str__(self) -> str:
        during = "" if self.method is None else f" during {self.method}"
        return f"the callback for {self.question} failed{during}: {self.reason}"


class RequestTimedOut(TwopipesError, TimeoutError):
    """The response did not arrive in time. The request was cancelled if the revision allows that.

    Attributes:
        request_id: The id; ``None`` if it could not be sent because the server was restarting.
        waited: Seconds since the request was sent.
        limit: Which limit was reached: ``idle`` (time without a response or progress) or ``total``.
    """

    def __init__(self, method: str, request_id: RequestId | None, *, waited: float, limit: Literal["idle", "total"]) -> None:
        super().__init__()  # OSError would read the arguments as errno, strerror and file names
        self.args = (method, request_id, waited, limit)
        self.method = method
        self.request_id = request_id
        self.waited = waited
        self.limit = limit

    def describe(self, options: Mapping[str, str] = PYTHON_OPTIONS) -> str:
        """See :meth:`TwopipesError.describe`."""
        timed_out = f"{_error_text.request(self.method, self.request_id)} timed out after {self.waited:.3g} s"
        if self.request_id is None:
            return f"{timed_out} ({self.limit} limit): it was not sent, because the server was restarting"
        hint = OptionHint("request" if self.limit == "idle" else "total", 2 * self.waited, "to wait longer")
        return f"{timed_out}: no response within the {self.limit} limit{hint.describe(options)}"

    __str__ = describe


class RequestCancelled(TwopipesError):
    """The request was cancelled on this side before its response arrived."""

    def __init__(self, method: str, request_id: RequestId, reason: str | None = None) -> None:
        super().__init__(method, request_id, reason)
        self.method = method
        self.request_id = request_id
        self.reason = reason

    def __str__(self) -> str:
        text = f"{_error_text.request(self.method, self.request_id)} was cancelled"
        return f"{text}: {self.reason}" if self.reason else text


class OpeningFailed(TwopipesError):
    """The two sides could not agree on a revision, or the server did not complete the opening.

    Attributes:
        why: What happened.
        offered: The revisions that the server named, if any.
        supported: The revisions that this side supports, where that matters.
        stderr: The last lines that the server wrote to stderr.
        stray_stdout: Lines on its stdout that are not messages.
        hint: An option that may help, if there is one.
    """

    def __init__(
        self,
        why: str,
        *,
        hint: OptionHint | None = None,
        offered: Sequence[str] = (),
        supported: Sequence[str] = (),
        stderr: Sequence[str] = (),
        stray_stdout: Sequence[str] = (),
    ) -> None:
        super().__init__(why, tuple(offered))
        self.why = why
        self.offered = tuple(offered)
        self.supported = tuple(supported)
        self.stderr = tuple(stderr)
        self.stray_stdout = tuple(stray_stdout)
        self.hint = hint

    def describe(self, options: Mapping[str, str] = PYTHON_OPTIONS) -> str:
        """See :meth:`TwopipesError.describe`."""
        text = self.why
        if self.offered:
            supported = f"; supported here: {', '.join(self.supported)}" if self.supported else ""
            text += f" (the server offers {', '.join(self.offered)}{supported})"
        if self.hint is not None:
            text += self.hint.describe(options)
        return text + _error_text.output_excerpt(self.stderr, self.stray_stdout)

    __str__ = describe


class StartFailed(TwopipesError):
    """A server could not be started. No process is left behind.

    Attributes:
        reason: The kind of failure. ``refused`` means that the operating system refused, for example because of too many processes;
            ``sandbox`` that its policy cannot be enforced, or leaves it without something that it needs.
        path: The folders that were searched, in order.
        detail: More about the failure; may be empty.
    """

    def __init__(
        self,
        argv: Sequence[str],
        reason: Literal["not found", "not executable", "no such folder", "refused", "sandbox"],
        *,
        path: Sequence[str] = (),
        cwd: str | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(tuple(argv), reason, tuple(path), cwd, detail)
        self.argv = tuple(argv)
        self.reason = reason
        self.path = list(path)
        self.cwd = cwd
        self.detail = detail

    def describe(self, options: Mapping[str, str] = PYTHON_OPTIONS) -> str:
        """See :meth:`TwopipesError.describe`."""
        return _error_text.start_failure(
            options, argv=self.argv, reason=self.reason, path=self.path, cwd=self.cwd, detail=self.detail
        )

    __str__ = describe


class ServerExited(TwopipesError):
    """The server process exited or closed its output, so there is no response.

    Attributes:
        phase: How far it got: ``starting`` (no output yet), ``opening`` (no revision agreed) or ``serving``.
        exit: Its exit status; ``None`` if it closed its output and did not exit in time.
        stderr: The last lines of its stderr.
        stray_stdout: Lines on its stdout that are not messages.
        lived: Seconds from its start to its exit.
        method: The request that waited for a response, if any, with its ``request_id``. The server may have acted on it.
        retryable: Whether it is safe to send the request to a new process.
        given_up: Why the server is not restarted, if restarting it was tried.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        phase: Literal["starting", "opening", "serving"],
        exit: ExitStatusLike | None = None,  # noqa: A002 - it becomes the attribute of the same name
        stderr: Sequence[str] = (),
        stray_stdout: Sequence[str] = (),
        lived: float | None = None,
        method: str | None = None,
        request_id: RequestId | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(tuple(argv), phase)
        self.argv = tuple(argv)
        self.phase = phase
        self.exit = exit
        self.stderr = tuple(stderr)
        self.stray_stdout = tuple(stray_stdout)
        self.lived = lived
        self.method = method
        self.request_id = request_id
        self.retryable = retryable
        self.given_up = ""

    @property
    def exit_code(self) -> int | None:
        """The exit code; ``None`` if a signal ended the process."""
        return None if self.exit is None else self.exit.code

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the process, such as ``SIGSEGV``."""
        return None if self.exit is None else self.exit.signal_name

    def __str__(self) -> str:
        text = _error_text.server_exit(self.argv, self.phase, self.exit, self.lived)
        if self.method is not None:
            text += f"; no response to {_error_text.request(self.method, self.request_id)}"
        if self.given_up:
            text += f"; not restarted: {self.given_up}"
        if output := _error_text.output_excerpt(self.stderr, self.stray_stdout):
            return text + output
        may_lack_run = self.phase == "starting" and self.exit_code == 0
        hint = "; a server runs until its stdin is closed: does the program call server.run()?" if may_lack_run else ""
        return f"{text}; it wrote nothing to stderr{hint}"


class ValueRejected(TwopipesError, ValueError):
    """A value for ``subject``, a function or a form, does not match its type. ``problems`` has everything that is wrong."""

    heading = "Invalid value for"
    part = "member"

    def __init__(self, subject: str, problems: Sequence[Problem]) -> None:
        super().__init__(subject, tuple(problems))
        self.subject = subject
        self.problems = tuple(problems)

    @property
    def details(self) -> str:
        """The problems without the heading: one as a sentence, several as a list."""
        return str(self.problems[0]) if len(self.problems) == 1 else "\n".join(f"- {each}" for each in self.problems)

    def __str__(self) -> str:
        return f"{self.heading} {self.subject}:{' ' if len(self.problems) == 1 else chr(10)}{self.details}"


class FormRejected(ValueRejected):
    """The response to a form does not match the form."""

    heading = "Invalid response to the form"
    part = "field"

    @property
    def summary(self) -> str:
        """What the client sees: the names of the fields. The values belong to the user and are not for the model."""
        names = ", ".join(dict.fromkeys(problem.path for problem in self.problems if problem.path))
        return f"The response does not match the form{f'; wrong or missing fields: {names}' if names else ''}"


class SignatureRejected(LocalProtocolError, TypeError):
    """A function, or a type for a form, cannot be used as it is written. Raised at registration.

    ``part`` is the parameter or field of ``subject``, ``return``, or empty for the whole.
    """

    def __init__(self, subject: str, part: str, why: str) -> None:
        super().__init__(subject, part, why)
        self.subject = subject
        self.part = part
        self.why = why

    def __str__(self) -> str:
        return f"{self.subject}, {self.part}: {self.why}" if self.part else f"{self.subject}: {self.why}"
