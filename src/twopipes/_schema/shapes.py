"""The shape of a type: its JSON Schema, and how msgspec reads it.

If msgspec can read a type as it is, it does so in one pass. Otherwise the type is replaced by a *stand-in*: a class that msgspec
does not know, so that it calls the hook of :mod:`twopipes._schema.custom_types`.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from twopipes._schema.custom_types import converted, stand_in
from twopipes._schema.problems import Unsupported

if TYPE_CHECKING:
    from twopipes._schema.records import Record

Schema = dict[str, Any]
Constraints = dict[str, Any]


class Book:
    """The ``$defs`` of one schema: types that are recursive, or used more than once."""

    def __init__(self, *, is_output: bool = False) -> None:
        self.is_output = is_output
        self.definitions: dict[str, Schema] = {}
        self._names: dict[int, str] = {}

    def refer(self, record: Record) -> Schema:
        """Return a reference to a record, and add its definition on the first call."""
        name = self._names.get(id(record))
        if name is None:
            name = self._names[id(record)] = self.free_name(record.name)
            self.definitions[name] = {}  # reserves the name, because the record may be recursive
            self.definitions[name] = record.body(self)
        return {"$ref": f"#/$defs/{name}"}

    def free_name(self, wanted: str) -> str:
        """Return an unused name for a definition."""
        wanted = "".join(each if each.isalnum() or each in "._-" else "_" for each in wanted)
        name, number = wanted, 1
        while name in self.definitions:
            number += 1
            name = f"{wanted}_{number}"
        return name

    def finish(self, root: Schema) -> Schema:
        """Return the whole schema."""
        return {**root, "$defs": self.definitions} if self.definitions else root


class Shape(ABC):
    """A type and how it is represented."""

    kinds: frozenset[str]  # of JSON values, by which msgspec distinguishes the members of a union
    parts: Sequence[Shape] = ()  # the nested shapes
    is_native = True  # whether msgspec reads the type correctly inside a class of the author
    is_constrained = False  # whether the type that msgspec reads has constraints

    @abstractmethod
    def schema(self, book: Book) -> Schema:
        """Return the JSON Schema."""

    @abstractmethod
    def reading(self) -> Any:
        """Return the type with which msgspec reads values for the author's function."""

    def checking(self) -> Any:
        """Return the type with which msgspec validates JSON without running code of the author."""
        return self.reading()

    def constrained(self, wanted: Constraints, *, is_native: bool) -> Shape:
        """Return the same type with constraints."""
        raise Unsupported(f"the constraint {', '.join(wanted)} does not apply here")


ARRAY = frozenset({"array"})
OBJECT = frozenset({"object"})
CUSTOM = frozenset({"custom"})  # read by a hook
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf"}
_LENGTHS = {"min_length": "minLength", "max_length": "maxLength"}
_KEYWORDS = {
    "integer": _BOUNDS,
    "number": _BOUNDS,
    "string": {**_LENGTHS, "pattern": "pattern"},
    "bytes": _LENGTHS,
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
    "moment": {"tz": ""},
}


