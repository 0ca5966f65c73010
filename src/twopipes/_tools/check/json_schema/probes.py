"""JSON Schema, from the side of a client: the schemas that a server hands out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.json import encode

from twopipes._schema.complexity import SchemaRefused
from twopipes._schema.validation import available, check_dialect
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import CHANGING
from twopipes._tools.check.verdict import Quote, Skip

# Where schemas stand in a schema: by name, in an array, on their own.
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_IN_ARRAYS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_ALONE = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
# Tools that are called to see what forms they ask for, and the length of a schema that is quoted.
_CALLS = 12
_QUOTED = 2000


@probe("JS-01", needs="tools")
async def schemas_without_a_dialect_are_of_2020(case: Case) -> None:
    """The schemas of all tools are searched for what older drafts wrote differently."""
    found = [(where, schema) for where, schema in _of_tools(case) if "$schema" not in schema]
    if not found:
        raise Skip("every schema of the server names its dialect, or there is none")
    for where, schema in found:
        old = next((old for part in _parts(schema) if (old := _old_words(part))), "")
        case.expect(
            "JS-01",
            not old,
            f"{where} names no dialect, which means 2020-12, and has {old}",
            fix='Write it in 2020-12, or say by "$schema" what it is written in.',
            about=_quoted(schema),
        )


@probe("JS-03", client_capabilities=ALL_CAPABILITIES)
async def schemas_are_valid(case: Case) -> None:
    """The schemas of all tools, and of the forms that tools ask for, are held against the schema of their dialect."""
    if not available():
        raise Skip("it takes a library for JSON Schema: install twopipes[validate]")
    found = [*_of_tools(case), *await _of_forms(case)]
    judged = False
    for where, schema in found:
        try:
            check_dialect(schema)
        except SchemaRefused:
            continue  # a dialect of its own; who knows what is valid there
        judged = True
        wrong = _what_is_wrong(schema)
        case.expect(
            "JS-03",
            not wrong,
            f"{where} is no valid schema: {wrong}",
            fix="Mend the schema; any validator shows where it is wrong.",
            about=_quoted(schema),
        )
    if not judged:
        raise Skip("the server handed out no schema in a dialect that is known here")


@probe("JS-07", needs="tools")
async def arguments_are_objects(case: Case) -> None:
    """The schemas of all tools are looked at."""
    if not case.features.tools:
        raise Skip("the server lists no tools")
    for tool in case.features.tools:
        schema = tool.get("inputSchema")
        case.expect(
            "JS-07",
            isinstance(schema, dict) and schema.get("type") == "object",
            f'the inputSchema of {tool.get("name")!r} does not have "type":"object" at its root',
            fix='Put "type":"object" beside whatever else stands there, such as oneOf.',
            about=_quoted(schema),
        )


def _of_tools(case: Case) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"the {member} of {tool.get('name')!r}", schema)
        for tool in case.features.tools
        for member in ("inputSchema", "outputSchema")
        if isinstance(schema := tool.get(member), dict)
    ]


async def _of_forms(case: Case) -> list[tuple[str, dict[str, Any]]]:
    """What tools ask the user for, in whichever way the revision has for it."""
    conversation = case.conversation
    for call in case.features.safe_calls(case.permissions)[:_CALLS]:
        if call.name not in CHANGING:
            await conversation.request("tools/call", call.params)
    return [
        ("the requestedSchema of a question", schema)
        for question in _questions(conversation)
        if isinstance(schema := _members(question.get("params")).get("requestedSchema"), dict)
    ]


def _questions(conversation: LiveConversation) -> Iterator[dict[str, Any]]:
    for line in conversation.received_lines:
        for part in line.parts:
            if part.get("method") == "elicitation/create":
                yield part
            asked = _members(_members(part.get("result")).get("inputRequests"))
            yield from (each for each in asked.values() if isinstance(each, dict) and each.get("method") == "elicitation/create")


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all that stand in it; what is a value, such as that of ``const``, is left alone."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        yield part
        for key in _BY_NAME:
            waiting += _members(part.get(key)).values()
        for key in _IN_ARRAYS:
            waiting += part[key] if isinstance(part.get(key), list) else []
        waiting += [part.get(key) for key in _ALONE]


def _old_words(part: dict[str, Any]) -> str:
    """What stands in a schema that was right in an older draft and is wrong in 2020-12."""
    if isinstance(part.get("items"), list):
        return "an array in items; that is prefixItems now"
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if isinstance(part.get(key), bool):
            return f"true or false in {key}, where a number stands now"
    return "true or false in required, where names stand now" if isinstance(part.get("required"), bool) else ""


def _what_is_wrong(schema: dict[str, Any]) -> str:
    import jsonschema_rs  # noqa: PLC0415 - an extra, and large

    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        return f"{error.message[:200]} (at /{'/'.join(map(str, error.instance_path))})"
    except (ValueError, TypeError, jsonschema_rs.ReferencingError):
        return ""  # it cannot be told
    return ""


def _quoted(schema: Any) -> Quote:
    return Quote(received=(encode(schema)[:_QUOTED],))


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
