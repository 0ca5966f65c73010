"""Questions of another server, which a gateway passes on: as received where the revision of the client allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, structs
from msgspec import json as msgspec_json

from twopipes._protocol import types as t
from twopipes._protocol.base import RawResult
from twopipes._protocol.dialect import Dialect
from twopipes._protocol.revisions import MAY_ASK_BACK, META_PROGRESS_TOKEN
from twopipes.errors import LocalProtocolError

_decode_members = msgspec_json.Decoder(dict[str, Raw]).decode
# Members of a form's params that another revision may not have.
_OPTIONAL: Final = ("_meta", "mode", "task", "elicitationId")

OnProgress = Callable[[Raw], object]


class RawRequest(Struct, frozen=True):
    """A question with its params as JSON."""

    method: str
    params: Raw | UnsetType = UNSET


class _TypeOnly(Struct, rename="camel"):
    result_type: Any = None


class _RawRequests(Struct, rename="camel"):
    input_requests: dict[str, RawRequest] = {}


_decode_type = msgspec_json.Decoder(_TypeOnly).decode
_decode_requests = msgspec_json.Decoder(_RawRequests).decode


def questions_in(method: str, raw: Raw, source: Dialect) -> t.InputRequiredResult | None:
    """Decode a result that asks for input; its questions are :class:`PassedQuestion` objects. Any other result gives ``None``.

    Raises:
        RemoteProtocolError: The questions are invalid.
    """
    if not source.modern or not asks_for_input(method, raw):
        return None
    asking = source.read_result(method, raw)
    assert isinstance(asking, t.InputRequiredResult)
    if not asking.input_requests:
        return asking
    requests = _decode_requests(raw).input_requests
    passed: Any = {key: PassedQuestion(question, requests[key].params, source) for key, question in asking.input_requests.items()}
    return structs.replace(asking, input_requests=passed)


def asks_for_input(method: str, raw: Raw) -> bool:
    """Return whether a result of a modern server asks for input."""
    return method in MAY_ASK_BACK and _result_type(raw) == "input_required"


def _result_type(raw: Raw) -> Any:
    try:
        return _decode_type(raw).result_type
    except (DecodeError, RecursionError):
        return None


class PassedQuestion(Struct, frozen=True, eq=False):
    """A question of another server.

    Attributes:
        question: What it asks.
        raw: Its params as received; a question for the roots needs none.
        source: The revision of that server.
        on_progress: Called with the params of each progress report of a legacy client; ``None`` if the server wants none.
    """

    question: t.InputRequest
    raw: Raw | UnsetType
    source: Dialect
    on_progress: OnProgress | None = None

    def written(self, target: Dialect) -> t.InputRequest | RawRequest:
        """Return the question for a client that speaks ``target``, with members that are unknown here if possible.

        Raises:
            LocalProtocolError: The revision of the client cannot express it.
        """
        question = self.question
        method = str(question.__struct_config__.tag)
        if target.revision == self.source.revision or question.params is None:
            return RawRequest(method, self.raw)
        try:
            fitted = target.fit(question.params)
        except LocalProtocolError:
            if not isinstance(question, t.ElicitRequest) or question.params.mode == "url":
                raise
            # The form breaks a rule. The client decides about it, as it would without the gateway.
            members = {name: value for name, value in _decode_members(cast("Raw", self.raw)).items() if name not in _OPTIONAL}
            return RawRequest(method, Raw(msgspec_json.encode(members)))
        return RawRequest(method, self.raw) if fitted is question.params else type(question)(fitted)  # type: ignore[arg-type]


class PassedRequest(Struct, frozen=True, eq=False):
    """A request of another server, for a legacy client, whose method no revision defines. Its result passes as received."""

    method: str
    raw: Raw | UnsetType
    on_progress: OnProgress | None = None


def with_token(params: Any, token: int | str) -> dict[str, Any]:
    """Return the params of a request with another progress token."""
    members = _decode_members(msgspec_json.encode(params))
    meta = _decode_members(members["_meta"]) if "_meta" in members else {}
    return {**members, "_meta": {**meta, META_PROGRESS_TOKEN: token}}


class PassedAnswer(Struct, frozen=True, eq=False):
    """The answer to a question of another server, decoded and as received from a client of the revision ``source``."""

    answer: Any
    raw: Raw
    source: Dialect

    def written(self, target: Dialect) -> t.Result:
        """Return the answer for a server that speaks ``target``."""
        if target.revision == self.source.revision:
            return RawResult(self.raw)
        fitted = target.fit(self.answer)
        return RawResult(self.raw) if fitted is self.answer else fitted


Question = t.InputRequest | PassedQuestion
"""What a server session can ask its client."""


def plain(question: Question) -> t.InputRequest:
    """Return a question as typed objects."""
    return question.question if isinstance(question, PassedQuestion) else question
