"""From a function to its JSON Schemas, and from the arguments of a request to a call.

The rules:

* The annotation of a parameter gives its schema; a parameter without annotation accepts any value. Metadata in ``Annotated`` (a
  string, ``msgspec.Meta``, annotated-types, ``pydantic.Field``) takes precedence over the docstring.
* A parameter whose annotation is one of the ``injected`` types, alone or with ``None``, is not part of the schema.
* A default that does not match its annotation is rejected, unless JSON cannot represent it.
* ``*args``, ``**kwargs`` and positional-only parameters are rejected, because arguments are passed by name.
* Unknown arguments are rejected, so that a model notices when it misspells an optional one.
* The return annotation gives the output schema. Objects are returned as they are; other values are wrapped as ``{"result": ...}``.
  There is no output schema without annotation, or for ``None``, ``Any``, bytes and content: the content blocks and results of
  :mod:`twopipes._protocol.types` and the types in ``content``, also inside a list, a tuple or a union.
* A schema written by hand replaces the generated one. The arguments are still converted by the annotations, and ``**kwargs`` is
  allowed; :mod:`twopipes._schema.validation` enforces the rest of the schema.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Raw, Struct, ValidationError
from msgspec.json import Decoder, decode

from twopipes._schema import pydantic_bridge
from twopipes._schema.annotations import LEAVES, NULL, UNIONS, ShapeBuilder
from twopipes._schema.binding import Binder, from_string
from twopipes._schema.custom_types import encode, read_custom
from twopipes._schema.docstrings import read_docstring
from twopipes._schema.functions import (
    callable_name,
    docstring_of,
    enclosing_variables,
    is_async,
    is_generator,
    unwrap,
    why_not_a_function,
)
from twopipes._schema.metadata import read_metadata
from twopipes._schema.problems import Unsupported, located, problems_in
from twopipes._schema.records import NO_DEFAULT, Field, object_schema
from twopipes._schema.returns import Output, output_of
from twopipes._schema.shapes import Book, Schema, Shape
from twopipes._schema.unions import Choice, Foreign
from twopipes.errors import SignatureRejected


class Signature(Struct, kw_only=True, eq=False):
    """The arguments and the return value of a function."""

    name: str  # for an object without a name, the name of its class
    description: str  # the docstring without the sections about parameters
    is_async: bool  # whether a call returns an awaitable
    input_schema: Schema  # its root is an object (TL-01)
    output: Output | None  # how return values are written; None if the function declares no data
    injected_names: tuple[str, ...]  # the parameters that the server fills in
    fields: tuple[Field, ...]  # the arguments
    accepts_extra: bool  # whether further arguments are passed on unchanged
    _binder: Binder | None = None

    def __repr__(self) -> str:
        return f"<Signature of {self.name}({', '.join(field.name for field in self.fields)})>"

    @property
    def output_schema(self) -> Schema | None:
        """The JSON Schema of the return value, or ``None`` if the function declares no data."""
        return None if self.output is None else self.output.schema

    def bind(self, raw: bytes | Raw | None, *, lenient: bool = False) -> dict[str, Any]:
        """Convert the arguments of a call to the types of the function, by the names of its parameters, or raise every problem.

        Absent arguments are left out, so that the default of the function applies. Integers may be written as ``3.0``, as in JSON
        Schema. With ``lenient``, ``"3"`` is accepted for a number and ``"true"`` for a boolean.
        """
        return (self._binder or self._make_binder()).read(raw, lenient=lenient)

    def bind_strings(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Convert arguments that can only be strings (PM-02); a string may contain a number, a boolean or JSON."""
        return (self._binder or self._make_binder()).read_plain(values, read=from_string)

    def _make_binder(self) -> Binder:
        """Make the binder. The first call does this, to keep the start of a server fast."""
        self._binder = Binder(self.name, self.fields, self.input_schema, accepts_extra=self.accepts_extra)
        return self._binder


