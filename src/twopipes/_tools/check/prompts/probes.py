"""Prompts, from the side of a client."""

from __future__ import annotations

from typing import Any

from twopipes._tools.check.content.blocks import is_mime_type
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import is_complete, prompted, quoted, required_of
from twopipes._tools.check.server_reply import Response

_NOBODY = "twopipes-check-no-such-prompt"
_INVALID_PARAMS = -32602
_WRONG = {"twopipes": ["check"]}
_TYPES = {"description": str, "title": str, "required": bool}


@probe("PM-01", needs="prompts")
async def prompts_are_described_in_the_right_types(case: Case) -> None:
    """What the list says of prompts and their arguments is of the types that the schema has."""
    for prompt in case.features.prompts:
        where = f"the prompt {prompt.get('name')!r}"
        _judge_description(case, prompt, where)
        arguments = prompt.get("arguments")
        for argument in arguments if isinstance(arguments, list) else ():
            if isinstance(argument, dict):
                _judge_description(case, argument, f"the argument {argument.get('name')!r} of {where}")
    case.give_up("the server lists no prompts")


def _judge_description(case: Case, described: dict[str, Any], where: str) -> None:
    wrong = [name for name, kind in _TYPES.items() if name in described and not isinstance(described[name], kind)]
    has_name = isinstance(described.get("name"), str)
    case.expect(
        "PM-01",
        has_name and not wrong,
        f"prompts/list: {where} has no name" if not has_name else f"prompts/list: {where} has a wrong type of {', '.join(wrong)}",
        fix="name, title and description are strings, required is a boolean; leave out what there is nothing to say about.",
        about=quoted([described]),
    )


@probe("PM-03", "PM-06", needs="prompts")
async def prompts_are_messages(case: Case) -> None:
    """Prompts are asked for, with some text in the arguments that they require."""
    answers = [response for _, response in await prompted(case) if is_complete(response)]
    for response in answers:
        messages = response.result.get("messages")
        good = isinstance(messages, list) and all(_is_message(each) for each in messages)
        case.expect(
            "PM-03",
            good,
            "the result of prompts/get is no array of messages, each with a role (user or assistant) and one block of content",
            fix="Make one message of each block, with role and content; content is an object, and never an array.",
            about=response,
        )
        for each in messages if isinstance(messages, list) and good else ():
            _judge_resource(case, each["content"], response)
    case.give_up("no prompt embeds a resource" if answers else "no prompt could be had with made-up arguments")


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and message.get("role") in ("user", "assistant")
        and isinstance(message.get("content"), dict)
        and isinstance(message["content"].get("type"), str)
    )


def _judge_resource(case: Case, block: dict[str, Any], response: Response) -> None:
    if block["type"] != "resource":
        return
    resource = block.get("resource")
    good = (
        isinstance(resource, dict)
        and isinstance(resource.get("uri"), str)
        and ("mimeType" not in resource or is_mime_type(resource["mimeType"]))
        and (isinstance(resource.get("text"), str) or isinstance(resource.get("blob"), str))
    )
    case.expect(
        "PM-06",
        good,
        "a resource in a prompt lacks its uri, or has neither a text nor a blob, or a mimeType that is none",
        fix="Embed resources with uri, mimeType and text (or blob, in base64).",
        about=response,
    )


@probe("PM-02", needs="prompts")
async def arguments_of_prompts_are_strings(case: Case) -> None:
    """A prompt that can be had with a text for an argument is asked for with an object in that place."""
    for prompt, served in await prompted(case):
        arguments = required_of(prompt)
        if not arguments or not is_complete(served):
            continue
        odd = {**dict.fromkeys(arguments, "text"), arguments[0]: _WRONG}
        response = await case.conversation.request("prompts/get", {"name": prompt["name"], "arguments": odd})
        case.expect(
            "PM-02",
            response.error,
            f"{prompt['name']!r} was given an object for {arguments[0]!r}, where there can be strings alone, and served it",
            fix="Check that the arguments of prompts are strings; refuse others with -32602.",
            about=response,
        )
        return
    case.give_up("no prompt that requires an argument could be had with a made-up one")


@probe("PM-04", needs="prompts", silence_fails=True)
async def what_cannot_be_prompted_is_refused(case: Case) -> None:
    """A prompt that is not there, and one without an argument that it requires."""
    response = await case.conversation.request("prompts/get", {"name": _NOBODY})
    fix = "Answer with the error -32602, and say in its message what is missing."
    case.expect(
        "PM-04",
        response.code == _INVALID_PARAMS,
        f"prompts/get of an unknown prompt got {response.summary}",
        fix=fix,
        about=response,
    )
    prompt = next((each for each in case.features.prompts if required_of(each) and isinstance(each.get("name"), str)), None)
    if prompt is None:
        return
    response = await case.conversation.request("prompts/get", {"name": prompt["name"], "arguments": {}})
    case.expect(
        "PM-04",
        response.code == _INVALID_PARAMS,
        f"prompts/get of {prompt['name']!r} without {', '.join(required_of(prompt))}, which it requires, got {response.summary}",
        fix=fix,
        about=response,
    )
