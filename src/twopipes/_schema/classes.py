"""The fields of dataclasses, msgspec Structs, attrs classes, TypedDicts and named tuples."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MemberDescriptorType
from typing import Any

from msgspec import NODEFAULT, Struct, structs

from twopipes._schema.docstrings import Docstring, read_docstring
from twopipes._schema.problems import Unsupported
from twopipes._schema.records import NO_DEFAULT, Record
from twopipes._schema.shapes import ARRAY, OBJECT


class Member(Struct, frozen=True):
    """A field as its class declares it."""

    attribute: str
    annotation: Any = Any
    home: type[Any] = object  # the class that declares it; its module is the namespace of the annotation
    variables: Mapping[Any, Any] = {}  # the values of the type variables of that class
    name: str = ""  # in __init__, if it differs
    wire_name: str = ""  # in JSON, if it differs
    is_required: bool = True
    default: Any = NO_DEFAULT


def is_record(kind: type[Any]) -> bool:
    """Return whether a class declares its fields."""
    is_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    declares = hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__attrs_attrs__")
    return issubclass(kind, Struct) or is_typed_dict(kind) or is_tuple or declares


def is_typed_dict(kind: type[Any]) -> bool:
    """Return whether a class is a TypedDict, of ``typing`` or of ``typing_extensions``."""
    return issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def own_description(kind: type[Any]) -> Docstring:
    """Return the docstring of a class, unless it is inherited or generated."""
    text = vars(kind).get("__doc__")
    is_generated = isinstance(text, str) and text.startswith(f"{kind.__name__}(")
    return read_docstring(None if is_generated else text)


def members_of(kind: type[Any], annotation: Any, record: Record) -> list[Member]:
    """Return the fields of a class, and set how the record creates its instances."""
    hints = _hints(kind, annotation)
    if is_typed_dict(kind):
        required = kind.__required_keys__
        return [structs.replace(hint, is_required=name in required) for name, hint in hints.items()]
    record.make = lambda given: kind(**given)
    if issubclass(kind, Struct):
        return _struct_members(kind, hints, record)
    if issubclass(kind, tuple):
        record.options = {"array_like": True, "forbid_unknown_fields": True}
        record.kinds = ARRAY
        named: Any = kind
        defaults = named._field_defaults
        return [
            _member(hints, name, is_required=name not in defaults, default=defaults.get(name, NO_DEFAULT)) for name in named._fields
        ]
    if hasattr(kind, "__dataclass_fields__"):
        return _dataclass_members(kind, hints, record)
    return _attrs_members(kind, hints, record)


def _hints(kind: type[Any], annotation: Any) -> dict[str, Member]:
    """Return the unresolved annotations of a class and its base classes."""
    variables: dict[Any, Any] = dict(zip(getattr(kind, "__parameters__", ()), typing.get_args(annotation), strict=False))
    for base in _generic_bases(kind):
        origin = typing.get_origin(base)
        given = [variables.get(each, each) for each in typing.get_args(base)]
        variables.update(zip(getattr(origin, "__parameters__", ()), given, strict=False))
    hints: dict[str, Member] = {}
    for home in reversed(kind.__mro__):
        if home is not object:
            found = inspect.get_annotations(home)
            hints.update({name: Member(name, each, home, variables) for name, each in found.items()})
    return hints


def _generic_bases(kind: type[Any]) -> Iterator[Any]:
    """Yield the generic base classes of a class with their parameters, the nearest first."""
    for base in getattr(kind, "__orig_bases__", ()):
        origin = typing.get_origin(base)
        if origin is not None and origin is not typing.Generic:
            yield base
            yield from _generic_bases(origin)


def _member(hints: Mapping[str, Member], attribute: str, **known: Any) -> Member:
    return structs.replace(hints.get(attribute) or Member(attribute), **known)


def _shown(factory: Any) -> Any:
    """Return the default that a factory creates, if calling it has no side effects."""
    return factory() if factory in {list, dict, set, frozenset, tuple, str, int, float, bool} else NO_DEFAULT


def _struct_members(kind: type[Struct], hints: Mapping[str, Member], record: Record) -> list[Member]:
    config = kind.__struct_config__
    record.options = {"array_like": config.array_like, "forbid_unknown_fields": config.forbid_unknown_fields}
    record.kinds = ARRAY if config.array_like else OBJECT
    if config.tag is not None:
        record.options |= {"tag": config.tag, "tag_field": config.tag_field}
    names = kind.__struct_fields__
    # The defaults belong to the last fields.
    defaults = (NODEFAULT,) * (len(names) - len(kind.__struct_defaults__)) + kind.__struct_defaults__
    found = []
    for name, wire_name, default in zip(names, kind.__struct_encode_fields__, defaults, strict=True):
        factory = getattr(default, "factory", None)
        shown = NO_DEFAULT if default is NODEFAULT else _shown(factory) if factory is not None else default
        found.append(_member(hints, name, wire_name=wire_name, is_required=default is NODEFAULT, default=shown))
    return found


def _dataclass_members(kind: type[Any], hints: Mapping[str, Member], record: Record) -> list[Member]:
    import dataclasses  # already loaded by the module of the class

    found = []
    missing = dataclasses.MISSING
    names = (hint.annotation if isinstance(hint.annotation, str) else type(hint.annotation).__name__ for hint in hints.values())
    if any(name.startswith(("InitVar", "dataclasses.InitVar")) for name in names):
        raise Unsupported(f"{kind.__qualname__} has an InitVar, whose value cannot be read from an instance; use a field")
    for field in dataclasses.fields(kind):
        is_required = field.default is missing and field.default_factory is missing
        # msgspec would require a field that __init__ does not accept, and omit a default that is also a class attribute.
        if not field.init or (not is_required and _is_class_attribute(kind, field.name)):
            record.is_native = False
        if field.init:
            default = _default_of(field, missing) if field.default_factory is missing else _shown(field.default_factory)
            found.append(_member(hints, field.name, is_required=is_required, default=default))
    record.make = _dataclass_maker(kind, dataclasses.fields(kind), missing)
    return found


def _is_class_attribute(kind: type[Any], name: str) -> bool:
    """Return whether a class has an attribute of this name, apart from an empty slot."""
    # msgspec sets a default only if it finds no attribute of that name. But a class attribute is not written as JSON, is not in
    # vars(), and may differ from the default of the field.
    return hasattr(kind, name) and not isinstance(getattr(kind, name), MemberDescriptorType)


def _default_of(field: Any, missing: Any) -> Any:
    if field.default_factory is not missing:
        return field.default_factory()
    return NO_DEFAULT if field.default is missing else field.default


def _dataclass_maker(kind: Any, fields: Sequence[Any], missing: Any) -> Callable[[dict[str, Any]], Any]:
    """Return a function that creates an instance and sets every field that has a value."""
    parameters = inspect.signature(kind).parameters
    # The generated __init__ does not set the default of a field that is not its parameter.
    hidden = [field for field in fields if not field.init and getattr(kind, field.name, NO_DEFAULT) is field.default]
    if all(field.name in parameters for field in fields if field.init):

        def make(given: dict[str, Any]) -> Any:
            made = kind(**given)
            for field in hidden:
                if field.name not in vars(made):
                    object.__setattr__(made, field.name, field.default)
            return made

        return make

    def make_without_init(given: dict[str, Any]) -> Any:
        """Do what msgspec does with a class whose own ``__init__`` has other parameters."""
        made = object.__new__(kind)
        for field in fields:
            value = given[field.name] if field.name in given else _default_of(field, missing)
            if value is not NO_DEFAULT:
                object.__setattr__(made, field.name, value)
        if hasattr(made, "__post_init__"):
            made.__post_init__()
        return made

    return make_without_init


def _attrs_members(kind: Any, hints: Mapping[str, Member], record: Record) -> list[Member]:
    found = []
    for field in kind.__attrs_attrs__:
        has_factory = hasattr(field.default, "takes_self")
        # msgspec runs the validators, but not the converters.
        is_required = type(field.default).__name__ == "_Nothing"
        is_hidden = not is_required and _is_class_attribute(kind, field.name)
        if not field.init or field.converter is not None or (has_factory and field.default.takes_self) or is_hidden:
            record.is_native = False
        if field.init:
            default = NO_DEFAULT if is_required else _shown(field.default.factory) if has_factory else field.default
            found.append(_member(hints, field.name, name=field.alias, is_required=is_required, default=default))
    return found
