"""Values against JSON Schemas: those that authors write by hand, and those that servers promise their results by.

The judging is done by jsonschema-rs, which comes with ``twopipes[validate]`` and is imported when the first schema is compiled.
It is fast, and it has no bounds of its own: some schemas keep it busy for hours, and a value that is nested deeply enough ends
the process. So a :class:`~twopipes._schema.complexity.Workload` says beforehand what a check can cost, and what costs too much is
refused instead of begun (JS-06). Nothing is ever fetched (JS-04).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from msgspec import DecodeError, Raw, Struct
from msgspec.json import decode

from twopipes._protocol.rejections import Problem
from twopipes._schema.complexity import SchemaLimits, SchemaRefused, Workload
from twopipes._schema.wording import given

__all__ = [
    "DIALECTS",
    "NOT_VALIDATED",
    "SchemaLimits",
    "SchemaRefused",
    "Validator",
    "available",
    "check_dialect",
    "compile_schema",
]

DIALECTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
)
"""What a schema may name as its ``$schema``; the first is meant where it names nothing."""

NOT_VALIDATED: Final = "not validated: install twopipes[validate]"
"""What is to be said where :func:`compile_schema` gives nothing."""

# Bytes that one regular expression may take, where there are few of them and where there are many. Ten million take 50 ms.
_PATTERN_SIZES: Final = ((16, 10 * 1024 * 1024), (1_000_000, 1024 * 1024))
# A pattern that looks around may try so many ways through one text; that costs as much as so many visits.
_BACKTRACKS: Final = 10_000
_BACKTRACKING_FACTOR: Final = 1_000
# Subschemas in one another, by what they take of a stack of 512 KiB, the smallest we know: to judge, and to find out why.
_DEEPEST_JUDGEMENT: Final = 1_000
_DEEPEST_REASONS: Final = 250
# To find all reasons costs up to 20 us for each visit, and each reason repeats the value it is about.
_MOST_REASONS: Final = 20_000
_MOST_TEXT: Final = 16 * 1024 * 1024
_LONGEST: Final = 300
_LONGEST_NAME: Final = 64
# Characters of a string that count as one more part of the value: regular expressions read them all.
_STRIDE: Final = 32
_CHOICE: Final = r"/(?:anyOf|oneOf)/(\d+)(?=/)"
_WORDS: Final = {"more than one subschema succeeded": "It fits more than one alternative of oneOf, and must fit exactly one"}
# More than these say nothing to anybody.
_MOST_ALTERNATIVES: Final = 3
_TOO_MUCH: Final = "The value is too large or too deeply nested to be checked against its schema"


class _Extent(Struct, frozen=True):
    """How large a value is: the number of its parts, level by level, and about how many characters it takes to write."""

    parts: list[int]
    text: int

    @property
    def depth(self) -> int:
        return len(self.parts) - 1


class Validator:
    """A compiled schema. Get one from :func:`compile_schema` and keep it with whatever the schema belongs to."""

    def __init__(self, library: Any, schema: Mapping[str, Any], workload: Workload, limits: SchemaLimits) -> None:
        self._library = library
        self._workload = workload
        self._limits = limits
        self._compiled, factor = _compiled(library, schema, workload)
        self._most_visits = limits.max_visits // factor

    def check(self, value: Any) -> list[Problem]:
        """Gives what is wrong with a value; nothing if it fits.

        A value that is too large to be judged within the limits does not fit, and the problem says so.

        Args:
            value: Plain Python (dict, list, str, int, float, bool, None), or JSON as bytes or :class:`msgspec.Raw`.
        """
        if isinstance(value, bytes | Raw):
            data = bytes(value)
            try:
                value = decode(data)
            except (DecodeError, RecursionError) as error:
                return [Problem("", _TOO_MUCH if isinstance(error, RecursionError) else f"The value is not JSON: {error}")]
            # No part is shorter than a character and what parts it from the next. For most values this is all there is to do.
            can_judge = self._can_judge_any(len(data) // 2 + 1, data.count(b"{") + data.count(b"["))
        else:
            can_judge = False
        try:
            if not can_judge and not self._can_judge(_extent(value, self._limits.max_value_depth, self._most_visits)):
                return [Problem("", _TOO_MUCH)]
            return [] if _guarded(self._compiled.is_valid, value) else self._problems(value)
        except (ValueError, TypeError) as error:  # something in it that JSON does not have
            return [Problem("", _cut(str(error)))]

    def _can_judge_any(self, parts: int, depth: int) -> bool:
        """Whether every value with so many parts and levels can be judged."""
        if depth > self._limits.max_value_depth or self._workload.nesting(depth) > _DEEPEST_JUDGEMENT:
            return False
        visits = self._workload.visits(depth)
        return visits is not None and visits * parts <= self._most_visits

    def _can_judge(self, extent: _Extent | None) -> bool:
        if extent is None or self._workload.nesting(extent.depth) > _DEEPEST_JUDGEMENT:
            return False
        visits = self._visits(extent)
        return visits is not None and visits <= self._most_visits

    def _visits(self, extent: _Extent) -> int | None:
        total = 0
        for level, parts in enumerate(extent.parts):
            visits = self._workload.visits(level)
            if visits is None:
                return None
            total += visits * parts
        return total

    def _can_explain(self, extent: _Extent | None) -> bool:
        if extent is None or self._workload.nesting(extent.depth) > _DEEPEST_REASONS:
            return False
        visits = self._visits(extent)
        repeated = (self._workload.visits(extent.depth) or 1) * (extent.depth + 1) * extent.text
        return visits is not None and visits <= _MOST_REASONS and repeated <= _MOST_TEXT

    def _problems(self, value: Any) -> list[Problem]:
        """Why a value does not fit: everything, or the first thing, or only that it does not, by what the answer would cost."""
        problems: list[Problem] = []
        if self._can_explain(_extent(value, self._limits.max_value_depth, _MOST_REASONS)):
            problems = _problems_in(_guarded(self._compiled.evaluate, value).list()["details"], value)
        elif not self._workload.has_choices:  # for those the library would collect why each branch fails, however many there are
            try:
                _guarded(self._compiled.validate, value)
            except self._library.ValidationError as error:
                what = "It is not allowed" if error.kind.name == "falseSchema" else _cut(error.message) + given(error.instance)
                problems = [Problem(_path(error.instance_path, value), what)]
        most = self._limits.max_problems
        if len(problems) > most:
            return [*problems[:most], Problem("", f"There are {len(problems) - most} more problems like these")]
        return problems or [Problem("", "The value does not fit its schema, and is too large to say where")]


def available() -> bool:
    """Whether schemas can be compiled, which takes ``twopipes[validate]``."""
    return _library() is not None


def compile_schema(schema: Mapping[str, Any], *, limits: SchemaLimits | None = None) -> Validator | None:
    """Makes a validator of a schema; ``None`` without the library, which is :data:`NOT_VALIDATED`.

    Raises:
        SchemaRefused: The dialect is unknown (JS-02), a reference leads out of the schema (JS-05), the schema is not valid
            itself, or judging by it could take too long (JS-06). All but the validity is found out without the library, too.
    """
    limits = limits or SchemaLimits()
    check_dialect(schema)
    workload = Workload(schema, limits)
    library = _library()
    return None if library is None else Validator(library, schema, workload, limits)


def check_dialect(schema: Mapping[str, Any]) -> None:
    """Refuses a dialect that is not known.

    Raises:
        SchemaRefused: It names another one than those in :data:`DIALECTS` (JS-02).
    """
    dialect = schema.get("$schema", DIALECTS[0])  # JS-01
    if not isinstance(dialect, str) or dialect.removesuffix("#") not in DIALECTS:
        raise SchemaRefused(f"it is written in {_cut(repr(dialect))}; known are {', '.join(DIALECTS)}")


def _library() -> Any:
    try:
        import jsonschema_rs  # noqa: PLC0415 - an extra, and 15 MB that a server without such schemas does not need
    except ImportError:
        return None
    return jsonschema_rs


def _compiled(library: Any, schema: Mapping[str, Any], workload: Workload) -> tuple[Any, int]:
    """The library's validator, and how much more than usual a visit costs.

    The regular expressions run in linear time. One that looks around cannot; then all may go back, so far and no further.
    """
    size = next(size for most, size in _PATTERN_SIZES if workload.patterns <= most)
    linear = library.RegexOptions(size_limit=size)
    try:
        return _guarded(_compile, library, schema, linear), 1
    except SchemaRefused:
        if not workload.patterns:
            raise
    patient = library.FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=size)
    return _guarded(_compile, library, schema, patient), _BACKTRACKING_FACTOR


def _compile(library: Any, schema: Mapping[str, Any], patterns: Any) -> Any:
    try:
        # JS-04. The workload has refused whatever leads out of the schema; this is for what it might not know.
        return library.validator_for(dict(schema), retriever=_refuse, pattern_options=patterns, mask="The value")
    except library.ValidationError as error:
        place = "".join(f"/{step}" for step in error.instance_path)
        raise SchemaRefused(f"it is not a valid schema: {_cut(error.message)}{given(error.instance)}", place=_cut(place)) from None
    except (ValueError, TypeError, library.ReferencingError) as error:
        raise SchemaRefused(f"it is not a valid schema: {_cut(str(error))}") from None


def _refuse(uri: str) -> NoReturn:
    raise LookupError(f"{uri} is not fetched")


def _guarded(work: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the library. Where its own code breaks, that is an error like any other, and not the end of the program."""
    try:
        return work(*arguments)
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise SchemaRefused(f"the library for JSON Schema has failed with it: {_cut(str(error))}") from error


