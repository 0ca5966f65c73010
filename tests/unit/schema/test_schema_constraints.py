"""Annotations with constraints, descriptions and defaults, and unsupported annotations."""

# ruff: noqa: PLR0917 -- a tool may have any number of parameters

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NewType

import annotated_types as at
import attrs
import msgspec
import pytest
from jsonschema import Draft202012Validator

from twopipes._schema.problems import ArgumentsRejected
from twopipes._schema.signature import describe
from twopipes.errors import SignatureRejected

INTEGER = {"type": "integer"}
Positive = NewType("Positive", Annotated[decimal.Decimal, at.Ge(0)])


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int


@dataclasses.dataclass
class Checked:
    small: Annotated[int, at.Lt(10)]


@attrs.define
class Coordinates:
    lat: float = attrs.field(validator=attrs.validators.ge(-90))


@dataclasses.dataclass
class Derived:
    x: int

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("x is less than nothing")


def taking(annotation):
    """A function with one parameter of a type."""

    def function(value): ...

    function.__annotations__["value"] = annotation
    return describe(function)


def schema_of(annotation):
    found = taking(annotation).input_schema
    Draft202012Validator.check_schema(found)
    return found["properties"]["value"]


def read(annotation, value):
    return taking(annotation).bind(msgspec.json.encode({"value": value}))["value"]


Small = Annotated[int, msgspec.Meta(ge=0, lt=10)]


@pytest.mark.parametrize(
    ("annotation", "keywords", "good", "bad"),
    [
        (Annotated[int, msgspec.Meta(ge=1, le=2)], {"minimum": 1, "maximum": 2}, 1, 0),
        (Annotated[int, at.Gt(1), at.Lt(3)], {"exclusiveMinimum": 1, "exclusiveMaximum": 3}, 2, 3),
        (Annotated[int, at.Interval(ge=1, le=3)], {"minimum": 1, "maximum": 3}, 1, 4),
        (Annotated[float, at.MultipleOf(0.5)], {"multipleOf": 0.5}, 1.5, 1.7),
        (Annotated[str, at.Len(1, 2)], {"minLength": 1, "maxLength": 2}, "a", "abc"),
        (Annotated[str, at.MaxLen(2)], {"maxLength": 2}, "", "abc"),
        (Annotated[str, at.Len(0, 2)], {"maxLength": 2}, "", "abc"),
        (Annotated[str, msgspec.Meta(pattern="^a")], {"pattern": "^a"}, "ab", "b"),
        (Annotated[list[int], at.MinLen(1)], {"minItems": 1}, [1], []),
        (Annotated[set[int], at.MaxLen(1)], {"maxItems": 1}, [1], [1, 2]),
        (Annotated[dict[str, int], at.MinLen(1)], {"minProperties": 1}, {"a": 1}, {}),
        (Annotated[bytes, at.MaxLen(1)], {"maxLength": 4}, "AA==", "AAE="),
        (Annotated[int | None, at.Ge(0)], {}, 0, -1),
        (Annotated[str | list[int], at.MinLen(1)], {}, [1], ""),
        (Annotated[Annotated[int, "x"], at.Ge(0)], {"minimum": 0, "description": "x"}, 0, -1),
        (Annotated[decimal.Decimal, at.Ge(0)], {}, "1", "-1"),
        (Annotated[Positive, at.Lt(9)], {}, "1", "9"),
        (Annotated[NewType("Named", Annotated[int, "x"]), at.Ge(0)], {"minimum": 0, "description": "x"}, 0, -1),
        (Annotated[dt.date, at.Gt(dt.date(2026, 1, 1))], {}, "2026-01-02", "2026-01-01"),
        (Annotated[dt.datetime, msgspec.Meta(tz=True)], {"format": "date-time"}, "2026-01-02T00:00:00Z", "2026-01-01T00:00:00"),
        (
            Annotated[dt.datetime, msgspec.Meta(tz=True), at.Ge(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))],
            {},
            "2026-01-02T00:00:00Z",
            "2025-01-01T00:00:00Z",
        ),
        (Annotated[int, at.Predicate(lambda value: value % 2 == 0)], {}, 2, 3),
        (Annotated[str, at.Predicate(str.islower)], {}, "a", "A"),
        (list[Small], {}, [9], [10]),
        (Checked, {}, {"small": 9}, {"small": 10}),
        (Coordinates, {}, {"lat": 0}, {"lat": -91}),
        (Derived, {}, {"x": 1}, {"x": -1}),
    ],
)
def test_a_constraint_is_in_the_schema_and_enforced(annotation, keywords, good, bad):
    found = schema_of(annotation)
    assert {name: found[name] for name in keywords} == keywords
    Draft202012Validator(found).validate(good)
    read(annotation, good)
    with pytest.raises(ArgumentsRejected):
        read(annotation, bad)


