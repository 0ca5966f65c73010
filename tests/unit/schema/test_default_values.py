"""Default values of classes: a function gets a complete instance."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
import pytest

from twopipes._schema.signature import describe

T = TypeVar("T")


@dataclass
class Note:
    title: str
    priority: int = 3
    tag: str = "idea"


@dataclass
class Labelled(Note):
    """Inherits fields with defaults, and changes one of them."""

    tag: str = "label"
    labels: list[str] = field(default_factory=list)


class Plain(Note):
    """A subclass that is not a dataclass itself."""


@dataclass(frozen=True)
class Frozen:
    title: str
    priority: int = 3


@dataclass(slots=True)
class Slotted:
    title: str
    priority: int = 3


@dataclass(slots=True)
class SlottedChild(Note):
    extra: int = 4


@dataclass(kw_only=True)
class ByName:
    priority: int = 3
    title: str


@dataclass
class Box(Generic[T]):
    item: T
    count: int = 1


@dataclass
class Tree:
    name: str = "leaf"
    children: "list[Tree]" = field(default_factory=list)


@dataclass
class OptionalTags:
    tags: list[str] | None = None


@dataclass
class AlwaysTags(OptionalTags):
    """Has a factory where its base class has a value."""

    tags: list[str] = field(default_factory=list)  # type: ignore[assignment]


@dataclass
class Seen:
    """Has a ``__post_init__``."""

    title: str
    priority: int = 3
    seen: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.seen = {name: value for name, value in vars(self).items() if name != "seen"}


@dataclass
class Job:
    title: str
    status: str = field(default="new", init=False)
    steps: int = 2


@dataclass
class OwnInit:
    """Has an ``__init__`` that takes other arguments than its fields."""

    title: str
    priority: int = 3
    labels: list[str] = field(default_factory=list)

    def __init__(self, raw: str) -> None:
        self.title = raw


@dataclass(init=False)
class OwnInitAround:
    note: Note

    def __init__(self) -> None:
        raise AssertionError("nothing calls it")


class Ranked:
    priority = 5


@dataclass
class RankedLater(Ranked):
    """Sets a field after ``__init__``; the class that it inherits from has an attribute of that name."""

    title: str
    priority: int = field(init=False)

    def __post_init__(self) -> None:
        self.priority = len(self.title)


@attrs.define(slots=False)
class Attrs:
    title: str
    priority: int = 3
    labels: list[str] = attrs.field(factory=list)


@attrs.define
class AttrsSlotted:
    title: str
    priority: int = 3


@attrs.define(slots=False)
class AttrsOfRanked(Ranked):
    """Inherits from a class that has an attribute of the same name as a field."""

    title: str
    priority: int = 3


class Struct(msgspec.Struct):
    note: Note
    priority: int = 3


@dataclass
class Outer:
    """Holds a Struct, whose own field is a dataclass again."""

    inner: Struct
    level: int = 1


class Page(pydantic.BaseModel):
    note: Note
    number: int = 1


@dataclass
class Book:
    page: Page
    note: Note
    title: str = "untitled"


class Row(NamedTuple):
    note: Note
    number: int = 7


class Typed(TypedDict):
    note: Note


X = {"title": "x"}
NOTE = {"title": "x", "priority": 3, "tag": "idea"}


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (Note, X, NOTE),
        (Note, {"title": "x", "tag": "task"}, {"title": "x", "priority": 3, "tag": "task"}),
        (Labelled, X, {"title": "x", "priority": 3, "tag": "label", "labels": []}),
        (Plain, X, NOTE),
        (Frozen, X, {"title": "x", "priority": 3}),
        (Slotted, X, {"title": "x", "priority": 3}),
        (SlottedChild, X, {**NOTE, "extra": 4}),
        (ByName, X, {"title": "x", "priority": 3}),
        (Box[int], {"item": 2}, {"item": 2, "count": 1}),
        (Box[Note], {"item": X}, {"item": NOTE, "count": 1}),
        (
            Tree,
            {"children": [{}, {"children": [{"name": "twig"}]}]},
            {
                "name": "leaf",
                "children": [
                    {"name": "leaf", "children": []},
                    {"name": "leaf", "children": [{"name": "twig", "children": []}]},
                ],
            },
        ),
        (AlwaysTags, {}, {"tags": []}),
        (Seen, X, {"title": "x", "priority": 3, "seen": {"title": "x", "priority": 3}}),
        (Job, X, {"title": "x", "status": "new", "steps": 2}),
        (OwnInit, X, {"title": "x", "priority": 3, "labels": []}),
        (OwnInitAround, {"note": X}, {"note": NOTE}),
        (RankedLater, X, {"title": "x", "priority": 1}),
        (Attrs, X, {"title": "x", "priority": 3, "labels": []}),
        (AttrsSlotted, X, {"title": "x", "priority": 3}),
        (AttrsOfRanked, X, {"title": "x", "priority": 3}),
        (Struct, {"note": X}, {"note": NOTE, "priority": 3}),
        (Outer, {"inner": {"note": X}}, {"inner": {"note": NOTE, "priority": 3}, "level": 1}),
        (Page, {"note": X}, {"note": NOTE, "number": 1}),
        (Book, {"page": {"note": X}, "note": X}, {"page": {"note": NOTE, "number": 1}, "note": NOTE, "title": "untitled"}),
        (Row, [X], [NOTE, 7]),
        (Typed, {"note": X}, {"note": NOTE}),
        (list[Note], [X, X], [NOTE, NOTE]),
        (tuple[Note, ...], [X], [NOTE]),
        (tuple[Note, int], [X, 1], [NOTE, 1]),
        (set[Frozen], [X], [{"title": "x", "priority": 3}]),
        (dict[str, Note], {"a": X}, {"a": NOTE}),
        (dict[str, list[Note]], {"a": [X]}, {"a": [NOTE]}),
        (Note | None, X, NOTE),
        (Note | None, None, None),
        (Note | str, X, NOTE),
        (Note | str, "x", "x"),
        (Note | list[Note], [X], [NOTE]),
        (Note | Tree, {"name": "n"}, {"name": "n", "children": []}),
    ],
)
def test_an_argument_that_is_returned_has_its_default_values(kind, given, expected):
    def save(value: kind) -> kind:  # type: ignore[valid-type]
        return value

    signature = describe(save)
    value = signature.bind(msgspec.json.encode({"value": given}))["value"]
    written = json.loads(bytes(signature.output.encode(value, "f")))
    assert (written["result"] if signature.output.is_wrapped else written) == expected


@pytest.mark.parametrize("kind", [Note, Labelled, Plain, Frozen, ByName, Job, OwnInit, Attrs, AttrsOfRanked])
def test_every_field_is_in_the_dict_of_the_instance(kind):
    def save(value: kind): ...  # type: ignore[valid-type]

    value = describe(save).bind(b'{"value":{"title":"x"}}')["value"]
    names = [each.name for each in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else attrs.fields(kind))]
    assert sorted(vars(value)) == sorted(names)


def test_factories_create_a_new_value_for_each_instance():
    def save(values: list[Labelled]): ...

    first, second = describe(save).bind(b'{"values":[{"title":"a"},{"title":"b"}]}')["values"]
    assert first.labels == []
    assert first.labels is not second.labels


def test_problems_in_a_class_with_defaults_have_a_path():
    """TL-06: the messages do not depend on how a class is read."""

    def save(notes: list[Note]): ...

    with pytest.raises(ValueError, match=r"notes\[1\].priority: Expected `integer`, got `string` \(\"high\"\)"):
        describe(save).bind(b'{"notes":[{"title":"a"},{"title":"b","priority":"high"}]}')
    with pytest.raises(ValueError, match=r"notes\[0\]: Object missing required field `title`"):
        describe(save).bind(b'{"notes":[{}]}')


def test_classes_that_msgspec_can_read_are_read_by_msgspec():
    def save(slotted: Slotted, attrs_class: Attrs, row: tuple[int, str], plain: dict[str, int]): ...

    assert describe(save).fields[0].shape.reading() is Slotted
    assert describe(save).fields[1].shape.reading() is Attrs
