"""JSON with comments and trailing commas: parse it, and edit it in place.

Hosts allow comments in their files. Python's parsers reject or drop them, so a file is not written anew: the text of an entry
is inserted at its position, and the rest stays unchanged. To parse a text, comments and trailing commas are replaced by spaces,
so that every position stays the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from twopipes._host.files.values import nested, newline_of

_TWO_SPACES = "  "
# Possessive quantifiers, here and below, to avoid backtracking in a text that does not match.
_BLANK = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*.*?\*/)*+", re.DOTALL)
# A string or a comment; and a string or a trailing comma after a value. At the end of the text, they may be unterminated.
_STRING = r'"(?:[^"\\]++|\\.)*+(?:"|\Z)'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|(?<=[\w\"}}\]])[ \t\r\n]*+,(?=[ \t\r\n]*+[}}\]])", re.DOTALL)
# White space and comments that follow a value on its line.
_REST_OF_LINE = re.compile(r"(?:[ \t]++|/\*.*?\*/)*+(?://[^\r\n]*+)?", re.DOTALL)


class InvalidJson(ValueError):
    """The text is not JSON, even with comments and trailing commas. The message is that of Python's own parser."""


class Member(NamedTuple):
    """A key of an object and its value."""

    key: str
    start: int
    content: Value


