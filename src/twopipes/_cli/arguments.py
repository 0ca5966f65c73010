"""Parse ``key=value`` arguments, and convert the values by a JSON Schema."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twopipes._tools.usage import UsageError

# Numbers of JSON. Python would also accept 1_000, nan, and digits of other scripts.
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_ARTICLES = {"integer": "an integer", "number": "a number", "boolean": "a boolean", "null": "null"}
# If a schema allows several types, the narrowest that fits is used: 5 is a number rather than a string.
_NARROWEST_FIRST = ("null", "boolean", "integer", "number", "array", "object", "string")
# Chained references that are followed, in case a schema refers to itself.
_MAX_REFERENCES = 20
# Limits of a description: levels of objects and arrays, and of alternatives; members of an object; choices.
_MAX_DEPTH = 3
_MAX_ALTERNATIVE_DEPTH = _MAX_DEPTH + 1
_MAX_MEMBERS = 5
_MAX_SHOWN = 12


class Pair(NamedTuple):
    """One argument as typed."""

    key: str  # its name
    text: str  # the text after the operator, or the content of the file named there
    is_json: bool  # whether the operator was `:=`, so that the text is JSON


class InvalidValue(Exception):
    """A value does not match its schema."""


def read_pair(word: str, *, what: str = "argument") -> Pair:
    """Parse ``key=value``, ``key=@file``, ``key:=json`` or ``key:=@file``."""
    key, sign, text = word.partition("=")
    is_json = key.endswith(":")
    key = key.removesuffix(":")
    if not sign or not key:
        hint = " (the command of the server comes after --)" if what == "argument" else ""
        raise UsageError(f"invalid {what} {word!r}; write key=value, key:=JSON or key=@FILE{hint}")
    if text.startswith("@"):
        try:
            text = Path(text[1:]).expanduser().read_bytes().decode()  # keep the line ends
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UsageError(f"{what} {key}: file {text[1:]} cannot be read: {why}") from error
    return Pair(key, text, is_json)


def values_of(pairs: Iterable[Pair], schema: Mapping[str, Any], *, of: str, what: str = "argument") -> dict[str, Any]:
    """Convert arguments to the types in a schema. A key that occurs several times becomes a list."""
    known = properties_of(schema)
    others = schema.get("additionalProperties")
    takes_others = others is True or isinstance(others, Mapping) or "patternProperties" in schema or not (known or others is False)
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        if pair.key not in known and not takes_others:
            takes = f"; known {what}s: {', '.join(known)}" if known else "; it takes none"
            raise UsageError(f"{of} has no {what} {pair.key!r}{did_you_mean(pair.key, known) or takes}")
        found.setdefault(pair.key, []).append(pair)
    return {key: _value(each, known.get(key, others), schema, f"{what} {key} of {of}") for key, each in found.items()}


def missing(given: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return the names that the schema requires and that are not given."""
    required = schema.get("required")
    return [name for name in (required if isinstance(required, list) else ()) if isinstance(name, str) and name not in given]


def properties_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas of the members of an object, by name."""
    found = schema.get("properties")
    return dict(found) if isinstance(found, Mapping) else {}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean ...?`` with the names that resemble a word; empty if there are none."""
    names = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), names, n=3, cutoff=0.6)
    # Also names that contain the word: `book` finds book_trip.
    close += [name for name in names if len(word) > 2 and word.casefold() in name and name not in close]
    return f"; did you mean {' or '.join(names[name] for name in close[:3])}?" if close else ""


def describe(schema: Any, root: Mapping[str, Any] | None = None, *, depth: int = 0) -> str:
    """Describe a schema in a few words.

    For example ``integer``, ``"sun" | "rain"``, ``array of string``, ``[integer, string]`` or ``{x: number, y?: number}``.
    """
    shown = list(dict.fromkeys(_alternatives(schema, root, depth, set()))) or ["anything"]
    more = [f"... ({len(shown) - _MAX_SHOWN} more)"] if len(shown) > _MAX_SHOWN else []
    return " | ".join(shown[:_MAX_SHOWN] + more)


