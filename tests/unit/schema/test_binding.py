"""Arguments: converted in one pass, or rejected with messages that a model can act on (TL-06, TL-20)."""

# ruff: noqa: PLR0917 -- a tool may have any number of parameters

import contextlib
import copy
import dataclasses
import enum
import pathlib
import pickle
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._error_text import join_paths
from twopipes._schema.custom_types import read_custom, write_custom
from twopipes._schema.problems import ArgumentsRejected
from twopipes._schema.signature import describe
from twopipes.errors import Problem, TwopipesError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
    colour: Colour | None = None


@dataclasses.dataclass
class Label:
    text: str


@dataclasses.dataclass
class Even:
    x: int

    def __post_init__(self):
        if self.x % 2:
            raise ValueError("x has to be even")


def search(
    query: str,
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10,
    colours: list[Colour] | None = None,
    where: Point | None = None,
    by_name: dict[str, Literal["a", "b"]] | None = None,
    shape: Point | Label | None = None,
    even: Even | None = None,
    anything: Any = None,
    recursive: "list[Point] | None" = None,
): ...


SEARCH = describe(search)


def problems(arguments, signature=SEARCH):
    with pytest.raises(ArgumentsRejected) as caught:
        signature.bind(msgspec.json.encode(arguments) if not isinstance(arguments, bytes) else arguments)
    return {problem.path: problem.what for problem in caught.value.problems}


def test_absent_arguments_are_left_to_the_function():
    assert SEARCH.bind(b'{"query":"q"}') == {"query": "q"}
    assert SEARCH.bind(b'{"query":"q","where":null}') == {"query": "q", "where": None}


def test_all_problems_are_reported_at_once():
    """TL-06: which field, what was expected, what was received."""
    assert problems({"limit": 0, "colours": ["green"], "quarry": "q"}) == {
        "query": "This argument is missing",
        "limit": "Expected `integer` >= 1 (0)",
        "colours[0]": "Invalid enum value 'green'; expected one of 'red', 'blue'",
        "quarry": "Unknown argument; did you mean query?",
    }


@pytest.mark.parametrize(
    ("arguments", "path", "what"),
    [
        ({"query": 3}, "query", "Expected `string`, got `integer` (3)"),
        ({"limit": "ten"}, "limit", 'Expected `integer`, got `string` ("ten")'),
        ({"limit": "x" * 100}, "limit", 'Expected `integer`, got `string` ("' + "x" * 59 + "...)"),
        ({"limit": 2.5}, "limit", "Expected `integer`, got `number` (2.5)"),
        ({"limit": 200.0}, "limit", "Expected `integer`, got `number` (200.0)"),
        ({"where": 3}, "where", "Expected `object`, got `integer` (3)"),
        ({"where": {"x": "a"}}, "where.x", 'Expected `integer`, got `string` ("a")'),
        ({"where": {"y": 1}}, "where", "Object missing required field `x`"),
        ({"where": {"x": 1, "colour": "r"}}, "where.colour", "Invalid enum value 'r'; expected one of 'red', 'blue'"),
        ({"by_name": {"k": "c"}}, "by_name[...]", "Invalid enum value 'c'; expected one of 'a', 'b'"),
        ({"by_name": {"k": 3}}, "by_name[...]", "Expected `string`, got `integer`"),
        ({"shape": {"x": "a"}}, "shape", None),
        ({"shape": {"text": 1}}, "shape", None),
        ({"shape": 7}, "shape", None),
        ({"even": {"x": 3}}, "even", "x has to be even"),
        ({"zzz": 1}, "zzz", None),
    ],
)
def test_the_error_for_one_argument_shows_its_value(arguments, path, what):
    """TL-06."""
    found = problems({"query": "q", **arguments})
    assert list(found) == [path] or path == "shape"
    assert what is None or found[path] == what


def test_a_near_match_in_a_union_reports_the_problem_of_that_member():
    def function(value: Point | list[int]): ...

    assert problems({"value": {"x": "a"}}, describe(function)) == {"value.x": 'Expected `integer`, got `string` ("a")'}

    def mixed(value: Point | Label | int): ...

    found = problems({"value": "text"}, describe(mixed))
    assert found["value"].startswith('Matches none of the 3 alternatives ("text"): Expected `object`')
    assert list(problems({"value": {"x": 1, "colour": "r"}}, describe(mixed))) == ["value"]


def test_a_near_match_in_a_union_reports_the_path():
    def function(value: Point | pathlib.Path, other: Point | Label | None = None): ...

    found = problems({"value": {"x": 1, "colour": "r"}, "other": {"x": 1, "colour": {"deep": 1}}}, describe(function))
    assert found["value.colour"] == "Invalid enum value 'r'"
    assert "other" in found