class Value(NamedTuple):
    """A value and its position: the text from ``start`` up to ``end``."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = ()  # only of objects on the way to `place`
    comma: int | None = None  # the position of a trailing comma

    def member(self, key: str) -> Member | None:
        """Return the last member with this key, which is the one that parsers use."""
        return next((each for each in reversed(self.members) if each.key == key), None)


def read(text: str) -> Any:
    """Parse a text. Raises ``InvalidJson``."""
    try:
        return json.loads(_without_comments(text), parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        what = "Unterminated comment" if text.startswith("/*", error.pos) else error.msg
        raise InvalidJson(f"{what}: line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise InvalidJson("Nested too deeply") from None
    except ValueError as error:  # NaN, or a number with thousands of digits
        raise InvalidJson(str(error)) from None


def _without_comments(text: str) -> str:
    def blank(found: re.Match[str]) -> str:
        token = found.group()
        is_unterminated = token.startswith("/*") and not token[2:].endswith("*/")
        return token if token.startswith('"') or is_unterminated else re.sub(r"[^\r\n]", " ", token)

    with suppress(ValueError, RecursionError):
        json.loads(text)
        return text  # there are none: much faster, and files can have megabytes
    return _TRAILING_COMMA.sub(blank, _COMMENT.sub(blank, text))


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"Expecting value, not {name}")  # Python accepts NaN and Infinity, JSON does not


def is_blank(text: str) -> bool:
    """Return whether a text contains nothing but white space and comments."""
    return _BLANK.fullmatch(text) is not None


def edited(text: str, place: Sequence[str], name: str, content: Any) -> str:
    """Add a member to the object at ``place``, or replace its value. Missing objects on the way are created."""
    here = _locate(text, _without_comments(text), _next(text, 0), place)
    style = _Style(text, here)
    for depth, key in enumerate(place):
        member = here.member(key)
        missing = nested(place[depth + 1 :], {name: content})
        if member is None:
            return style.added(here, key, missing)
        if member.content.value is None:  # null counts as missing
            return style.replaced(member, missing)
        here = member.content
    member = here.member(name)
    return style.added(here, name, content) if member is None else style.replaced(member, content)


def new_document(comments: str, document: Any) -> str:
    """Return the text of a new document below comments."""
    newline = newline_of(comments)
    kept = f"{comments.rstrip()}{newline}" if comments.strip() else ""
    return kept + _lines(document, _TWO_SPACES, "", newline) + newline


def snippet(path: Sequence[str], content: Any) -> str:
    """Return a document with only this content at a path of keys."""
    return new_document("", nested(path, content))


def _lines(content: Any, unit: str, indentation: str, newline: str) -> str:
    # The only newlines are those between lines: in strings they are escaped.
    return json.dumps(content, indent=unit, ensure_ascii=False).replace("\n", newline + indentation)


class _Style:
    """The layout of a document, and edits in the same layout."""

    def __init__(self, text: str, root: Value) -> None:
        self._text = text
        self._newline = newline_of(text)
        # A document on one line stays on one line, unless it is an empty object.
        self._is_one_line = not re.search(r"[\r\n]", text.strip()) and bool(root.members)
        first = self._indentation(root.members[0].start) if root.members else None
        self._unit = first or _TWO_SPACES

    def added(self, where: Value, key: str, content: Any) -> str:
        """Return the text with a member added at the end of an object."""
        if not where.members:
            return self._with_first_member(where, key, content)
        last = where.members[-1]
        end = last.content.end
        indentation = self._indentation(last.start)
        if indentation is None:  # all on one line
            is_tight = self._text[last.content.start - 1] == ":"
            member = _member_on_one_line(key, content, is_tight=is_tight)
            space = "" if is_tight else " "
            if where.comma is None:
                return self._edited((end, end, f",{space}{member}"))
            return self._edited((where.comma + 1, where.comma + 1, f"{space}{member},"))
        member = self._newline + indentation + self._member(key, content, indentation)
        if where.comma is not None:
            after = self._end_of_line(where.comma + 1)
            return self._edited((after, after, member + ","))
        after = self._end_of_line(end)
        return self._edited((end, end, ","), (after, after, member))

    def replaced(self, member: Member, content: Any) -> str:
        """Return the text with the value of a member replaced."""
        indentation = self._indentation(member.start)
        old = self._text[member.content.start : member.content.end]
        if indentation is None or (isinstance(content, list) and old.startswith("[") and "\n" not in old):
            inserted = _on_one_line(content, is_tight=self._text[member.content.start - 1] == ":")
        else:
            inserted = _lines(content, self._unit, indentation, self._newline)
        return self._edited((member.content.start, member.content.end, inserted))

    def _with_first_member(self, where: Value, key: str, content: Any) -> str:
        inside = where.start + 1
        comments = self._text[inside : where.end - 1].rstrip()
        if self._is_one_line and not comments:
            is_tight = self._text[where.start - 1] == ":"
            return self._edited((inside, where.end - 1, _member_on_one_line(key, content, is_tight=is_tight)))
        outer = re.match(r"[ \t]*", self._text[self._start_of_line(where.start) :])
        before = outer.group() if outer else ""
        member = self._newline + before + self._unit + self._member(key, content, before + self._unit)
        return self._edited((inside + len(comments), where.end - 1, member + self._newline + before))

    def _member(self, key: str, content: Any, indentation: str) -> str:
        return f"{json.dumps(key, ensure_ascii=False)}: {_lines(content, self._unit, indentation, self._newline)}"

    def _start_of_line(self, position: int) -> int:
        return max(self._text.rfind("\n", 0, position), self._text.rfind("\r", 0, position)) + 1

    def _indentation(self, position: int) -> str | None:
        """Return the white space before a position; ``None`` if anything else precedes it on its line."""
        start = self._start_of_line(position)
        before = self._text[start:position]
        return before if start and not before.strip(" \t") else None

    def _end_of_line(self, position: int) -> int:
        """Return the position after the comments on the same line, which belong to the value before them."""
        found = _REST_OF_LINE.match(self._text, position)
        if found is None or self._text[found.end() : found.end() + 1] not in {"", "\r", "\n"}:
            return position
        return found.end()

    def _edited(self, *edits: tuple[int, int, str]) -> str:
        pieces, done = [], 0
        for start, end, inserted in edits:
            pieces += [self._text[done:start], inserted]
            done = end
        return "".join([*pieces, self._text[done:]])


def _member_on_one_line(key: str, content: Any, *, is_tight: bool) -> str:
    return _on_one_line({key: content}, is_tight=is_tight)[1:-1]


def _on_one_line(content: Any, *, is_tight: bool) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":") if is_tight else (", ", ": "))


def _locate(text: str, plain: str, start: int, place: Sequence[str] | None) -> Value:
    """Find the value at a position; with the members of the objects on the way to ``place``, if given."""
    value, end = json.JSONDecoder().raw_decode(plain, start)
    if place is None or not isinstance(value, dict):
        return Value(start, end, value)
    members: list[Member] = []
    position = _next(plain, start + 1)
    while plain[position] != "}":
        if plain[position] == ",":
            position = _next(plain, position + 1)
        key, colon = json.JSONDecoder().raw_decode(plain, position)
        content = _next(plain, _next(plain, colon) + 1)
        found = _locate(text, plain, content, place[1:] if place and key == place[0] else None)
        members.append(Member(key, position, found))
        position = _next(plain, found.end)
    comma = _next(text, members[-1].content.end) if members else None
    return Value(start, end, value, tuple(members), comma if comma is not None and text[comma] == "," else None)


def _next(text: str, position: int) -> int:
    """Return where the next token begins."""
    found = _BLANK.match(text, position)
    return position if found is None else found.end()
