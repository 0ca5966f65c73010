"""Every error twopipes raises, in one tree.

The classes say whose fault it is. :class:`LocalProtocolError`: this side was called wrongly. :class:`RemoteProtocolError`:
the peer broke a rule. :class:`McpError`: the peer answered, and its answer is an error (or a handler wants to give such an
answer). Everything else, a timeout, a closed channel, a lost connection, is nobody's answer and never looks like one (ER-16).

An error holds data and phrases itself when it is printed, so raising one costs nothing but the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from twopipes._advice import IN_PYTHON, Remedy
from twopipes._error_tail import by_interpreter, left_behind, silence

__all__ = [
    "CapabilityMissing",
    "ChannelBroken",
    "ChannelClosed",
    "ClientClosed",
    "ConnectionLost",
    "FormRejected",
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

    def describe(self, options: Mapping[str, str] = IN_PYTHON) -> str:
        """Return the message, with each option named as its reader types it.

        Args:
            options: How the options are typed, by key. An option that is not in it is not mentioned.
        """
        return str(self)

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
        remedy: The option that allows it, where there is one.
    """

    def __init__(self, what: str, *, excerpt: bytes = b"", remedy: Remedy | None = None) -> None:
        super().__init__(what, excerpt)
        self.what = what
        self.excerpt = excerpt
        self.remedy = remedy

    def __str__(self) -> str:
        return self.describe()

    def describe(self, options: Mapping[str, str] = IN_PYTHON) -> str:
        """As :meth:`TwopipesError.describe`."""
        text = f"{self.what}: {self.excerpt!r}" if self.excerpt else self.what
        return text if self.remedy is None else text + self.remedy.told(options)


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
    """The connection ended before the answer came. Whether the peer acted on the request is unknown.

    Attributes:
        method: What was asked.
        request_id: Its id; ``None`` if it was not sent.
        retryable: Whether it does no harm to ask again, as far as is known.
        why: Why this side ended the connection; empty if the peer did.
    """

    def __init__(self, method: str, request_id: RequestId | None, *, retryable: bool = False, why: str = "") -> None:
        super().__init__(method, request_id)
        self.method = method
        self.request_id = request_id
        self.retryable = retryable
        self.why = why

    def __str__(self) -> str:
        which = self.method if self.request_id is None else f"{self.method} (id {self.request_id!r})"
        return f"the connection ended before {which} was answered" + (f": {self.why}" if self.why else "")


class ClientClosed(TwopipesError):
    """The client was closed on this side, before the call or during it."""

    def __init__(self, method: str | None = None, request_id: RequestId | None = None) -> None:
        super().__init__(method, request_id)
        self.method = method
        self.request_id = request_id

    def __str__(self) -> str:
        if self.request_id is None:
            return "the client is closed; connect() gives another one"
        return f"the client was closed before {self.method} (id {self.request_id!r}) was answered"


class InvalidOutput(TwopipesError):
    """A tool gave a structured result that breaks its own output schema (TL-14).

    Attributes:
        tool: The tool.
        why: What is wrong with it.
        result: What it gave.
    """

    def __init__(self, tool: str, why: str, result: Any) -> None:
        super().__init__(tool, why)
        self.tool = tool
        self.why = why
        self.result = result

    def __str__(self) -> str:
        return f"the result of {self.tool} is not what the tool promises by its output schema: {self.why}"


class QuestionFailed(TwopipesError):
    """A callback that should have answered a question of the server broke, so the call that led to it failed.

    A session does not say which call a question belongs to. There, the only open call gets this error if the server then fails it;
    with several open calls it is given to the event loop's exception handler alone.

    Attributes:
        question: What was asked, such as ``elicitation/create``.
        method: The request that led to it; ``None`` if that is not known.
        reason: What the callback raised, in words; the error itself is the cause of this one.
    """

    def __init__(self, question: str, method: str | None, reason: str) -> None:
        super().__init__(question, method, reason)
        self.question = question
        self.method = method
        self.reason = reason

    def __str__(self) -> str:
        led = "" if self.method is None else f", which {self.method} led to,"
        return f"the callback for {self.question}{led} failed: {self.reason}"