def _alternatives(schema: Any, root: Mapping[str, Any] | None, depth: int, followed: set[str]) -> list[str]:
    """Describe each alternative that a schema allows, with nested alternatives flattened.

    A reference is followed only once, so that a schema can be an alternative of itself.
    """
    if isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str):
        if reference in followed:
            return []
        followed.add(reference)
    schema = resolved(schema, root or {})
    if not isinstance(schema, Mapping):
        return ["nothing" if schema is False else "anything"]
    if "const" in schema:
        return [json.dumps(schema["const"], ensure_ascii=False)]
    if isinstance(choices := schema.get("enum"), list):
        return [json.dumps(choice, ensure_ascii=False) for choice in choices]
    if options := _options(schema):
        if depth > _MAX_ALTERNATIVE_DEPTH:
            return ["anything"]
        return [word for option in options for word in _alternatives(option, root, depth + 1, followed)]
    return [_describe_type(kind, schema, root, depth) for kind in _kinds(schema)] or ["anything"]


def resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """Resolve a reference inside ``root``. Return any other schema, or a reference to elsewhere, unchanged."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, Mapping) or not isinstance(reference := schema.get("$ref"), str) or not reference.startswith("#"):
            break
        found: Any = root
        for step in reference[1:].split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            break
        # Members beside a reference count too; most often a description or a default.
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    if isinstance(schema, Mapping) and isinstance(parts := schema.get("allOf"), list) and len(parts) == 1:
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        part = resolved(parts[0], root)
        return {**part, **rest} if isinstance(part, Mapping) else schema
    return schema


def typed(text: str, schema: Any, root: Mapping[str, Any] | None = None) -> Any:
    """Convert a text to the type in its schema."""
    root = root or {}
    schema = resolved(schema, root)
    if isinstance(schema, Mapping):
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list):
            return _choice(text, choices)
        kinds = _kinds(schema)
        if options := _options(schema) or [{**schema, "type": kind} for kind in kinds if len(kinds) > 1]:
            return _convert_to_any(text, options, root)
        if kinds:
            return _convert(text, kinds[0], schema, root)
    return _without_schema(text)


def _value(pairs: Sequence[Pair], schema: Any, root: Mapping[str, Any], where: str) -> Any:
    own = resolved(schema, root)
    try:
        return _read(pairs[0], own, root) if len(pairs) == 1 else _list(pairs, own, root)
    except (InvalidValue, RecursionError) as error:
        why = str(error) if isinstance(error, InvalidValue) else "its schema is endless"
        note = own.get("description") if isinstance(own, Mapping) else None
        note = f" ({' '.join(note.split())})" if isinstance(note, str) else ""
        expected = " Expected" if why.endswith("?") else "; expected"
        raise UsageError(f"{where}: {why}{expected}: {describe(own, root)}{note}") from None


def _list(pairs: Sequence[Pair], schema: Any, root: Mapping[str, Any]) -> list[Any]:
    """Convert the values of a key that occurs several times to a list."""
    options = [resolved(option, root) for option in _options(schema)] or [schema] if isinstance(schema, Mapping) else []
    arrays = [option for option in options if isinstance(option, Mapping) and "array" in _kinds(option)]
    if not arrays and isinstance(schema, Mapping) and {"type", "enum", "const", "anyOf", "oneOf", "properties"} & schema.keys():
        raise InvalidValue("it was given several times, but is not a list")
    items = [_item(arrays[0], position) if arrays else None for position in range(len(pairs))]
    return [_read(pair, item, root) for pair, item in zip(pairs, items, strict=True)]


def _read(pair: Pair, schema: Any, root: Mapping[str, Any]) -> Any:
    return json_value(pair.text) if pair.is_json else typed(pair.text, schema, root)


def _options(schema: Mapping[str, Any]) -> list[Any]:
    for word in ("anyOf", "oneOf"):
        if isinstance(found := schema.get(word), list) and found:
            return found
    return []


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("type")
    if given is None:  # often missing in schemas that are written by hand
        given = "object" if "properties" in schema else "array" if "items" in schema else []
    kinds = [given] if isinstance(given, str) else [kind for kind in given if isinstance(kind, str)]
    return sorted(kinds, key=_width)


def _convert(text: str, kind: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    match kind:
        case "string":
            return text
        case "integer" | "number" if (_INTEGER if kind == "integer" else _NUMBER).fullmatch(text):
            return json_value(text)  # limits the number of digits
        case "boolean" if text.casefold() in _BOOLEANS:
            return _BOOLEANS[text.casefold()]
        case "null" if text == "null":
            return None
        case "array" if not text.lstrip().startswith("["):
            return [typed(text, _item(schema, 0), root)]  # a single item is a list of one
        case "array" | "object":
            found = json_value(text)
            if not isinstance(found, list if kind == "array" else dict):
                raise InvalidValue(f"{text!r} is not a JSON {kind}")
            return found
        case "integer" | "number" | "boolean" | "null":
            raise InvalidValue(f"{text!r} is not {_ARTICLES[kind]}")
        case _:
            return _without_schema(text)


def _convert_to_any(text: str, options: Sequence[Any], root: Mapping[str, Any]) -> Any:
    found = [resolved(option, root) for option in options]
    arrays = [option for option in found if isinstance(option, Mapping) and "array" in _kinds(option)]

    def width(option: Any) -> int:
        if not isinstance(option, Mapping) or "const" in option or "enum" in option:
            return -1
        return max(map(_width, _kinds(option)), default=len(_NARROWEST_FIRST))

    for option in sorted(found, key=width):
        # A list of one item is the last resort.
        if option in arrays and not text.lstrip().startswith("["):
            continue
        try:
            return typed(text, option, root)
        except InvalidValue:
            continue
    if arrays:
        return typed(text, arrays[0], root)
    raise InvalidValue(f"{text!r} matches none of the alternatives")


def _width(kind: str) -> int:
    return _NARROWEST_FIRST.index(kind) if kind in _NARROWEST_FIRST else len(_NARROWEST_FIRST)


def _choice(text: str, choices: Sequence[Any]) -> Any:
    for choice in choices:
        if choice == text or (not isinstance(choice, str) and json.dumps(choice) == text):
            return choice
    words = [choice for choice in choices if isinstance(choice, str)]
    raise InvalidValue(f"{text!r} is not one of the choices{did_you_mean(text, words)}")


def _without_schema(text: str) -> Any:
    """Convert a text without a schema: to JSON if it is valid, else to a string."""
    try:
        return json_value(text)
    except InvalidValue:
        return text


def json_value(text: str) -> Any:
    """Parse JSON, without NaN and numbers that are too large for a float. Raises ``InvalidValue``."""
    try:
        return json.loads(text, parse_constant=_reject_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= 60 else text[:60] + "..."
        raise InvalidValue(f"{shown!r} is not JSON ({error})") from None


def _reject_constant(name: str) -> Any:
    raise InvalidValue(f"{name} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise InvalidValue(f"{text} is too large for a number")
    return number


def _describe_type(kind: str, schema: Mapping[str, Any], root: Mapping[str, Any] | None, depth: int) -> str:
    if kind in {"array", "object"} and depth > _MAX_DEPTH:
        return kind
    if kind == "array":
        first, items = _items(schema)
        if not first:
            return "array" if items in (None, True, {}) else f"array of {describe(items, root, depth=depth + 1)}"
        shown = [describe(each, root, depth=depth + 1) for each in first[:_MAX_SHOWN]]
        more = ["..."] if items is not False or len(first) > _MAX_SHOWN else []
        return f"[{', '.join(shown + more)}]"
    if kind == "object" and 0 < len(members := properties_of(schema)) <= _MAX_MEMBERS:
        required = schema.get("required", [])
        texts = {name if name in required else f"{name}?": describe(each, root, depth=depth + 1) for name, each in members.items()}
        return f"{{{', '.join(f'{name}: {text}' for name, text in texts.items())}}}"
    if kind == "string" and isinstance(schema.get("format"), str):
        return f"string ({schema['format']})"
    if kind in {"integer", "number"}:
        least, most = schema.get("minimum"), schema.get("maximum")
        if least is not None and most is not None:
            return f"{kind} from {least} to {most}"
        return f"{kind}, at least {least}" if least is not None else kind if most is None else f"{kind}, at most {most}"
    return kind


def _items(schema: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """Return the schemas of the first items of an array, and the schema of all others."""
    first, items = schema.get("prefixItems"), schema.get("items")
    if isinstance(items, list):  # drafts before 2020-12
        first, items = items, schema.get("additionalItems")
    return (first if isinstance(first, list) else []), items


def _item(schema: Mapping[str, Any], position: int) -> Any:
    first, items = _items(schema)
    return first[position] if position < len(first) else items
