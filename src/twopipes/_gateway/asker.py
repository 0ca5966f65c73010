"""Marks the questions of a server with its name, where a host cannot see which of several servers asks."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from msgspec import UNSET, DecodeError, Raw, structs
from msgspec import json as msgspec_json
from msgspec.json import Decoder

from twopipes._gateway.translate import decode_members
from twopipes._protocol.passed_questions import PassedQuestion, Question, plain
from twopipes._protocol.types import ElicitRequest
from twopipes.errors import InvalidParams

_decode_requests = Decoder(dict[str, dict[str, Raw]]).decode
_ELICIT: Final = "elicitation/create"
_DIGITS: Final = 16


def named(question: Question, asker: str) -> Question:
    """Return a question whose text names the server that asks. Only a form and a page have a text for the user."""
    asked = plain(question)
    if not isinstance(asked, ElicitRequest):
        return question
    text = _with_name(asked.params.message, asker)
    marked = structs.replace(asked, params=structs.replace(asked.params, message=text))
    if not isinstance(question, PassedQuestion) or question.raw is UNSET:
        return marked
    raw = Raw(msgspec_json.encode({**decode_members(question.raw), "message": text}))
    return structs.replace(question, question=marked, raw=raw)


def bind_questions(raw: Raw, asker: str) -> Raw:
    """Return an ``input_required`` result whose questions name the server, and whose state only that server gets back."""
    members: dict[str, Any] = decode_members(raw)
    if "inputRequests" in members:
        try:
            requests = _decode_requests(members["inputRequests"])
            members["inputRequests"] = {key: _named_request(request, asker) for key, request in requests.items()}
        except DecodeError:
            pass  # the host rejects it, as it would without a gateway
    state = _text(members.get("requestState"))
    if state is not None:
        members["requestState"] = _tag(asker) + state
    return Raw(msgspec_json.encode(members))


def own_state(raw: Raw, asker: str) -> str:
    """Return the state that a server has given to a host, from what the host sends back.

    Raises:
        InvalidParams: It is the state of another server.
    """
    state = _text(raw)
    tag = _tag(asker)
    if state is None or not state.startswith(tag):
        raise InvalidParams(f"requestState does not come from the server {asker!r}; start the call again without it")
    return state[len(tag) :]


def _named_request(request: dict[str, Raw], asker: str) -> dict[str, Any]:
    if _text(request.get("method")) != _ELICIT or "params" not in request:
        return request
    params: dict[str, Any] = decode_members(request["params"])
    message = _text(params.get("message"))
    if message is None:
        return request
    return {**request, "params": {**params, "message": _with_name(message, asker)}}


def _with_name(message: str, asker: str) -> str:
    return f"[{asker}] {message}"


def _tag(asker: str) -> str:
    return f"{sha256(asker.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}."


def _text(raw: Raw | None) -> str | None:
    if raw is None:
        return None
    value = msgspec_json.decode(raw)
    return value if isinstance(value, str) else None