def test_allowed_choices_are_found_through_references():
    @dataclasses.dataclass
    class Line:
        start: Point
        end: Point
        middle: Point | Even | None = None

    def function(line: Line, lines: list[Line] | None = None): ...

    wrong = {"x": 1, "colour": "r"}
    good = {"x": 1}
    found = problems({"line": {"start": wrong, "end": good}, "lines": [{"start": good, "end": wrong}]}, describe(function))
    assert found == {
        "line.start.colour": "Invalid enum value 'r'; expected one of 'red', 'blue'",
        "lines[0].end.colour": "Invalid enum value 'r'; expected one of 'red', 'blue'",
    }


def test_a_name_with_a_dot_hides_only_the_value():
    dotted = TypedDict("dotted", {"a.b": int})

    def function(value: dotted): ...

    assert problems({"value": {"a.b": "x"}}, describe(function)) == {"value.a.b": "Expected `integer`, got `string`"}


def test_the_choices_of_a_handwritten_schema_are_not_guessed():
    def function(value: list[Colour]): ...

    for by_hand in ({"type": "object"}, {"type": "object", "properties": {"value": True}}):
        found = describe(function, input_schema=by_hand)
        assert problems({"value": ["green"]}, found) == {"value[0]": "Invalid enum value 'green'"}


def test_an_invalid_key_is_reported_as_a_key():
    def function(value: dict[int, str]): ...

    assert problems({"value": {"x": "a"}}, describe(function)) == {"value": "Expected `integer`, got `string` as a key"}


def test_an_unknown_argument_without_a_similar_name_lists_the_names():
    def function(alpha: int = 1, beta: int = 2): ...

    assert problems({"zzz": 1}, describe(function)) == {"zzz": "Unknown argument; expected one of alpha, beta"}


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"[]", "Expected an object with the arguments by name"),
        (b"null", "Expected an object with the arguments by name (null)"),
        (b'{"query":', "The arguments are not JSON: Input data was truncated"),
        (b'{"anything":' + b"[" * 100_000, "The value is nested too deeply"),
    ],
)
def test_arguments_that_are_not_an_object_are_rejected(raw, what):
    """TL-02, TL-20."""
    assert problems(raw) == {"": what}


def test_deep_nesting_in_one_argument_is_reported():
    """TL-20."""
    with pytest.raises(ArgumentsRejected, match="nested too deeply"):
        SEARCH.bind(b'{"query":"q","where":' + b'{"x":' * 50_000 + b"1" + b"}" * 50_000 + b"}")


def test_a_value_that_is_too_deep_for_its_type_is_reported(monkeypatch):
    """TL-20."""
    binder = SEARCH._make_binder()
    monkeypatch.setattr("twopipes._schema.binding.converted", too_deep)
    with pytest.raises(ArgumentsRejected, match="anything: The value is nested too deeply"):
        binder.read_plain({"query": "q", "anything": []})


def too_deep(value, kind):
    if value == "q":
        return value
    raise RecursionError


def test_hostile_names_are_reported_like_other_names():
    """TL-20."""
    assert list(problems({"query": "q", "__proto__": {}, "__class__": 1})) == ["__proto__", "__class__"]


def test_messages_about_hostile_values_are_short():
    """TL-20."""
    found = problems({"query": "q", "colours": ["x" * 100_000], **{f"{number:07}" * 10_000: 1 for number in range(100)}})
    assert len(found) == 11
    assert sum(len(path) + len(what) for path, what in found.items()) < 5000


def test_integers_may_have_a_decimal_point():
    """JS-01: 3.0 is an integer in JSON Schema. It is read as one at any depth, if it is exact."""

    def function(a: list[Point], b: dict[str, int], c: float = 0.0, d: int = 0): ...

    found = describe(function)
    assert found.bind(b'{"a":[{"x":1.0}],"b":{"k":2.0,"l":3},"c":3}') == {"a": [Point(1)], "b": {"k": 2, "l": 3}, "c": 3.0}
    assert type(found.bind(b'{"a":[],"b":{},"c":3.0,"d":1.0}')["c"]) is float
    assert list(problems({"a": [], "b": {}, "d": 1e300}, found)) == ["d"]
    assert list(problems({"a": [], "b": {"x": 1.5}}, found)) == ["b[...]"]


def test_the_last_of_two_equal_names_counts():
    assert SEARCH.bind(b'{"query":"a","query":"b"}') == {"query": "b"}


def test_large_arguments_are_decoded_once(monkeypatch):
    calls = []
    monkeypatch.setattr("twopipes._schema.binding.decode", lambda *a, **k: calls.append(a))
    SEARCH.bind(msgspec.json.encode({"query": "q", "anything": ["x"] * 1000, "where": {"x": 1}, "shape": {"text": "t"}}))
    assert calls == []


