"""From a return annotation to the output schema, and from a return value to ``structuredContent``."""

from __future__ import annotations

import collections.abc
import types
import typing
from typing import Any

from msgspec import Raw, ValidationError
from msgspec.json import Decoder, decode

from twopipes._protocol.base import Model
from twopipes._protocol.content import UnknownContent
from twopipes._schema.annotations import ShapeBuilder
from twopipes._schema.custom_types import encode, read_custom
from twopipes._schema.problems import ReturnRejected, problems_in
from twopipes._schema.records import Record
from twopipes._schema.shapes import Book, Schema, Shape, unwrapped
from twopipes._schema.unions import Choice
from twopipes.errors import Problem

_CONTENT = (Model, UnknownContent, bytes, bytearray, memoryview)
_WITHOUT_SCHEMA = (None, type(None), Any, object, typing.NoReturn, typing.Never)
_AWAITABLES = {collections.abc.Awaitable, collections.abc.Coroutine}
# Values of exactly these types need no further check. (A float may be NaN, which JSON does not have.)
_ALWAYS_VALID = {str, int, bool}
_WRAPPER_START = b'{"result":'
_CONTAINERS = {list, tuple, typing.Union, types.UnionType, collections.abc.Sequence, collections.abc.Iterable, typing.Annotated}


class Output:
    """How the return values of a function are written."""

    def __init__(self, schema: Schema, shape: Shape | None, *, is_wrapped: bool) -> None:
        self.schema = schema  # its root is an object (TL-11)
        self.is_wrapped = is_wrapped  # whether values are wrapped in an object, as `result`
        self._shape = shape
        self._type: Any = None
        self._decoder: Decoder[Any] | None = None

    def encode(self, value: Any, subject: str) -> Raw:
        """Return a value as JSON; raise :class:`ReturnRejected` if it would break the schema (TL-10)."""
        try:
            data = encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ReturnRejected(subject, [Problem("", str(error))]) from error
        if self._shape is not None:
            if self._decoder is None:
                self._type = self._shape.checking()
                self._decoder = Decoder(self._type, dec_hook=read_custom)
            if type(value) is not self._type or self._type not in _ALWAYS_VALID:
                try:
                    self._decoder.decode(data)
                except ValidationError as error:
                    raise ReturnRejected(subject, problems_in(error, decode(data))) from error
                except RecursionError as error:
                    raise ReturnRejected(subject, [Problem("", "The value is nested too deeply")]) from error
        elif self.schema.get("type") == "object" and data[:1] != b"{":
            raise ReturnRejected(subject, [Problem("", "The output schema requires an object")])
        return Raw(_WRAPPER_START + data + b"}" if self.is_wrapped else data)

    def text(self, encoded: Raw) -> str:
        """Return the text for the result of :meth:`encode`: a scalar as it is, any other value as the same JSON (TL-13)."""
        data = bytes(encoded)
        if self.is_wrapped:
            scalar = data[len(_WRAPPER_START) : -1]
            if scalar[:1] == b'"':
                return str(decode(scalar))
            if scalar[:1] not in b"[{":
                return scalar.decode()
        return data.decode()


def output_of(annotation: Any, builder: ShapeBuilder, content: tuple[type, ...]) -> Output | None:
    """Return the output for a return annotation, or ``None`` if it has no output schema."""
    annotation = builder.resolve(annotation)
    if typing.get_origin(annotation) in _AWAITABLES:
        annotation = builder.resolve(typing.get_args(annotation)[-1])
    if any(annotation is each for each in _WITHOUT_SCHEMA) or is_content(annotation, builder, content):
        return None
    shape = builder.build(annotation)
    book = Book(is_output=True)
    root = _object_root(shape, book)
    if root is not None:
        return Output(book.finish(root), shape, is_wrapped=False)
    inner = shape.schema(book)
    root = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return Output(book.finish(root), shape, is_wrapped=True)


def is_content(annotation: Any, builder: ShapeBuilder, content: tuple[type, ...]) -> bool:
    """Return whether a type is content for a person or a model, or contains content, instead of data."""
    annotation = builder.resolve(annotation)
    origin = typing.get_origin(annotation)
    if origin in _CONTAINERS:
        inner = typing.get_args(annotation)[: 1 if origin is typing.Annotated else None]
        # A list of Any may contain images, so it is not data.
        return any(each is Any or is_content(each, builder, content) for each in inner if each is not ...)
    if annotation in (list, tuple):
        return True
    kind = origin or annotation
    return isinstance(kind, type) and issubclass(kind, (*_CONTENT, *content))


def _object_root(shape: Shape, book: Book) -> Schema | None:
    """Return the schema for the root if every value is an object, never a reference (TL-11); otherwise ``None``."""
    inner = unwrapped(shape)
    if isinstance(inner, Record):
        return None if inner.is_array else inner.body(book)
    if isinstance(inner, Choice):
        if all(isinstance(member, Record) and not member.is_array for member in inner.parts):
            return {"type": "object", **shape.schema(book)}
        return None
    trial = Book(is_output=True)
    root = shape.schema(trial)
    if root.get("type") != "object":
        return None
    book.definitions.update(trial.definitions)
    return root
