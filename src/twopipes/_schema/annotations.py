"""From an annotation to its :class:`~twopipes._schema.shapes.Shape`."""

from __future__ import annotations

import collections.abc
import datetime as dt
import decimal
import enum
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import UnsetType

from twopipes._schema import pydantic_bridge
from twopipes._schema.classes import is_record, members_of, own_description
from twopipes._schema.custom_types import is_path, plain_base, stand_in
from twopipes._schema.metadata import read_metadata
from twopipes._schema.problems import Unsupported
from twopipes._schema.records import Field, Record
from twopipes._schema.shapes import Array, Checked, Leaf, Noted, Row, Schema, Shape, Table
from twopipes._schema.unions import Choice, Foreign

ANYTHING = Leaf({}, Any, kinds=("null", "boolean", "integer", "number", "string", "array", "object"))
NULL = Leaf({"type": "null"}, type(None), kinds=("null",))
_TEXT = Leaf({"type": "string"}, str, family="string")
_BASE64 = {"type": "string", "contentEncoding": "base64"}

LEAVES: dict[Any, Shape] = {
    Any: ANYTHING,
    object: ANYTHING,
    None: NULL,
    type(None): NULL,
    str: _TEXT,
    typing.LiteralString: Leaf({"type": "string"}, str, family="string", is_native=False),
    bool: Leaf({"type": "boolean"}, bool, kinds=("boolean",)),
    int: Leaf({"type": "integer"}, int, family="integer", kinds=("integer",)),
    float: Leaf({"type": "number"}, float, family="number", kinds=("number",)),
    bytes: Leaf(_BASE64, bytes, family="bytes"),
    bytearray: Leaf(_BASE64, bytearray, family="bytes"),
    dt.datetime: Leaf({"type": "string", "format": "date-time"}, dt.datetime, family="moment"),
    dt.date: Leaf({"type": "string", "format": "date"}, dt.date, family="ordered"),
    dt.time: Leaf({"type": "string", "format": "time"}, dt.time, family="moment"),
    dt.timedelta: Leaf({"type": "string", "format": "duration"}, dt.timedelta, family="ordered"),
    # A number is accepted too, but only a string keeps all digits.
    decimal.Decimal: Leaf({"type": "string", "format": "decimal"}, decimal.Decimal, family="ordered"),
}
_LISTS = {list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Collection, collections.abc.Iterable}
_SETS = {set: set, frozenset: frozenset, collections.abc.Set: set, collections.abc.MutableSet: set}
_DICTS = {dict, collections.abc.Mapping, collections.abc.MutableMapping}
UNIONS = {typing.Union, types.UnionType}
# By name, because typing_extensions has its own versions for older Pythons.
_WRAPPERS = {"Final", "ClassVar", "Required", "NotRequired", "ReadOnly"}
Namespace = Mapping[str, Any]


