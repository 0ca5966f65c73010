"""Completion, from the side of a client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from twopipes._tools.check.conversation import Response
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.verdict import Skip

_METHOD = "completion/complete"
_MOST_VALUES = 100
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
# Arguments that are completed; a server with hundreds of prompts is not asked about all of them.
_ARGUMENTS = 8
_VARIABLE = re.compile(r"\{[+#./;?&]?([A-Za-z0-9_]+)")
_NOBODY = {"type": "ref/prompt", "name": "twopipes-check-no-such-prompt"}


@probe("CM-02", "CM-05", needs="completions")
async def suggestions_are_strings_and_not_too_many(case: Case) -> None:
    """Arguments of prompts and templates are completed from nothing and from one letter."""
    answers = [await _completed(case, ref, argument, value) for ref, argument, _ in _completable(case) for value in ("", "a", "t")]
    for response in answers:
        case.expect(
            "CM-05",
            response.result.get("resultType") != "input_required",
            "completion was answered with a question",
            fix="Answer with what can be suggested without asking, or with nothing.",
            about=response,
        )
        if response.is_result and "completion" in response.result:
            wrong = _what_is_wrong(response.result["completion"])
            fix = "Give at most 100 strings in values; total is an integer, hasMore true or false."
            case.expect("CM-02", not wrong, f"a completion {wrong}", fix=fix, about=response)
    if not answers:
        raise Skip("the server has no prompt with arguments and no resource template")


@probe("CM-03", silence_fails=True)
async def what_cannot_be_completed_is_refused(case: Case) -> None:
    """Completion of a prompt that does not exist, and without saying what; or at all, where the server has none."""
    argument = {"name": "x", "value": ""}
    unknown = await case.conversation.request(_METHOD, {"ref": _NOBODY, "argument": argument})
    if not case.features.has("completions"):
        case.expect(
            "CM-03",
            unknown.code == _METHOD_NOT_FOUND,
            f"the server does not declare completions, and {_METHOD} got {unknown.summary}",
            fix="Answer with the error -32601, or declare completions.",
            about=unknown,
        )
        return
    case.expect(
        "CM-03",
        unknown.code == _INVALID_PARAMS,
        f"completion for a prompt that does not exist got {unknown.summary}",
        fix="Answer with the error -32602 where the prompt is not known.",
        about=unknown,
    )
    ref = next((ref for ref, _, _ in _completable(case)), _NOBODY)
    missing = await case.conversation.request(_METHOD, {"ref": ref})
    case.expect(
        "CM-03",
        missing.code == _INVALID_PARAMS,
        f"completion without the member argument got {missing.summary}",
        fix="Answer with the error -32602 where params lack something.",
        about=missing,
    )


@probe("CM-04", needs="completions")
async def settled_arguments_are_taken_along(case: Case) -> None:
    """The same argument is completed with and without others that are settled."""
    tried = False
    for ref, argument, others in _completable(case):
        plain = await _completed(case, ref, argument, "")
        if not plain.is_result:
            continue
        tried = True
        for value in ("a", "b"):
            context = {"arguments": dict.fromkeys(others or ["twopipes-check"], value)}
            response = await _completed(case, ref, argument, "", context=context)
            if not response.is_result:
                case.expect(
                    "CM-04",
                    condition=False,
                    why=f"a completion that works without context got {response.summary} with other arguments in the context",
                    fix="Read context.arguments, and pass over what you do not know in it.",
                    about=response,
                )
                return
            if response.result.get("completion") != plain.result.get("completion"):
                case.expect("CM-04", condition=True, why="")
                return
    if tried:
        raise Skip("no suggestion depends on another argument, and whether one should, only the author knows")
    raise Skip("nothing could be completed")


async def _completed(case: Case, ref: Mapping[str, Any], argument: str, value: str, **more: Any) -> Response:
    return await case.conversation.request(_METHOD, {"ref": ref, "argument": {"name": argument, "value": value}, **more})


def _completable(case: Case) -> list[tuple[dict[str, Any], str, list[str]]]:
    """What to refer to, the argument to complete, and the names of the others."""
    return list(_all_completable(case))[:_ARGUMENTS]


def _all_completable(case: Case) -> Iterator[tuple[dict[str, Any], str, list[str]]]:
    for prompt in case.features.prompts:
        listed = prompt.get("arguments")
        found = [each.get("name") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        names = [name for name in found if isinstance(name, str)]
        for name in names:
            yield {"type": "ref/prompt", "name": prompt.get("name")}, name, [each for each in names if each != name]
    for template in case.features.templates:
        uri = template.get("uriTemplate")
        names = _VARIABLE.findall(uri) if isinstance(uri, str) else []
        for name in names:
            yield {"type": "ref/resource", "uri": uri}, name, [each for each in names if each != name]


def _what_is_wrong(completion: Any) -> str:
    if not isinstance(completion, dict):
        return "is no object"
    values, total, more = completion.get("values"), completion.get("total"), completion.get("hasMore")
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        return "has no values, or some that are no strings"
    if len(values) > _MOST_VALUES:
        return f"has {len(values)} values; {_MOST_VALUES} is the most"
    if total is not None and (not isinstance(total, int) or isinstance(total, bool)):
        return f"has a total that is no integer: {total!r}"
    return "" if more is None or isinstance(more, bool) else f"has a hasMore that is neither true nor false: {more!r}"