# Strings that represent values


def test_strings_are_converted_to_the_type_of_the_parameter():
    """PM-02: a prompt gets strings for parameters of any type."""

    def prompt(
        text: str,
        number: int = 0,
        ratio: float | None = None,
        flag: bool = False,  # noqa: FBT001, FBT002
        items: list[int] | None = None,
        colour: Colour = Colour.RED,
        path: pathlib.Path | None = None,
    ): ...

    found = describe(prompt)
    assert found.bind_strings({"text": "3", "number": "3", "ratio": "1.5", "flag": "true", "items": "[1, 2.0]"}) == {
        "text": "3",
        "number": 3,
        "ratio": 1.5,
        "flag": True,
        "items": [1, 2],
    }
    assert found.bind_strings({"text": "", "colour": "blue", "path": "p"})["path"] == pathlib.Path("p")
    with pytest.raises(ArgumentsRejected) as caught:
        found.bind_strings({"number": "three", "items": "{}", "flag": "maybe"})
    assert [problem.path for problem in caught.value.problems] == ["text", "number", "flag", "items"]


# The errors themselves


def test_one_problem_is_a_line_and_several_are_a_list():
    one = ArgumentsRejected("add", [Problem("a", "is missing")])
    assert str(one) == "Invalid arguments for add: a: is missing"
    assert str(ArgumentsRejected("add", [Problem("", "x"), Problem("b", "y")])) == "Invalid arguments for add:\n- x\n- b: y"
    assert isinstance(one, TwopipesError)
    for copied in (copy.copy(one), pickle.loads(pickle.dumps(one))):
        assert str(copied) == str(one)
        assert copied.problems == one.problems


@pytest.mark.parametrize(
    ("outer", "inner", "whole"), [("a", "b", "a.b"), ("a", "[0]", "a[0]"), ("", "b", "b"), ("a", "", "a"), ("", "", "")]
)
def test_paths_are_joined(outer, inner, whole):
    assert join_paths(outer, inner) == whole


def test_an_unsupported_type_is_a_type_error():
    with pytest.raises(TypeError, match="cannot be read"):
        read_custom(complex, 1)
    with pytest.raises(TypeError, match="complex cannot be written"):
        write_custom(1j)


NAMES = st.sampled_from(["query", "limit", "where", "x", "shape", "colours", "recursive"])
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=3)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3))


@given(VALUES)
def test_any_json_gives_arguments_or_problems(value):
    """TL-20."""
    try:
        raw = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return
    with contextlib.suppress(ArgumentsRejected):
        assert SEARCH.bind(raw).keys() <= set(search.__annotations__)


def measure(
    count: int,
    ratio: float = 1.0,
    *,
    sure: bool = False,
    point: Point | None = None,
    sizes: list[int] | None = None,
    text: str = "",
    either: int | str = 0,
    limit: Annotated[int, msgspec.Meta(le=100)] = 10,
): ...


MEASURE = describe(measure)
QUOTED = {
    "count": "3",
    "ratio": "0.5",
    "sure": "true",
    "point": {"x": "1", "y": "2"},  # created by its class, not by msgspec
    "sizes": ["1", 2],
    "text": "3",
    "either": "3",
}


def test_quoted_numbers_are_accepted_in_lenient_mode():
    assert MEASURE.bind(msgspec.json.encode(QUOTED), lenient=True) == {
        "count": 3,
        "ratio": 0.5,
        "sure": True,
        "point": Point(1, 2),
        "sizes": [1, 2],
        "text": "3",
        "either": "3",
    }


def test_quoted_numbers_are_rejected_by_default():
    """TL-06."""
    assert list(problems(QUOTED, MEASURE)) == ["count", "ratio", "sure", "point.x", "sizes[0]"]


def test_a_string_that_is_not_a_number_gets_the_same_message_in_both_modes():
    """TL-06: also a number out of range, and a number instead of a string."""
    wrong = msgspec.json.encode({"count": "many", "sure": "perhaps", "point": {"x": "east"}, "text": 3, "limit": "200"})
    refusals = []
    for lenient in (False, True):
        with pytest.raises(ArgumentsRejected) as caught:
            MEASURE.bind(wrong, lenient=lenient)
        refusals.append({problem.path: problem.what for problem in caught.value.problems})
    assert refusals[0] == refusals[1]
    assert refusals[0]["point.x"] == 'Expected `integer`, got `string` ("east")'


def test_lenient_mode_ends_with_the_call():
    MEASURE.bind(b'{"count":"3"}', lenient=True)
    assert list(problems({"count": 1, "point": {"x": "1"}}, MEASURE)) == ["point.x"]
