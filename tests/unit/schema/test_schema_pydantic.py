"""Types of pydantic: described and read by pydantic itself."""

# ruff: noqa: B008, UP045 -- annotations and defaults as authors write them

import dataclasses
import decimal
import enum
import re
from typing import Annotated, Any, Literal, Optional

import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator
from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from twopipes._schema.problems import ArgumentsRejected, ReturnRejected
from twopipes._schema.signature import describe
from twopipes.errors import SignatureRejected


class Address(BaseModel):
    street: str
    number: int = Field(gt=0)


class User(BaseModel):
    """Someone."""

    model_config = pydantic.ConfigDict(populate_by_name=True)

    name: str = Field(alias="fullName", description="The whole of it.")
    address: Address | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


@pydantic.dataclasses.dataclass
class Size:
    width: int = Field(gt=0)


@dataclasses.dataclass
class Holder:
    user: User
    size: Size | None = None


def taking(annotation):
    def function(value): ...

    function.__annotations__ = {"value": annotation, "return": annotation}
    found = describe(function)
    Draft202012Validator.check_schema(found.input_schema)
    if found.output_schema is not None:
        Draft202012Validator.check_schema(found.output_schema)
    return found


def read(annotation, value):
    return taking(annotation).bind(msgspec.json.encode({"value": value}))["value"]


@pytest.mark.parametrize(
    ("annotation", "value", "meaning"),
    [
        (Address, {"street": "s", "number": 1}, Address(street="s", number=1)),
        (User, {"fullName": "n"}, User(name="n")),
        (User, {"fullName": "n", "address": {"street": "s", "number": 2}}, User(name="n", address=Address(street="s", number=2))),
        (list[Address], [{"street": "s", "number": 1}], [Address(street="s", number=1)]),
        (dict[str, Address], {"a": {"street": "s", "number": 1}}, {"a": Address(street="s", number=1)}),
        (Optional[Address], None, None),
        (Cat | Dog, {"kind": "dog"}, Dog(kind="dog")),
        (Cat | Dog | None, None, None),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cat"}, Cat(kind="cat")),
        (Cat | int, 3, 3),
        (Size, {"width": 1}, Size(width=1)),
        (Holder, {"user": {"fullName": "n"}, "size": {"width": 2}}, Holder(User(name="n"), Size(width=2))),
        (Annotated[str, AfterValidator(str.upper)], "a", "A"),
        (Annotated[str, StringConstraints(strip_whitespace=True)], " a ", "a"),
        (pydantic.PositiveInt, 3, 3),
        (Annotated[str, Field(pattern=re.compile("^x"))], "xy", "xy"),
        (Annotated[decimal.Decimal, Field(max_digits=3)], "1.5", decimal.Decimal("1.5")),
        (pydantic.AnyUrl, "https://a.example/", pydantic.AnyUrl("https://a.example/")),
    ],
)
def test_pydantic_types_are_read_by_pydantic(annotation, value, meaning):
    found = taking(annotation)
    Draft202012Validator(found.input_schema).validate({"value": value})
    assert read(annotation, value) == meaning
    written = msgspec.json.decode(found.output.encode(meaning, "f"))
    Draft202012Validator(found.output_schema).validate(written)


def test_a_model_keeps_its_own_descriptions_and_names():
    found = taking(User)
    value = found.input_schema["properties"]["value"]
    assert value["properties"]["fullName"]["description"] == "The whole of it."
    assert value["description"] == "Someone."
    assert "Address" in found.input_schema["$defs"]
    assert found.output_schema["type"] == "object"
    assert bytes(found.output.encode(User(name="n"), "f")) == b'{"fullName":"n","address":null}'
    with pytest.raises(ReturnRejected):
        found.output.encode(1j, "f")


def test_problems_have_paths():
    """TL-06."""
    with pytest.raises(ArgumentsRejected) as caught:
        read(list[User], [{"fullName": 3, "address": {"street": "s", "number": 0}}])
    assert [problem.path for problem in caught.value.problems] == ["value[0].fullName", "value[0].address.number"]
    assert caught.value.problems[1].what == "Input should be greater than 0"


