"""Return values: the output schema of an annotation, and JSON that matches it (TL-10, TL-11, TL-13)."""

# ruff: noqa: UP045 -- annotations as authors write them

import dataclasses
import datetime as dt
import enum
import pathlib
from collections.abc import Awaitable, Coroutine
from typing import Annotated, Any, Literal, NamedTuple, Never, NoReturn, Optional, TypedDict, Union

import annotated_types as at
import msgspec
import pytest
from jsonschema import Draft202012Validator

from twopipes._protocol import types as t
from twopipes._protocol.dialect import dialect
from twopipes._schema.problems import ReturnRejected
from twopipes._schema.signature import describe
from twopipes.errors import SignatureRejected


class Weather(TypedDict, total=False):
    degrees: float


@dataclasses.dataclass
class Point:
    """A point."""

    x: int

    def __post_init__(self):
        if self.x == 13:
            raise AssertionError("an instance was made to check another")


@dataclasses.dataclass
class Other:
    y: int


@dataclasses.dataclass
class Tree:
    leaves: "list[Tree]"
    tip: "Tree | int | None" = None


class Cat(msgspec.Struct, tag=True):
    name: str


class Dog(msgspec.Struct, tag=True):
    name: str


class Pair(NamedTuple):
    a: int
    b: int


class Odd(enum.Enum):
    HALF = 0.5


class Image:
    """A type of the server that becomes content."""


def giving(annotation, **options):
    def function(): ...

    function.__annotations__["return"] = annotation
    return describe(function, **options)


@pytest.mark.parametrize(
    ("annotation", "value", "written"),
    [
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, str], {1: "a"}, {"1": "a"}),
        (dict, {}, {}),
        (Weather, {"degrees": 1.5}, {"degrees": 1.5}),
        (Point, Point(1), {"x": 1}),
        (Annotated[Point, "Where"], Point(1), {"x": 1}),
        (Tree, Tree([Tree([])]), {"leaves": [{"leaves": [], "tip": None}], "tip": None}),
        (Tree, Tree([], Tree([], 7)), {"leaves": [], "tip": {"leaves": [], "tip": 7}}),
        (Cat | Dog, Dog("d"), {"type": "Dog", "name": "d"}),
        (Point | Other, Other(1), {"y": 1}),
        (Awaitable[Point], Point(1), {"x": 1}),
        (Coroutine[Any, Any, "dict[str, int]"], {"a": 1}, {"a": 1}),
    ],
)
def test_an_object_is_not_wrapped(annotation, value, written):
    """TL-11: the root has the type object, without a reference."""
    found = giving(annotation)
    assert not found.output.is_wrapped
    check(found, value, written)


@pytest.mark.parametrize(
    ("annotation", "value", "written"),
    [
        (str, "a", "a"),
        (int, 3, 3),
        (float, 1, 1),
        (bool, True, True),
        (list[int], [1], [1]),
        (set[int], {1}, [1]),
        (set[Pair], {Pair(1, 2)}, [[1, 2]]),
        (Annotated[list[int], at.MaxLen(2)], [1], [1]),
        (tuple[int, Point], (1, Point(2)), [1, {"x": 2}]),
        (Optional[Point], None, None),
        (Optional[Point], Point(1), {"x": 1}),
        (Point | int, 3, 3),
        (list[Point | Other], [Other(1)], [{"y": 1}]),
        (list[Tree], [Tree([])], [{"leaves": [], "tip": None}]),
        (Pair, Pair(1, 2), [1, 2]),
        (Literal["a"], "a", "a"),
        (Literal[True], True, True),
        (Odd, Odd.HALF, 0.5),
        (pathlib.Path, pathlib.PurePosixPath("a/b"), "a/b"),
        (dt.date, dt.date(2026, 7, 28), "2026-07-28"),
        (Annotated[dt.date, at.Gt(dt.date(1, 1, 1))], dt.date(2026, 7, 28), "2026-07-28"),
    ],
)
def test_other_values_are_wrapped(annotation, value, written):
    """TL-11: a tool has the same output schema in every revision."""
    found = giving(annotation)
    assert found.output.is_wrapped
    check(found, value, {"result": written})


def check(found, value, written):
    Draft202012Validator.check_schema(found.output_schema)
    assert found.output_schema["type"] == "object"
    assert "$ref" not in found.output_schema
    data = found.output.encode(value, "function")
    assert msgspec.json.decode(data) == written
    Draft202012Validator(found.output_schema).validate(written)


def test_the_text_form_is_the_same_bytes():
    """TL-13."""
    data = giving(Point).output.encode(Point(1), "function")
    result = t.CallToolResult([t.TextContent(bytes(data).decode())], structured_content=data)
    for revision in ("2025-06-18", "2025-11-25", "2026-07-28"):
        fitted = dialect(revision).fit(result)
        sent = msgspec.json.decode(msgspec.json.encode(fitted))
        assert msgspec.json.decode(sent["content"][0]["text"]) == sent["structuredContent"] == {"x": 1}