class ShapeBuilder:
    """Builds the shapes of the annotations of one schema."""

    def __init__(self, names: dict[str, Any], enclosing: Callable[[], Namespace] = dict) -> None:
        self._globals = names
        self._locals: Namespace = {}
        self._enclosing = enclosing
        self._records: dict[Any, Record] = {}
        self.used_enclosing = False  # whether a name was found only in an enclosing function, where msgspec does not look

    def copy(self) -> ShapeBuilder:
        """Return a builder for another schema with the same namespaces."""
        return ShapeBuilder(self._globals, self._enclosing)

    def build(self, annotation: Any) -> Shape:
        """Return the shape of a type; raise :class:`Unsupported` if it cannot be resolved or JSON cannot represent it."""
        annotation = self.resolve(annotation)
        try:
            leaf = LEAVES.get(annotation)
        except TypeError:  # unhashable metadata
            leaf = None
        if leaf is not None:
            return leaf
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            inner, *extras = typing.get_args(annotation)
            if any(map(pydantic_bridge.is_instruction, extras)):
                return Foreign(annotation)
            return self.decorated(self.build(inner), extras)
        if origin in UNIONS:
            return self._union(annotation)
        if origin is typing.Literal:
            return _literal(typing.get_args(annotation))
        if getattr(origin, "_name", None) in _WRAPPERS:
            return self.build(typing.get_args(annotation)[0])
        return self._container(annotation, origin or annotation) or self._named(annotation, origin)

    def resolve(self, annotation: Any) -> Any:
        """Return the type for a string or a forward reference; any other annotation as it is."""
        names = self._globals
        if isinstance(annotation, typing.ForwardRef):
            module = sys.modules.get(str(annotation.__forward_module__))
            names = vars(module) if module else names
            annotation = annotation.__forward_arg__
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, names, self._locals)  # noqa: S307 - an annotation in the author's own code
        except NameError as error:
            return self._resolve_enclosing(annotation, names, error)
        except Exception as error:
            raise Unsupported(f"the annotation {annotation!r} cannot be evaluated: {error}") from error

    def _resolve_enclosing(self, annotation: str, names: dict[str, Any], first: NameError) -> Any:
        try:
            found = eval(annotation, names, {**self._enclosing(), **self._locals})  # noqa: S307 - as above
        except NameError:
            hint = "a type that is imported under TYPE_CHECKING or defined later does not exist at run time"
            raise Unsupported(f"the annotation {annotation!r} cannot be resolved: {first} ({hint})") from first
        self.used_enclosing = True
        return found

    def decorated(self, shape: Shape, extras: list[Any]) -> Shape:
        """Return a shape with the constraints and notes of ``Annotated`` metadata."""
        metadata = read_metadata(extras)
        if metadata.constraints:
            shape = shape.constrained(metadata.constraints, is_native=metadata.is_native)
        if metadata.tests:
            shape = Checked(shape, metadata.tests)
        return Noted(shape, metadata.notes) if metadata.notes else shape

    def _union(self, annotation: Any) -> Shape:
        resolved = (self.resolve(each) for each in typing.get_args(annotation))
        arguments = [each for each in resolved if each is not UnsetType]  # an absent member is not written
        if sum(map(pydantic_bridge.is_foreign, arguments)) > 1 and all(
            each is type(None) or pydantic_bridge.is_foreign(each) for each in arguments
        ):
            return Foreign(typing.Union[tuple(arguments)])  # noqa: UP007 - pydantic decides which of its types matches
        members: list[Shape] = []
        for each in arguments:
            shape = self.build(each)
            members.extend(shape.parts if isinstance(shape, Choice) else [shape])
        if any(member is ANYTHING for member in members):
            return ANYTHING
        return Choice(members) if len(members) > 1 else members[0]

    def _container(self, annotation: Any, origin: Any) -> Shape | None:
        arguments = typing.get_args(annotation)
        if origin in _LISTS:
            return Array(list, self.build(arguments[0]) if arguments else ANYTHING)
        if origin in _SETS:
            return Array(_SETS[origin], self.build(arguments[0]) if arguments else ANYTHING)
        if origin in _DICTS:
            key, value = (self.build(each) for each in arguments) if arguments else (ANYTHING, ANYTHING)
            is_plain = not isinstance(key, Choice) and key.kinds in ({"string"}, {"integer"}, {"custom"})
            if key is not ANYTHING and not is_plain:
                raise Unsupported(f"{_type_name(arguments[0])} cannot be the key of an object")
            return Table(dict, key, value)
        if origin is tuple:
            if not arguments and annotation in {tuple, typing.Tuple}:  # noqa: UP006 - the author may have used it
                return Array(tuple, ANYTHING)
            if len(arguments) == 2 and arguments[1] is ...:
                return Array(tuple, self.build(arguments[0]))
            return Row([self.build(each) for each in arguments])
        return None

    def _named(self, annotation: Any, origin: Any) -> Shape:
        """Return the shape of a named type: an alias, a type variable or a class."""
        if isinstance(annotation, typing.TypeVar):
            if annotation.__constraints__:
                return Choice([self.build(each) for each in annotation.__constraints__])
            return ANYTHING if annotation.__bound__ is None else self.build(annotation.__bound__)
        if hasattr(annotation, "__supertype__"):  # NewType
            return self.build(annotation.__supertype__)
        if hasattr(origin, "__value__"):  # type X[T] = ...
            return self.build(origin.__value__[typing.get_args(annotation)])
        if hasattr(annotation, "__value__"):  # type X = ...
            return self.build(annotation.__value__)
        kind = origin or annotation
        if not isinstance(kind, type):
            raise Unsupported(f"{_type_name(annotation)} cannot be represented in JSON")
        if pydantic_bridge.is_foreign(kind):
            return Foreign(annotation)
        if is_record(kind):
            return self._record(annotation, kind)
        return _plain_class(kind)

    def _record(self, annotation: Any, kind: type[Any]) -> Record:
        record = self._records.get(annotation)
        if record is not None:
            record.uses += 1
            return record
        name = getattr(annotation, "__name__", kind.__name__)
        if annotation is not kind:
            name += "".join(f"_{getattr(each, '__name__', 'of')}" for each in typing.get_args(annotation))
        docs = own_description(kind)
        record = self._records[annotation] = Record(annotation, name, docs.description)
        members = members_of(kind, annotation, record)
        before = self._globals, self._locals, self.used_enclosing
        fields: list[Field] = []
        self.used_enclosing = False
        for member in members:
            module = sys.modules.get(member.home.__module__)
            self._globals, self._locals = vars(module) if module else {}, {**vars(member.home), kind.__name__: kind}
            try:
                shape, is_required = self._member_type(member.annotation, member.variables, is_required=member.is_required)
            except Unsupported as error:
                raise Unsupported(f"in {kind.__qualname__}, field {member.name or member.attribute}: {error}") from error
            description = docs.parameters.get(member.attribute, "")
            name = member.name or member.attribute
            fields.append(Field(name, member.wire_name or member.attribute, shape, is_required, member.default, description))
        record.is_native &= not self.used_enclosing
        self._globals, self._locals, used_before = before
        self.used_enclosing |= used_before
        record.fields = tuple(fields)
        record.parts = [field.shape for field in fields]
        return record

    def _member_type(self, annotation: Any, variables: Mapping[Any, Any], *, is_required: bool) -> tuple[Shape, bool]:
        annotation = self.resolve(annotation)
        origin = typing.get_origin(annotation)
        if origin in {typing.Required, typing.NotRequired}:  # TypedDict does not see it in a string
            is_required = origin is typing.Required
        if isinstance(annotation, typing.TypeVar):
            annotation = variables.get(annotation, annotation)
        elif any(each in variables for each in getattr(annotation, "__parameters__", ())):
            annotation = annotation[tuple(variables.get(each, each) for each in annotation.__parameters__)]
        return self.build(annotation), is_required


