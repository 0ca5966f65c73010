"""From a function to what a client is told about it, and from what a client sends to the call.

The rules, in short:

* A parameter is described by its annotation; one without an annotation takes anything. What stands in ``Annotated`` (a string,
  ``msgspec.Meta``, annotated-types, ``pydantic.Field``) goes before what the docstring says.
* A parameter whose annotation is one of the ``injected`` types, alone or with ``None``, is not part of the schema.
* A default that its annotation does not allow is refused, unless JSON cannot say it.
* ``*args``, ``**kwargs`` and positional-only parameters are refused: a call has its arguments by name, and a list of names.
* Arguments that the function does not know are refused, so that a model that misspells an optional one learns of it.
* The return annotation gives the output schema. Objects are given as they are; all else is wrapped as ``{"result": ...}``. No
  output schema comes from no annotation, ``None``, ``Any``, bytes, and content: the blocks of :mod:`twopipes._protocol.types`, the
  results there, and the types in ``content``, also in a list, a tuple or a union with others.
* A schema written by hand takes the place of the generated one. The arguments are then still read by the annotations, and
  ``**kwargs`` is allowed; the rest of the schema is enforced elsewhere (:mod:`twopipes._schema.validation`).
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw, Struct, ValidationError
from msgspec.json import Decoder, decode

from twopipes._protocol.rejections import ArgumentsRejected, ReturnRejected, SignatureRejected, Unsupported
from twopipes._schema import pydantic_bridge
from twopipes._schema.annotations import LEAVES, NULL, UNIONS, ShapeBuilder
from twopipes._schema.binding import Binder
from twopipes._schema.custom_types import encode, read_custom
from twopipes._schema.docstrings import read_docstring
from twopipes._schema.functions import (
    callable_name,
    docstring_of,
    enclosing_variables,
    is_async,
    lacks_its_object,
    plain_function,
    qualified_name,
    why_no_function,
    yields,
)
from twopipes._schema.metadata import read_metadata
from twopipes._schema.records import NO_DEFAULT, Field
from twopipes._schema.returns import Output, output_of
from twopipes._schema.shapes import Book, Schema, Shape
from twopipes._schema.unions import Choice, Foreign
from twopipes._schema.wording import problems_in

__all__ = [
    "ArgumentsRejected",
    "Parameter",
    "ReturnRejected",
    "Signature",
    "SignatureRejected",
    "describe",
    "injected_names",
]


class Parameter(Struct, frozen=True):
    """One argument of a function, as a client knows it; what a prompt tells of its arguments (PM-01)."""

    name: str
    description: str
    is_required: bool


class Signature:
    """What a function takes and gives.

    Attributes:
        name: The name of the function; for an object without a name, that of its class.
        description: The docstring without what it says about single parameters.
        is_async: Whether a call gives something to await.
        input_schema: The JSON Schema of the arguments; its root is an object (TL-01).
        output_schema: The JSON Schema of what :meth:`structured` gives, or ``None`` where the function promises nothing.
        wraps_output: Whether :meth:`structured` puts the value into an object, as ``result``.
        injected_names: The parameters that are filled by the server.
        parameters: The arguments one by one.
    """

    def __init__(
        self,
        *,
        name: str,
        description: str,
        is_async: bool,
        input_schema: Schema,
        output: Output | None,
        injected_names: tuple[str, ...],
        fields: tuple[Field, ...],
        takes_more: bool,
    ) -> None:
        self.name = name
        self.description = description
        self.is_async = is_async
        self.input_schema = input_schema
        self.output_schema = output.schema if output else None
        self.wraps_output = output is not None and output.is_wrapped
        self.injected_names = injected_names
        self._output = output or Output({}, None, is_wrapped=False)
        self._fields = fields
        self._takes_more = takes_more
        self._binder: Binder | None = None

    def __repr__(self) -> str:
        return f"<Signature of {self.name}({', '.join(field.name for field in self._fields)})>"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments one by one, with what the schema says about them."""
        known: Mapping[str, Any] = self.input_schema.get("properties", {})
        found = []
        for field in self._fields:
            said = known.get(field.wire_name)
            about = said.get("description") if isinstance(said, dict) else None
            found.append(Parameter(field.wire_name, about or field.description, field.is_required))
        return tuple(found)

    def bind(self, raw: bytes | Raw | None, *, lenient: bool = False) -> dict[str, Any]:
        """Reads the arguments of a call into the types of the function, by the names of its parameters.

        An argument that is not there is not in the answer, so that the function's own default holds. Whole numbers may be
        written as ``3.0``, as JSON Schema has it; nothing else is bent to fit, unless ``lenient`` allows ``"3"`` for a number and
        ``"true"`` for a truth value.

        Raises:
            ArgumentsRejected: They do not fit; everything that was found is in it (TL-06).
        """
        return self._reader().read(raw, lenient=lenient)

    def bind_strings(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Reads arguments that can only be strings: those of a prompt (PM-02) or of a resource template.

        A string is taken as it is where the parameter takes strings, else as the number, the truth value or the JSON in it.

        Raises:
            ArgumentsRejected: They do not fit.
        """
        return self._reader().read_strings(values)

    def structured(self, value: Any) -> Raw:
        """Writes a return value as JSON for ``structured_content``, wrapped where :attr:`wraps_output` says so.

        Raises:
            ReturnRejected: The value breaks the output schema, or has no form in JSON (TL-10).
        """
        return self._output.written(value, self.name)

    def text(self, structured: Raw) -> str:
        """Gives the text form of what :meth:`structured` gave: a scalar as it is, anything else as the same JSON (TL-13)."""
        return self._output.text(structured)

    def _reader(self) -> Binder:
        if self._binder is None:  # made by the first call: a server that starts has other things to do
            self._binder = Binder(self.name, self._fields, self.input_schema, takes_more=self._takes_more)
        return self._binder


def describe(
    function: Callable[..., Any],
    *,
    injected: tuple[type, ...] = (),
    content: tuple[type, ...] = (),
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
) -> Signature:
    """Finds out what a function takes and gives.

    Args:
        function: A function, a method, a partial, a callable object; a coroutine function or not.
        injected: The types of parameters that the server fills.
        content: More types that are content and not data when they are returned.
        input_schema: Written by hand, in place of the generated one.
        output_schema: Likewise. Values are then given as they are, never wrapped.

    Raises:
        SignatureRejected: The function cannot be offered; the error names the parameter and the reason.
    """
    subject = qualified_name(function)
    if isinstance(function, type) or not callable(function):
        raise SignatureRejected(subject, "", why_no_function(function))
    if yields(function):
        raise SignatureRejected(subject, "", "it has a yield, and an answer is given once; return a list, or tell of progress")
    core = plain_function(function)
    builder = ShapeBuilder(getattr(core, "__globals__", {}), lambda: enclosing_variables(core))
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise SignatureRejected(subject, "", f"its parameters cannot be read: {error}") from error
    first = next(iter(signature.parameters.values()), None)
    if lacks_its_object(function, first):
        why = "this is a method without its object; register it when there is one, as server.add_tool(thing.method)"
        raise SignatureRejected(subject, "", why)
    about = read_docstring(docstring_of(function))
    fields: list[Field] = []
    names: list[str] = []
    takes_more = False
    for parameter in signature.parameters.values():
        try:
            annotation = builder.resolve(parameter.annotation)
            if _is_injected(annotation, injected, builder):
                names.append(parameter.name)
                _check_kind(parameter)
            elif parameter.kind is parameter.VAR_KEYWORD and input_schema is not None:
                takes_more = True
            else:
                _check_kind(parameter)
                _check_context(parameter, annotation, injected)
                fields.append(_field(parameter, annotation, builder, about.parameters.get(parameter.name, "")))
        except Unsupported as error:
            raise SignatureRejected(subject, f"parameter {parameter.name}", str(error)) from error
    return Signature(
        name=callable_name(function),
        description=about.description,
        is_async=is_async(function),
        input_schema=_input_schema(fields, input_schema, subject, takes_more=takes_more),
        output=_output(signature.return_annotation, builder, output_schema, (*content, *injected), subject),
        injected_names=tuple(names),
        fields=tuple(fields),
        takes_more=takes_more,
    )


def injected_names(function: Callable[..., Any], injected: tuple[type, ...]) -> frozenset[str]:
    """Finds the parameters whose annotation is one of the ``injected`` types.

    Raises:
        SignatureRejected: An annotation cannot be resolved, or a parameter is meant for the server and does not say so.
    """
    core = plain_function(function)
    builder = ShapeBuilder(getattr(core, "__globals__", {}), lambda: enclosing_variables(core))
    names = []
    for parameter in inspect.signature(function).parameters.values():
        try:
            annotation = builder.resolve(parameter.annotation)
            if _is_injected(annotation, injected, builder):
                names.append(parameter.name)
            else:
                _check_context(parameter, annotation, injected)
        except Unsupported as error:
            raise SignatureRejected(qualified_name(function), f"parameter {parameter.name}", str(error)) from error
    return frozenset(names)


def _is_injected(annotation: Any, injected: tuple[type, ...], builder: ShapeBuilder) -> bool:
    """Whether an annotation is one of the types, with parameters or without, also in ``Annotated`` or beside ``None``."""
    if not injected:
        return False
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _is_injected(builder.resolve(typing.get_args(annotation)[0]), injected, builder)
    if origin in UNIONS:
        arguments = [builder.resolve(each) for each in typing.get_args(annotation)]
        return any(_is_injected(each, injected, builder) for each in arguments)
    kind = origin or annotation
    return isinstance(kind, type) and issubclass(kind, injected)


_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "arguments come by name; take a list instead of *",
    inspect.Parameter.VAR_KEYWORD: "a schema names the arguments; take a dict instead of **, or write the input schema by hand",
    inspect.Parameter.POSITIONAL_ONLY: "arguments come by name, and this one has none for a caller",
}


def _check_kind(parameter: inspect.Parameter) -> None:
    if parameter.kind in _KINDS:
        raise Unsupported(_KINDS[parameter.kind])


def _check_context(parameter: inspect.Parameter, annotation: Any, injected: tuple[type, ...]) -> None:
    """Refuses a parameter that is meant for the server and would be asked of the client."""
    for kind in injected:
        if parameter.name == "ctx" and annotation is parameter.empty:
            raise Unsupported(
                f"annotate it, ctx: {kind.__name__}, to have it filled in; as it is, the client would have to send it"
            )
        stranger = typing.get_origin(annotation) or annotation
        if getattr(stranger, "__name__", None) == kind.__name__ and stranger.__module__.partition(".")[0] in _OTHERS:
            raise Unsupported(
                f"this {kind.__name__} is the one of {stranger.__module__}; write from twopipes import {kind.__name__}"
            )


# Whose context is easily left behind when a server moves here.
_OTHERS = {"fastmcp", "mcp"}


def _field(parameter: inspect.Parameter, annotation: Any, builder: ShapeBuilder, said: str) -> Field:
    default = parameter.default if parameter.default is not parameter.empty else NO_DEFAULT
    shape = builder.build(Any if annotation is parameter.empty else annotation)
    extras = list(typing.get_args(annotation)[1:]) if typing.get_origin(annotation) is typing.Annotated else []
    if pydantic_bridge.is_field(default):  # `x: int = Field(3, ge=0)`
        shape = builder.decorated(shape, [default])
        extras.append(default)
        default = NO_DEFAULT
    wire_name = read_metadata(extras).wire_name or parameter.name
    fill = pydantic_bridge.default_in(extras) if default is NO_DEFAULT else None
    is_required = default is NO_DEFAULT and fill is None
    if fill is not None and fill.is_constant:
        default = fill()
    if default is None and not _takes_null(shape):
        shape = Choice([shape, NULL])  # what `= None` has always meant
    elif default is not NO_DEFAULT and default is not None and LEAVES.get(type(default)) is not shape:
        _check_default(default, shape)
    return Field(parameter.name, wire_name, shape, is_required, default, said, fill)


def _check_default(default: Any, shape: Shape) -> None:
    try:
        data = encode(default)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return  # no form in JSON: a mark for "not given", perhaps, and the function's own business
    if data == b"null":
        return  # not a number
    try:
        Decoder(shape.checking(), dec_hook=read_custom).decode(data)
    except ValidationError as error:
        wrong = "; ".join(map(str, problems_in(error, decode(data))))
        raise Unsupported(f"its default {default!r} does not fit its type: {wrong}") from error


def _takes_null(shape: Shape) -> bool:
    return "null" in shape.kinds() or (isinstance(shape, Foreign) and not shape.is_native)


def _input_schema(fields: list[Field], by_hand: Mapping[str, Any] | None, subject: str, *, takes_more: bool) -> Schema:
    if by_hand is not None:
        return _checked_schema(fields, dict(by_hand), subject, takes_more=takes_more)
    names = [field.wire_name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise SignatureRejected(subject, f"parameter {name}", "two parameters have this name in JSON")
    book = Book()
    root: Schema = {"type": "object"}
    properties: Schema = {}
    for field in fields:
        try:
            properties[field.wire_name] = field.schema(book)
        except Unsupported as error:
            raise SignatureRejected(subject, f"parameter {field.name}", str(error)) from error
    if properties:
        root["properties"] = properties
    required = [field.wire_name for field in fields if field.is_required]
    if required:
        root["required"] = required
    return book.finish({**root, "additionalProperties": False})


def _checked_schema(fields: list[Field], schema: Schema, subject: str, *, takes_more: bool) -> Schema:
    # TL-01, JS-07: an object at the root; any other keyword may stand beside it.
    if schema.get("type") != "object":
        raise SignatureRejected(subject, "", 'the input schema needs "type": "object" at its root')
    properties = schema.get("properties", {})
    strangers = [name for name in properties if name not in {field.wire_name for field in fields}]
    if strangers and not takes_more:
        raise SignatureRejected(subject, "", f"the input schema has {', '.join(strangers)}, which the function does not take")
    return schema


def _output(
    annotation: Any,
    builder: ShapeBuilder,
    by_hand: Mapping[str, Any] | None,
    content: tuple[type, ...],
    subject: str,
) -> Output | None:
    if by_hand is not None:
        return Output(dict(by_hand), None, is_wrapped=False)
    if annotation is inspect.Signature.empty:
        return None
    try:
        return output_of(annotation, builder.afresh(), content)
    except Unsupported as error:
        why = f"{error} (annotate Any, or write the output schema by hand)"
        raise SignatureRejected(subject, "return", why) from error