class RequestTimedOut(TwopipesError, TimeoutError):
    """No answer in time. The request was given up, and the peer was told so where the revision allows.

    Attributes:
        request_id: Its id; ``None`` if it could not even be sent, because the server was being started again.
        waited: Seconds since the request was sent.
        limit: Which limit ran out: ``idle`` (nothing heard for so long) or ``total``.
    """

    def __init__(self, method: str, request_id: RequestId | None, *, waited: float, limit: Literal["idle", "total"]) -> None:
        super().__init__()  # OSError would read the arguments as errno, strerror and file names
        self.args = (method, request_id, waited, limit)
        self.method = method
        self.request_id = request_id
        self.waited = waited
        self.limit = limit

    def __str__(self) -> str:
        return self.describe()

    def describe(self, options: Mapping[str, str] = IN_PYTHON) -> str:
        """As :meth:`TwopipesError.describe`."""
        if self.request_id is None:
            return (
                f"{self.method} could not be sent within its {self.limit} limit, because the server was being started again; "
                f"given up after {self.waited:.3g} s"
            )
        option = "request" if self.limit == "idle" else "total"
        return (
            f"{self.method} (id {self.request_id!r}) was not answered within its {self.limit} limit; "
            f"given up after {self.waited:.3g} s{Remedy(option, 2 * self.waited, 'to wait longer').told(options)}"
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
        spoken: The revisions that are spoken here, where that matters.
        stderr: The last lines the server wrote to its stderr.
        stray_stdout: What it wrote to its stdout that is no message.
        remedy: The option that may change it, where there is one.
    """

    def __init__(
        self,
        why: str,
        *,
        remedy: Remedy | None = None,
        offered: Sequence[str] = (),
        spoken: Sequence[str] = (),
        stderr: Sequence[str] = (),
        stray_stdout: Sequence[str] = (),
    ) -> None:
        super().__init__(why, tuple(offered))
        self.why = why
        self.offered = tuple(offered)
        self.spoken = tuple(spoken)
        self.stderr = tuple(stderr)
        self.stray_stdout = tuple(stray_stdout)
        self.remedy = remedy

    def __str__(self) -> str:
        return self.describe()

    def describe(self, options: Mapping[str, str] = IN_PYTHON) -> str:
        """As :meth:`TwopipesError.describe`."""
        text = self.why
        if self.offered:
            spoken = f"; spoken here: {', '.join(self.spoken)}" if self.spoken else ""
            text += f" (the server offers {', '.join(self.offered)}{spoken})"
        if self.remedy is not None:
            text += self.remedy.told(options)
        return text + left_behind(self.stderr, self.stray_stdout)


class StartFailed(TwopipesError):
    """A server could not be started at all. Nothing of it is left behind.

    Attributes:
        argv: The words of the command.
        reason: What kind of failure it is. ``refused`` is the system's own no: too many processes, too long a command.
        path: The folders that were searched, in this order.
        cwd: The folder in which it was to run.
        detail: What else is known, in words; may be empty.
    """

    def __init__(
        self,
        argv: Sequence[str],
        reason: Literal["not found", "not executable", "no such folder", "refused"],
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

    def __str__(self) -> str:
        return self.describe()

    def describe(self, options: Mapping[str, str] = IN_PYTHON) -> str:
        """As :meth:`TwopipesError.describe`."""
        name = self.argv[0]
        detail = f" ({self.detail})" if self.detail else ""
        if self.reason == "no such folder":
            other = f", or set another one with {options['cwd']}" if "cwd" in options else ""
            return f"cannot start {name!r}: its folder {self.cwd} does not exist or is not a folder; create it{other}"
        by_hand = by_interpreter(self.argv)
        if self.reason == "not executable":
            return f"cannot start {name!r}: not executable{detail}; make it executable, or start it by its interpreter{by_hand}"
        if self.reason == "refused":
            return f"cannot start {name!r}: the system refused{detail}"
        if len(words := name.split()) > 1:
            what_next = f"a command is a list of words, so perhaps {[*words, *self.argv[1:]]!r} is meant"
        elif self.path:
            what_next = (
                f"start it by its interpreter{by_hand}"
                if by_hand
                else "install it, or give its full path" + (f", or set {options['path']}" if "path" in options else "")
            )
        else:
            what_next = f"the path was seen from {self.cwd}, the folder of the child"
        where = "".join(f"\n  {folder}" for folder in self.path)
        searched = f"; searched on the PATH of the child{detail}:{where}" if where else detail
        return f"cannot start {name!r}: not found; {what_next}{searched}"


class _HowItEnded(Protocol):
    # As twopipes._process.exit_status.ExitStatus, which is upstairs.
    @property
    def code(self) -> int | None: ...
    @property
    def signal_name(self) -> str | None: ...
    def describe(self) -> str: ...


class ServerExited(TwopipesError):
    """The server's process is gone, or has closed its output. Nobody answered, and here is what it left behind.

    Attributes:
        phase: How far it had come: ``starting`` (never said anything), ``opening`` (no agreement yet) or ``serving``.
        argv: The words of its command.
        exit: How it ended; ``None`` if it closed its output and did not end in time.
        exit_code: The code, unless a signal ended it.
        signal: The name of the signal that ended it, such as ``SIGSEGV``.
        stderr: The last lines of its stderr.
        stray_stdout: Lines on its stdout that were no messages.
        lived: Seconds from its start to its end.
        method: The request that waited for an answer, if one did. Whether the server acted on it is unknown.
        request_id: Its id.
        retryable: Whether a fresh process may be given the same request without harm.
        given_up: Why it is not started again, where that was tried.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        phase: Literal["starting", "opening", "serving"],
        exit: _HowItEnded | None = None,  # noqa: A002 - the word for it
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
        """The exit code, unless a signal ended it."""
        return None if self.exit is None else self.exit.code

    @property
    def signal(self) -> str | None:
        """The signal that ended it, by name."""
        return None if self.exit is None else self.exit.signal_name

    def __str__(self) -> str:
        from shlex import join  # noqa: PLC0415 - for people alone

        how = "closed its output" if self.exit is None else f"ended with {self.exit.describe()}"
        lived = "" if self.lived is None else f", {self.lived:.3g} s after its start"
        parts = [f"the server {how} while {self.phase}{lived}: {join(self.argv)}"]
        if self.method is not None:
            request = "" if self.request_id is None else f" (id {self.request_id!r})"
            parts.append(f"{self.method}{request} was not answered")
        if self.given_up:
            parts.append(f"it is not started again: {self.given_up}")
        ended_well = self.phase == "starting" and self.exit_code == 0
        return "; ".join(parts) + (left_behind(self.stderr, self.stray_stdout) or silence(ended_well=ended_well))


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
    """The request needs something that the other side did not declare.

    A server answers so what needs more of its client. A client raises it, and sends nothing, where a call needs more of its server.

    Attributes:
        required: The missing part as a capabilities object, such as ``{"elicitation": {}}`` (ER-10).
    """

    default_code = CAPABILITY_MISSING

    def __init__(self, required: Mapping[str, Any], *, message: str | None = None) -> None:
        names = ", ".join(sorted(_capability_names(required)))
        super().__init__(
            message or f"This request needs a client that declares the capability {names}",
            data={"requiredCapabilities": dict(required)},
        )
        self.required = dict(required)


def _capability_names(required: Mapping[str, Any]) -> Iterator[str]:
    """The capabilities by name, such as ``roots`` or ``elicitation.url``."""
    for name, details in required.items():
        if details and isinstance(details, Mapping):  # a peer may have written anything
            yield from (f"{name}.{detail}" for detail in details)
        else:
            yield name


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
    """The user said no to a sampling request (ER-15). ``raise UserRefused`` is all that a callback has to do."""

    default_code = USER_REFUSED

    def __init__(self, message: str = "the user said no", *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message, code=code, data=data)


class Problem(NamedTuple):
    """One thing that is wrong with a value.

    Attributes:
        path: Where, such as ``items[0].name``; empty for the whole.
        what: What was expected and what was given, in words that a model can act on.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what

    def under(self, path: str) -> Problem:
        """The same problem, seen from outside."""
        return Problem(joined(path, self.path), self.what)


def joined(outer: str, inner: str) -> str:
    """Puts two paths together."""
    return f"{outer}.{inner}" if outer and inner and not inner.startswith("[") else outer + inner


class ValueRejected(TwopipesError, ValueError):
    """A value does not fit its type.

    Attributes:
        subject: What the value belongs to: the name of a function or of a form.
        problems: Everything that was found, in the order of the declaration.
    """

    opening = "The value for"
    part = "member"

    def __init__(self, subject: str, problems: Sequence[Problem]) -> None:
        super().__init__(subject, tuple(problems))
        self.subject = subject
        self.problems = tuple(problems)

    @property
    def details(self) -> str:
        """The problems alone: one as a sentence, several as a list."""
        return str(self.problems[0]) if len(self.problems) == 1 else "".join(f"\n- {each}" for each in self.problems).lstrip("\n")

    def __str__(self) -> str:
        return f"{self.opening} {self.subject}:{' ' if len(self.problems) == 1 else chr(10)}{self.details}"


class FormRejected(ValueRejected):
    """The response to a form does not match the form."""

    opening = "Invalid response to the form"
    part = "field"

    @property
    def summary(self) -> str:
        """What the client is told: the names of the fields. The values are the user's, and not for the model."""
        names = ", ".join(dict.fromkeys(problem.path for problem in self.problems if problem.path))
        return f"The response to the form does not match it{f'; wrong or missing fields: {names}' if names else ''}"


class SignatureRejected(LocalProtocolError, TypeError):
    """A function, or a type for a form, cannot be offered as it is written. Raised when it is registered.

    Attributes:
        subject: The function or the type, by its qualified name.
        part: The parameter or field, ``return``, or empty for the whole.
        why: What is wrong and what would help.
    """

    def __init__(self, subject: str, part: str, why: str) -> None:
        super().__init__(subject, part, why)
        self.subject = subject
        self.part = part
        self.why = why

    def __str__(self) -> str:
        return f"{self.subject}, {self.part}: {self.why}" if self.part else f"{self.subject}: {self.why}"
