"""Mutants that change the responses to one method."""

import functools
import json
from collections.abc import Callable
from typing import Any

from check.mutation import Wire, wire_mutant

Change = Callable[[dict[str, Any], dict[str, Any]], object]


def response_mutant(rule: str, method: str, *, revision: str | None = None) -> Callable[[Change], Any]:
    """Register a function of a response to a method and of the request; it changes the response in place."""

    def enter(function: Change) -> Any:
        @functools.wraps(function)
        def mutate(wire: Wire) -> None:
            asked: dict[Any, dict[str, Any]] = {}

            def ask(line: bytes) -> None:
                message = json.loads(line)
                if message.get("method") == method and "id" in message:
                    asked[message["id"]] = message

            def answer(line: bytes) -> bytes | None:
                message = json.loads(line)
                request = None if "method" in message else asked.get(message.get("id"))
                if request is None:
                    return None
                function(message, request)
                return json.dumps(message).encode() + b"\n"

            wire.to_subject, wire.from_subject = ask, answer

        return wire_mutant(rule, revision=revision)(mutate)

    return enter


def become_result(message: dict[str, Any], **members: Any) -> None:
    """Turn a response into a result that is valid in all revisions."""
    message.pop("error", None)
    message["result"] = {"resultType": "complete", **members}


def become_error(message: dict[str, Any], code: int) -> None:
    """Turn a response into an error."""
    message.pop("result", None)
    message["error"] = {"code": code, "message": "no"}