def describe(
    function: Callable[..., Any],
    *,
    injected: tuple[type, ...] = (),
    content: tuple[type, ...] = (),
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
) -> Signature:
    """Read the signature of a function.

    Args:
        function: A function, method, partial or callable object; it may be a coroutine function.
        injected: The types of parameters that the server fills in.
        content: Further types that are content, not data, when returned.
        input_schema: A schema written by hand, instead of the generated one.
        output_schema: Likewise. Values are then never wrapped.

    Raises:
        SignatureRejected: The function cannot be used; the error names the parameter and the reason.
    """
    subject = callable_name(function, "__qualname__")
    signature = _checked_signature(function, subject)
    builder = _builder(function)
    docs = read_docstring(docstring_of(function))
    fields: list[Field] = []
    names: list[str] = []
    accepts_extra = False
    for parameter in signature.parameters.values():
        with located(subject, f"parameter {parameter.name}"):
            annotation = builder.resolve(parameter.annotation)
            if _is_injected(parameter, annotation, injected, builder):
                names.append(parameter.name)
                _check_kind(parameter)
            elif parameter.kind is parameter.VAR_KEYWORD and input_schema is not None:
                accepts_extra = True
            else:
                _check_kind(parameter)
                fields.append(_field(parameter, annotation, builder, docs.parameters.get(parameter.name, "")))
    return Signature(
        name=callable_name(function),
        description=docs.description,
        is_async=is_async(function),
        input_schema=_input_schema(fields, input_schema, subject, accepts_extra=accepts_extra),
        output=_output(signature.return_annotation, builder, output_schema, (*content, *injected), subject),
        injected_names=tuple(names),
        fields=tuple(fields),
        accepts_extra=accepts_extra,
    )


def injected_names(function: Callable[..., Any], injected: tuple[type, ...]) -> frozenset[str]:
    """Return the names of the parameters whose annotation is one of the ``injected`` types."""
    builder = _builder(function)
    names = set()
    for parameter in inspect.signature(function).parameters.values():
        with located(callable_name(function, "__qualname__"), f"parameter {parameter.name}"):
            if _is_injected(parameter, builder.resolve(parameter.annotation), injected, builder):
                names.add(parameter.name)
    return frozenset(names)


def _checked_signature(function: Callable[..., Any], subject: str) -> inspect.Signature:
    if isinstance(function, type) or not callable(function):
        raise SignatureRejected(subject, "", why_not_a_function(function))
    if is_generator(function):
        raise SignatureRejected(subject, "", "it is a generator, but a call has only one result; return a list, or report progress")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise SignatureRejected(subject, "", f"its parameters cannot be read: {error}") from error
    first = next(iter(signature.parameters.values()), None)
    if first is not None and first.name in {"self", "cls"} and first.annotation is first.empty and inspect.isfunction(function):
        why = "this is a method without its object; create the object, then register it with server.add_tool(thing.method)"
        raise SignatureRejected(subject, "", why)
    return signature


def _builder(function: Callable[..., Any]) -> ShapeBuilder:
    core = unwrap(function)[-1]
    return ShapeBuilder(getattr(core, "__globals__", {}), lambda: enclosing_variables(core))


def _is_injected(parameter: inspect.Parameter, annotation: Any, injected: tuple[type, ...], builder: ShapeBuilder) -> bool:
    """Return whether the server fills in a parameter; reject one that looks so, but would become an argument of the client."""
    if not injected:
        return False
    if _names_one_of(injected, annotation, builder):
        return True
    for kind in injected:
        if parameter.name == "ctx" and annotation is parameter.empty:
            raise Unsupported(
                f"it has no annotation, so the client would have to send it; write ctx: {kind.__name__} to have it filled in"
            )
        other = typing.get_origin(annotation) or annotation
        if getattr(other, "__name__", None) == kind.__name__ and other.__module__.partition(".")[0] in _OTHER_SDKS:
            raise Unsupported(f"this {kind.__name__} comes from {other.__module__}; write from twopipes import {kind.__name__}")
    return False


# Packages whose Context is easily left in the code when a server is ported to twopipes.
_OTHER_SDKS = {"fastmcp", "mcp"}


