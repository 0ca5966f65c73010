"""Validate values against JSON Schemas: those that authors write by hand, and the output schemas of servers.

The library jsonschema-rs does the validation. It comes with ``twopipes[validate]`` and is imported when the first schema is
compiled. It is fast but has no limits: some schemas keep it busy for hours, and a very deeply nested value crashes the process. So
:class:`~twopipes._schema.complexity.Workload` computes the maximum cost first, and expensive checks are rejected (JS-06). Nothing
is ever fetched (JS-04).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from msgspec import DecodeError, Raw, Struct
from msgspec.json import decode

from twopipes._schema.complexity import SchemaLimits, SchemaRefused, Workload
from twopipes._schema.problems import given
from twopipes.errors import Problem

DIALECTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
)
"""The allowed values of ``$schema``; the first is the default."""

NOT_VALIDATED: Final = "not validated: install twopipes[validate]"
"""The message if :func:`compile_schema` returns ``None``."""

# The size limit in bytes for one regular expression, by the number of them. Ten million bytes take 50 ms to compile.
_PATTERN_SIZES: Final = ((16, 10 * 1024 * 1024), (1_000_000, 1024 * 1024))
# The backtracking limit for patterns with look-around, and the cost of such a pattern in visits.
_BACKTRACKS: Final = 10_000
_BACKTRACKING_FACTOR: Final = 1_000
# The deepest nesting of subschemas that fits into a stack of 512 KiB, the smallest known: to validate, and to find the reasons.
_MAX_NESTING: Final = 1_000
_MAX_NESTING_FOR_REASONS: Final = 250
# Finding all reasons costs up to 20 us per visit, and each reason repeats its value.
_MAX_VISITS_FOR_REASONS: Final = 20_000
_MAX_TEXT: Final = 16 * 1024 * 1024
_MAX_MESSAGE: Final = 300
_MAX_NAME: Final = 64
# This many characters of a string count as one more part of the value, because regular expressions read all of them.
_STRIDE: Final = 32
_CHOICE: Final = r"/(?:anyOf|oneOf)/(\d+)(?=/)"
_WORDS: Final = {"more than one subschema succeeded": "It matches more than one alternative of oneOf, but must match exactly one"}
# A longer list of alternatives does not help.
_MAX_ALTERNATIVES: Final = 3
_TOO_LARGE: Final = "The value is too large or too deeply nested to be checked against its schema"


class _Extent(Struct, frozen=True):
    """The size of a value: the number of its parts at each level, and about how many characters it has as JSON."""

    parts: list[int]
    text: int

    @property
    def depth(self) -> int:
        return len(self.parts) - 1


class Validator:
    """A compiled schema. Use :func:`compile_schema` to create one, and keep it for reuse."""

    def __init__(self, library: Any, schema: Mapping[str, Any], workload: Workload, limits: SchemaLimits) -> None:
        self._library = library
        self._workload = workload
        self._limits = limits
        self._compiled, factor = _compiled(library, schema, workload)
        self._most_visits = limits.max_visits // factor

    def check(self, value: Any) -> list[Problem]:
        """Return the problems of a value; empty if it is valid. One that is too large to be checked within the limits is invalid.

        The value is plain Python (dict, list, str, int, float, bool, None), or JSON as bytes or :class:`msgspec.Raw`.
        """
        if isinstance(value, bytes | Raw):
            data = bytes(value)
            try:
                value = decode(data)
            except (DecodeError, RecursionError) as error:
                return [Problem("", _TOO_LARGE if isinstance(error, RecursionError) else f"The value is not JSON: {error}")]
            # Each part takes at least two bytes. This cheap estimate is enough for most values.
            can_check = self._can_check_any(len(data) // 2 + 1, data.count(b"{") + data.count(b"["))
        else:
            can_check = False
        try:
            if not can_check and not self._can_check(_extent(value, self._limits.max_value_depth, self._most_visits)):
                return [Problem("", _TOO_LARGE)]
            return [] if _guarded(self._compiled.is_valid, value) else self._problems(value)
        except (ValueError, TypeError) as error:  # it contains something that JSON does not have
            return [Problem("", _cut(str(error)))]

    def _can_check_any(self, parts: int, depth: int) -> bool:
        """Return whether every value with this many parts and levels can be checked."""
        if depth > self._limits.max_value_depth or self._workload.nesting(depth) > _MAX_NESTING:
            return False
        return self._workload.visits(depth) * parts <= self._most_visits

    def _can_check(self, extent: _Extent | None) -> bool:
        if extent is None or self._workload.nesting(extent.depth) > _MAX_NESTING:
            return False
        return self._visits(extent) <= self._most_visits

    def _visits(self, extent: _Extent) -> float:
        return sum(self._workload.visits(level) * parts for level, parts in enumerate(extent.parts))

    def _can_explain(self, extent: _Extent | None) -> bool:
        if extent is None or self._workload.nesting(extent.depth) > _MAX_NESTING_FOR_REASONS:
            return False
        repeated = self._workload.visits(extent.depth) * (extent.depth + 1) * extent.text
        return self._visits(extent) <= _MAX_VISITS_FOR_REASONS and repeated <= _MAX_TEXT

    def _problems(self, value: Any) -> list[Problem]:
        """Return why a value is invalid: all reasons, the first one, or only that it is, depending on the cost."""
        problems: list[Problem] = []
        if self._can_explain(_extent(value, self._limits.max_value_depth, _MAX_VISITS_FOR_REASONS)):
            problems = _problems_in(_guarded(self._compiled.evaluate, value).list()["details"], value)
        elif not self._workload.has_choices:  # the library would collect the reasons of every branch
            try:
                _guarded(self._compiled.validate, value)
            except self._library.ValidationError as error:
                what = "It is not allowed" if error.kind.name == "falseSchema" else _cut(error.message) + given(error.instance)
                problems = [Problem(_path(error.instance_path, value), what)]
        most = self._limits.max_problems
        if len(problems) > most:
            return [*problems[:most], Problem("", f"There are {len(problems) - most} more problems")]
        return problems or [Problem("", "The value does not match its schema; it is too large to find out where")]


def available() -> bool:
    """Return whether schemas can be compiled, which requires ``twopipes[validate]``."""
    return _library() is not None


def compile_schema(schema: Mapping[str, Any], *, limits: SchemaLimits | None = None) -> Validator | None:
    """Return a validator for a schema; ``None`` if the library is not installed (:data:`NOT_VALIDATED`).

    Raises:
        SchemaRefused: The dialect is unknown (JS-02), a reference leads out of the schema (JS-05), the schema itself is invalid, or
            a check could take too long (JS-06). All of these except the validity are checked without the library, too.
    """
    limits = limits or SchemaLimits()
    check_dialect(schema)
    workload = Workload(schema, limits)
    library = _library()
    return None if library is None else Validator(library, schema, workload, limits)


def check_dialect(schema: Mapping[str, Any]) -> None:
    """Reject a dialect that is not one of :data:`DIALECTS` (JS-02)."""
    dialect = schema.get("$schema", DIALECTS[0])  # JS-01
    if not isinstance(dialect, str) or dialect.removesuffix("#") not in DIALECTS:
        raise SchemaRefused(f"its dialect {_cut(repr(dialect))} is unknown; known dialects: {', '.join(DIALECTS)}")


def _library() -> Any:
    try:
        import jsonschema_rs  # an optional extra of 15 MB
    except ImportError:
        return None
    return jsonschema_rs


def _compiled(library: Any, schema: Mapping[str, Any], workload: Workload) -> tuple[Any, int]:
    """Return the library's validator, and the cost factor of a visit."""
    size = next(size for most, size in _PATTERN_SIZES if workload.patterns <= most)
    linear = library.RegexOptions(size_limit=size)
    try:
        return _guarded(_compile, library, schema, linear), 1
    except SchemaRefused:
        if not workload.patterns:
            raise
    # Regular expressions run in linear time. If one uses look-around, all of them backtrack, up to a limit.
    backtracking = library.FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=size)
    return _guarded(_compile, library, schema, backtracking), _BACKTRACKING_FACTOR


