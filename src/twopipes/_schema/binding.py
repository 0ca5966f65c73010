"""From JSON to arguments: in one pass if they are valid, otherwise with a list of every problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import is_
from typing import Any

from msgspec import UNSET, DecodeError, Raw, ValidationError, structs
from msgspec.json import Decoder, decode

from twopipes._schema.custom_types import converted, converted_leniently, read_custom
from twopipes._schema.problems import ArgumentsRejected, given, problems_in
from twopipes._schema.records import Field, struct_of
from twopipes.errors import Problem, ValueRejected

# Larger floats do not represent one exact integer.
_MAX_EXACT = 2**53
_STEPS = r"([^.\[]+)|\[([^\]]*)\]"
# TL-20: messages about hostile names are short and cheap to create.
_MAX_NAME = 64
_MAX_UNKNOWN = 10
_TOO_DEEP = "The value is nested too deeply"


class Binder:
    """Converts the arguments of one function, or the fields of a form; ``schema`` names the allowed choices in messages."""

    def __init__(
        self,
        subject: str,
        fields: Sequence[Field],
        schema: Mapping[str, Any],
        *,
        accepts_extra: bool = False,
        rejection: type[ValueRejected] = ArgumentsRejected,
    ) -> None:
        self._subject = subject
        self._fields = {field.wire_name: field for field in fields}
        self._schema = schema
        self._accepts_extra = accepts_extra
        self._rejection = rejection
        self._types = {field.wire_name: field.shape.reading() for field in fields}
        members = [(field.wire_name, self._types[field.wire_name], field.is_required) for field in fields]
        self._struct = struct_of(members, forbid_unknown_fields=True)
        self._decoder = Decoder(self._struct, dec_hook=read_custom)
        self._names = [field.name for field in fields]
        self._are_all_required = all(field.is_required for field in fields)
        self._fills = {field.name: field.fill for field in fields if field.fill is not None}

    def read(self, raw: bytes | Raw | None, *, lenient: bool = False) -> dict[str, Any]:
        """Return the arguments by the names of the parameters, without those that are absent, or raise every problem (TL-06)."""
        if raw is None:
            raw = b"{}"
        if not self._accepts_extra:
            try:
                found = structs.astuple(self._decoder.decode(raw))
            except (DecodeError, RecursionError):
                pass  # read again, slowly, to find out what is wrong
            else:
                if self._are_all_required:
                    return dict(zip(self._names, found, strict=True))
                return self._filled({name: value for name, value in zip(self._names, found, strict=True) if value is not UNSET})
        try:
            plain = decode(raw)
        except (DecodeError, RecursionError) as error:
            what = _TOO_DEEP if isinstance(error, RecursionError) else f"The arguments are not JSON: {error}"
            raise self._rejection(self._subject, [Problem("", what)]) from None
        if not isinstance(plain, dict):
            raise self._rejection(self._subject, [Problem("", f"Expected an object with the arguments by name{given(plain)}")])
        return self.read_plain(plain, read=_read_leniently if lenient else _read)

    def read_plain(self, plain: Mapping[str, Any], *, read: Callable[[Any, Any], Any] | None = None) -> dict[str, Any]:
        """Do the same for values that are already decoded."""
        read = _read if read is None else read
        problems: list[Problem] = []
        found: dict[str, Any] = {}
        for name, field in self._fields.items():
            if name not in plain:
                if field.is_required:
                    problems.append(Problem(name, f"This {self._rejection.part} is missing"))
                continue
            try:
                found[field.name] = read(plain[name], self._types[name])
            except (ValidationError, RecursionError) as error:
                problems += self._problems(name, plain[name], error)
        unknown = [name for name in plain if name not in self._fields]
        if self._accepts_extra:
            found.update({name: plain[name] for name in unknown})
        else:
            problems += [Problem(name[:_MAX_NAME], self._unknown(name)) for name in unknown[:_MAX_UNKNOWN]]
        if problems:
            raise self._rejection(self._subject, problems)
        return self._filled(found)

    def _filled(self, found: dict[str, Any]) -> dict[str, Any]:
        for name, fill in self._fills.items():
            if name not in found:
                found[name] = fill()
        return found

    def _problems(self, name: str, value: Any, error: ValidationError | RecursionError) -> Iterator[Problem]:
        if isinstance(error, RecursionError):
            yield Problem(name, _TOO_DEEP)
            return
        for path, what in (problem.under(name) for problem in problems_in(error, value)):
            choices = _choices(self._schema, path) if what.startswith("Invalid enum value") else ""
            yield Problem(path, f"{what}; expected one of {choices}" if choices else what)

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches  # only needed for invalid arguments

        unknown = f"Unknown {self._rejection.part}"
        close = get_close_matches(name[:_MAX_NAME], self._fields, n=1)
        if close:
            return f"{unknown}; did you mean {close[0]}?"
        names = ", ".join(self._fields)
        return f"{unknown}; expected one of {names}" if names else f"{unknown}; none are expected"


def _read(value: Any, kind: Any) -> Any:
    try:
        return converted(value, kind)
    except ValidationError:
        whole = _whole(value)
        if whole is not value:
            with suppress(ValidationError):
                return converted(whole, kind)
        raise


def _read_leniently(value: Any, kind: Any) -> Any:
    try:
        return _read(value, kind)
    except ValidationError as error:
        first = error
    with suppress(ValidationError):
        return converted_leniently(value, kind)
    raise first  # its cause contains the problems


def _whole(value: Any) -> Any:
    """Return the value with 3 instead of 3.0, as JSON Schema defines integers; the same object if nothing changes."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT else value
    if isinstance(value, list):
        items = [_whole(each) for each in value]
        return value if all(map(is_, items, value)) else items
    if isinstance(value, dict):
        members = {name: _whole(each) for name, each in value.items()}
        return value if all(map(is_, members.values(), value.values())) else members
    return value


def from_string(text: str, kind: Any) -> Any:
    """Convert a string from a prompt or a URI: as it is, as a number or boolean, or as JSON."""
    try:
        return converted(text, kind)
    except ValidationError as error:
        first = error
    with suppress(ValidationError):
        return converted_leniently(text, kind)
    with suppress(DecodeError, RecursionError):
        return _read(decode(text), kind)
    raise first  # its cause contains the problems


def _choices(schema: Any, path: str) -> str:
    """Return the values that a schema allows at a path; empty if it does not list them."""
    found = schema
    for name, index in re.findall(_STEPS, path):
        found = _resolved(schema, found)
        if not isinstance(found, dict):
            return ""
        inside = found.get("properties", {}).get(name) if name else None
        found = inside if name else found.get("items" if index.isdigit() else "additionalProperties")
    found = _resolved(schema, found)
    options = found.get("enum") if isinstance(found, dict) else None
    return ", ".join(repr(each) for each in options) if options else ""


def _resolved(root: Any, schema: Any) -> Any:
    """Follow a reference into ``$defs`` and ignore an alternative null."""
    if isinstance(schema, dict):
        others = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
        schema = others[0] if len(others) == 1 else schema
        name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
        return root.get("$defs", {}).get(name) if name else schema
    return schema
