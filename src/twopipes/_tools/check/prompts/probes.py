"""Prompts of servers."""

from __future__ import annotations

from typing import Any

from twopipes._codes import INVALID_PARAMS
from twopipes._tools.check.content.blocks import is_mime_type
from twopipes._tools.check.messages import Response, members, parts_of
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import is_complete, prompted, quoted, required_of

_TYPES = {"description": str, "title": str, "required": bool}


@probe("PM-01", needs="prompts")
async def prompts_are_described_with_the_right_types(case: Case) -> None:
    """The members of listed prompts and their arguments have the types of the schema."""
    for prompt in case.features.prompts:
        where = f"the prompt {prompt.get('name')!r}"
        _judge_description(case, prompt, where)
        for argument in parts_of(prompt.get("arguments")):
            _judge_description(case, argument, f"the argument {argument.get('name')!r} of {where}")
    case.give_up("the server lists no prompts")


def _judge_description(case: Case, described: dict[str, Any], where: str) -> None:
    has_name = isinstance(described.get("name"), str)
    wrong = [name for name, kind in _TYPES.items() if name in described and not isinstance(described[name], kind)]
    fault = f"has a wrong type of {', '.join(wrong)}" if has_name else "has no name"
    case.expect("PM-01", has_name and not wrong, f"prompts/list: {where} {fault}", about=quoted([described]))


@probe("PM-03", "PM-06", needs="prompts")
async def prompts_are_messages(case: Case) -> None:
    """Prompts are requested, with some text in their required arguments."""
    responses = [response for _, response in await prompted(case) if is_complete(response)]
    for response in responses:
        messages = response.result.get("messages")
        is_valid = isinstance(messages, list) and all(map(_is_message, messages))
        why = "the result of prompts/get is not an array of messages with a role (user or assistant) and one content block"
        case.expect("PM-03", is_valid, why, about=response)
        for content in [members(each.get("content")) for each in response.items("messages") if is_valid]:
            if content["type"] == "resource":
                _judge_resource(case, members(content.get("resource")), response)
    case.give_up("no prompt embeds a resource" if responses else "no prompt has a result for made-up arguments")


def _is_message(message: Any) -> bool:
    content = members(members(message).get("content"))
    return members(message).get("role") in ("user", "assistant") and isinstance(content.get("type"), str)


def _judge_resource(case: Case, resource: dict[str, Any], response: Response) -> None:
    is_valid = (
        isinstance(resource.get("uri"), str)
        and ("mimeType" not in resource or is_mime_type(resource["mimeType"]))
        and (isinstance(resource.get("text"), str) or isinstance(resource.get("blob"), str))
    )
    case.expect("PM-06", is_valid, "a resource in a prompt has no uri, no text or blob, or an invalid mimeType", about=response)


@probe("PM-02", needs="prompts")
async def arguments_of_prompts_are_strings(case: Case) -> None:
    """A prompt that works with a text as argument is requested with an object instead."""
    for prompt, served in await prompted(case):
        arguments = required_of(prompt)
        if arguments and is_complete(served):
            invalid = {**dict.fromkeys(arguments, "text"), arguments[0]: {"twopipes": ["check"]}}
            response = await case.conversation.request("prompts/get", {"name": prompt["name"], "arguments": invalid})
            why = f"{prompt['name']!r} accepted an object as {arguments[0]!r}, where only strings are allowed"
            case.expect("PM-02", response.error, why, about=response)
            return
    case.give_up("no prompt that requires an argument has a result for a made-up one")


@probe("PM-04", needs="prompts", silence_fails=True)
async def incomplete_requests_for_prompts_are_rejected(case: Case) -> None:
    """An unknown prompt is requested, and a prompt without an argument that it requires."""
    requested = {"an unknown prompt": "twopipes-check-no-such-prompt"}
    prompt = next((each for each in case.features.prompts if required_of(each) and isinstance(each.get("name"), str)), None)
    if prompt is not None:
        requested[f"{prompt['name']!r} without the required {', '.join(required_of(prompt))}"] = prompt["name"]
    for what, name in requested.items():
        response = await case.conversation.request("prompts/get", {"name": name, "arguments": {}})
        case.expect_code("PM-04", response, INVALID_PARAMS, f"prompts/get of {what}")
