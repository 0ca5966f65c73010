"""One revision's way to say things: the only place where the types meet the wire of a revision.

Handlers and callers use the types of :mod:`twopipes._protocol.types`, which know no revision. A :class:`Dialect` reads what a peer
sent into them, and makes what goes out fit the revision that the message is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar

from msgspec import DecodeError, Raw, Struct, structs
from msgspec.json import Decoder

from twopipes._jsonrpc import ErrorObject
from twopipes._protocol import error_codes as faults
from twopipes._protocol import revisions
from twopipes._protocol import types as t
from twopipes._protocol.adapt import Fitter
from twopipes._protocol.decode import read
from twopipes._protocol.forms import restored_answer
from twopipes._protocol.meta_keys import meta_key_fault
from twopipes._protocol.methods import NOTIFICATION_PARAMS, PARAMS, RESULTS
from twopipes.errors import InvalidParams, LocalProtocolError, McpError, MethodNotFound, RemoteProtocolError, RequestId

__all__ = ["Dialect", "dialect"]

M = TypeVar("M", bound=t.Model)

_EXCERPT = 200  # bytes of a bad result that an error keeps
_OBJECT = ord("{")
_NULL = ord("n")
_UNREADABLE = (DecodeError, UnicodeDecodeError, RecursionError)


_COMPLETE = (None, "complete")  # VN-10: absent means complete


class _OnlyItsType(Struct, rename="camel"):
    result_type: Any = None


_decode_only_its_type = Decoder(_OnlyItsType).decode


@cache
def dialect(revision: str) -> Dialect:
    """Gives the dialect of a revision; always the same object.

    Raises:
        LocalProtocolError: There is no such revision.
    """
    if revision not in revisions.ALL:
        raise LocalProtocolError(f"there is no revision {revision!r}; there are {', '.join(revisions.ALL)}")
    return Dialect(revision)


class Dialect:
    """Reads and writes MCP in one revision. Get one from :func:`dialect`.

    Attributes:
        revision: The date.
        modern: Whether requests stand alone instead of following a handshake.
    """

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.modern = revisions.is_modern(revision)
        self._served = _methods(revisions.REQUESTS, revision, "client")
        self._asked = _methods(revisions.REQUESTS, revision, "server")
        self._notified = {
            "client": _methods(revisions.NOTIFICATIONS, revision, "client"),
            "server": _methods(revisions.NOTIFICATIONS, revision, "server"),
        }
        self._fitter = Fitter(revision)

    def __repr__(self) -> str:
        return f"dialect({self.revision!r})"

    # What there is

    def serves(self, method: str) -> bool:
        """Tells whether a client may send this request to a server."""
        return method in self._served

    def asks(self, method: str) -> bool:
        """Tells whether a server may send this request to a client; in a modern revision there is none."""
        return method in self._asked

    def knows_notification(self, method: str, *, sender: Literal["client", "server"]) -> bool:
        """Tells whether that side may send this notification."""
        return method in self._notified[sender]

    # What comes in

    def read_params(self, method: str, raw: Raw | bytes | None) -> t.Params:
        """Reads the params of a request, from either side; ``None`` where it had none.

        Raises:
            MethodNotFound: The revision has no such request, or twopipes does not serve it.
            InvalidParams: The params do not fit; the message names the member.
        """
        kind = PARAMS.get(method)
        if kind is None or (method not in self._served and method not in self._asked):
            raise MethodNotFound(f"Method not found: {method}")
        params = self._read_params(kind, method, raw)
        if type(params) is t.CallToolParams and params.arguments is not None:
            return _with_object_arguments(params, params.arguments)
        return params

    def read_notification(self, method: str, raw: Raw | bytes | None) -> t.Params:
        """Reads the params of a notification, from either side; ``None`` where it had none.

        Raises:
            MethodNotFound: The revision has no such notification, or twopipes does not read it.
            InvalidParams: The params do not fit; the message names the member.
        """
        kind = NOTIFICATION_PARAMS.get(method)
        if kind is None or not any(method in known for known in self._notified.values()):
            raise MethodNotFound(f"Notification not found: {method}")
        return self._read_params(kind, method, raw)

    def _read_params(self, kind: type[t.Params], method: str, raw: Raw | bytes | None) -> t.Params:
        try:
            return read(kind, b"{}" if raw is None else raw)
        except _UNREADABLE as error:
            raise InvalidParams(f"Invalid params for {method}: {_in_words(error, 'params')}") from error

    def read_result(self, method: str, raw: Raw | bytes) -> t.Result:
        """Reads the result of a request, from either side.

        Returns:
            The result of that method, or an InputRequiredResult in its place.

        Raises:
            RemoteProtocolError: The result is not one of this method, or of a type that nobody declared (VN-11).
            LocalProtocolError: There is no such method.
        """
        kind = RESULTS.get(method)
        if kind is None:
            raise LocalProtocolError(f"twopipes does not know what {method} gives")
        if not self.modern or method in revisions.INPUT_METHODS:
            result = self._read_result(kind, method, raw)
            # Not a member here, so it has no meaning (JR-18).
            return result if result.result_type is None else structs.replace(result, result_type=None)
        # CON-15: the type of the result decides what it is, whether or not it would also pass for something else.
        try:
            result = read(kind, raw)
        except _UNREADABLE as error:
            result_type = _result_type(raw)
            if result_type in _COMPLETE:
                raise _misfit(method, error, raw) from error
        else:
            result_type = result.result_type
            if result_type in _COMPLETE:
                return result
        if result_type != "input_required" or method not in revisions.MAY_ASK_BACK:
            # VN-11, MR-01
            raise RemoteProtocolError(f"the result of {method} has the type {result_type!r}", excerpt=_excerpt(raw))
        asking = self._read_result(t.InputRequiredResult, method, raw)
        if asking.input_requests is None and asking.request_state is None:
            # MR-02
            raise RemoteProtocolError(f"{method} asks for input but has no questions and no state", excerpt=_excerpt(raw))
        return asking

    def _read_result(self, kind: type[M], method: str, raw: Raw | bytes) -> M:
        try:
            return read(kind, raw)
        except _UNREADABLE as error:
            raise _misfit(method, error, raw) from error

    def read_error(self, error: ErrorObject, *, method: str) -> McpError:
        """Gives the exception for an error that the peer answered ``method`` with."""
        return faults.read(error, self.revision, method=method)

    def restore_answer(self, asked: t.ElicitParams, answer: t.ElicitResult) -> t.ElicitResult:
        """Puts a user's answer into the terms of the question as it was before :meth:`fit` (EL-03).

        Only 2025-06-18 asks a form otherwise than it was meant: there a multiple choice becomes several questions.
        """
        if asked.requested_schema is None or answer.content is None:
            return answer
        content = restored_answer(asked.requested_schema, answer.content, self.revision)
        return answer if content == answer.content else structs.replace(answer, content=content)

    # What goes out

    def fit(self, value: M) -> M:
        """Gives a value as this revision knows it: the same object where nothing needs to change.

        Members that the revision does not know are dropped; content that it does not know is said otherwise (CT-02).

        Raises:
            LocalProtocolError: The revision has no way to say this.
        """
        return self._fitter.fit(value)

    def finish(
        self,
        method: str,
        result: t.Result,
        *,
        server_info: t.Implementation | None = None,
        ttl_ms: int = 0,
        cache_scope: t.CacheScope = "private",
    ) -> t.Result:
        """Makes a result ready to be sent.

        It is fitted. In a modern revision it also gets its ``resultType`` (VN-09), the server's identity (VN-08) and, where the
        method is cacheable, how long it stays fresh (CH-01). A legacy revision adds nothing.

        Args:
            method: What is answered.
            result: The answer.
            server_info: Who answers.
            ttl_ms: For how many milliseconds the result stays fresh, if it does not say so itself.
            cache_scope: Who may share it, if it does not say so itself.

        Raises:
            LocalProtocolError: The revision has no way to say this, or the method may not be answered by a question (MR-01).
        """
        fitted = self.fit(result)
        if not self.modern or method in revisions.INPUT_METHODS:
            return fitted
        changes: dict[str, Any]
        if isinstance(fitted, t.InputRequiredResult):
            _check_question(method, fitted)
            changes = {"result_type": "input_required"}
        else:
            changes = {"result_type": fitted.result_type or "complete"}
        if server_info is not None and (fitted.meta is None or revisions.META_SERVER_INFO not in fitted.meta):
            changes["meta"] = {**(fitted.meta or {}), revisions.META_SERVER_INFO: self.fit(server_info)}
        if method in revisions.CACHEABLE and isinstance(fitted, t.CacheableResult):
            # CH-02: a negative number means stale to those who read it; we write the zero that means the same.
            changes["ttl_ms"] = max(0, ttl_ms if fitted.ttl_ms is None else fitted.ttl_ms)
            changes["cache_scope"] = fitted.cache_scope or cache_scope
        return structs.replace(fitted, **changes)

    def request_meta(
        self,
        *,
        client_info: t.Implementation | None,
        capabilities: t.ClientCapabilities,
        progress_token: RequestId | None = None,
        log_level: t.LoggingLevel | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        """Gives the ``_meta`` of a request that a client sends, or ``None`` where there is nothing to say.

        In a modern revision it carries the revision, the capabilities and the identity of the client (VN-01, VN-03); in a legacy
        one the handshake did.

        Args:
            client_info: Who asks.
            capabilities: What the client can do.
            progress_token: Set to hear of progress (PR-01).
            log_level: The least level to log during a modern request (LG-05).
            extra: Keys of the caller's own.

        Raises:
            LocalProtocolError: A key of ``extra`` is not well formed or belongs to the protocol (MT-01 to MT-03).
        """
        meta: dict[str, Any] = {}
        if extra:
            for key in extra:
                if (fault := meta_key_fault(key, self.revision)) is not None:
                    raise LocalProtocolError(f"{key!r} cannot be a key of _meta in {self.revision}: {fault} (MT-01, MT-02)")
            meta.update(extra)
        if self.modern:
            meta[revisions.META_VERSION] = self.revision
            meta[revisions.META_CAPABILITIES] = self.fit(capabilities)
            if client_info is not None:
                meta[revisions.META_CLIENT_INFO] = self.fit(client_info)
            if log_level is not None:
                meta[revisions.META_LOG_LEVEL] = log_level
        if progress_token is not None:
            meta[revisions.META_PROGRESS_TOKEN] = progress_token
        return meta or None

    def write_error(self, error: BaseException) -> ErrorObject:
        """Gives the error object to answer with: the code by the revision, and nothing that the author did not mean to say."""
        return faults.written(error, self.revision)


def _methods(rows: tuple[revisions.MethodRow, ...], revision: str, sender: str) -> frozenset[str]:
    return frozenset(row.method for row in rows if row.sender in {sender, "both"} and row.span.has(revision))


def _with_object_arguments(params: t.CallToolParams, arguments: Raw) -> t.CallToolParams:
    first = memoryview(arguments)[0]
    if first == _OBJECT:
        return params
    if first == _NULL:
        return structs.replace(params, arguments=None)
    raise InvalidParams("Invalid params for tools/call: Expected `object` - at `params.arguments`")  # TL-02


def _result_type(raw: Raw | bytes) -> Any:
    """The type that a result claims to have, as far as that can be read."""
    try:
        return _decode_only_its_type(raw).result_type
    except _UNREADABLE:
        return None


def _check_question(method: str, asking: t.InputRequiredResult) -> None:
    if method not in revisions.MAY_ASK_BACK:
        raise LocalProtocolError(f"{method} may not be answered by a question (MR-01)")
    if asking.input_requests is None and asking.request_state is None:
        raise LocalProtocolError("an InputRequiredResult needs input_requests or request_state (MR-02)")


def _in_words(error: Exception, root: str) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).replace("`$", f"`{root}")


def _excerpt(raw: Raw | bytes) -> bytes:
    return bytes(memoryview(raw)[:_EXCERPT])


def _misfit(method: str, error: Exception, raw: Raw | bytes) -> RemoteProtocolError:
    return RemoteProtocolError(f"the result of {method} does not fit: {_in_words(error, 'result')}", excerpt=_excerpt(raw))