def _names_one_of(injected: tuple[type, ...], annotation: Any, builder: ShapeBuilder) -> bool:
    """Return whether an annotation is one of the types, also in ``Annotated`` or in a union with ``None``."""
    annotation = builder.resolve(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _names_one_of(injected, typing.get_args(annotation)[0], builder)
    if origin in UNIONS:
        return any(_names_one_of(injected, each, builder) for each in typing.get_args(annotation))
    kind = origin or annotation
    return isinstance(kind, type) and issubclass(kind, injected)


_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "arguments are passed by name; use a list instead of *",
    inspect.Parameter.VAR_KEYWORD: "the schema must name each argument; use a dict instead of **, or write the schema by hand",
    inspect.Parameter.POSITIONAL_ONLY: "arguments are passed by name, and this parameter is positional-only; remove the / after it",
}


def _check_kind(parameter: inspect.Parameter) -> None:
    if parameter.kind in _KINDS:
        raise Unsupported(_KINDS[parameter.kind])


def _field(parameter: inspect.Parameter, annotation: Any, builder: ShapeBuilder, description: str) -> Field:
    default = parameter.default if parameter.default is not parameter.empty else NO_DEFAULT
    shape = builder.build(Any if annotation is parameter.empty else annotation)
    extras = list(typing.get_args(annotation)[1:]) if typing.get_origin(annotation) is typing.Annotated else []
    if pydantic_bridge.is_field(default):  # `x: int = Field(3, ge=0)`
        shape = builder.decorated(shape, [default])
        extras.append(default)
        default = NO_DEFAULT
    wire_name = read_metadata(extras).wire_name or parameter.name
    fill = None
    if default is NO_DEFAULT and (source := pydantic_bridge.default_in(extras)) is not None:
        fill = partial(source.get_default, call_default_factory=True)
        default = NO_DEFAULT if source.default_factory else fill()
    is_required = default is NO_DEFAULT and fill is None
    accepts_null = "null" in shape.kinds or (isinstance(shape, Foreign) and not shape.is_native)
    if default is None and not accepts_null:
        shape = Choice([shape, NULL])  # `x: int = None` means `int | None`
    elif default is not NO_DEFAULT and default is not None and LEAVES.get(type(default)) is not shape:
        _check_default(default, shape)
    return Field(parameter.name, wire_name, shape, is_required, default, description, fill)


def _check_default(default: Any, shape: Shape) -> None:
    try:
        data = encode(default)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return  # not JSON, perhaps a marker for "not given"
    if data == b"null":
        return  # NaN
    try:
        Decoder(shape.checking(), dec_hook=read_custom).decode(data)
    except ValidationError as error:
        problems = "; ".join(map(str, problems_in(error, decode(data))))
        raise Unsupported(f"its default {default!r} does not match its type: {problems}") from error


def _input_schema(fields: list[Field], by_hand: Mapping[str, Any] | None, subject: str, *, accepts_extra: bool) -> Schema:
    if by_hand is not None:
        return _checked_schema(fields, dict(by_hand), subject, accepts_extra=accepts_extra)
    names = [field.wire_name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise SignatureRejected(subject, f"parameter {name}", "two parameters have this name in JSON")
    book = Book()

    def schema_of(field: Field) -> Schema:
        with located(subject, f"parameter {field.name}"):
            return field.schema(book)

    return book.finish({**object_schema(fields, schema_of), "additionalProperties": False})


def _checked_schema(fields: list[Field], schema: Schema, subject: str, *, accepts_extra: bool) -> Schema:
    # TL-01, JS-07: an object at the root; other keywords are allowed.
    if schema.get("type") != "object":
        raise SignatureRejected(subject, "", 'the input schema must have "type": "object" at its root')
    properties = schema.get("properties", {})
    unknown = [name for name in properties if name not in {field.wire_name for field in fields}]
    if unknown and not accepts_extra:
        raise SignatureRejected(subject, "", f"the input schema has {', '.join(unknown)}, but the function has no such parameter")
    return schema


def _output(
    annotation: Any, builder: ShapeBuilder, by_hand: Mapping[str, Any] | None, content: tuple[type, ...], subject: str
) -> Output | None:
    if by_hand is not None:
        return Output(dict(by_hand), None, is_wrapped=False)
    if annotation is inspect.Signature.empty:
        return None
    try:
        return output_of(annotation, builder.copy(), content)
    except Unsupported as error:
        why = f"{error} (or use Any, or write the output schema by hand)"
        raise SignatureRejected(subject, "return", why) from error
