"""Classes with fields: dataclasses, msgspec Structs, attrs classes, TypedDicts and named tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from msgspec import UNSET, Struct, defstruct, structs
from msgspec.json import decode

from twopipes._schema.custom_types import converted, encode, is_readable, stand_in
from twopipes._schema.shapes import ARRAY, OBJECT, Book, Schema, Shape

NO_DEFAULT: Any = object()


class Field(Struct, frozen=True):
    """One field of a record, or one parameter of a function."""

    name: str  # in __init__ or in the function
    wire_name: str  # in JSON
    shape: Shape
    is_required: bool
    default: Any = NO_DEFAULT  # if it is known and can be shown
    description: str = ""
    fill: Callable[[], Any] | None = None  # returns the default, if the function itself would receive a different object

    def schema(self, book: Book) -> Schema:
        """Return the JSON Schema of the field, with its description and its default if JSON can represent it."""
        found = self.shape.schema(book)
        if self.description:
            found.setdefault("description", self.description)
        if self.default is not NO_DEFAULT:
            with suppress(TypeError, ValueError, OverflowError):  # not JSON, so it is not shown
                plain = decode(encode(self.default))
                if plain is not None or self.default is None:  # NaN would be shown as null
                    found["default"] = plain
        return found


def object_schema(fields: Sequence[Field], schema_of: Callable[[Field], Schema]) -> Schema:
    """Return the JSON Schema of an object with these members."""
    found: Schema = {"type": "object"}
    if fields:
        found["properties"] = {field.wire_name: schema_of(field) for field in fields}
    required = [field.wire_name for field in fields if field.is_required]
    if required:
        found["required"] = required
    return found


def struct_of(fields: Sequence[tuple[str, Any, bool]], **options: Any) -> type[Struct]:
    """Create a Struct from ``(name, type, is_required)`` tuples; an absent optional member is ``UNSET``."""
    members = [(f"m{index}", kind) if required else (f"m{index}", kind, UNSET) for index, (_, kind, required) in enumerate(fields)]
    names = {f"m{index}": name for index, (name, _, _) in enumerate(fields)}
    return defstruct("Members", members, rename=names, kw_only=True, **options)


class Record(Shape):
    """A class with fields."""

    kinds = OBJECT

    def __init__(self, kind: Any, name: str, description: str = "") -> None:
        self.kind = kind
        self.name = name
        self.description = description
        self.fields: tuple[Field, ...] = ()
        self.make: Callable[[dict[str, Any]], Any] = dict
        self.options: dict[str, Any] = {}
        self.is_native = True  # msgspec would create an instance correctly, apart from the types of the fields
        self.uses = 1  # how often the schema contains it; from two on, it goes into $defs
        self._checking: Any = None

    @property
    def is_array(self) -> bool:
        """Whether it is an array in JSON."""
        return self.kinds is ARRAY

    @property
    def tag(self) -> tuple[str, Any] | None:
        """The member that distinguishes this record from others, with its value."""
        return (self.options["tag_field"], self.options["tag"]) if "tag" in self.options else None

    def schema(self, book: Book) -> Schema:
        return book.refer(self) if self.uses > 1 else self.body(book)

    def body(self, book: Book) -> Schema:
        """Return the schema itself, never a reference."""
        docs = {"description": self.description} if self.description else {}
        if self.is_array:
            return {**docs, **self._array_schema(book)}
        found = object_schema(self.fields, lambda field: field.schema(book))
        if self.tag is not None:
            name, value = self.tag
            found["properties"] = {name: {"const": value}, **found.get("properties", {})}
            found["required"] = [name, *found.get("required", ())]
        if self.options.get("forbid_unknown_fields"):
            found["additionalProperties"] = False
        return {**docs, **found}

    def _array_schema(self, book: Book) -> Schema:
        items = [field.schema(book) for field in self.fields]
        least = sum(field.is_required for field in self.fields)
        if self.tag is not None:
            items.insert(0, {"const": self.tag[1]})
            least += 1
        found: Schema = {"type": "array", "prefixItems": items, "minItems": least}
        if self.options.get("forbid_unknown_fields"):
            found["maxItems"] = len(items)
        return found

    def reading(self) -> Any:
        if self._all_native() and is_readable(self.kind):
            return self.kind
        return self._stand_in

    def _all_native(self) -> bool:
        """Return whether msgspec can read the class by itself, including everything nested in it."""
        seen: set[int] = set()
        waiting: list[Shape] = [self]
        while waiting:
            shape = waiting.pop()
            if id(shape) in seen:
                continue
            seen.add(id(shape))
            if not shape.is_native:
                return False
            waiting.extend(shape.parts)
        return True

    @cached_property
    def _stand_in(self) -> Any:
        return stand_in(self._read)

    @cached_property
    def _read_struct(self) -> Any:
        return self._struct([field.shape.reading() for field in self.fields])

    def _read(self, value: Any) -> Any:
        given = zip(self.fields, structs.astuple(converted(value, self._read_struct)), strict=True)
        return self.make({field.name: each for field, each in given if each is not UNSET})

    def _struct(self, kinds: Sequence[Any]) -> type[Struct]:
        fields = zip(self.fields, kinds, strict=True)
        return struct_of([(field.wire_name, kind, field.is_required) for field, kind in fields], **self.options)

    def checking(self) -> Any:
        if self._checking is None:
            # A recursive record is looked up when it is reached.
            self._checking = stand_in(lambda value: converted(value, self._checking))
            self._checking = self._struct([field.shape.checking() for field in self.fields])
        return self._checking
