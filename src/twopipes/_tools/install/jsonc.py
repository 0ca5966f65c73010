"""JSON with comments and trailing commas: read with the place of every value, and edited without touching the rest.

Hosts allow people to write comments into their files, and people do. The parsers that Python has either refuse them or throw them
away, so the file is not written anew: where an entry has to go is found out, and the text is put there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from twopipes._tools.install.values import AnotherEntry, check_place, newline_of, same

__all__ = ["Unreadable", "put", "read", "says_nothing"]

_TWO_SPACES = "  "
# Possessive, here and below: a text of which nothing comes must not be tried again in every other way to cut it.
_BLANK = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*.*?\*/)*+", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\.)*+"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null")
# What may follow a value on its line and belongs to it.
_REST_OF_LINE = re.compile(r"(?:[ \t]++|/\*.*?\*/)*+(?://[^\r\n]*+)?", re.DOTALL)


class Unreadable(ValueError):
    """The text is no JSON, even with comments and trailing commas allowed; says where in the words of Python's own parser."""

    def __init__(self, what: str, text: str, position: int) -> None:
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        super().__init__(f"{what}: line {line} column {column}")


class Member(NamedTuple):
    """A key of an object and what it stands for."""

    key: str
    start: int
    content: Value


class Value(NamedTuple):
    """A value and where it stands: the text from ``start`` up to ``end``."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = ()  # of an object whose members were asked for
    comma: int | None = None  # where a comma stands that nothing follows

    def member(self, key: str) -> Member | None:
        """The last member with this key, which is the one that counts."""
        return next((each for each in reversed(self.members) if each.key == key), None)


def read(text: str) -> Any:
    """What the text says.

    Raises:
        Unreadable: It is no JSON.
    """
    return _parse(text).value


def says_nothing(text: str) -> bool:
    """Whether there is no value in a text, but at most comments."""
    return _BLANK.fullmatch(text) is not None


def put(
    text: str, place: Sequence[str], name: str, content: Any, *, replace: bool = False, fresh: dict[str, Any] | None = None
) -> str:
    """The text with one more member in the object at ``place``, or with another content of the one that is there.

    Objects that are missing on the way are made. All else stays as it is: comments, order, indentation, line ends.

    Args:
        text: The document; one without any value is taken for an empty object.
        place: The keys that lead to the object.
        name: The key of the member.
        content: Its value.
        replace: Whether a member that says something else may go.
        fresh: What a document that is made from nothing begins with.

    Raises:
        Unreadable: It is no JSON.
        AnotherEntry: The name is taken.
        Refused: The document is no object, or something on the way is not.
    """
    if says_nothing(text):
        return _made(text, {**(fresh or {}), **_nested(place, {name: content})})
    root = _parse(text, place)
    check_place(root.value, place)
    style = _Style(text, root)
    here = root
    for depth, key in enumerate(place):
        member = here.member(key)
        missing = _nested(place[depth + 1 :], {name: content})
        if member is None:
            return style.added(here, key, missing)
        if member.content.value is None:  # null: nothing yet
            return style.replaced(member, missing)
        here = member.content
    member = here.member(name)
    if member is None:
        return style.added(here, name, content)
    if same(member.content.value, content):
        return text
    if not replace:
        raise AnotherEntry(name, member.content.value)
    return style.replaced(member, content)


def _nested(place: Sequence[str], content: Any) -> Any:
    for key in reversed(place):
        content = {key: content}
    return content


def _made(comments: str, document: Any) -> str:
    newline = newline_of(comments)
    kept = f"{comments.rstrip()}{newline}" if comments.strip() else ""
    return kept + _lines(document, _TWO_SPACES, "", newline) + newline


def _lines(content: Any, unit: str, indentation: str, newline: str) -> str:
    # Only what json.dumps breaks into lines has newlines in it: those in strings are escaped.
    return json.dumps(content, indent=unit, ensure_ascii=False).replace("\n", newline + indentation)


class _Style:
    """How a document is laid out, and how something is said in the same way."""

    def __init__(self, text: str, root: Value) -> None:
        self._text = text
        self._newline = newline_of(text)
        # A document of one line, and more in it than two braces, stays one.
        self._is_one_line = not re.search(r"[\r\n]", text.strip()) and bool(root.members)
        first = self._own_line(root.members[0].start) if root.members else None
        self._unit = first or _TWO_SPACES

    def added(self, where: Value, key: str, content: Any) -> str:
        """The text with a member at the end of an object."""
        if not where.members:
            return self._filled(where, key, content)
        last = where.members[-1]
        end = last.content.end
        indentation = self._own_line(last.start)
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
        """The text with another content of a member."""
        indentation = self._own_line(member.start)
        if indentation is None:
            said = _on_one_line(content, is_tight=self._text[member.content.start - 1] == ":")
        else:
            said = _lines(content, self._unit, indentation, self._newline)
        return self._edited((member.content.start, member.content.end, said))

    def _filled(self, where: Value, key: str, content: Any) -> str:
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

    def _own_line(self, position: int) -> str | None:
        """The white space before a place, if there is nothing else on its line before it."""
        start = self._start_of_line(position)
        before = self._text[start:position]
        return before if start and not before.strip(" \t") else None

    def _end_of_line(self, position: int) -> int:
        """Behind the comments that follow on the same line: they speak of what stands before them."""
        found = _REST_OF_LINE.match(self._text, position)
        if found is None or self._text[found.end() : found.end() + 1] not in {"", "\r", "\n"}:
            return position
        return found.end()

    def _edited(self, *edits: tuple[int, int, str]) -> str:
        pieces, done = [], 0
        for start, end, said in edits:
            pieces += [self._text[done:start], said]
            done = end
        return "".join([*pieces, self._text[done:]])


def _member_on_one_line(key: str, content: Any, *, is_tight: bool) -> str:
    return _on_one_line({key: content}, is_tight=is_tight)[1:-1]


def _on_one_line(content: Any, *, is_tight: bool) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":") if is_tight else (", ", ": "))


def _parse(text: str, place: Sequence[str] | None = None) -> Value:
    """The document; with the members of the objects on the way to ``place``, where that is given."""
    try:
        reader = _Reader(text)
        found = reader.value(reader.blank(0), place)
        rest = reader.blank(found.end)
    except RecursionError:
        raise Unreadable("Nested too deeply", text, 0) from None
    if rest < len(text):
        raise Unreadable("Extra data", text, rest)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity, which Python takes and JSON does not have


# Python's own parser is a hundred times as fast, and files of megabytes are no rarity: it reads all that has no comments in it.
_AT_ONCE = json.JSONDecoder(parse_constant=_no_constant)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def blank(self, position: int) -> int:
        """Where the next token begins."""
        found = _BLANK.match(self._text, position)
        return position if found is None else found.end()

    def value(self, position: int, place: Sequence[str] | None = None) -> Value:
        """The value that begins there; with the members of the objects on the way to ``place``, where that is given."""
        if place is None or self._text[position : position + 1] != "{":
            try:
                value, end = _AT_ONCE.raw_decode(self._text, position)
                return Value(position, end, value)
            except (ValueError, RecursionError):
                pass  # there are comments in it, or it is wrong; where, is found out below
        match self._text[position : position + 1]:
            case "{":
                return self._object(position, place)
            case "[":
                return self._array(position)
            case '"':
                return self._scalar(_STRING, position)
            case _:
                return self._scalar(_SCALAR, position)

    def _scalar(self, kind: re.Pattern[str], position: int) -> Value:
        found = kind.match(self._text, position)
        if found is None:
            self._fail("Expecting value" if kind is _SCALAR else "Invalid string", position)
        try:
            return Value(position, found.end(), json.loads(found.group()))
        except ValueError as error:  # an escape that there is none of, or a number of thousands of digits
            self._fail(str(getattr(error, "msg", error)), position)

    def _object(self, start: int, place: Sequence[str] | None) -> Value:
        members: list[Member] = []
        comma, position = None, self.blank(start + 1)
        while self._text[position : position + 1] != "}":
            if members and comma is None:
                self._fail("Expecting ',' delimiter", position)
            if self._text[position : position + 1] != '"':
                self._fail("Expecting property name enclosed in double quotes", position)
            key = self._scalar(_STRING, position)
            colon = self.blank(key.end)
            if self._text[colon : colon + 1] != ":":
                self._fail("Expecting ':' delimiter", colon)
            content = self.value(self.blank(colon + 1), place[1:] if place and key.value == place[0] else None)
            members.append(Member(key.value, position, content))
            comma, position = self._comma(content.end)
        found = {member.key: member.content.value for member in members}
        return Value(start, position + 1, found, tuple(members), comma)

    def _array(self, start: int) -> Value:
        items: list[Any] = []
        comma, position = None, self.blank(start + 1)
        while self._text[position : position + 1] != "]":
            if items and comma is None:
                self._fail("Expecting ',' delimiter", position)
            item = self.value(position)
            items.append(item.value)
            comma, position = self._comma(item.end)
        return Value(start, position + 1, items)

    def _comma(self, end: int) -> tuple[int | None, int]:
        """Where the comma behind a value is, if there is one, and where the next token begins."""
        position = self.blank(end)
        if self._text[position : position + 1] == ",":
            return position, self.blank(position + 1)
        return None, position

    def _fail(self, what: str, position: int) -> NoReturn:
        if self._text.startswith("/*", position):
            what = "A comment that does not end"
        raise Unreadable(what, self._text, position)
