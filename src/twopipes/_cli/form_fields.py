"""The fields of a form that a server asks the user to fill in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from twopipes._cli.arguments import InvalidValue, Pair, describe, did_you_mean, typed
from twopipes._client.form_check import form_errors

_YES, _NO = {"y", "yes", "true", "1"}, {"n", "no", "false", "0"}
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """Return the fields of a form, in its order (EL-01)."""
    found, required = schema.get("properties"), schema.get("required")
    names = required if isinstance(required, list) else []
    return [Field(name, each, is_required=name in names) for name, each in found.items()] if isinstance(found, Mapping) else []


class Choice(NamedTuple):
    """One of several values: what is sent, and what is shown."""

    value: str
    title: str


class Field:
    """One field of a form."""

    def __init__(self, name: str, schema: Any, *, is_required: bool) -> None:
        self.name = name
        self.schema: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        self.is_required = is_required
        self.has_default = self.schema.get("default") is not None
        self.default = self.schema.get("default")
        self.is_multiple = self.schema.get("type") == "array"
        items = self.schema.get("items")
        self.choices = _choices(items if self.is_multiple and isinstance(items, Mapping) else self.schema)
        # Do not number the choices if one of them is itself a number.
        self.is_numbered = bool(self.choices) and not any(choice.value.strip().isdigit() for choice in self.choices)

    @property
    def title(self) -> str:
        """The title of the field, or else its name."""
        return _text(self.schema.get("title")) or self.name

    @property
    def note(self) -> str:
        """The description on one line."""
        return " ".join(_text(self.schema.get("description")).split())

    @property
    def hint(self) -> str:
        """Which values are accepted, in a few words."""
        skip = f"Enter for {self.shown(self.default)}" if self.has_default else "" if self.is_required else "Enter to skip"
        return "; ".join(filter(None, [self._kind(), skip]))

    def lines(self) -> list[str]:
        """Return the choices as lines."""
        if self.is_numbered:
            return [f"{number}. {choice.title}" for number, choice in enumerate(self.choices, 1)]
        return [title if title == value else f"{title} ({value})" for value, title in self.choices]

    def read(self, text: str) -> Any:
        """Convert the line that the user typed; ``None`` if the field is skipped."""
        text = text.strip() if self.schema.get("type") != "string" or self.choices else text
        if not text.strip():
            if self.has_default:
                return self.default  # EL-05
            if not self.is_required:
                return None
            if not (self.is_multiple and self.choices):
                raise InvalidValue("a value is required")
        if self.is_multiple:
            words = [word.strip() for word in text.split(",") if word.strip()]
            value: Any = list(dict.fromkeys(self._choice(word) for word in words))
        elif self.choices:
            value = self._choice(text)
        elif self.schema.get("type") == "boolean":
            if text.casefold() not in _YES | _NO:
                raise InvalidValue(f"{text!r} is neither yes nor no")
            value = text.casefold() in _YES
        else:
            value = "" if text == '""' else typed(text, {"type": self.schema.get("type", "string")})
        return self.checked(value)

    def answered(self, pair: Pair) -> Any:
        """Convert a value of ``--answer``."""
        return self.checked(typed(pair.text, {})) if pair.is_json else self.read(pair.text)

    def checked(self, value: Any) -> Any:
        """Return the value, if the form allows it."""
        if wrong := form_errors({"properties": {self.name: self.schema}}, {self.name: value}):
            raise InvalidValue(wrong[0].removeprefix(f"{self.name} "))
        if isinstance(value, str) and (problem := _format_error(value, self.schema.get("format"))):
            raise InvalidValue(problem)
        return value

    def shown(self, value: Any) -> str:
        """Return a value as shown to the user."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, list):
            return ", ".join(self.shown(each) for each in value) or "none"
        titles = {choice.value: choice.title for choice in self.choices}
        return _text(titles.get(value, value)) if isinstance(value, str) else str(value)

    def _kind(self) -> str:
        if self.choices:
            if not self.is_multiple:
                return "a number or a name" if self.is_numbered else "one of these"
            least, most = self.schema.get("minItems"), self.schema.get("maxItems")
            span = f", at least {least}" if least else f", at most {most}" if most else ""
            return f"any of these, separated by commas{f', {least} to {most}' if least and most else span}"
        if self.schema.get("type") == "boolean":
            return "y/n"
        least, most = self.schema.get("minLength"), self.schema.get("maxLength")
        kind = describe(self.schema)
        if least and most:
            return f"{kind} of {least} to {most} characters"
        if most:
            return f"{kind} of at most {most} characters"
        return "" if kind == "string" else kind

    def _choice(self, text: str) -> str:
        if any(text == choice.value for choice in self.choices):
            return text
        if self.is_numbered and text.isdigit() and 0 < int(text) <= len(self.choices):
            return self.choices[int(text) - 1].value
        fitting = [choice.value for choice in self.choices if text.casefold() in {choice.value.casefold(), choice.title.casefold()}]
        if len(fitting) == 1:
            return fitting[0]
        names = [name for choice in self.choices for name in (choice.value, choice.title)]
        raise InvalidValue(f"{text!r} is not one of the choices{did_you_mean(text, names)}")


def _choices(schema: Mapping[str, Any]) -> list[Choice]:
    """Return the choices of a field, in any of the forms of a schema (EL-04)."""
    values, titles = schema.get("enum"), schema.get("enumNames")
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        names = titles if isinstance(titles, list) and len(titles) == len(values) else values
        return [Choice(value, _text(name)) for value, name in zip(values, names, strict=True)]
    options = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(options, list) and all(
        isinstance(option, Mapping) and isinstance(option.get("const"), str) for option in options
    ):
        return [Choice(option["const"], _text(option.get("title", option["const"]))) for option in options]
    return []


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)


def _format_error(value: str, name: Any) -> str:
    if name == "email" and not _EMAIL.fullmatch(value):
        return f"{value!r} is not an e-mail address"
    if name == "uri" and not _URI.fullmatch(value):
        return f"{value!r} is not a URI, such as https://example.com/"
    try:
        if name == "date":
            date.fromisoformat(value)
        elif name == "date-time" and datetime.fromisoformat(value).tzinfo is None:
            return f"{value!r} has no time zone, such as Z or +02:00"
    except ValueError:
        example = "2026-07-28" if name == "date" else "2026-07-28T12:00:00Z"
        return f"{value!r} is not a {name}, such as {example}"
    return ""
