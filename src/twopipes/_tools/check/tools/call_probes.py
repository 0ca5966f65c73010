"""Tools of servers: the results of calls."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import MsgspecError
from msgspec.json import decode

from twopipes._schema.complexity import SchemaRefused
from twopipes._schema.validation import available, compile_schema
from twopipes._tools.check.messages import Response, members
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.samples import CHANGING, called, has_worked, is_complete
from twopipes._tools.check.verdict import Skip

# The names of tools that fail, in test servers.
_FAILING = ("fail", "boom", "test_error_handling")
# Below the limit of JSON readers in other languages (128).
_DEPTH = 100
_LONG = 256 * 1024
# Tools that are called to find one that works without arguments.
_TRIED = 8
_WRONG = {"twopipes": ["check"]}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),  # 1.0 is an integer
    "boolean": (bool,),
    "null": (type(None),),
}


@probe("TL-03", "TL-10", "TL-11", "TL-12", "TL-13", needs="call")
async def results_match_the_listed_tools(case: Case) -> None:
    """Tools that may be called are called, and their results are compared with the listed schemas."""
    results = [each for each in await called(case, first=lambda call: "outputSchema" in call.tool) if is_complete(each[1])]
    for call, response in results:
        content, is_error = response.result.get("content"), response.result.get("isError", False)
        case.expect("TL-03", isinstance(content, list), f"the result of {call.name!r} has no array content", about=response)
        case.expect("TL-03", isinstance(is_error, bool), f"isError in the result of {call.name!r} is not a boolean", about=response)
        if not is_error:
            schema = call.tool.get("outputSchema")
            if isinstance(schema, dict):
                _judge_schema(case, call.name, schema, response)
            _judge_structure(case, call.name, response)
    case.give_up("no tool that may be called has an outputSchema and a result" if results else "no tool has a result")


def _judge_schema(case: Case, name: str, schema: Mapping[str, Any], response: Response) -> None:
    has_value, value = "structuredContent" in response.result, response.result.get("structuredContent")
    misfit = _misfit(schema, value) if has_value else "it has no structuredContent"
    if misfit is None:
        reason = "its outputSchema cannot be used (see JS-03)" if available() else "install twopipes[validate]"
        case.skip("TL-10", f"the result of {name!r} has the right type, but cannot be compared further: {reason}")
    else:
        case.expect("TL-10", not misfit, f"the result of {name!r} does not match its outputSchema: {misfit}", about=response)
    kind = schema.get("type")
    if has_value and isinstance(kind, str) and kind in _TYPES:
        why = f"the outputSchema of {name!r} has the type {kind}, and its structuredContent has not"
        case.expect("TL-12", _is_of_type(value, kind), why, about=response)


def _judge_structure(case: Case, name: str, response: Response) -> None:
    if "structuredContent" in response.result:
        value = response.result["structuredContent"]
        case.expect("TL-11", isinstance(value, dict), f"structuredContent of {name!r} is not an object", about=response)
        why = f"{name!r} returned structuredContent, and no text block has the same value as JSON"
        case.expect("TL-13", _is_also_text(value, response), why, about=response)


def _misfit(schema: Mapping[str, Any], value: Any) -> str | None:
    """Return what is wrong with a value; empty if it matches, and ``None`` if the check cannot tell."""
    kind, required = schema.get("type"), schema.get("required")
    if isinstance(kind, str) and kind in _TYPES and not _is_of_type(value, kind):
        return f"it is not of type {kind}"
    missing = [name for name in required if name not in value] if isinstance(required, list) and isinstance(value, dict) else []
    if missing:
        return f"it has no {', '.join(map(str, missing))}"
    try:
        validator = compile_schema(schema)
    except SchemaRefused:
        return None  # whether schemas are valid is another rule
    return "; ".join(map(str, validator.check(value))) if validator is not None else None


def _is_of_type(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _is_also_text(value: Any, response: Response) -> bool:
    """Return whether a text, or all texts together, contain a value, or the only member of an object."""
    texts = [block["text"] for block in response.items("content") if isinstance(block.get("text"), str)]
    values: list[Any] = []
    for text in texts:
        with suppress(MsgspecError, ValueError, RecursionError):
            values.append(decode(text))
    found = [*texts, *values, values, texts]
    return value in found or (isinstance(value, dict) and len(value) == 1 and next(iter(value.values())) in found)


@probe("TL-02", needs="call")
async def arguments_may_be_left_out(case: Case) -> None:
    """A tool that works with an empty object as arguments is called without arguments."""
    calls = [call for call in case.safe_calls if not call.arguments and call.name not in CHANGING]
    for call in calls[:_TRIED]:
        if await _works_with_empty_arguments(case, call):
            response = await case.conversation.request("tools/call", {"name": call.name})
            # Called once more, since some tools work only at times.
            kept = has_worked(response) or not await _works_with_empty_arguments(case, call)
            why = f'{call.name!r} works with "arguments":{{}}, and a call without arguments got {_summary(response)}'
            case.expect("TL-02", kept, why, about=response)
            return
    case.give_up("no tool that may be called works without any arguments; name one with --allow-tool")


async def _works_with_empty_arguments(case: Case, call: SafeCall) -> bool:
    return has_worked(await case.conversation.request("tools/call", {"name": call.name, "arguments": {}}))


@probe("TL-04", needs="tools", silence_fails=True)
async def an_unknown_tool_is_an_error(case: Case) -> None:
    """A tool that does not exist is called."""
    response = await case.conversation.request("tools/call", {"name": "twopipes-check-no-such-tool", "arguments": {}})
    case.expect("TL-04", not response.is_result, f"a call of a tool that does not exist got {_summary(response)}", about=response)


@probe("TL-05", needs="call")
async def a_failing_tool_has_a_result(case: Case) -> None:
    """Tools of test servers that fail (fail, boom) are called: their failures are results."""
    for call in [call for call in case.safe_calls if call.name in _FAILING]:
        response = await case.conversation.request("tools/call", call.params)
        if not has_worked(response):
            case.expect("TL-05", response.is_result, f"the failing tool {call.name!r} got {response.summary}", about=response)
    case.give_up(f"the server has no tool that fails ({', '.join(_FAILING)}) and that may be called")


@probe("TL-06", needs="call")
async def invalid_arguments_are_reported_to_the_model(case: Case) -> None:
    """A tool gets an object as an argument for which its schema has another type."""
    call, argument, kind = _with_typed_argument(case)
    response = await case.conversation.request("tools/call", {"name": call.name, "arguments": {**call.arguments, argument: _WRONG}})
    if has_worked(response):
        case.give_up(f"{call.name!r} accepts an object where its schema has the type {kind}; see TL-20")
    if response.error and (await case.conversation.request("tools/call", call.params)).error:
        case.give_up(f"{call.name!r} got {response.summary}, and with valid arguments an error as well")
    why = (
        f"{call.name!r} got an object as {argument!r}, where its schema has the type {kind}, and the call got {response.summary}"
        " (as in an example of the specification, but the text requires isError)"
    )
    case.expect("TL-06", response.is_result, why, about=response)


def _with_typed_argument(case: Case) -> tuple[SafeCall, str, str]:
    """Return a tool that may be called, an argument with a simple type, and that type."""
    for call in case.safe_calls:
        properties = members(members(call.tool.get("inputSchema")).get("properties")) if call.takes_other_arguments else {}
        for name, schema in properties.items():
            kind = members(schema).get("type")
            if isinstance(kind, str) and kind in _TYPES and kind != "object" and not {"anyOf", "oneOf"} & schema.keys():
                return call, name, kind
    raise Skip("no tool that may be called with invalid arguments has an argument of a simple type; name one with --allow-tool")


@probe("TL-20", needs="call")
async def hostile_arguments_do_no_harm(case: Case) -> None:
    """A tool gets arguments that are deep, long, named like JavaScript prototypes, or of a wrong type."""
    conversation = case.conversation
    call = case.safe_call(with_text=True)
    text = call.texts[0]
    deep: Any = "end"
    for _ in range(_DEPTH):
        deep = {"a": deep}
    hostile: Mapping[str, Mapping[str, Any]] = {
        f"objects nested {_DEPTH} levels deep": {text: deep},
        "a very long text": {text: "x" * _LONG},
        "arguments named __proto__ and constructor": {"__proto__": {"admin": True}, "constructor": {"prototype": {"admin": True}}},
    }
    for what, arguments in hostile.items():
        await conversation.try_request("tools/call", {"name": call.name, "arguments": {**call.arguments, **arguments}})
        later = await conversation.try_request(case.harmless)
        if not case.expect("TL-20", not later.silence, f"after a call of {call.name!r} with {what}, the server does not respond"):
            return
    response = await conversation.request("tools/call", {"name": call.name, "arguments": {**call.arguments, text: _WRONG}})
    why = f"{call.name!r} got an object as {text!r}, where its schema has the type string, and served it as if it were valid"
    case.expect("TL-20", not has_worked(response), why, about=response)


def _summary(response: Response) -> str:
    return "a result with isError" if response.result.get("isError") is True else response.summary
