"""Annotations: their schemas, the values they accept, and the values they reject."""

# ruff: noqa: PLR0917, PYI024, PYI061, UP006, UP007, UP045 -- annotations as authors write them

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import typing
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, Required, TypedDict, TypeVar, Union

import annotated_types as at
import attrs
import msgspec
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from twopipes._schema.problems import ArgumentsRejected
from twopipes._schema.signature import describe

T = TypeVar("T")
Number = TypeVar("Number", int, float)
Text = TypeVar("Text", bound=str)
UserId = NewType("UserId", int)


Positive = NewType("Positive", Annotated[decimal.Decimal, at.Ge(0)])
Numbers = typing_extensions.TypeAliasType("Numbers", list[int])
Many = typing_extensions.TypeAliasType("Many", list[T], type_params=(T,))


class Colour(enum.Enum):
    RED = "red"
    DARK_BLUE = "dark-blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    HALF = 0.5
    NAME = "name"
    NOTHING = None


class Flavour(enum.StrEnum):
    SWEET = "sweet"


class Name(str):
    __slots__ = ()


@dataclasses.dataclass
class Point:
    """A point.

    Attributes:
        x: Across.
    """

    x: int
    y: int = 0


@dataclasses.dataclass
class Labelled:
    x: int
    label: str


@dataclasses.dataclass
class Line:
    points: list[Point]
    path: pathlib.Path
    names: tuple[str, ...] = ()


class Movie(TypedDict):
    title: Required[str]
    year: NotRequired[int]


class Partial(TypedDict, total=False):
    a: int


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Cat(msgspec.Struct, tag="cat"):
    name: str


class Dog(msgspec.Struct, tag="dog"):
    name: str
    tricks: list[str] = []


class Wolf(msgspec.Struct, tag="dog"):
    howls: int


class Bird(msgspec.Struct, tag="bird", tag_field="species"):
    name: str


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    first_name: str
    last_name: str | msgspec.UnsetType = msgspec.UNSET


class Vector(msgspec.Struct, array_like=True):
    x: int
    y: int = 0


class TaggedVector(msgspec.Struct, array_like=True, tag="v", forbid_unknown_fields=True):
    x: int


class Page(msgspec.Struct, Generic[T]):
    items: list[T]
    first: T | None = None


class IntPage(Page[int]):
    number: int = 0


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T


@attrs.define
class Coordinates:
    lat: float = attrs.field(validator=attrs.validators.ge(-90))
    _private: int = 3
    tags: list[str] = attrs.Factory(list)


@attrs.define
class Converted:
    at: int = attrs.field(converter=lambda value: value * 2)
    twice: int = attrs.field(init=False, default=0)
    copy: int = attrs.Factory(lambda self: self.at, takes_self=True)


@dataclasses.dataclass
class Node:
    value: int
    children: "list[Node]" = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Drawing:
    """Msgspec cannot read this by itself, because a point and a label are both objects."""

    what: Point | Labelled
    inner: "Drawing | int | None" = None


@dataclasses.dataclass
class Store:
    by_name: dict[str, tuple[int, Point]]
    lists: tuple[list[int], ...] = ()
    frozen: "Frozen | None" = None


class Frozen(typing_extensions.TypedDict):
    """A class that msgspec may not know."""

    a: typing_extensions.ReadOnly[int]


@dataclasses.dataclass
class Checked:
    small: Annotated[int, at.Lt(10)]


@dataclasses.dataclass
class Derived:
    x: int
    twice: int = dataclasses.field(init=False)

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("x is less than nothing")
        self.twice = 2 * self.x


def taking(annotation, **options):
    """A function with one parameter of a type."""

    def function(value): ...

    function.__annotations__["value"] = annotation
    return describe(function, **options)


def schema_of(annotation):
    found = taking(annotation).input_schema
    # JS-01, JS-03: valid in 2020-12, which is what the absence of `$schema` means.
    Draft202012Validator.check_schema(found)
    assert "$schema" not in found
    return found["properties"]["value"]