def _limits(family: str, wanted: Constraints) -> Schema:
    """Return the schema keywords for constraints; raise :class:`Unsupported` if this family of types has no such constraint."""
    keywords = _KEYWORDS.get(family, {})
    for name in wanted:
        if name not in keywords:
            raise Unsupported(f"the constraint {name} does not apply to a value of this type")
    if family == "bytes":  # counted in bytes, written in base64
        return {keywords[name]: 4 * ((value + 2) // 3) for name, value in wanted.items()}
    return {keywords[name]: value for name, value in wanted.items() if keywords[name]}


class Leaf(Shape):
    """A type without nested types."""

    def __init__(
        self,
        schema: Schema,
        reading: Any,
        *,
        family: str = "",
        kinds: Iterable[str] = ("string",),
        checking: Any = None,
        is_native: bool = True,
        options: Any = None,
    ) -> None:
        self._schema = schema
        self._reading = reading
        self._checking = reading if checking is None else checking
        self.kinds = frozenset(kinds)
        self.family = family  # which constraints it accepts: a key of _KEYWORDS, or empty
        self.is_native = is_native
        self.options = options  # the enum class or the literals, if it is a choice

    def schema(self, book: Book) -> Schema:
        return dict(self._schema)

    def reading(self) -> Any:
        return self._reading

    def checking(self) -> Any:
        return self._checking

    def constrained(self, wanted: Constraints, *, is_native: bool) -> Shape:
        if self.family in {"ordered", "moment"}:
            bounds = {name: value for name, value in wanted.items() if name in _SIGNS}
            if bounds:
                rest = {name: value for name, value in wanted.items() if name not in bounds}
                inner = self.constrained(rest, is_native=is_native) if rest else self
                return Checked(inner, [partial(_out_of_order, *_SIGNS[name], bound) for name, bound in bounds.items()])
        schema = {**self._schema, **_limits(self.family, wanted)}
        reading, checking = (Annotated[kind, Meta(**wanted)] for kind in (self._reading, self._checking))
        leaf = Leaf(schema, reading, family=self.family, kinds=self.kinds, checking=checking)
        leaf.is_native = self.is_native and is_native
        leaf.is_constrained = True
        return leaf


_SIGNS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "ge": (">=", operator.ge),
    "gt": (">", operator.gt),
    "le": ("<=", operator.le),
    "lt": ("<", operator.lt),
}


def _out_of_order(sign: str, holds: Callable[[Any, Any], bool], bound: Any, value: Any) -> str | None:
    """Test a bound on types that msgspec does not compare: decimals, dates, durations."""
    return None if holds(value, bound) else f"Expected a value {sign} {bound}"


class Compound(Shape):
    """A type that msgspec reads by the types of its parts."""

    @abstractmethod
    def typed(self, types: Sequence[Any]) -> Any:
        """Return the type for the types of the parts."""

    def reading(self) -> Any:
        return self.typed([part.reading() for part in self.parts])

    def checking(self) -> Any:
        return self.typed([part.checking() for part in self.parts])


class Wrapped(Compound):
    """A shape that wraps another one."""

    def __init__(self, inner: Shape) -> None:
        self.inner = inner
        self.parts = (inner,)
        self.kinds = inner.kinds
        self.is_native = inner.is_native

    def schema(self, book: Book) -> Schema:
        return self.inner.schema(book)

    def typed(self, types: Sequence[Any]) -> Any:
        return types[0]


def unwrapped(shape: Shape) -> Shape:
    """Return a shape without its notes and tests."""
    while isinstance(shape, Wrapped):
        shape = shape.inner
    return shape


class Noted(Wrapped):
    """A type with a description, a title or examples."""

    def __init__(self, inner: Shape, notes: Schema) -> None:
        super().__init__(inner)
        self.notes = notes

    def schema(self, book: Book) -> Schema:
        return {**self.inner.schema(book), **self.notes}

    def constrained(self, wanted: Constraints, *, is_native: bool) -> Shape:
        return Noted(self.inner.constrained(wanted, is_native=is_native), self.notes)


class Checked(Wrapped):
    """A type with tests that neither JSON Schema nor msgspec can express. A test returns what is wrong, or ``None``."""

    def __init__(self, inner: Shape, tests: Sequence[Callable[[Any], str | None]]) -> None:
        super().__init__(inner)
        self.kinds = CUSTOM
        self.is_native = False
        self._tests = tests

    def reading(self) -> Any:
        inner = self.inner.reading()

        def read(value: Any) -> Any:
            found = converted(value, inner)
            for test in self._tests:
                problem = test(found)
                if problem:
                    raise ValueError(problem)
            return found

        return stand_in(read)

    def constrained(self, wanted: Constraints, *, is_native: bool) -> Shape:
        return Checked(self.inner.constrained(wanted, is_native=is_native), self._tests)


class Row(Compound):
    """A tuple of a fixed length."""

    kinds = ARRAY

    def __init__(self, items: Sequence[Shape]) -> None:
        self.parts = items

    def schema(self, book: Book) -> Schema:
        length = len(self.parts)
        first = {"prefixItems": [each.schema(book) for each in self.parts], "items": False} if length else {}
        return {"type": "array", **first, "minItems": length, "maxItems": length}

    def typed(self, types: Sequence[Any]) -> Any:
        return tuple[tuple(types)]  # type: ignore[misc]


class _Sized(Compound):
    """A type whose size can be limited."""

    family = "array"

    def __init__(self, origin: Any, *parts: Shape, wanted: Constraints | None = None, is_native: bool = True) -> None:
        self.origin = origin
        self.parts = parts
        self.wanted = wanted or {}
        self.is_native = is_native
        self.is_constrained = bool(wanted)

    def limited(self, typed: Any) -> Any:
        return Annotated[typed, Meta(**self.wanted)] if self.wanted else typed

    def constrained(self, wanted: Constraints, *, is_native: bool) -> Shape:
        _limits(self.family, wanted)
        return type(self)(self.origin, *self.parts, wanted={**self.wanted, **wanted}, is_native=self.is_native and is_native)


class Array(_Sized):
    """A list, a set, or a tuple of any length."""

    kinds = ARRAY

    def schema(self, book: Book) -> Schema:
        items = self.parts[0].schema(book)
        unique = {"uniqueItems": True} if self.origin in {set, frozenset} else {}
        return {"type": "array", **({"items": items} if items else {}), **unique, **_limits("array", self.wanted)}

    def typed(self, types: Sequence[Any]) -> Any:
        return self.limited(self.origin[(types[0], ...) if self.origin is tuple else types[0]])

    def checking(self) -> Any:
        item = self.parts[0].checking()
        return self.limited(list[item])  # type: ignore[valid-type]  # not a set: the structs used for checking have no hash


class Table(_Sized):
    """A dict."""

    kinds = OBJECT
    family = "object"

    def schema(self, book: Book) -> Schema:
        key, value = self.parts
        found: Schema = {"type": "object"}
        names = key.schema(book)
        if names.get("type") == "integer":
            names = {"pattern": "^-?[0-9]+$"}
        names.pop("type", None)  # a name is always a string
        if names:
            found["propertyNames"] = names
        values = value.schema(book)
        if values:
            found["additionalProperties"] = values
        return {**found, **_limits("object", self.wanted)}

    def typed(self, types: Sequence[Any]) -> Any:
        return self.limited(self.origin[tuple(types)])
