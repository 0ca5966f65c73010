"""Samples that several sections need: results of tools, prompts, contents of resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.json import encode

from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.messages import NoResponse, Response, parts_of
from twopipes._tools.check.probe import Case, SafeCall
from twopipes._tools.check.verdict import Quote

CHANGING = ("mutate", "touch", "mutate_resources", "mutate_prompts")
"""The tools of test servers that change the lists of the server. Only probes about changes call them."""

# How many of each are tried: enough to see each kind, and few enough for a slow server.
_TOOLS = 12
_PROMPTS = 6
_RESOURCES = 6
_NAMED = 5
# Requests without a response after which no more are sent.
_MAX_UNANSWERED = 2


async def called(case: Case, *, first: Callable[[SafeCall], Any] | None = None) -> list[tuple[SafeCall, Response]]:
    """Call permitted tools, those that ``first`` accepts first, and return the responses of those that respond."""
    calls = [call for call in case.safe_calls if call.name not in CHANGING]
    if first is not None:
        calls.sort(key=lambda call: not first(call))
    return await _asked(case, "tools/call", [(call, call.params) for call in calls[:_TOOLS]])


async def prompted(case: Case) -> list[tuple[dict[str, Any], Response]]:
    """Get prompts, with some text as the required arguments."""
    asked = [
        (prompt, {"name": prompt["name"], "arguments": dict.fromkeys(required_of(prompt), "text")})
        for prompt in case.features.prompts[:_PROMPTS]
        if isinstance(prompt.get("name"), str)
    ]
    return await _asked(case, "prompts/get", asked)


def required_of(prompt: dict[str, Any]) -> list[str]:
    """Return the names of the required arguments of a prompt."""
    found = [each["name"] for each in parts_of(prompt.get("arguments")) if each.get("required") is True and "name" in each]
    return [name for name in found if isinstance(name, str)]


async def read(case: Case) -> list[tuple[dict[str, Any], Response]]:
    """Read resources."""
    listed = [each for each in case.features.resources if isinstance(each.get("uri"), str)]
    return await _asked(case, "resources/read", [(each, {"uri": each["uri"]}) for each in listed[:_RESOURCES]])


async def walked(conversation: LiveConversation, kind: str) -> list[str]:
    """Return the names of ``tools`` or ``prompts``, or the URIs of ``resources``, over all pages, in order."""
    key = "uri" if kind == "resources" else "name"
    return [str(item.get(key)) async for page in conversation.pages(f"{kind}/list") for item in page.items(kind)]


async def _asked(case: Case, method: str, asked: list[tuple[Any, dict[str, Any]]]) -> list[tuple[Any, Response]]:
    found: list[tuple[Any, Response]] = []
    silent = 0
    for target, params in asked:
        try:
            found.append((target, await case.conversation.request(method, params)))
        except NoResponse:
            silent += 1
            if silent >= _MAX_UNANSWERED or not case.conversation.is_usable:
                break
    return found


def quoted(items: Sequence[Any]) -> Quote | None:
    """Return a quote of the first of these list items; the whole line may be very long."""
    return Quote(received=(encode(items[0]),)) if items else None


def named(names: Sequence[Any]) -> str:
    """Return names for a message, shortened if there are many."""
    shown = ", ".join(repr(name) for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def is_complete(response: Response) -> bool:
    """Return whether a response is a final result: not an error, a question or a task."""
    return response.is_result and response.result.get("resultType", "complete") == "complete" and "task" not in response.result


def has_worked(response: Response) -> bool:
    """Return whether a response is the final result of a tool that has not failed."""
    return is_complete(response) and response.result.get("isError") is not True