def test_a_problem_in_a_list_of_a_model_has_its_index():
    class Bag(BaseModel):
        items: list[int]

    with pytest.raises(ArgumentsRejected, match=r"value.items\[1\]: "):
        read(Bag, {"items": [1, "x"]})


def test_definitions_with_the_same_name_are_distinguished():
    def make(kind):
        inner = pydantic.create_model("Inner", x=(kind, ...))
        return pydantic.create_model("Outer", inner=(inner, ...))

    def function(a, b, c): ...

    one, two = make(int), make(str)
    function.__annotations__ = {"a": one, "b": two, "c": one}
    found = describe(function).input_schema
    Draft202012Validator.check_schema(found)
    Draft202012Validator(found).validate({"a": {"inner": {"x": 1}}, "b": {"inner": {"x": "s"}}, "c": {"inner": {"x": 1}}})
    with pytest.raises(Exception, match="is not of type"):
        Draft202012Validator(found).validate({"a": {"inner": {"x": 1}}, "b": {"inner": {"x": 1}}, "c": {"inner": {"x": 1}}})


def test_a_field_may_be_used_as_a_default():
    def function(
        a: int = Field(ge=0, description="How many."),
        b: int = Field(3, title="B"),
        c: list[int] = Field(default_factory=list),
        d: Annotated[str, Field(pattern="^x", alias="dee", examples=["x"])] = "x",
        e: Annotated[int, Field(default=5, json_schema_extra={"deprecated": True})] = Field(),
    ): ...

    found = describe(function)
    Draft202012Validator.check_schema(found.input_schema)
    assert found.input_schema["properties"] == {
        "a": {"type": "integer", "minimum": 0, "description": "How many."},
        "b": {"type": "integer", "title": "B", "default": 3},
        "c": {"type": "array", "items": {"type": "integer"}},
        "dee": {"type": "string", "pattern": "^x", "examples": ["x"], "default": "x"},
        "e": {"type": "integer", "deprecated": True, "default": 5},
    }
    assert found.input_schema["required"] == ["a"]
    assert found.bind(b'{"a":1}') == {"a": 1, "b": 3, "c": [], "e": 5}
    assert found.bind(b'{"a":1,"b":2,"c":[1],"dee":"xy","e":6}') == {"a": 1, "b": 2, "c": [1], "d": "xy", "e": 6}
    with pytest.raises(ArgumentsRejected) as caught:
        found.bind(b'{"a":-1,"dee":"y"}')
    assert [problem.path for problem in caught.value.problems] == ["a", "dee"]


def test_a_model_may_be_optional():
    def function(a: User = None, b: Cat | Dog | None = None): ...

    found = describe(function)
    assert found.bind(b'{"a":null,"b":null}') == {"a": None, "b": None}
    assert found.bind(b"{}") == {}


def test_a_type_that_pydantic_cannot_describe_is_rejected_by_name():
    class Odd(BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
        x: complex | object = None
        y: Any = None
        z: type("Strange", (), {}) = None

    with pytest.raises(SignatureRejected, match=r"parameter value: pydantic cannot describe it"):
        taking(Odd)


def test_unhashable_metadata_is_supported():
    class Unhashable(list):
        pass

    assert read(Annotated[str, AfterValidator(str.upper), Unhashable()], "a") == "A"


def test_a_model_whose_root_is_not_an_object_is_wrapped():
    numbers = pydantic.RootModel[list[int]]
    found = taking(numbers)
    assert found.output.is_wrapped
    assert bytes(found.output.encode(numbers([1]), "f")) == b'{"result":[1]}'
    assert read(numbers, [1]) == numbers([1])


def test_pydantic_is_not_used_unless_imported(monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "pydantic")

    class Colour(enum.Enum):
        RED = "red"

    assert taking(Colour).bind(b'{"value":"red"}') == {"value": Colour.RED}