def read(annotation, value):
    return taking(annotation).bind(msgspec.json.encode({"value": value}))["value"]


INTEGER = {"type": "integer"}
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("annotation", "schema", "given_value", "meaning"),
    [
        (str, STRING, "a", "a"),
        (int, INTEGER, 3, 3),
        (int, INTEGER, 3.0, 3),
        (int, INTEGER, 2**70, 2**70),
        (float, {"type": "number"}, 3, 3.0),
        (bool, {"type": "boolean"}, True, True),
        (None, {"type": "null"}, None, None),
        (Any, {}, {"a": [1]}, {"a": [1]}),
        (object, {}, 1.5, 1.5),
        (typing.LiteralString, STRING, "a", "a"),
        (bytes, {"type": "string", "contentEncoding": "base64"}, "AAE=", b"\0\1"),
        (bytearray, {"type": "string", "contentEncoding": "base64"}, "AAE=", bytearray(b"\0\1")),
        (
            dt.datetime,
            {"type": "string", "format": "date-time"},
            "2026-07-28T12:00:00Z",
            dt.datetime(2026, 7, 28, 12, tzinfo=dt.UTC),
        ),
        (dt.date, {"type": "string", "format": "date"}, "2026-07-28", dt.date(2026, 7, 28)),
        (dt.time, {"type": "string", "format": "time"}, "12:00:00", dt.time(12)),
        (dt.timedelta, {"type": "string", "format": "duration"}, "PT90S", dt.timedelta(seconds=90)),
        (uuid.UUID, {"type": "string", "format": "uuid"}, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
        (decimal.Decimal, {"type": "string", "format": "decimal"}, "1.10", decimal.Decimal("1.10")),
        (decimal.Decimal, {"type": "string", "format": "decimal"}, 1.5, decimal.Decimal("1.5")),
        (pathlib.Path, {"type": "string", "format": "path"}, "a/b", pathlib.Path("a/b")),
        (pathlib.PurePosixPath, {"type": "string", "format": "path"}, "a/b", pathlib.PurePosixPath("a/b")),
        (Name, STRING, "n", Name("n")),
        (UserId, INTEGER, 3, 3),
        (T, {}, 3, 3),
        (Text, STRING, "x", "x"),
        (Number, {"anyOf": [INTEGER, {"type": "number"}]}, 1.5, 1.5),
        (typing.Final[int], INTEGER, 3, 3),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, 2.0, 2),
        (Literal["a", 1, None], {"enum": ["a", 1, None]}, None, None),
        (Literal[True, "auto"], {"enum": [True, "auto"]}, True, True),
        (Literal[Colour.RED], {"type": "string", "enum": ["red"]}, "red", Colour.RED),
        (Colour, {"type": "string", "enum": ["red", "dark-blue"]}, "dark-blue", Colour.DARK_BLUE),
        (Level, {"type": "integer", "enum": [1, 2]}, 2, Level.HIGH),
        (Flavour, {"type": "string", "enum": ["sweet"]}, "sweet", Flavour.SWEET),
        (Mixed, {"enum": [1, 0.5, "name", None]}, 0.5, Mixed.HALF),
        (list, {"type": "array"}, [1, "a"], [1, "a"]),
        (list[int], {"type": "array", "items": INTEGER}, [1, 2.0], [1, 2]),
        (typing.List[int], {"type": "array", "items": INTEGER}, [1], [1]),
        (Sequence[int], {"type": "array", "items": INTEGER}, [1], [1]),
        (Iterable[int], {"type": "array", "items": INTEGER}, [1], [1]),
        (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}, [1], {1}),
        (frozenset, {"type": "array", "uniqueItems": True}, [1], frozenset({1})),
        (tuple, {"type": "array"}, [1, "a"], (1, "a")),
        (tuple[int, ...], {"type": "array", "items": INTEGER}, [1, 2], (1, 2)),
        (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [], ()),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [INTEGER, STRING], "items": False, "minItems": 2, "maxItems": 2},
            [1, "a"],
            (1, "a"),
        ),
        (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}, {"a": 1.0}, {"a": 1}),
        (Mapping[str, Any], {"type": "object"}, {"a": 1}, {"a": 1}),
        (dict[int, Any], {"type": "object", "propertyNames": {"pattern": "^-?[0-9]+$"}}, {"1": "a"}, {1: "a"}),
        (dict[Literal["a"], Any], {"type": "object", "propertyNames": {"enum": ["a"]}}, {"a": 1}, {"a": 1}),
        (Optional[int], {"anyOf": [INTEGER, {"type": "null"}]}, None, None),
        (int | str, {"anyOf": [INTEGER, STRING]}, "a", "a"),
        (Union[int, Any], {}, [1], [1]),
        (Union[Annotated[int, "x"], str], {"anyOf": [{"type": "integer", "description": "x"}, STRING]}, "s", "s"),
        (Union[Annotated[int | None, "x"], str], None, "s", "s"),
        (Annotated[decimal.Decimal, at.Ge(0)] | None, None, None, None),
        (Numbers, {"type": "array", "items": INTEGER}, [1], [1]),
        (Many[int], {"type": "array", "items": INTEGER}, [1], [1]),
        (list[int] | set[str], None, ["a"], {"a"}),
        (dt.date | str, None, "today", "today"),
        (dt.date | str, None, "2026-07-28", dt.date(2026, 7, 28)),
        (pathlib.Path | int, None, "a", pathlib.Path("a")),
        (pathlib.Path | None, None, None, None),
        (pathlib.Path | int, None, 3, 3),
    ],
)  # fmt: skip
def test_a_type_is_described_and_read(annotation, schema, given_value, meaning):
    found = schema_of(annotation)
    assert schema is None or found == schema
    Draft202012Validator(found).validate(given_value if not isinstance(meaning, decimal.Decimal) else "1.5")
    value = read(annotation, given_value)
    assert value == meaning
    assert type(value) is type(meaning)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, True),
        (int, "3"),
        (int, 3.5),
        (int, 1e30),
        (bool, 1),
        (str, 3),
        (float, "1"),
        (Literal[True], 1),
        (Literal[1], True),
        (Literal["a"], "b"),
        (Literal[True], []),
        (Mixed, "nothing"),
        (Colour, "RED"),
        (tuple[int, str], [1]),
        (Name, 3),
        (pathlib.Path, 3),
        (bytes, "?"),
        (dict[int, str], {"x": "a"}),
        (list[int] | set[str], [1, "a"]),
        (Cat | Dog, {"type": "cow"}),
    ],
)
def test_a_value_of_another_type_is_refused(annotation, value):
    """TL-06: no value is converted; true is not 1."""
    with pytest.raises(ArgumentsRejected):
        read(annotation, value)


