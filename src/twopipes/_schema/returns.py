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
from twopipes._protocol.rejections import Problem, ReturnRejected
from twopipes._schema.annotations import ShapeBuilder
from twopipes._schema.custom_types import encode, read_custom
from twopipes._schema.records import Record
from twopipes._schema.shapes import Book, Schema, Shape, Wrapped
from twopipes._schema.unions import Choice
from twopipes._schema.wording import problems_in

_CONTENT = (Model, UnknownContent, bytes, bytearray, memoryview)
_SAYS_NOTHING = (None, type(None), Any, object, typing.NoReturn, typing.Never)
_AWAITABLES = {collections.abc.Awaitable, collections.abc.Coroutine}
# What is of such a type is what was promised; there is nothing in it to look at. (A float may be NaN, which JSON does not have.)
_SURE = {str, int, bool}
_WRAPPING = b'{"result":'
_HOLDERS = {list, tuple, typing.Union, types.UnionType, collections.abc.Sequence, collections.abc.Iterable, typing.Annotated}


class Output:
    """How the return values of a function are told.

    Attributes:
        schema: The JSON Schema; its root is an object (TL-11).
        is_wrapped: Whether values stand in an object of their own, as ``result``.
    """

    def __init__(self, schema: Schema, shape: Shape | None, *, is_wrapped: bool) -> None:
        self.schema = schema
        self.is_wrapped = is_wrapped
        self._shape = shape
        self._type: Any = None
        self._decoder: Decoder[Any] | None = None

    def written(self, value: Any, subject: str) -> Raw:
        """Writes a value as the schema says, once: :meth:`text` makes the text form of the same bytes (TL-13).

        Raises:
            ReturnRejected: The value is not what the annotation promises, so the schema would be broken (TL-10).
        """
        try:
            data = encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ReturnRejected(subject, [Problem("", str(error))]) from error
        if self._shape is not None:
            if self._decoder is None:
                self._type = self._shape.checking()
                self._decoder = Decoder(self._type, dec_hook=read_custom)
            if type(value) is self._type and self._type in _SURE:
                return self._wrapped(data)
            try:
                self._decoder.decode(data)
            except ValidationError as error:
                raise ReturnRejected(subject, problems_in(error, decode(data))) from error
            except RecursionError as error:
                raise ReturnRejected(subject, [Problem("", "The value is nested too deeply")]) from error
        elif self.schema.get("type") == "object" and data[:1] != b"{":
            raise ReturnRejected(subject, [Problem("", "The output schema asks for an object")])
        return self._wrapped(data)

    def text(self, written: Raw) -> str:
        """Gives the text form of what :meth:`written` gave: a scalar as it is, anything else as the same JSON (TL-13)."""
        data = bytes(written)
        if self.is_wrapped:
            scalar = data[len(_WRAPPING) : -1]
            if scalar[:1] == b'"':
                return str(decode(scalar))
            if scalar[:1] not in b"[{":
                return scalar.decode()
        return data.decode()

    def _wrapped(self, data: bytes) -> Raw:
        return Raw(_WRAPPING + data + b"}" if self.is_wrapped else data)


def output_of(annotation: Any, builder: ShapeBuilder, content: tuple[type, ...]) -> Output | None:
    """Gives the output for a return annotation, or ``None`` where it promises nothing that a schema could say.

    Raises:
        Unsupported: The type has no form in JSON.
    """
    annotation = builder.resolve(annotation)
    if typing.get_origin(annotation) in _AWAITABLES:
        annotation = builder.resolve(typing.get_args(annotation)[-1])
    if any(annotation is each for each in _SAYS_NOTHING) or is_content(annotation, builder, content):
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
    """Whether a type is content, or holds content: what a person or a model looks at, and not data."""
    annotation = builder.resolve(annotation)
    origin = typing.get_origin(annotation)
    if origin in _HOLDERS:
        inner = typing.get_args(annotation)[: 1 if origin is typing.Annotated else None]
        # Whatever a list may hold may be a picture; such a list promises no data.
        return any(each is Any or is_content(each, builder, content) for each in inner if each is not ...)
    if annotation in (list, tuple):
        return True
    kind = origin or annotation
    return isinstance(kind, type) and issubclass(kind, (*_CONTENT, *content))


def _object_root(shape: Shape, book: Book) -> Schema | None:
    """The schema for the root where every value is an object, never a bare reference (TL-11); else ``None``."""
    inner = shape
    while isinstance(inner, Wrapped):
        inner = inner.inner
    if isinstance(inner, Record):
        return None if inner.is_array else inner.body(book)
    if isinstance(inner, Choice):
        if all(isinstance(member, Record) and not member.is_array for member in inner.members):
            return {"type": "object", **shape.schema(book)}
        return None
    trial = Book(is_output=True)
    root = shape.schema(trial)
    if root.get("type") != "object":
        return None
    book.definitions.update(trial.definitions)
    return root
