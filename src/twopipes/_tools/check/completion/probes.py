"""Completion of the arguments of prompts and resource templates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from twopipes._codes import INVALID_PARAMS, METHOD_NOT_FOUND
from twopipes._tools.check.messages import Response
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.verdict import Skip

_METHOD = "completion/complete"
# Arguments that are completed; a server may have hundreds of prompts.
_ARGUMENTS = 8
_VARIABLE = re.compile(r"\{[+#./;?&]?([A-Za-z0-9_]+)")
_NO_PROMPT = {"type": "ref/prompt", "name": "twopipes-check-no-such-prompt"}


@probe("CM-02", "CM-05", needs="completions")
async def completions_are_at_most_100_strings(case: Case) -> None:
    """Completes arguments of prompts and templates, from nothing and from one letter."""
    for (ref, argument, _), value in product(_completable(case), ("", "a", "t")):
        response = await _completed(case, ref, argument, value)
        is_question = response.result.get("resultType") == "input_required"
        case.expect("CM-05", not is_question, f"{_METHOD} got a result of type input_required", about=response)
        if "completion" in response.result:
            fault = _fault_of(response.result["completion"])
            case.expect("CM-02", not fault, f"a completion {fault}", about=response)
    if not case.verdicts:
        raise Skip("the server has no prompt with arguments and no resource template")


@probe("CM-03", silence_fails=True)
async def impossible_completions_are_rejected(case: Case) -> None:
    """Completes an argument of an unknown prompt, and leaves out the argument."""
    conversation = case.conversation
    unknown = await conversation.request(_METHOD, {"ref": _NO_PROMPT, "argument": {"name": "x", "value": ""}})
    if not case.features.has("completions"):
        case.expect_code("CM-03", unknown, METHOD_NOT_FOUND, f"{_METHOD}, which the server does not declare,")
        return
    case.expect_code("CM-03", unknown, INVALID_PARAMS, "a completion for an unknown prompt")
    missing = await conversation.request(_METHOD, {"ref": next((ref for ref, _, _ in _completable(case)), _NO_PROMPT)})
    case.expect_code("CM-03", missing, INVALID_PARAMS, "a completion without the member argument")


@probe("CM-04", needs="completions")
async def resolved_arguments_are_considered(case: Case) -> None:
    """Completes the same argument with and without other arguments that are already resolved."""
    reason = "nothing could be completed"
    for ref, argument, others in _completable(case):
        plain = await _completed(case, ref, argument, "")
        if not plain.is_result:
            continue
        reason = "no suggestion depends on another argument, and only the author knows whether one should"
        for value in ("a", "b"):
            context = {"arguments": dict.fromkeys(others or ["twopipes-check"], value)}
            response = await _completed(case, ref, argument, "", context=context)
            if not response.is_result or response.result.get("completion") != plain.result.get("completion"):
                why = f"a completion that works without context got {response.summary} with other arguments in the context"
                case.expect("CM-04", response.is_result, why, about=response)
                return
    raise Skip(reason)


async def _completed(case: Case, ref: Mapping[str, Any], argument: str, value: str, **more: Any) -> Response:
    return await case.conversation.request(_METHOD, {"ref": ref, "argument": {"name": argument, "value": value}, **more})


def _completable(case: Case) -> list[tuple[dict[str, Any], str, list[str]]]:
    """Return the reference, the argument to complete and the names of the others, for the first arguments."""
    found = [
        (ref, name, [each for each in names if each != name]) for ref, names in _arguments_of_references(case) for name in names
    ]
    return found[:_ARGUMENTS]


def _arguments_of_references(case: Case) -> Iterator[tuple[dict[str, Any], list[str]]]:
    for prompt in case.features.prompts:
        listed = prompt.get("arguments")
        names = [each.get("name") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        yield {"type": "ref/prompt", "name": prompt.get("name")}, [name for name in names if isinstance(name, str)]
    for template in case.features.templates:
        uri = template.get("uriTemplate")
        yield {"type": "ref/resource", "uri": uri}, _VARIABLE.findall(uri) if isinstance(uri, str) else []


def _fault_of(completion: Any) -> str:
    if not isinstance(completion, dict):
        return "is not an object"
    values, total, more = completion.get("values"), completion.get("total"), completion.get("hasMore")
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        return "has no array of strings in values"
    if len(values) > 100:
        return f"has {len(values)} values"
    if total is not None and (not isinstance(total, int) or isinstance(total, bool)):
        return f"has a total that is not an integer: {total!r}"
    return "" if more is None or isinstance(more, bool) else f"has a hasMore that is not true or false: {more!r}"