@pytest.mark.parametrize(
    "annotation",
    [
        None,
        Any,
        object,
        NoReturn,
        Never,
        bytes,
        bytearray,
        t.TextContent,
        t.CallToolResult,
        t.ContentBlock,
        t.UnknownContent,
        list,
        tuple,
        list[Any],
        list[t.TextContent],
        list[t.TextContent | t.ImageContent],
        list[Union[str, "t.ImageContent"]],
        tuple[str, t.ImageContent],
        tuple[bytes, ...],
        Optional[t.TextContent],
        Annotated[t.TextContent, "x"],
        Image,
        list[Image],
    ],
)
def test_content_and_none_have_no_output_schema(annotation):
    found = giving(annotation, content=(Image,))
    assert found.output is None
    assert found.output_schema is None


def test_a_function_without_return_annotation_has_no_output_schema():
    assert describe(lambda: 1).output_schema is None


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (int, "a", ""),
        (int, True, ""),
        (str, None, ""),
        (float, float("nan"), ""),
        (list[float], [1.0, float("inf")], "[1]"),
        (Point, Point("a"), "x"),
        (Point, {"y": 1}, ""),
        (Tree, Tree([Tree("x")]), "leaves[0].leaves"),
        (Weather, {"degrees": "hot"}, "degrees"),
        (Literal["a"], "b", ""),
        (Odd, 0.7, ""),
        (list[Point | Other], [Tree([])], "[0]"),
        (int, 1j, ""),
        (dict[str, Any], {(1, 2): 3}, ""),
    ],
)
def test_a_value_that_does_not_match_its_annotation_is_an_error(annotation, value, path):
    """TL-10."""
    found = giving(annotation)
    with pytest.raises(ReturnRejected) as caught:
        found.output.encode(value, "function")
    assert caught.value.problems[0].path == path
    assert str(caught.value).startswith("Invalid return value of function: ")


def test_a_value_that_contains_itself_is_an_error():
    value: list = []
    value.append(value)
    with pytest.raises(ReturnRejected):
        giving(dict[str, Any]).output.encode({"value": value}, "function")


def test_a_value_that_is_too_deep_to_be_checked_is_an_error():
    tree = Tree([])
    for _ in range(600):
        tree = Tree([], tree)
    with pytest.raises(ReturnRejected, match="nested too deeply"):
        giving(Tree).output.encode(tree, "function")


def test_a_check_does_not_run_code_of_the_author():
    """Creates instances only where that is allowed."""
    point = Point(1)
    point.x = 13
    assert bytes(giving(Point).output.encode(point, "function")) == b'{"x":13}'
    assert bytes(giving(list[Point]).output.encode([point], "function")) == b'{"result":[{"x":13}]}'


def test_an_unsupported_return_type_is_rejected_with_a_fix():
    with pytest.raises(SignatureRejected, match=r"function, return: complex cannot be represented in JSON.*use Any"):
        giving(complex)


def test_a_handwritten_output_schema_may_be_anything_the_revision_allows():
    """TL-11, TL-12: nothing is wrapped; an object is required if the schema says so."""
    array = giving(list[int], output_schema={"type": "array"})
    assert array.output_schema == {"type": "array"}
    assert not array.output.is_wrapped
    assert bytes(array.output.encode([1], "function")) == b"[1]"
    null = giving(None, output_schema={"type": "null"})
    assert bytes(null.output.encode(None, "function")) == b"null"
    with pytest.raises(ReturnRejected, match="requires an object"):
        giving(Any, output_schema={"type": "object"}).output.encode([1], "function")
    assert bytes(giving(Any, output_schema={"type": "object"}).output.encode({"a": 1}, "function")) == b'{"a":1}'


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (int, 3, "3"),
        (float, 0.5, "0.5"),
        (bool, True, "true"),
        (int | None, None, "null"),
        (dt.date, dt.date(2026, 7, 28), "2026-07-28"),
        (Literal['say "hi"'], 'say "hi"', 'say "hi"'),
        (Point | int, 3, "3"),
        (Point | int, Point(1), '{"result":{"x":1}}'),
        (list[int], [1, 2], '{"result":[1,2]}'),
        (Point, Point(1), '{"x":1}'),
    ],
)
def test_the_text_of_a_scalar_is_the_scalar(annotation, value, text):
    """TL-13: anything else is the JSON of the structured content."""
    found = giving(annotation)
    assert found.output.text(found.output.encode(value, "function")) == text


def test_subclasses_of_plain_types_are_written_as_what_they_are():
    class Name(str):
        __slots__ = ()

    class Number(int):
        pass

    assert bytes(giving(dict[str, Any]).output.encode({"a": Name("n"), "b": Number(3)}, "function")) == b'{"a":"n","b":3}'
    assert bytes(giving(Name).output.encode(Name("n"), "function")) == b'{"result":"n"}'