@pytest.mark.parametrize(
    ("annotation", "value", "meaning"),
    [
        (Point, {"x": 1}, Point(1)),
        (Point, {"x": 1.0, "y": 2.0}, Point(1, 2)),
        (Line, {"points": [{"x": 1}], "path": "p"}, Line([Point(1)], pathlib.Path("p"))),
        (Movie, {"title": "M"}, {"title": "M"}),
        (Partial, {}, {}),
        (Pair, [1], Pair(1)),
        (Pair, [1, "x"], Pair(1, "x")),
        (collections.namedtuple("Old", "a b"), [1, "x"], (1, "x")),
        (Cat, {"type": "cat", "name": "c"}, Cat("c")),
        (Cat | Dog, {"type": "dog", "name": "d"}, Dog("d")),
        (Cat | Dog | None, None, None),
        (Dog | Wolf, {"type": "dog", "howls": 3}, Wolf(3)),
        (Cat | Bird, {"species": "bird", "name": "b"}, Bird("b")),
        (Point | Cat, {"type": "cat", "name": "c"}, Cat("c")),
        (Strict, {"firstName": "f"}, Strict("f")),
        (Vector, [1], Vector(1)),
        (TaggedVector, ["v", 1], TaggedVector(1)),
        (Page[int], {"items": [1], "first": 2}, Page([1], 2)),
        (IntPage, {"items": [1]}, IntPage([1])),
        (Box[Point], {"inside": {"x": 1}}, Box(Point(1))),
        (Box[list[int]], {"inside": [1]}, Box([1])),
        (Coordinates, {"lat": 1.5, "_private": 4}, Coordinates(1.5, 4)),
        (Converted, {"at": 2}, Converted(2)),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(1, [Node(2)])),
        (Point | Labelled, {"x": 1}, Point(1)),
        (Point | Labelled, {"x": 1, "label": "l"}, Labelled(1, "l")),
        (Labelled | dict[str, int], {"x": 1}, {"x": 1}),
        (Drawing, {"what": {"x": 1, "label": "l"}, "inner": {"what": {"x": 2}}}, Drawing(Labelled(1, "l"), Drawing(Point(2)))),
        (Drawing, {"what": {"x": 1}, "inner": 7}, Drawing(Point(1), 7)),
        (list[Drawing], [{"what": {"x": 1}}], [Drawing(Point(1))]),
        (dict[str, Drawing], {"a": {"what": {"x": 1}}}, {"a": Drawing(Point(1))}),
        (Store, {"by_name": {"a": [1, {"x": 2}]}, "frozen": {"a": 1}}, Store({"a": (1, Point(2))}, frozen={"a": 1})),
        (Frozen, {"a": 1}, {"a": 1}),
        (Checked, {"small": 9}, Checked(9)),
        (Derived, {"x": 2}, Derived(2)),
    ],
)
def test_a_class_with_fields_is_described_and_read(annotation, value, meaning):
    """JS-03."""
    found = taking(annotation).input_schema
    Draft202012Validator.check_schema(found)
    Draft202012Validator(found).validate({"value": value})
    assert read(annotation, value) == meaning