def _extent(value: Any, deepest: int, most: int) -> _Extent | None:
    """How large a value is; ``None`` beyond the limits, where it may go on for ever."""
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
    """What the library found, as problems. What fails in several branches of a choice for the same reason is told once."""
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
    """What to say where ``false`` stands as a schema."""
    if keyword.startswith("unevaluated"):
        return ""  # told by the keyword itself
    return "No additional properties are allowed" if keyword == "additionalProperties" else "It is not allowed"


def _alternatives(choices: Sequence[str]) -> str:
    unique = list(dict.fromkeys(choices))
    if "" in unique or len(unique) > _MOST_ALTERNATIVES:
        return ""
    return f" (in alternative {' and '.join(unique)})"


def _path(steps: list[Any], value: Any) -> str:
    """The way to a part of a value, such as ``items[3].name``."""
    path = ""
    for step in steps:
        if isinstance(value, list | tuple):
            path += f"[{step}]"
            value = value[int(step)] if int(step) < len(value) else None
        else:
            name = str(step)
            path += f".{name}" if len(name) <= _LONGEST_NAME else f".{name[:_LONGEST_NAME]}..."
            value = value.get(name) if isinstance(value, dict) else None
    return _cut(path.removeprefix("."))


def _cut(text: str) -> str:
    """A text of bounded length. The library begins with the value and ends with what is wrong with it, so the middle goes."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 3]} ... {text[-_LONGEST * 2 // 3 :]}"
