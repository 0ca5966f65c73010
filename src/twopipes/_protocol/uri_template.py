"""URI templates (RFC 6570) for resource templates: match URIs in linear time.

Supported are ``{x}``, ``{+x}``, ``{#x}``, ``{.x}``, ``{/x}``, ``{;x}``, ``{?a,b}`` and ``{&a,b}``, several names in one
expression, and ``*`` after a name. Values are strings. ``*`` has an additional meaning for matching: in ``{x*}`` and ``{/x*}`` the
value is the rest of a path, with its slashes. ``{x:3}`` (a prefix) is rejected, because the removed part cannot be recovered.

Matching never backtracks, so it takes linear time for any URI. Therefore a value ends at the first occurrence of the text that
follows it in the template. Two kinds of values extend as far as possible instead: the last one that may contain slashes (``{+x}``,
``{x*}``), and one with only fixed text after it. The values are decoded exactly once.

**The values are untrusted (RS-08).** ``%2F`` and ``%2e%2e`` become ``/`` and ``..`` *inside* a value; a URI with a NUL, invalid
percent-encoding or bytes that are not UTF-8 does not match. Code that builds a path from a value must check the path.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TypeGuard

from msgspec import Struct

from twopipes.errors import TwopipesError

_NAME = re.compile(r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*")
# An expression, or text of the characters that RFC 6570 allows outside of braces.
_PART = re.compile(r"\{(?P<inside>[^}]*)\}|(?:[!#$&()*+,\-./0-9:;=?@A-Z\[\]_a-z~]|[^\x00-\x9f]|%[0-9A-Fa-f]{2})+")
_BROKEN_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


class TemplateRejected(TwopipesError, ValueError):
    """A URI template is not valid by RFC 6570 at a position, or cannot be matched."""

    def __init__(self, template: str, position: int, why: str) -> None:
        super().__init__(template, position, why)
        self.template = template
        self.position = position
        self.why = why

    def __str__(self) -> str:
        return f"URI template {self.template!r}, position {self.position}: {self.why}"


class _Operator(Struct, frozen=True):
    """A part of one row of the table in RFC 6570, appendix A."""

    first: str
    separator: str
    stops: str  # characters that end a value, in addition to the text that follows in the template
    is_named: bool = False
    is_query: bool = False


_OPERATORS = {
    "": _Operator("", ",", stops="/?#,"),
    "+": _Operator("", ",", stops=""),
    "#": _Operator("#", ",", stops=""),
    ".": _Operator(".", ".", stops="/?#,"),
    "/": _Operator("/", "/", stops="/?#,"),
    ";": _Operator(";", ";", stops="/?#,;", is_named=True),
    "?": _Operator("?", "&", stops="#&", is_named=True, is_query=True),
    "&": _Operator("&", "&", stops="#&", is_named=True, is_query=True),
}


class _Expression(Struct, frozen=True):
    operator: _Operator
    names: tuple[tuple[str, bool], ...]  # each with whether a star follows


_Parts = tuple[str | _Expression, ...]


class UriTemplate:
    """A URI template; ``variables`` has its variables, in order.

    Raises:
        TemplateRejected: It is not a valid template, or cannot be matched.
    """

    def __init__(self, template: str) -> None:
        self._parts = _parsed(template)
        expressions = [part for part in self._parts if isinstance(part, _Expression)]
        self.variables = tuple(name for part in expressions for name, _ in part.names)
        # The last expression whose value may contain slashes.
        self._widest = next((part for part in reversed(expressions) if part.names[-1][1] or not part.operator.stops), None)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded, untrusted values in a URI (see above), or ``None`` if the URI does not match.

        Variables of ``{?a}`` that are absent from the URI are absent from the result; all others have a value that is not empty.
        """
        # RS-08: a URI with invalid encoding or a NUL never matches.
        if _BROKEN_PERCENT.search(uri) or "\0" in uri or "%00" in uri:
            return None
        found: dict[str, str] = {}
        position = 0
        for index, part in enumerate(self._parts):
            if isinstance(part, str):
                end = position + len(part) if uri.startswith(part, position) else None
            elif _is_query(part):
                end = _read_query(part, uri, position, found)
            else:
                end = self._read_values(part, self._parts[index + 1 :], uri, position, found)
            if end is None:
                return None
            position = end
        return found if position == len(uri) else None

    def _read_values(self, part: _Expression, rest: _Parts, uri: str, position: int, found: dict[str, str]) -> int | None:
        """Read the values of one expression; return their end, or ``None`` if they do not match."""
        operator, names = part.operator, part.names
        for number, (name, has_star) in enumerate(names):
            before = (operator.separator if number else operator.first) + (f"{name}=" if operator.is_named else "")
            if not uri.startswith(before, position):
                return None
            position += len(before)
            is_last_name = number == len(names) - 1
            if is_last_name and part is self._widest:
                end = _end_of_widest(rest, uri, position)
            else:
                after, is_greedy = _what_follows(rest) if is_last_name else (operator.separator, False)
                stops = "?#" if has_star else operator.stops
                end = _end_of_value(uri, position, stops, after, greedy=is_greedy)
            value = _decoded(uri[position:end])
            if not value:
                return None
            found[name] = value
            position = end
        return position


def _is_query(part: str | _Expression) -> TypeGuard[_Expression]:
    return isinstance(part, _Expression) and part.operator.is_query


