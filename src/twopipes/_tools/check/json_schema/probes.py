"""The schemas that servers send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.json import encode

from twopipes._schema.complexity import SchemaRefused
from twopipes._schema.validation import available, check_dialect
from twopipes._tools.check.conversation import ALL_CAPABILITIES
from twopipes._tools.check.messages import members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import ELICIT
from twopipes._tools.check.samples import CHANGING
from twopipes._tools.check.verdict import Quote, Skip

# The keywords whose values are schemas by name, arrays of schemas, and schemas.
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_IN_ARRAYS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_ALONE = (
    *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
# Tools that are called to see their forms, and bytes of a schema that are quoted.
_CALLS = 12
_QUOTED = 2000


@probe("JS-01", needs="tools")
async def schemas_without_a_dialect_are_2020_12(case: Case) -> None:
    """Looks in the schemas of all tools for keywords of older dialects."""
    found = [(where, schema) for where, schema in _of_tools(case) if "$schema" not in schema]
    if not found:
        raise Skip("every schema of the server names its dialect, or there is none")
    for where, schema in found:
        old = next((old for part in _subschemas(schema) if (old := _old_keyword(part))), "")
        case.expect("JS-01", not old, f"{where} names no dialect, which means 2020-12, and has {old}", about=_quoted(schema))


@probe("JS-03", client_capabilities=ALL_CAPABILITIES)
async def schemas_are_valid(case: Case) -> None:
    """Validates the schemas of all tools, and of the forms that tools send."""
    if not available():
        raise Skip("it needs a library for JSON Schema: install twopipes[validate]")
    for where, schema in [*_of_tools(case), *await _of_forms(case)]:
        try:
            check_dialect(schema)
        except SchemaRefused:
            continue  # an unknown dialect
        fault = _fault_of(schema)
        case.expect("JS-03", not fault, f"{where} is not a valid schema: {fault}", about=_quoted(schema))
    if not case.verdicts:
        raise Skip("the server sent no schema in a known dialect")


@probe("JS-07", needs="tools")
async def input_schemas_are_objects(case: Case) -> None:
    """Looks at the root of every inputSchema."""
    if not case.features.tools:
        raise Skip("the server lists no tools")
    for tool in case.features.tools:
        schema = tool.get("inputSchema")
        why = f'the inputSchema of {tool.get("name")!r} does not have "type":"object" at its root'
        case.expect("JS-07", members(schema).get("type") == "object", why, about=_quoted(schema))


def _of_tools(case: Case) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"the {member} of {tool.get('name')!r}", schema)
        for tool in case.features.tools
        for member in ("inputSchema", "outputSchema")
        if isinstance(schema := tool.get(member), dict)
    ]


async def _of_forms(case: Case) -> list[tuple[str, dict[str, Any]]]:
    for call in case.safe_calls[:_CALLS]:
        if call.name not in CHANGING:
            await case.conversation.request("tools/call", call.params)
    parts = [part for line in case.conversation.received_lines for part in line.parts]
    # Requests, and the entries of results of type input_required.
    questions = parts + [
        members(each) for part in parts for each in members(members(part.get("result")).get("inputRequests")).values()
    ]
    return [
        ("the requestedSchema of a question", schema)
        for question in questions
        if question.get("method") == ELICIT and isinstance(schema := members(question.get("params")).get("requestedSchema"), dict)
    ]


def _subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it, but not values such as that of ``const``."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        yield part
        for key in _BY_NAME:
            waiting += members(part.get(key)).values()
        for key in _IN_ARRAYS:
            waiting += part[key] if isinstance(part.get(key), list) else []
        waiting += [part.get(key) for key in _ALONE]


def _old_keyword(part: dict[str, Any]) -> str:
    if isinstance(part.get("items"), list):
        return "an array in items, which is prefixItems now"
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if isinstance(part.get(key), bool):
            return f"true or false in {key}, which is a number now"
    return "true or false in required, which is an array of names now" if isinstance(part.get("required"), bool) else ""


def _fault_of(schema: dict[str, Any]) -> str:
    import jsonschema_rs  # an extra, and large

    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        return f"{error.message[:200]} (at /{'/'.join(map(str, error.instance_path))})"
    except (ValueError, TypeError, jsonschema_rs.ReferencingError):
        pass  # the validator cannot decide
    return ""


def _quoted(schema: Any) -> Quote:
    return Quote(received=(encode(schema)[:_QUOTED],))
