"""Forms from classes, and instances from responses (EL-01 to EL-04)."""

import dataclasses
import datetime as dt
import decimal
import enum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import annotated_types
import attrs
import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator

from twopipes._protocol import types as t
from twopipes._protocol.dialect import dialect
from twopipes._schema.form_types import elicitation_schema, read_form
from twopipes.errors import FormRejected, SignatureRejected


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Plan(enum.Enum):
    FREE_FOREVER = "p0"
    PAID = "p1"


Email = Annotated[str, msgspec.Meta(extra_json_schema={"format": "email"})]


@dataclasses.dataclass
class Booking:
    """A table.

    Attributes:
        name: Who comes.
    """

    name: Annotated[str, annotated_types.Len(1, 40)]
    mail: Email
    day: dt.date
    guests: Annotated[int, msgspec.Meta(gt=0, le=12, title="Guests")]
    budget: Annotated[float, msgspec.Meta(ge=0, gt=None)] = 10.0
    window: bool = False
    colour: Colour = Colour.RED
    plan: Plan | None = None
    size: Literal["s", "m"] = "s"
    extras: list[Literal["wine", "cake"]] = dataclasses.field(default_factory=list)
    plans: Annotated[list[Plan], annotated_types.Len(1, 2)] = dataclasses.field(default_factory=lambda: [Plan.PAID])
    note: Annotated[str | None, "Anything else"] = None
    at: dt.datetime | None = None
    price: decimal.Decimal | None = None
    code: Annotated[str, msgspec.Meta(pattern="^x")] = "x"


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 40, "description": "Who comes."},
        "mail": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "guests": {"type": "integer", "maximum": 12, "minimum": 1, "title": "Guests"},
        "budget": {"type": "number", "minimum": 0, "default": 10.0},
        "window": {"type": "boolean", "default": False},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "plan": {"type": "string", "oneOf": [{"const": "p0", "title": "Free forever"}, {"const": "p1", "title": "Paid"}]},
        "size": {"type": "string", "enum": ["s", "m"], "default": "s"},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["wine", "cake"]}, "default": []},
        "plans": {
            "type": "array",
            "items": {"anyOf": [{"const": "p0", "title": "Free forever"}, {"const": "p1", "title": "Paid"}]},
            "minItems": 1,
            "maxItems": 2,
        },
        "note": {"type": "string", "description": "Anything else"},
        "at": {"type": "string", "format": "date-time"},
        "price": {"type": "string"},
        "code": {"type": "string", "default": "x"},
    },
    "required": ["name", "mail", "day", "guests"],
}


def test_a_class_becomes_a_flat_form():
    """EL-01, EL-02, EL-04."""
    found = elicitation_schema(Booking)
    assert found == FORM
    Draft202012Validator.check_schema(found)


def test_every_revision_supports_the_form():
    """EL-02, EL-03: the dialects know the types of the form."""
    question = t.ElicitParams("m", requested_schema=elicitation_schema(Booking))
    assert set(question.form.properties) == set(FORM["properties"])
    for revision in ("2025-06-18", "2025-11-25", "2026-07-28"):
        dialect(revision).fit(question)
    old = dialect("2025-06-18").fit(question).requested_schema["properties"]
    assert old["plan"]["enumNames"] == ["Free forever", "Paid"]
    assert old["extras.wine"]["type"] == "boolean"


def test_the_response_becomes_an_instance():
    answer = {"name": "n", "mail": "a@b", "day": "2026-07-28", "guests": 2.0, "plan": "p0", "extras": ["wine"], "note": None}
    assert read_form(Booking, answer) == Booking("n", "a@b", dt.date(2026, 7, 28), 2, plan=Plan.FREE_FOREVER, extras=["wine"])


def test_an_invalid_response_is_reported_field_by_field():
    with pytest.raises(FormRejected) as caught:
        read_form(Booking, {"name": "", "mail": "a@b", "day": "soon", "colour": "green", "code": "y", "extra": 1})
    assert str(caught.value).splitlines()[0] == "Invalid response to the form Booking:"
    assert [problem.path for problem in caught.value.problems] == ["name", "day", "guests", "colour", "code", "extra"]
    assert caught.value.problems[3].what == "Invalid enum value 'green'; expected one of 'red', 'blue'"


class Level(enum.IntEnum):
    LOW = 1
    VERY_HIGH = 2


class Size(enum.Enum):
    SMALL = 0.5
    NONE = None


@dataclasses.dataclass
class Order:
    level: Level
    size: Size | None = None
    levels: list[Level] = dataclasses.field(default_factory=list)
    best: Level = Level.VERY_HIGH


class OrderModel(pydantic.BaseModel):
    level: Level
    size: Size | None = None
    levels: list[Level] = []
    best: Level = Level.VERY_HIGH


LEVELS = [{"const": "LOW", "title": "Low"}, {"const": "VERY_HIGH", "title": "Very high"}]


