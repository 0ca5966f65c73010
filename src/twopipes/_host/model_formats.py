"""Tools in the formats of model APIs: Anthropic's Messages, and OpenAI's Responses and Chat Completions.

Both APIs take a JSON Schema for the arguments, but not every one, and refuse the whole request for one schema that they do not
take. So a tool of one server could make all tools of all servers unusable. What an API does not take is therefore moved out of the
schema and into the description, where the model still reads it; the server validates the arguments in any case.

* Neither API takes ``anyOf``, ``oneOf``, ``allOf``, ``enum``, ``const`` or ``not`` at the root.
* Anthropic takes only property names that match ``^[a-zA-Z0-9_.-]{1,64}$`` at the root.
* OpenAI refuses an object without ``properties`` at the root, an array without ``items`` anywhere, and a regular expression that
  Python's ``re`` does not compile.
* Both read schemas as JSON Schema 2020-12. Keywords of older drafts that are invalid there are rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from msgspec.json import decode, encode

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
# Alternatives at the root whose properties are shown; a few small ones can refer to large definitions many times.
_MAX_BRANCHES: Final = 100
# References at the root that are followed; one that leads back to itself would never end.
_MAX_REFERENCES: Final = 8
# Python's `re` warns about these, which it may read as operations on sets in the future.
_SET_OPERATIONS: Final = ("[[", "--", "&&", "~~", "||")
# Bytes of a schema. A larger one would fill the context of a model, and take seconds to check.
_MAX_BYTES: Final = 256 * 1024
# Bytes that are read to find invalid properties; this takes up to a fifth of a second.
_MAX_SEARCHED: Final = 200_000
# Bytes of a schema that is kept in the cache.
_MAX_CACHED: Final = 16 * 1024
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
        data = encode(schema)
    except RecursionError:
        return _as_text(schema)
    if len(data) > _MAX_BYTES:
        return _as_text(schema)
    fit = _fit_cached if len(data) <= _MAX_CACHED else _fit_json
    fitted, notes = fit(data, names)
    return decode(fitted), list(notes)


def _fit_json(data: bytes, names: re.Pattern[str] | None) -> tuple[bytes, list[str]]:
    schema = decode(data)
    try:
        fitted, notes = _fitted(schema, names)
    except SchemaRefused:
        fitted, notes = _as_text(schema)
    return encode(fitted), notes


# A host converts its tools for each request to a model, and a check takes a millisecond.
_fit_cached = lru_cache(maxsize=1024)(_fit_json)


def _fitted(schema: Schema, names: re.Pattern[str] | None) -> tuple[Schema, list[str]]:
    fitted = _object_at_root(_copied(schema))
    for each in _subschemas(fitted):
        _modernize(each)
        _move_patterns(each)
    notes = _move_combinations(fitted)
    if names is not None:
        notes += _move_properties(fitted, {name for name in fitted["properties"] if not names.fullmatch(name)})
    if not _is_valid(fitted):
        notes += _move_properties(fitted, _invalid_properties(fitted))
        _check(fitted)
    return fitted, notes


def _as_text(schema: Any) -> tuple[Schema, list[str]]:
    return {"type": "object", "properties": {}}, [_note("The arguments must match this JSON Schema", schema)]


def _note(text: str, value: Any) -> str:
    try:
        shown = encode(value).decode()
    except RecursionError:
        return f"{text}, which is too deeply nested to be shown here."
    return f"{text}: {shown if len(shown) <= _MAX_TEXT else shown[:_MAX_TEXT] + ' ... (cut)'}"


# All levels


def _copied(value: Any, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise SchemaRefused("it is too deeply nested")
    if isinstance(value, Mapping):
        return {name: _copied(each, depth + 1) for name, each in value.items()}
    return [_copied(each, depth + 1) for each in value] if isinstance(value, list) else value


def _subschemas(root: Schema) -> Iterator[Schema]:
    """Yield the root and all schemas in it. A schema may be changed when it is yielded, before its own subschemas are."""
    waiting: list[Any] = [root]
    while waiting:
        schema = waiting.pop()
        if isinstance(schema, dict):
            yield schema
            for keyword, value in schema.items():
                if keyword in _SCHEMA:
                    waiting.append(value)
                elif keyword in _SCHEMAS:
                    waiting.extend(_list(value))
                elif keyword in _NAMED_SCHEMAS:
                    waiting.extend(_table(value).values())


def _modernize(schema: Schema) -> None:
    """Write keywords of older drafts as 2020-12 does."""
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        schema["items"] = schema.pop("additionalItems", {})
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and limit in schema:
            schema[exclusive] = schema.pop(limit)
    types = schema.get("type")
    if "items" not in schema and "array" in (types if isinstance(types, list) else [types]):
        schema["items"] = {}


def _move_patterns(schema: Schema) -> None:
    """Move regular expressions that are not those of Python to the description of their value."""
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _is_portable(pattern):
        del schema["pattern"]
        _describe(schema, f"It must match the regular expression {pattern}")
    moved = {each: value for each, value in _table(schema.get("patternProperties")).items() if not _is_portable(each)}
    if moved:
        schema["patternProperties"] = {each: value for each, value in schema["patternProperties"].items() if each not in moved}
        schema.pop("additionalProperties", None)  # it may forbid them now
        _describe(schema, _note("Names of members are regular expressions", moved))


def _describe(schema: Schema, text: str) -> None:
    given = schema.get("description")
    schema["description"] = f"{given}\n{text}" if isinstance(given, str) and given else text


def _is_portable(pattern: str) -> bool:
    if any(each in pattern for each in _SET_OPERATIONS):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


# Validity


def _check(root: Schema) -> None:
    """Raise SchemaRefused if a schema is invalid, as far as that is known without the extra `validate`."""
    checked = _copied(root)
    for each in _subschemas(checked):
        # The validator has regular expressions of another kind, so that these are replaced by simple ones.
        if isinstance(each.get("pattern"), str):
            each["pattern"] = ""
        if isinstance(each.get("patternProperties"), dict):
            each["patternProperties"] = {str(number): value for number, value in enumerate(each["patternProperties"].values())}
    compile_schema(checked)


def _invalid_properties(root: Schema) -> set[str]:
    """Return the properties that make a schema invalid. Raises SchemaRefused if it would take too long to find them."""
    if len(encode(root)) * len(root["properties"]) > _MAX_SEARCHED:
        raise SchemaRefused("it is too large")
    rest = {keyword: value for keyword, value in root.items() if keyword != "required"}
    return {name for name, each in root["properties"].items() if not _is_valid({**rest, "properties": {name: each}})}


def _is_valid(root: Schema) -> bool:
    try:
        _check(root)
    except SchemaRefused:
        return False
    return True


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
        for branch in _list(moved.get(keyword))[:_MAX_BRANCHES]:
            for name, each in _table(_resolved(_table(branch), root).get("properties")).items():
                found.setdefault(name, []).append(each)
    for name, schemas in found.items():
        distinct = list({encode(each): each for each in schemas}.values())
        root["properties"].setdefault(name, distinct[0] if len(distinct) == 1 else {"anyOf": distinct})
    return [_note("The arguments must also match this JSON Schema", moved)] if moved else []


def _move_properties(root: Schema, names: set[str]) -> list[str]:
    """Remove properties of the root."""
    if not names:
        return []
    moved = {name: each for name, each in root["properties"].items() if name in names}
    root["properties"] = {name: each for name, each in root["properties"].items() if name not in names}
    root.pop("additionalProperties", None)  # it may forbid them now
    required = _list(root.get("required"))
    needed = [name for name in moved if name in required]
    if needed:
        root["required"] = [name for name in required if name not in needed]
    note = _note("There are further arguments, with these JSON Schemas", moved)
    return [f"{note}. Required of these: {', '.join(map(repr, needed))}." if needed else note]
