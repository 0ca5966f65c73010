"""Tools: what calls are answered with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import MsgspecError
from msgspec.json import decode

from twopipes._schema.validation import SchemaRefused, available, compile_schema
from twopipes._tools.check.conversation import NoResponse
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.samples import CHANGING, called, is_complete
from twopipes._tools.check.server_reply import Response
from twopipes._tools.check.verdict import Skip

_NOBODY = "twopipes-check-no-such-tool"
# How test servers call a tool that fails.
_FAILING = ("fail", "boom", "test_error_handling")
# Less than what the readers of JSON in other languages stop at (128), and more than anybody needs.
_DEEP = 100
_LONG = 256 * 1024
# Tools that are called in search of one that works without arguments.
_TRIED = 8
_WRONG = {"twopipes": ["check"]}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),  # 1.0 is one
    "boolean": (bool,),
    "null": (type(None),),
}


@probe("TL-03", "TL-10", "TL-11", "TL-12", "TL-13", needs="call")
async def tools_give_what_they_promise(case: Case) -> None:
    """Tools that may be called are called, and their results compared with what they were listed with."""
    answers = [each for each in await called(case, first=lambda call: "outputSchema" in call.tool) if is_complete(each[1])]
    for call, response in answers:
        result = response.result
        case.expect(
            "TL-03",
            isinstance(result.get("content"), list),
            f"the result of {call.name!r} has no content that is an array",
            fix="Give content in every result of a tool; an empty array, if there is nothing to say.",
            about=response,
        )
        case.expect(
            "TL-03",
            isinstance(result.get("isError", False), bool),
            f"isError in the result of {call.name!r} is no boolean",
            fix="Write isError as true, or leave it out.",
            about=response,
        )
        if not result.get("isError"):
            _judge_structure(case, call, response)
    case.give_up("no tool that may be called has an outputSchema and gave a result" if answers else "no tool gave a result")


def _judge_structure(case: Case, call: SafeCall, response: Response) -> None:
    schema, result = call.tool.get("outputSchema"), response.result
    is_there, value = "structuredContent" in result, result.get("structuredContent")
    if isinstance(schema, dict):
        misfit = _misfit(schema, value) if is_there else "it has no structuredContent"
        if misfit is None:
            reason = "its outputSchema is not one to judge by (see JS-03)" if available() else "install twopipes[validate]"
            case.skip("TL-10", f"what {call.name!r} gave has the type that it should, and cannot be compared any further: {reason}")
        else:
            case.expect(
                "TL-10",
                not misfit,
                f"{call.name!r} has an outputSchema, and its result does not fit: {misfit}",
                fix="Check what a tool returns against its outputSchema before it is sent; answer with isError where that fails.",
                about=response,
            )
        kind = schema.get("type")
        if is_there and isinstance(kind, str) and kind in _TYPES:
            case.expect(
                "TL-12",
                _is_of_type(value, kind),
                f"the outputSchema of {call.name!r} is of type {kind}, and its structuredContent is not",
                fix="Give the value as it is: since 2026-07-28 it need not be put into an object.",
                about=response,
            )
    if not is_there:
        return
    case.expect(
        "TL-11",
        isinstance(value, dict),
        f"structuredContent of {call.name!r} is no object",
        fix="Put the value into an object in this revision, or give it as text alone.",
        about=response,
    )
    case.expect(
        "TL-13",
        _is_also_text(value, result.get("content")),
        f"{call.name!r} gave structuredContent, and no block of text says the same as JSON",
        fix="Write the structured value as JSON into a block of text, for clients that do not know structuredContent.",
        about=response,
    )


def _misfit(schema: Mapping[str, Any], value: Any) -> str | None:
    """What is wrong with a value; an empty text where it fits, and ``None`` where the check cannot tell."""
    kind, required = schema.get("type"), schema.get("required")
    if isinstance(kind, str) and kind in _TYPES and not _is_of_type(value, kind):
        return f"it is not of type {kind}"
    missing = [name for name in required if name not in value] if isinstance(required, list) and isinstance(value, dict) else []
    if missing:
        return f"it lacks {', '.join(map(str, missing))}"
    try:
        validator = compile_schema(schema)
    except SchemaRefused:
        return None  # whether schemas are good is another rule
    return "; ".join(map(str, validator.check(value))) if validator is not None else None


def _is_of_type(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _is_also_text(value: Any, content: Any) -> bool:
    """Whether some text says the same; or all texts together, or what stands alone in an object made only to hold it."""
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    message: list[Any] = list(texts)
    for text in texts:
        with suppress(MsgspecError, ValueError, RecursionError):
            message.append(decode(text))
    message.append(message[len(texts) :])
    message.append(texts)
    return value in message or (isinstance(value, dict) and len(value) == 1 and next(iter(value.values())) in message)


@probe("TL-02", needs="call")
async def arguments_may_be_left_out(case: Case) -> None:
    """A tool that works with no arguments in an object is called without the object."""
    calls = [call for call in case.features.safe_calls(case.permissions) if not call.arguments and call.name not in CHANGING]
    for call in calls[:_TRIED]:
        if not await _works(case, call):
            continue
        response = await case.conversation.request("tools/call", {"name": call.name})
        # Asked once more, a tool that works at times is not taken for one that wants the object.
        kept = _has_worked(response) or not await _works(case, call)
        case.expect(
            "TL-02",
            kept,
            f'{call.name!r} works with "arguments":{{}}, and a call without arguments got {_told(response)}',
            fix="Take arguments that are missing for an empty object: the schema does not require them.",
            about=response,
        )
        return
    case.give_up("no tool that may be called works without any arguments; name one by --allow-tool")


async def _works(case: Case, call: SafeCall) -> bool:
    return _has_worked(await case.conversation.request("tools/call", {"name": call.name, "arguments": {}}))


def _has_worked(response: Response) -> bool:
    return is_complete(response) and response.result.get("isError") is not True


@probe("TL-04", needs="tools", silence_fails=True)
async def an_unknown_tool_is_an_error(case: Case) -> None:
    """A tool is called that is not there."""
    response = await case.conversation.request("tools/call", {"name": _NOBODY, "arguments": {}})
    case.expect(
        "TL-04",
        not response.is_result,
        f"a call of a tool that does not exist got {_told(response)}",
        fix="Answer with the error -32602: no tool has failed, the request is wrong.",
        about=response,
    )


@probe("TL-05", needs="call")
async def a_failing_tool_gives_a_result(case: Case) -> None:
    """The tools that test servers have for it (fail, boom) are called: their failures are results."""
    for name in _FAILING:
        try:
            params = case.fixture(name)
        except Skip:
            continue
        response = await case.conversation.request("tools/call", params)
        if is_complete(response) and response.result.get("isError") is not True:
            continue  # it did not fail
        case.expect(
            "TL-05",
            response.is_result,
            f"the tool {name!r} failed, and the call got {response.summary}",
            fix="Catch what a tool raises and answer with content that says what went wrong, and isError:true.",
            about=response,
        )
    case.give_up(f"the server has no tool that fails when it is called ({', '.join(_FAILING)}) and that may be called")


@probe("TL-06", needs="call")
async def bad_arguments_are_told_to_the_model(case: Case) -> None:
    """An object stands where the tool's own schema wants something else."""
    call, argument, wanted = _with_typed_argument(case)
    response = await case.conversation.request("tools/call", {"name": call.name, "arguments": {**call.arguments, argument: _WRONG}})
    if is_complete(response) and response.result.get("isError") is not True:
        case.give_up(f"{call.name!r} takes an object where its schema wants {wanted}; see TL-20")
    if response.error and (await case.conversation.request("tools/call", call.params)).error:
        case.give_up(f"{call.name!r} got {response.summary}, and with valid arguments an error as well")
    case.expect(
        "TL-06",
        response.is_result,
        f"{call.name!r} was given an object for {argument!r}, where its schema wants {wanted}, and the call got {response.summary} "
        "(an example of the specification does so, too, but its text asks for isError)",
        fix="Answer with content that says what is wrong with the arguments, and isError:true.",
        about=response,
    )