@dataclasses.dataclass
class Span:
    at: tuple[int, int] | Annotated[int, msgspec.Meta(ge=0)]


@pytest.mark.slow
def test_constraints_in_a_union_are_not_passed_to_msgspec():
    """msgspec 0.22 would sometimes crash the process; many decoders make that likely."""
    for _ in range(300):
        assert read(Annotated[str, msgspec.Meta(pattern="^a")] | list[int], [1]) == [1]
        assert read(Annotated[str, msgspec.Meta(pattern="^a")] | Annotated[dict[str, int], at.MinLen(1)] | None, "a") == "a"
        assert read(Span, {"at": [1, 2]}) == Span((1, 2))
        assert read(tuple[int] | Annotated[str, at.MaxLen(1)] | None, "a") == "a"
        assert read(Annotated[float, at.Ge(0)] | tuple[int, str], [1, "a"]) == (1, "a")
    with pytest.raises(ArgumentsRejected):
        read(Span, {"at": -1})
    assert read(tuple[int, str] | None, None) is None


class Doc:
    """As in typing_extensions."""

    def __init__(self, documentation):
        self.documentation = documentation


@pytest.mark.parametrize(
    ("annotation", "notes"),
    [
        (Annotated[int, "How many"], {"description": "How many"}),
        (Annotated[int, Doc("How many")], {"description": "How many"}),
        (
            Annotated[int, msgspec.Meta(title="T", description="D", examples=[1])],
            {"title": "T", "description": "D", "examples": [1]},
        ),
        (Annotated[int, msgspec.Meta(extra_json_schema={"deprecated": True})], {"deprecated": True}),
        (Annotated[int, object(), {"not": "hashable"}], {}),
        (Annotated[Point, "Where"], {"description": "Where"}),
    ],
)
def test_notes_about_a_type_are_in_the_schema(annotation, notes):
    found = schema_of(annotation)
    assert {name: found[name] for name in notes} == notes


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (complex, "complex cannot be represented in JSON"),
        (fractions.Fraction, "Fraction cannot be represented in JSON"),
        (Callable[[], int], "cannot be represented in JSON"),
        (type[int], "type cannot be represented in JSON"),
        (list[complex], "complex cannot be represented"),
        (dict[Point, int], "Point cannot be the key"),
        (dict[float, int], "float'?>? cannot be the key|float cannot be the key"),
        (dict[int | str, int], "cannot be the key"),
        (Literal[b"x"], "cannot be represented in JSON"),
        (enum.Enum("Empty", {}), "cannot be represented in JSON"),
        (enum.Enum("Odd", {"A": (1, 2)}), "cannot be represented in JSON"),
        (Annotated[str, at.Ge(3)], "the constraint ge does not apply"),
        (Annotated[int | None, at.MinLen(3)], "min_length does not apply to any member"),
        (Annotated[Point, at.Ge(3)], "the constraint ge does not apply"),
        (Annotated[bool, at.Ge(3)], "the constraint ge does not apply"),
        (Annotated[decimal.Decimal, at.MinLen(3)], "min_length does not apply"),
        (dataclasses.make_dataclass("Holder", [("x", complex)]), "in Holder, field x: complex cannot be represented"),
        (dataclasses.make_dataclass("Once", [("x", dataclasses.InitVar[int])]), "InitVar"),
        ("int |", "cannot be evaluated"),
        ("Missing", "'Missing' cannot be resolved.*TYPE_CHECKING"),
        (typing.ForwardRef("Missing"), "'Missing' cannot be resolved"),
        (typing.ForwardRef("Missing", module="decimal"), "'Missing' cannot be resolved"),
    ],
)
def test_an_unsupported_type_is_rejected_by_name(annotation, why):
    with pytest.raises(SignatureRejected, match=why) as caught:
        taking(annotation)
    assert str(caught.value).startswith("taking.<locals>.function, parameter value: ")


def test_a_default_is_shown_if_json_can_represent_it():
    def function(
        a: Colour = Colour.RED,
        b: pathlib.Path = pathlib.Path("p"),
        c: Any = object(),  # noqa: B008
        d: float = float("nan"),
        e: int = None,  # noqa: RUF013
        f: str | msgspec.UnsetType = msgspec.UNSET,
        g=2,
    ): ...

    found = describe(function).input_schema
    Draft202012Validator.check_schema(found)
    assert "required" not in found
    defaults = {name: each["default"] for name, each in found["properties"].items() if "default" in each}
    assert defaults == {"a": "red", "b": "p", "e": None, "g": 2}
    assert found["properties"]["e"]["anyOf"] == [INTEGER, {"type": "null"}]
    assert describe(function).bind(b"{}") == {}
    assert describe(function).bind(b'{"e":null}') == {"e": None}