@pytest.mark.parametrize("kind", [Order, OrderModel])
def test_an_enum_of_numbers_is_offered_by_its_names(kind):
    """EL-02: the choices of a form are strings."""
    found = elicitation_schema(kind)["properties"]
    assert found["level"] == {"type": "string", "oneOf": LEVELS}
    assert found["size"] == {
        "type": "string",
        "oneOf": [{"const": "SMALL", "title": "Small"}, {"const": "NONE", "title": "None"}],
    }
    assert found["levels"] == {"type": "array", "items": {"anyOf": LEVELS}, "default": []}
    assert found["best"] == {"type": "string", "oneOf": LEVELS, "default": "VERY_HIGH"}
    answer = read_form(kind, {"level": "LOW", "size": "SMALL", "levels": ["VERY_HIGH", "LOW"]})
    assert (answer.level, answer.size, answer.best) == (Level.LOW, Size.SMALL, Level.VERY_HIGH)
    assert answer.levels == [Level.VERY_HIGH, Level.LOW]
    with pytest.raises(FormRejected, match="level: "):
        read_form(kind, {"level": "MEDIUM"})


def test_an_enum_of_numbers_has_titles_in_every_revision():
    """EL-03."""
    question = t.ElicitParams("m", requested_schema=elicitation_schema(Order))
    old = dialect("2025-06-18").fit(question).requested_schema["properties"]
    assert (old["level"]["enum"], old["level"]["enumNames"]) == (["LOW", "VERY_HIGH"], ["Low", "Very high"])
    for revision in ("2025-11-25", "2026-07-28"):
        assert dialect(revision).fit(question).requested_schema["properties"]["level"]["oneOf"] == LEVELS


class Movie(TypedDict):
    title: str
    year: NotRequired[int]
    stars: int | None


class Person(msgspec.Struct, rename="camel"):
    first_name: str
    age: Annotated[int, msgspec.Meta(lt=200)] = 0


@attrs.define
class Place:
    name: str


class Account(pydantic.BaseModel):
    user: str = pydantic.Field(min_length=2, description="Who", alias="userName")
    kind: Plan = Plan.PAID
    site: Annotated[str, pydantic.Field(json_schema_extra={"format": "uri"})] = "a:b"
    tags: list[Literal["a", "b"]] = pydantic.Field(default_factory=list)


@pytest.mark.parametrize(
    ("kind", "required", "answer", "meaning"),
    [
        (Movie, ["title"], {"title": "M"}, {"title": "M", "stars": None}),
        (Person, ["firstName"], {"firstName": "f", "age": 3}, Person("f", 3)),
        (Place, ["name"], {"name": "n"}, Place("n")),
        (Account, ["userName"], {"userName": "me", "kind": "p0"}, Account(userName="me", kind=Plan.FREE_FOREVER)),
    ],
)
def test_every_kind_of_class_can_be_a_form(kind, required, answer, meaning):
    """EL-01."""
    found = elicitation_schema(kind)
    Draft202012Validator.check_schema(found)
    assert found["required"] == required
    assert t.ElicitParams("m", requested_schema=found).form is not None
    assert read_form(kind, answer) == meaning
    with pytest.raises(FormRejected):
        read_form(kind, None)


def test_a_pydantic_model_keeps_its_aliases_in_the_form():
    assert elicitation_schema(Account)["properties"] == {
        "userName": {"type": "string", "minLength": 2, "description": "Who"},
        "kind": {**FORM["properties"]["plan"], "default": "p1"},
        "site": {"type": "string", "format": "uri", "default": "a:b"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    }
    with pytest.raises(FormRejected, match="userName: "):
        read_form(Account, {"userName": "x"})


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (Movie, "a form can contain strings"),
        (list[str], "must be a list of choices"),
        (list[Movie], "must be a list of choices"),
        (dict[str, int], "a form can contain strings"),
        (int | str, "a union of several types"),
        (Literal[1, 2], "choices of a form must be strings"),
        (bytes, "a form can contain strings"),
        (Any, "a form can contain strings"),
        (None, "a form can contain strings"),
        (pydantic.BaseModel, "a form can contain strings"),
    ],
)
def test_an_unsupported_field_is_rejected_by_name(annotation, why):
    """EL-01, EL-02."""
    kind = dataclasses.make_dataclass("Form", [("field_name", annotation)])
    with pytest.raises(SignatureRejected, match=f"Form, field field_name: .*{why}"):
        elicitation_schema(kind)


class Pair(NamedTuple):
    a: int


@pytest.mark.parametrize("kind", [int, list[int], Pair, dict[str, int]])
def test_a_form_needs_a_class_with_named_fields(kind):
    with pytest.raises(SignatureRejected, match="class with named fields"):
        elicitation_schema(kind)


def test_a_field_that_json_cannot_represent_is_rejected_by_name():
    with pytest.raises(SignatureRejected, match="in Form, field x: complex cannot be represented"):
        elicitation_schema(dataclasses.make_dataclass("Form", [("x", complex)]))


def test_errors_of_the_class_itself_are_reported():
    @dataclasses.dataclass
    class Even:
        x: Annotated[int, msgspec.Meta(gt=0, lt=10)]

        def __post_init__(self):
            if self.x % 2:
                raise ValueError("x has to be even")

    assert elicitation_schema(Even)["properties"]["x"] == {"type": "integer", "minimum": 1, "maximum": 9}
    with pytest.raises(FormRejected, match=r"Invalid response to the form .*Even: x has to be even"):
        read_form(Even, {"x": 3})


def test_types_of_the_enclosing_function_are_found():
    class Choice(enum.Enum):
        YES = "yes"

    @dataclasses.dataclass
    class Form:
        choice: "Choice"

    assert elicitation_schema(Form)["properties"]["choice"]["enum"] == ["yes"]
    assert read_form(Form, {"choice": "yes"}) == Form(Choice.YES)