def _read_query(part: _Expression, uri: str, position: int, found: dict[str, str]) -> int | None:
    """Read ``?a=1&b=2`` in any order, each name at most once; a URI with an unknown name does not match."""
    if not uri.startswith(part.operator.first, position):
        return position
    end = uri.find("#", position)
    end = len(uri) if end < 0 else end
    known = {name for name, _ in part.names}
    for piece in uri[position + 1 : end].split("&"):
        name, _, text = piece.partition("=")
        value = _decoded(text)
        if name not in known or name in found or value is None:
            return None
        found[name] = value
    return end


def _what_follows(rest: _Parts) -> tuple[str, bool]:
    """Return the fixed text that ends a value, and whether it is the end of the template."""
    if not rest:
        return "", True
    return (rest[0], len(rest) == 1) if isinstance(rest[0], str) else (rest[0].operator.first, False)


def _end_of_widest(rest: _Parts, uri: str, position: int) -> int:
    """Return the end of the last value with slashes: the rest of the URI has as many slashes as the rest of the template."""
    # The fixed text of the rest, with the slashes and marks that its expressions add.
    skeleton = "".join(
        part if isinstance(part, str) else part.operator.first * (len(part.names) if part.operator.first == "/" else 1)
        for part in rest
    )
    mark = next((each for each in skeleton if each in "?#"), "")
    end = uri.find(mark, position) if mark else -1
    end = len(uri) if end < 0 else end
    after = _what_follows(rest)[0]
    if mark:
        skeleton, after = skeleton.partition(mark)[0], after.partition(mark)[0]
    for _ in range(skeleton.count("/")):
        end = uri.rfind("/", position, end)
        if end < 0:
            return position  # nothing is left for the value
    if "/" in after:
        return max(position, end - after.index("/"))
    end = uri.rfind(after, position, end) if after else end
    return max(position, end)


def _parsed(template: str) -> _Parts:
    parts: list[str | _Expression] = []
    seen: set[str] = set()
    position = 0
    while position < len(template):
        part = _PART.match(template, position)
        if part is None:
            why = "this brace is never closed" if template[position] == "{" else f"{template[position]!r} is not allowed here"
            raise TemplateRejected(template, position, why)
        if part["inside"] is None:
            parts.append(part[0])
            position = part.end()
            continue
        expression = _expression(template, position + 1, part.end() - 1)
        for name, _ in expression.names:
            if name in seen:
                raise TemplateRejected(template, position, f"the variable {name} appears twice")
            seen.add(name)
        # {x}{y}: the end of the first value would be ambiguous.
        if parts and not isinstance(parts[-1], str) and not expression.operator.first:
            raise TemplateRejected(template, position, "add some text between the two expressions")
        if expression.operator.first == "&" and any(map(_is_query, parts)):
            raise TemplateRejected(template, position, "put all names of a query into one expression, as in {?a,b}")
        parts.append(expression)
        position = part.end()
    _check_order(template, parts)
    return tuple(parts)


def _check_order(template: str, parts: list[str | _Expression]) -> None:
    for part, following in pairwise(parts):
        if _is_query(part) and not (following if isinstance(following, str) else following.operator.first).startswith("#"):
            raise TemplateRejected(template, template.rindex("{"), "only a fragment may follow a query")
    # RS-09: a URI starts with a scheme. If it is a variable, it cannot be checked here.
    if not parts or (isinstance(parts[0], str) and not _SCHEME.match(parts[0])):
        raise TemplateRejected(template, 0, "a URI must start with a scheme, such as file: or notes:")


def _expression(template: str, start: int, end: int) -> _Expression:
    sign = template[start : start + 1]
    if sign and sign in "=,!@|":
        raise TemplateRejected(template, start, f"the operator {sign!r} is reserved by RFC 6570")
    operator = _OPERATORS.get(sign, _OPERATORS[""])
    if operator is not _OPERATORS[""]:
        start += 1
    names: list[tuple[str, bool]] = []
    for text in template[start:end].split(","):
        name = text.removesuffix("*")
        if ":" in name:
            raise TemplateRejected(template, start, f"prefixes such as {text!r} are not supported, because they cannot be matched")
        if not _NAME.fullmatch(name):
            raise TemplateRejected(template, start, f"{text!r} is not the name of a variable")
        if name != text and operator.is_named:
            raise TemplateRejected(template, start, f"{text!r} cannot be exploded, because values are strings; remove the *")
        names.append((name, name != text))
        start += len(text) + 1
    return _Expression(operator, tuple(names))


def _decoded(text: str) -> str | None:
    if "%" not in text:
        return text
    first, *rest = text.encode().split(b"%")
    try:
        return b"".join([first, *(bytes.fromhex(each[:2].decode()) + each[2:] for each in rest)]).decode()
    except UnicodeDecodeError:
        return None


def _end_of_value(uri: str, position: int, stops: str, after: str, *, greedy: bool) -> int:
    """Return the end of a value: before the first stop, and before the text that follows it in the template."""
    end = len(uri)
    for stop in stops:
        found = uri.find(stop, position, end)
        end = found if found >= 0 else end
    if after:
        # A stop that starts the following text belongs to that text.
        reach = min(len(uri), end + len(after))
        found = uri.rfind(after, position, reach) if greedy else uri.find(after, position + 1, reach)
        end = found if 0 <= found < end else end
    return end
