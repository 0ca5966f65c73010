"""Tools in the formats of model APIs: Anthropic's Messages, and OpenAI's Responses and Chat Completions.

Both APIs take a JSON Schema for the arguments, but not every one, and refuse the whole request for one schema that they do not
take. So a tool of one server could make all tools of all servers unusable. What an API does not take is therefore moved out of the
schema and into the description, where the model still reads it; the server validates the arguments in any case.

* Neither API takes ``anyOf``, ``oneOf``, ``allOf``, ``enum``, ``const`` or ``not`` at the root.
* Anthropic takes only property names that match ``^[a-zA-Z0-9_.-]{1,64}$`` at the root.
* OpenAI refuses an object without ``properties`` at the root, and an array without ``items`` anywhere.
* Both read schemas as JSON Schema 2020-12. Keywords of older drafts that are invalid there are rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec.json import encode

from twopipes._schema.complexity import SchemaRefused
from twopipes._schema.validation import compile_schema

OpenAIApi = Literal["responses", "chat"]
"""Which API of OpenAI: Responses, or Chat Completions, which many other providers offer too."""

_NAMES_AT_ANTHROPIC: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
# Not at the root, at neither API.
_COMBINING: Final = ("allOf", "anyOf", "oneOf")
_NOT_AT_ROOT: Final = (*_COMBINING, "not", "enum", "const")
# Where subschemas are: a schema, a list of schemas, or a table of schemas.
_SCHEMA: Final = frozenset(
    [
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
_SCHEMAS: Final = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
_NAMED_SCHEMAS: Final = frozenset(["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"])
# Levels of a schema; the same as SchemaLimits.max_depth. Real ones have about ten.
_MAX_DEPTH: Final = 100
# References at the root that are followed; one that leads back to itself would never end.
_MAX_REFERENCES: Final = 8
# Characters of a schema in a description. A longer one costs more than it helps.
_MAX_TEXT: Final = 10_000

Schema = dict[str, Any]


def anthropic_tool(name: str, description: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``tools`` for Anthropic's Messages API."""
    parameters, notes = _fit(schema, _NAMES_AT_ANTHROPIC)
    return {"name": name, **_description(description, notes), "input_schema": parameters}


def openai_tool(name: str, description: str | None, schema: Mapping[str, Any], api: OpenAIApi = "responses") -> dict[str, Any]:
    """Return an entry of ``tools`` for one of OpenAI's APIs.

    Raises:
        ValueError: The API is not known.
    """
    parameters, notes = _fit(schema, None)
    function = {"name": name, **_description(description, notes), "parameters": parameters}
    if api == "chat":
        return {"type": "function", "function": function}
    if api == "responses":
        # Without it, Responses makes the schema strict: every optional argument becomes a required one.
        return {"type": "function", **function, "strict": False}
    raise ValueError(f"unknown api {api!r}; use 'responses' or 'chat'")


def _description(given: str | None, notes: list[str]) -> dict[str, str]:
    text = "\n\n".join(filter(None, [given, *notes]))
    return {"description": text} if text else {}


def _fit(schema: Mapping[str, Any], names: re.Pattern[str] | None) -> tuple[Schema, list[str]]:
    """Return a schema that the API takes, and notes for the model about what is missing in it."""
    try:
        fitted = _object_at_root(_modern(schema))
        notes = [*_move_combinations(fitted), *([] if names is None else _move_names(fitted, names))]
        compile_schema(fitted)
    except SchemaRefused:
        return {"type": "object", "properties": {}}, [_note("The arguments must match this JSON Schema", schema)]
    return fitted, notes


def _note(text: str, value: Any) -> str:
    try:
        shown = encode(value).decode()
    except RecursionError:
        return f"{text}, which is too deeply nested to be shown here."
    return f"{text}: {shown if len(shown) <= _MAX_TEXT else shown[:_MAX_TEXT] + ' ... (cut)'}"


# Older drafts


def _modern(schema: Any, depth: int = 0) -> Any:
    """Return a copy in which keywords of older drafts are written as 2020-12 does."""
    if depth > _MAX_DEPTH:
        raise SchemaRefused("it is too deeply nested")
    if not isinstance(schema, Mapping):
        return schema
    copy = {keyword: _modern_member(keyword, value, depth + 1) for keyword, value in schema.items()}
    if isinstance(copy.get("items"), list):
        copy["prefixItems"] = [_modern(each, depth + 1) for each in copy.pop("items")]
        copy["items"] = _modern(copy.pop("additionalItems", {}), depth + 1)
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(copy.get(exclusive), bool) and copy.pop(exclusive) and limit in copy:
            copy[exclusive] = copy.pop(limit)
    if "items" not in copy and "array" in _types(copy):
        copy["items"] = {}
    return copy


def _modern_member(keyword: str, value: Any, depth: int) -> Any:
    if keyword in _SCHEMA:
        return _modern(value, depth)
    if keyword in _SCHEMAS and isinstance(value, list):
        return [_modern(each, depth) for each in value]
    if keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
        return {name: _modern(each, depth) for name, each in value.items()}
    return value


def _types(schema: Schema) -> list[Any]:
    given = schema.get("type")
    return given if isinstance(given, list) else [given]


# A schema may be anything, because servers may send anything.


def _table(value: Any) -> Schema:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# The root


def _object_at_root(schema: Schema) -> Schema:
    root = _resolved(schema, schema)
    root.pop("$schema", None)  # it names the dialect of the original
    return {**root, "type": "object", "properties": dict(_table(root.get("properties")))}


def _resolved(schema: Schema, root: Schema) -> Schema:
    """Return a copy of a schema without a ``$ref`` at its top, if it refers to a definition of the root."""
    merged = dict(schema)
    for _ in range(_MAX_REFERENCES):
        found = re.fullmatch(r"#/(\$defs|definitions)/([^/~%]+)", str(merged.get("$ref")))
        target = _table(root.get(found[1])).get(found[2]) if found else None
        if not isinstance(target, dict):
            break
        del merged["$ref"]
        merged = {**target, **merged}
    return merged


def _move_combinations(root: Schema) -> list[str]:
    """Remove what may not be at the root. The root gets the properties of the alternatives, so that the model sees them."""
    moved = {keyword: root.pop(keyword) for keyword in _NOT_AT_ROOT if keyword in root}
    found: dict[str, list[Any]] = {}
    for keyword in _COMBINING:
        for branch in _list(moved.get(keyword)):
            for name, each in _table(_resolved(_table(branch), root).get("properties")).items():
                found.setdefault(name, []).append(each)
    for name, schemas in found.items():
        distinct = [each for index, each in enumerate(schemas) if each not in schemas[:index]]
        root["properties"].setdefault(name, distinct[0] if len(distinct) == 1 else {"anyOf": distinct})
    return [_note("The arguments must also match this JSON Schema", moved)] if moved else []


def _move_names(root: Schema, allowed: re.Pattern[str]) -> list[str]:
    """Remove properties whose names are not allowed."""
    moved = {name: root["properties"].pop(name) for name in list(root["properties"]) if not allowed.fullmatch(name)}
    if not moved:
        return []
    root.pop("additionalProperties", None)  # it may forbid them now
    required = _list(root.get("required"))
    needed = [name for name in moved if name in required]
    if needed:
        root["required"] = [name for name in required if name not in needed]
    note = _note("There are further arguments, with these JSON Schemas", moved)
    return [f"{note}. Required of these: {', '.join(map(repr, needed))}." if needed else note]