@probe("TL-20", needs="call")
async def hostile_arguments_do_no_harm(case: Case) -> None:
    """Arguments that are deep, long, or named like what objects of JavaScript are made of; and one of a wrong type."""
    conversation = case.conversation
    call = case.safe_call(with_text=True)
    text = call.texts[0]
    deep: Any = "end"
    for _ in range(_DEEP):
        deep = {"a": deep}
    hostile: Mapping[str, Mapping[str, Any]] = {
        "an object in an object, a hundred times,": {text: deep},
        "a very long text": {text: "x" * _LONG},
        "arguments called __proto__ and constructor": {"__proto__": {"admin": True}, "constructor": {"prototype": {"admin": True}}},
    }
    for what, arguments in hostile.items():
        with suppress(NoResponse):  # that is judged by what comes next
            await conversation.request("tools/call", {"name": call.name, "arguments": {**call.arguments, **arguments}})
        kept = case.expect(
            "TL-20",
            await _is_alive(case),
            f"after a call of {call.name!r} with {what} the server did not answer any more",
            fix="Check arguments against the tool's schema, within bounds of depth and size, before anything else is done.",
        )
        if not kept:
            return
    response = await conversation.request("tools/call", {"name": call.name, "arguments": {**call.arguments, text: _WRONG}})
    case.expect(
        "TL-20",
        not is_complete(response) or response.result.get("isError") is True,
        f"{call.name!r} was given an object for {text!r}, where its schema wants a string, and served it as if that were right",
        fix="Check arguments against the tool's schema, and refuse those that do not fit.",
        about=response,
    )


async def _is_alive(case: Case) -> bool:
    try:
        await case.conversation.request(case.harmless)
    except NoResponse:
        return False
    return True


def _with_typed_argument(case: Case) -> tuple[SafeCall, str, str]:
    """A tool that may be called, one of its arguments that is of a plain type, and that type."""
    for call in case.features.safe_calls(case.permissions):
        if not call.takes_other_arguments:
            continue
        schema = call.tool.get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        for name, described in properties.items() if isinstance(properties, dict) else ():
            kind = described.get("type") if isinstance(described, dict) else None
            if isinstance(kind, str) and kind in _TYPES and kind != "object" and not {"anyOf", "oneOf"} & described.keys():
                return call, name, f"type {kind}"
    raise Skip("no tool that may be called with invalid arguments has an argument of a plain type; name one by --allow-tool")


def _told(response: Response) -> str:
    return "a result with isError" if response.result.get("isError") is True else response.summary