def test_a_class_is_described_by_its_docstring_its_fields_and_their_defaults():
    assert schema_of(Point) == {
        "description": "A point.",
        "type": "object",
        "properties": {"x": {"type": "integer", "description": "Across."}, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
    }
    assert schema_of(Labelled) == {"type": "object", "properties": {"x": INTEGER, "label": STRING}, "required": ["x", "label"]}
    assert schema_of(Movie) == {"type": "object", "properties": {"title": STRING, "year": INTEGER}, "required": ["title"]}
    assert schema_of(Strict)["additionalProperties"] is False
    assert schema_of(Strict)["required"] == ["firstName"]
    assert schema_of(Cat)["properties"]["type"] == {"const": "cat"}
    assert schema_of(Pair) == {
        "type": "array",
        "prefixItems": [INTEGER, {"type": "string", "default": "r"}],
        "minItems": 1,
        "maxItems": 2,
    }
    assert "maxItems" not in schema_of(Vector)
    assert schema_of(TaggedVector)["prefixItems"] == [{"const": "v"}, INTEGER]
    assert schema_of(Coordinates)["required"] == ["lat"]
    assert schema_of(Coordinates)["properties"]["tags"]["default"] == []


def test_generic_classes_are_described_with_their_parameters():
    assert schema_of(Page[int])["properties"]["items"] == {"type": "array", "items": INTEGER}
    assert schema_of(IntPage)["properties"]["first"]["anyOf"][0] == INTEGER
    assert schema_of(Page)["properties"]["items"] == {"type": "array"}
    assert schema_of(Box[list[str]])["properties"]["inside"] == {"type": "array", "items": STRING}


def test_a_class_used_once_is_inline_and_others_are_definitions():
    """JS-08: a peer that does not support references gets as few of them as possible."""
    assert "$defs" not in taking(Line).input_schema

    def twice(a: Point, b: Point, c: Node, d: Page[int], e: Page[int], f: Page[str], g: Page[str]): ...

    found = describe(twice).input_schema
    Draft202012Validator.check_schema(found)
    assert found["properties"]["a"] == found["properties"]["b"] == {"$ref": "#/$defs/Point"}
    assert set(found["$defs"]) == {"Point", "Node", "Page_int", "Page_str"}
    assert "$ref" not in found


def test_two_classes_with_the_same_name_are_distinguished():
    def make(kind):
        return dataclasses.make_dataclass("Same", [("x", kind)])

    one, two = make(int), make(str)

    def function(a, b, c, d): ...

    function.__annotations__ = {"a": one, "b": one, "c": two, "d": two}
    found = describe(function).input_schema
    assert set(found["$defs"]) == {"Same", "Same_2"}
    assert found["properties"]["c"] == {"$ref": "#/$defs/Same_2"}


Small = Annotated[int, msgspec.Meta(ge=0, lt=10)]


# Any type, any value


leaves = st.sampled_from(
    [
        (int, st.integers(-(2**63), 2**63)),
        (float, st.floats(allow_nan=False, allow_infinity=False)),
        (str, st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
        (bool, st.booleans()),
        (type(None), st.none()),
        (Literal["a", 1], st.sampled_from(["a", 1])),
        (Colour, st.sampled_from(Colour)),
        (Mixed, st.sampled_from(Mixed)),
        (Small, st.integers(0, 9)),
        (Annotated[str, msgspec.Meta(max_length=3, pattern="^a")], st.just("ab")),
        (Annotated[float, msgspec.Meta(ge=0, multiple_of=0.5)], st.just(1.5)),
        (Annotated[list[int], msgspec.Meta(min_length=1)], st.just([1, 2])),
        (Annotated[dict[str, int], msgspec.Meta(max_length=1)], st.just({"a": 1})),
        (TaggedVector, st.builds(TaggedVector, st.integers(0, 9))),
        (dt.date, st.dates()),
        (uuid.UUID, st.uuids()),
        (bytes, st.binary(max_size=4)),
        (Point, st.builds(Point, st.integers(0, 9), st.integers(0, 9))),
        (Labelled, st.builds(Labelled, st.integers(0, 9), st.just("l"))),
        (Cat | Dog, st.builds(Cat, st.just("c")) | st.builds(Dog, st.just("d"))),
        (Drawing, st.builds(Drawing, st.builds(Point, st.integers(0, 9), st.integers(0, 9)))),
        (Converted, st.builds(Converted, st.just(0))),
    ]
)
typed_values = st.recursive(
    leaves,
    lambda inner: (
        inner.map(lambda pair: (list[pair[0]], st.lists(pair[1], max_size=3)))
        | inner.map(lambda pair: (dict[str, pair[0]], st.dictionaries(st.sampled_from("abc"), pair[1], max_size=3)))
        | inner.map(lambda pair: (Optional[pair[0]], st.none() | pair[1]))
        | st.tuples(inner, inner).map(lambda pairs: (tuple[pairs[0][0], pairs[1][0]], st.tuples(pairs[0][1], pairs[1][1])))
        | st.tuples(inner, inner).map(lambda pairs: (Union[pairs[0][0], pairs[1][0]], pairs[0][1] | pairs[1][1]))
    ),
    max_leaves=4,
)


@given(typed_values, st.data())
def test_any_value_of_any_type_matches_its_schema_and_survives_a_round_trip(typed, data):
    """TL-10, JS-03: written values match the schema, and matching values are accepted."""
    annotation, values = typed
    value = data.draw(values)

    def function(value): ...

    function.__annotations__ = {"value": annotation, "return": annotation}
    signature = describe(function)
    for schema in (signature.input_schema, signature.output_schema):
        if schema is not None:
            Draft202012Validator.check_schema(schema)
    if signature.output_schema is None:
        return
    written = msgspec.json.decode(signature.output.encode(value, "f"))
    Draft202012Validator(signature.output_schema).validate(written)
    plain = written["result"] if signature.output.is_wrapped else written
    Draft202012Validator(signature.input_schema).validate({"value": plain})
    again = signature.bind(msgspec.json.encode({"value": plain}))["value"]
    assert msgspec.json.decode(signature.output.encode(again, "f")) == written  # 1 may have become 1.0
