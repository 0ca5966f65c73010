"""Decode JSON to the types, and keep content blocks of unknown types instead of rejecting them (CT-08)."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args

from msgspec import Raw, Struct, ValidationError, convert, structs
from msgspec import json as msgspec_json

from twopipes._protocol import types as t

M = TypeVar("M", bound=t.Model)


@cache
def _decoder(kind: type[M]) -> msgspec_json.Decoder[M]:
    # Created on first use: a decoder resolves all nested annotations, which would cost start-up time.
    return msgspec_json.Decoder(kind)


class _Choice:
    """A tagged union; a tolerant one keeps objects with unknown tags."""

    def __init__(self, union: Any, *, tolerant: bool) -> None:
        self.members: dict[Any, type[t.Model]] = {kind.__struct_config__.tag: kind for kind in get_args(union)}
        self.tag_field = str(get_args(union)[0].__struct_config__.tag_field)
        self.tolerant = tolerant


class _Holder(Struct, frozen=True):
    """The one member of a type that can contain content blocks."""

    name: str
    inner: type[t.Model] | _Choice  # the type of its values
    form: Literal["list", "one", "either", "map"]
    placeholder: Any  # a valid value to use instead of the real one while the rest of the object is decoded
    wire: str = ""  # its JSON name, if it differs


_JSON_TYPES: dict[str, Any] = {"list": list, "one": dict, "either": list | dict, "map": dict}
_BLOCKS = _Choice(t.ContentBlock, tolerant=True)
_SAMPLING_BLOCKS = _Choice(t.SamplingContent, tolerant=True)
_QUESTIONS = _Choice(t.InputRequest, tolerant=False)

_HOLDERS: dict[type[t.Model], _Holder] = {
    t.CallToolResult: _Holder("content", _BLOCKS, "list", []),
    t.ToolResultContent: _Holder("content", _BLOCKS, "list", []),
    t.PromptMessage: _Holder("content", _BLOCKS, "one", {"type": "text", "text": ""}),
    t.GetPromptResult: _Holder("messages", t.PromptMessage, "list", []),
    t.SamplingMessage: _Holder("content", _SAMPLING_BLOCKS, "either", []),
    t.CreateMessageResult: _Holder("content", _SAMPLING_BLOCKS, "either", []),
    t.CreateMessageParams: _Holder("messages", t.SamplingMessage, "list", []),
    t.CreateMessageRequest: _Holder("params", t.CreateMessageParams, "one", {"messages": [], "maxTokens": 0}),
    t.InputRequiredResult: _Holder("input_requests", _QUESTIONS, "map", {}, wire="inputRequests"),
}


def read(kind: type[M], raw: Raw | bytes) -> M:
    """Decode one value, or raise an error of msgspec with the path of the fault, or a ``RecursionError``."""
    try:
        return cast("M", _decoder(kind).decode(raw))
    except ValidationError:
        if kind not in _HOLDERS:
            raise
        unknown: list[str] = []
        try:
            return cast("M", _build(kind, msgspec_json.decode(raw), unknown))
        except ValidationError:
            if unknown:
                raise
        raise  # no unknown blocks: the first error is better, because it has the whole path


def _build(kind: type[t.Model] | _Choice, value: Any, unknown: list[str]) -> Any:
    """Convert a value part by part; ``unknown`` collects the tags of unknown blocks."""
    if isinstance(kind, _Choice):
        tag = value.get(kind.tag_field) if isinstance(value, dict) else None
        if not isinstance(tag, str) or (tag not in kind.members and not kind.tolerant):
            raise ValidationError(f"Expected an object with a known `{kind.tag_field}`")
        if tag not in kind.members:
            unknown.append(tag)
            return t.UnknownContent(value)
        kind = kind.members[tag]
    holder = _HOLDERS.get(kind)
    wire = "" if holder is None else holder.wire or holder.name
    held = value.get(wire) if isinstance(value, dict) else None
    parts: Any
    if holder is None or not isinstance(held, _JSON_TYPES[holder.form]):
        return convert(value, kind)  # no nested blocks, or an error that msgspec reports
    if isinstance(held, list):
        parts = [_build(holder.inner, each, unknown) for each in held]
    elif holder.form == "map":
        parts = {key: _build(holder.inner, each, unknown) for key, each in held.items()}
    else:
        parts = _build(holder.inner, held, unknown)
    shell = convert({**value, wire: holder.placeholder}, kind)
    return structs.replace(shell, **{holder.name: parts})
