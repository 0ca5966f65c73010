"""Read and write messages in one revision: the only place where the types meet the JSON of a revision.

Handlers and callers use the types of :mod:`twopipes._protocol.types`, which are the same for all revisions. A :class:`Dialect`
decodes received JSON to these types, and adapts values to its revision before they are sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar

from msgspec import DecodeError, Raw, Struct, ValidationError, structs
from msgspec.json import Decoder

from twopipes._jsonrpc import ErrorObject
from twopipes._protocol import error_codes, revisions
from twopipes._protocol import types as t
from twopipes._protocol.adapt import Adapter
from twopipes._protocol.decode import read
from twopipes._protocol.forms import restored_answer
from twopipes._protocol.meta_keys import meta_key_fault
from twopipes._protocol.methods import NOTIFICATION_PARAMS, NOTIFICATIONS, PARAMS, REQUESTS, RESULTS, MethodRow
from twopipes.errors import InvalidParams, LocalProtocolError, McpError, MethodNotFound, RemoteProtocolError, RequestId

M = TypeVar("M", bound=t.Model)

_EXCERPT = 200  # bytes of an invalid result that an error keeps
_OBJECT = ord("{")
_NULL = ord("n")
_UNREADABLE = (DecodeError, UnicodeDecodeError, RecursionError)
_COMPLETE = (None, "complete")  # VN-10: absent means complete


class _TypeOnly(Struct, rename="camel"):
    result_type: Any = None


_decode_type_only = Decoder(_TypeOnly).decode


@cache
def dialect(revision: str) -> Dialect:
    """Return the dialect of a revision. It is created once.

    Raises:
        LocalProtocolError: The revision is unknown.
    """
    if revision not in revisions.ALL:
        raise LocalProtocolError(f"unknown revision {revision!r}; known revisions: {', '.join(revisions.ALL)}")
    return Dialect(revision)


class Dialect(Adapter):
    """Reads and writes MCP in one revision. Use :func:`dialect` to get one.

    Attributes:
        revision: The date.
        modern: Whether requests are independent, without a handshake.
        served: The requests that a client may send to a server.
    """

    def __init__(self, revision: str) -> None:
        super().__init__(revision)
        self.modern = revisions.is_modern(revision)
        self.served = _methods(REQUESTS, revision, "client")
        self._asked = _methods(REQUESTS, revision, "server")
        self._notified = {
            "client": _methods(NOTIFICATIONS, revision, "client"),
            "server": _methods(NOTIFICATIONS, revision, "server"),
        }

    def __repr__(self) -> str:
        return f"dialect({self.revision!r})"

    # Methods

    def asks(self, method: str) -> bool:
        """Return whether a server may send this request to a client; always false in a modern revision."""
        return method in self._asked

    def knows_notification(self, method: str, *, sender: Literal["client", "server"]) -> bool:
        """Return whether that side may send this notification."""
        return method in self._notified[sender]

    # Reading

    def read_params(self, method: str, raw: Raw | bytes | None) -> t.Params:
        """Decode the params of a request from either side; ``raw`` is ``None`` if it had none.

        Raises:
            MethodNotFound: The revision has no such request, or twopipes does not support it.
            InvalidParams: The params are invalid; the message names the member.
        """
        kind = PARAMS.get(method)
        if kind is None or (method not in self.served and method not in self._asked):
            raise MethodNotFound(f"Method not found: {method}")
        try:
            params = read(kind, b"{}" if raw is None else raw)
        except _UNREADABLE as error:
            raise InvalidParams(f"Invalid params for {method}: {_message(error, 'params')}") from error
        if type(params) is t.CallToolParams and params.arguments is not None:
            return _with_object_arguments(params, params.arguments)
        return params

    def read_notification(self, method: str, raw: Raw | bytes | None) -> t.Params:
        """Decode the params of a notification as :meth:`read_params` does."""
        kind = NOTIFICATION_PARAMS.get(method)
        if kind is None or not any(method in methods for methods in self._notified.values()):
            raise MethodNotFound(f"Notification not found: {method}")
        try:
            return read(kind, b"{}" if raw is None else raw)
        except _UNREADABLE as error:
            raise InvalidParams(f"Invalid params for {method}: {_message(error, 'params')}") from error

    def read_result(self, method: str, raw: Raw | bytes) -> t.Result:
        """Decode the result of a request from either side, or the InputRequiredResult in its place.

        Raises:
            RemoteProtocolError: The result does not match the method, or has an undeclared type (VN-11).
            LocalProtocolError: The method is unknown.
        """
        kind = RESULTS.get(method)
        if kind is None:
            raise LocalProtocolError(f"unknown method {method!r}: its result cannot be decoded")
        if not self.modern or method in revisions.INPUT_METHODS:
            result = self._read_result(kind, method, raw)
            # The revision does not have this member, so it is ignored (JR-18).
            return result if result.result_type is None else structs.replace(result, result_type=None)
        # CON-15: resultType decides, even if the result would also match another type.
        try:
            result = read(kind, raw)
        except _UNREADABLE as error:
            result_type = _result_type(raw)
            if result_type in _COMPLETE:
                raise _invalid_result(method, error, raw) from error
        else:
            result_type = result.result_type
            if result_type in _COMPLETE:
                return result
        if result_type != "input_required" or method not in revisions.MAY_ASK_BACK:
            # VN-11, MR-01
            raise RemoteProtocolError(f"the result of {method} has the unexpected type {result_type!r}", excerpt=_excerpt(raw))
        questions = self._read_result(t.InputRequiredResult, method, raw)
        if questions.input_requests is None and questions.request_state is None:
            # MR-02
            raise RemoteProtocolError(
                f"the result of {method} requires input but has neither questions nor state", excerpt=_excerpt(raw)
            )
        return questions

    def _read_result(self, kind: type[M], method: str, raw: Raw | bytes) -> M:
        try:
            return read(kind, raw)
        except _UNREADABLE as error:
            raise _invalid_result(method, error, raw) from error

    def read_error(self, error: ErrorObject, *, method: str) -> McpError:
        """Return the exception for an error response to ``method``."""
        return error_codes.read(error, self.revision, method=method)

    def restore_answer(self, asked: t.ElicitParams, answer: t.ElicitResult) -> t.ElicitResult:
        """Convert a user's answer back to the form as it was before :meth:`fit` replaced multiple choices (EL-03)."""
        if asked.requested_schema is None or answer.content is None:
            return answer
        try:
            content = restored_answer(asked.requested_schema, answer.content, self.revision)
        except ValidationError:  # a form of another server that breaks a rule was passed on as it is
            return answer
        return answer if content == answer.content else structs.replace(answer, content=content)

    # Writing

    def finish(
        self,
        method: str,
        result: t.Result,
        *,
        server_info: t.Implementation | None = None,
        ttl_ms: int = 0,
        cache_scope: t.CacheScope = "private",
    ) -> t.Result:
        """Adapt the result of a request to this revision.

        In a modern revision it also gets its ``resultType`` (VN-09), the identity of the server (VN-08) and, if the method is
        cacheable and the result does not have them, a lifetime in milliseconds and who may share it (CH-01).

        Raises:
            LocalProtocolError: The revision cannot express the result, or the method does not allow questions (MR-01).
        """
        fitted = self.fit(result)
        if not self.modern or method in revisions.INPUT_METHODS:
            return fitted
        changes: dict[str, Any]
        if isinstance(fitted, t.InputRequiredResult):
            _check_questions(method, fitted)
            changes = {"result_type": "input_required"}
        else:
            changes = {"result_type": fitted.result_type or "complete"}
        if server_info is not None and (fitted.meta is None or revisions.META_SERVER_INFO not in fitted.meta):
            changes["meta"] = {**(fitted.meta or {}), revisions.META_SERVER_INFO: self.fit(server_info)}
        if method in revisions.CACHEABLE and isinstance(fitted, t.CacheableResult):
            # CH-02: readers treat a negative number like zero, so write zero.
            changes["ttl_ms"] = max(0, ttl_ms if fitted.ttl_ms is None else fitted.ttl_ms)
            changes["cache_scope"] = fitted.cache_scope or cache_scope
        return structs.replace(fitted, **changes)

    def client_meta(self, info: t.Implementation | None, capabilities: t.ClientCapabilities) -> Mapping[str, Any]:
        """Return what the ``_meta`` of every request of a client contains.

        In a modern revision it is the revision, the capabilities and the identity of the client (VN-01, VN-03). In a legacy
        revision these are part of the handshake.
        """
        if not self.modern:
            return {}
        meta = {revisions.META_VERSION: self.revision, revisions.META_CAPABILITIES: self.fit(capabilities)}
        return meta if info is None else {**meta, revisions.META_CLIENT_INFO: self.fit(info)}

    def request_meta(
        self,
        shared: Mapping[str, Any],
        *,
        progress_token: RequestId | None = None,
        log_level: t.LoggingLevel | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the ``_meta`` of one request of a client.

        Args:
            shared: The result of :meth:`client_meta`.
            progress_token: Set to receive progress (PR-01).
            log_level: The minimum log level of a modern request (LG-05).
            extra: Further keys of the caller.

        Raises:
            LocalProtocolError: A key of ``extra`` is invalid or reserved (MT-01 to MT-03).
        """
        for key in extra or ():
            if (fault := meta_key_fault(key, self.revision)) is not None:
                raise LocalProtocolError(f"{key!r} cannot be a key of _meta in {self.revision}: {fault} (MT-01, MT-02)")
        meta = {**(extra or {}), **shared}
        if self.modern and log_level is not None:
            meta[revisions.META_LOG_LEVEL] = log_level
        if progress_token is not None:
            meta[revisions.META_PROGRESS_TOKEN] = progress_token
        return meta

    def write_error(self, error: BaseException) -> ErrorObject:
        """Return the error object for a response. The revision decides the code; internal details are left out."""
        return error_codes.error_object(error, self.revision)


def _methods(rows: tuple[MethodRow, ...], revision: str, sender: str) -> frozenset[str]:
    return frozenset(row.method for row in rows if row.sender in {sender, "both"} and row.span.has(revision))


def _with_object_arguments(params: t.CallToolParams, arguments: Raw) -> t.CallToolParams:
    first = memoryview(arguments)[0]
    if first == _OBJECT:
        return params
    if first == _NULL:
        return structs.replace(params, arguments=None)
    raise InvalidParams("Invalid params for tools/call: Expected `object` - at `params.arguments`")  # TL-02


def _result_type(raw: Raw | bytes) -> Any:
    """Return the ``resultType`` of a result, or ``None`` if it cannot be decoded."""
    try:
        return _decode_type_only(raw).result_type
    except _UNREADABLE:
        return None


def _check_questions(method: str, result: t.InputRequiredResult) -> None:
    if method not in revisions.MAY_ASK_BACK:
        raise LocalProtocolError(f"the result of {method} may not contain questions (MR-01)")
    if result.input_requests is None and result.request_state is None:
        raise LocalProtocolError("an InputRequiredResult requires input_requests or request_state (MR-02)")


def _message(error: Exception, root: str) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).replace("`$", f"`{root}")


def _excerpt(raw: Raw | bytes) -> bytes:
    return bytes(memoryview(raw)[:_EXCERPT])


def _invalid_result(method: str, error: Exception, raw: Raw | bytes) -> RemoteProtocolError:
    return RemoteProtocolError(f"the result of {method} is invalid: {_message(error, 'result')}", excerpt=_excerpt(raw))