def _compile(library: Any, schema: Mapping[str, Any], patterns: Any) -> Any:
    try:
        # JS-04. Workload has already rejected references out of the schema; the retriever is a second barrier.
        return library.validator_for(dict(schema), retriever=_refuse, pattern_options=patterns, mask="The value")
    except library.ValidationError as error:
        place = "".join(f"/{step}" for step in error.instance_path)
        raise SchemaRefused(f"it is not a valid schema: {_cut(error.message)}{given(error.instance)}", place=_cut(place)) from None
    except (ValueError, TypeError, library.ReferencingError) as error:
        raise SchemaRefused(f"it is not a valid schema: {_cut(str(error))}") from None


def _refuse(uri: str) -> NoReturn:
    raise LookupError(f"{uri} is not fetched")


def _guarded(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call the library, and turn a panic of its Rust code into an ordinary error."""
    try:
        return work(*arguments)
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise SchemaRefused(f"the JSON Schema library failed: {_cut(str(error))}") from error


def _extent(value: Any, deepest: int, most: int) -> _Extent | None:
    """Return the size of a value; ``None`` if it exceeds the limits."""
    counts: list[int] = []
    total = text = 0
    level = [value]
    while level:
        below: list[Any] = []
        parts = len(level)
        for part in level:
            if isinstance(part, str):
                text += len(part)
                parts += len(part) // _STRIDE
            elif isinstance(part, dict):
                below += part.values()
                names = sum(map(len, part))
                text += names
                parts += len(part) + names // _STRIDE
            elif isinstance(part, list | tuple):
                below += part
        counts.append(parts)
        total += parts
        if total + len(below) > most or len(counts) > deepest + 1:
            return None
        level = below
    return _Extent(counts, text + 4 * total)


def _problems_in(units: Sequence[Mapping[str, Any]], value: Any) -> list[Problem]:
    """Return the findings of the library as problems. The same reason in several branches is reported once."""
    found: dict[tuple[str, str], list[str]] = {}
    for unit in units:
        for kind, message in (unit.get("errors") or {}).items():
            where: str = unit["evaluationPath"]
            what = _WORDS.get(message) or (_false(where.rpartition("/")[2]) if kind == "falseSchema" else _cut(message))
            if what:
                steps = [step.replace("~1", "/").replace("~0", "~") for step in unit["instanceLocation"].split("/")[1:]]
                choices = found.setdefault((_path(steps, value), what), [])
                choices.append(".".join(str(int(place) + 1) for place in re.findall(_CHOICE, f"{where}/")))
    return [Problem(path, what + _alternatives(choices)) for (path, what), choices in found.items()]


def _false(keyword: str) -> str:
    """Return the message for a schema that is ``false``."""
    if keyword.startswith("unevaluated"):
        return ""  # reported by the keyword itself
    return "No additional properties are allowed" if keyword == "additionalProperties" else "It is not allowed"


def _alternatives(choices: Sequence[str]) -> str:
    unique = list(dict.fromkeys(choices))
    if "" in unique or len(unique) > _MAX_ALTERNATIVES:
        return ""
    return f" (in alternative {' and '.join(unique)})"


def _path(steps: list[Any], value: Any) -> str:
    """Return the path of a part of a value, such as ``items[3].name``."""
    path = ""
    for step in steps:
        if isinstance(value, list | tuple):
            path += f"[{step}]"
            value = value[int(step)] if int(step) < len(value) else None
        else:
            name = str(step)
            path += f".{name}" if len(name) <= _MAX_NAME else f".{name[:_MAX_NAME]}..."
            value = value.get(name) if isinstance(value, dict) else None
    return _cut(path.removeprefix("."))


def _cut(text: str) -> str:
    """Shorten a text in the middle: the library starts with the value and ends with what is wrong."""
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE // 3]} ... {text[-_MAX_MESSAGE * 2 // 3 :]}"