def _plain_class(kind: type[Any]) -> Shape:
    if issubclass(kind, enum.Enum):
        return _enum(kind)
    if kind.__module__ == "uuid" and kind.__name__ == "UUID":
        return Leaf({"type": "string", "format": "uuid"}, kind)
    if is_path(kind):
        return Leaf({"type": "string", "format": "path"}, kind, kinds=("custom",), checking=str)
    base = plain_base(kind)
    if base is None:
        raise Unsupported(f"{_type_name(kind)} cannot be represented in JSON; use a dataclass or a TypedDict")
    return Leaf({"type": {str: "string", int: "integer", float: "number"}[base]}, kind, kinds=("custom",), checking=base)


def _enum(kind: type[enum.Enum]) -> Shape:
    values = [_bare(member.value) for member in kind]
    if not values or not all(isinstance(value, str | int | float | None) for value in values):
        raise Unsupported(f"the values of {_type_name(kind)} cannot be represented in JSON")
    is_native = {type(value) for value in values} in ({str}, {int})
    return _choice(values, kind if is_native else None, members=list(kind), options=kind)


def _literal(members: tuple[Any, ...]) -> Shape:
    values = [_bare(member.value if isinstance(member, enum.Enum) else member) for member in members]
    if not all(isinstance(value, str | int | None) for value in values):
        raise Unsupported(f"{_type_name(typing.Literal[members])} cannot be represented in JSON")
    is_native = all(type(member) in _JSON_TYPES for member in members)
    return _choice(values, typing.Literal[members] if is_native else None, members=members, options=values)


_JSON_TYPES = {str: "string", int: "integer", type(None): "null"}


def _choice(values: list[Any], native: Any, *, members: Sequence[Any], options: Any) -> Shape:
    """Return the shape of some values; ``native`` is the type that msgspec can read, if there is one."""
    kinds = {_JSON_TYPES.get(type(value), "") for value in values}
    schema: Schema = {"enum": values}
    if kinds in ({"string"}, {"integer"}):
        schema = {"type": next(iter(kinds)), **schema}
    if native is not None:
        return Leaf(schema, native, kinds=kinds, options=options)
    reading, checking = (
        stand_in(partial(_chosen, {(type(value), value): each for value, each in zip(values, results, strict=True)}))
        for results in (members, values)
    )
    return Leaf(schema, reading, kinds=("custom",), checking=checking, is_native=False, options=options)


def _bare(value: Any) -> Any:
    """Return a value of a class such as ``StrEnum`` as a plain string or number."""
    return next((base(value) for base in (str, int, float) if type(value) is not bool and isinstance(value, base)), value)


def _chosen(by_value: dict[Any, Any], value: Any) -> Any:
    """Return the member for a value. Its type counts, because ``1 == True`` in Python."""
    if isinstance(value, dict | list) or (type(value), value) not in by_value:
        raise ValueError(f"Invalid enum value {value!r}")
    return by_value[type(value), value]


def _type_name(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
