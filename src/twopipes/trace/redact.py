r"""What must not be recorded: values by the name of their member, blanked before anything is written.

What is covered: the members of ``params``, at any depth, of every request and notification in both directions; those of ``result``
in what the client answers to a question of the server, because on a stateless wire the same answer stands in ``params``; and in a
line that is no message (on stderr, or noise on the wire) every member of a JSON object, or else the whole line if it contains one
of the names, escaped or not. Upper and lower case are the same.

What is not: a secret that a server repeats in its result, or that somebody writes without its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import DecodeError, Raw, ValidationError, json

__all__ = ["LONGEST", "REDACTED", "Redactor", "redacted_argv"]

# Bytes. The longest line that is searched. It has to be held together for that, by a recorder that shares the memory of the
# program that it records; pictures and long texts are shorter.
LONGEST = 16 * 1024 * 1024
# What stands for a line of which nothing may be shown.
REDACTED = b"[redacted]"
_VALUE = b'"[redacted]"'

_any = json.Decoder(Raw)
_object = json.Decoder(dict[str, Raw])
_array = json.Decoder(list[Raw])
_string = json.Decoder(str)

# Of text that is known to be JSON: a string, with the colon that makes it the name of a member; a bracket; a number or a word.
_TOKEN = re.compile(rb'("(?:[^"\\]++|\\.)*+")(\s*:)?|[{}\[\]]|[^\s"{}\[\],:]++')
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Redactor:
    """Blanks values in lines. What is not blanked stays as it is, byte for byte.

    Args:
        names: Of the members whose values are blanked.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.casefold() for name in names)

    def line(self, kind: str, data: bytes) -> bytes:
        """The line as it may be written. A message stays one."""
        if not self._is_named_in(data):
            return data
        try:
            return self._message(kind, data)
        except (DecodeError, ValidationError, RecursionError, UnicodeDecodeError):
            return REDACTED

    def _is_named_in(self, data: bytes) -> bool:
        """Whether one of the names stands anywhere in a line. Most lines are let through by this."""
        text = data.decode(errors="replace")
        if "\\" in text:
            # In JSON a name may be written so that it does not look like itself.
            text = f"{text}\n{_unescaped(text)}"
        text = text.casefold()
        return any(name in text for name in self._names)

    def _message(self, kind: str, data: bytes) -> bytes:
        _any.decode(data)  # what follows takes it for JSON, and would be misled by what is none
        start = data.lstrip()[:1]
        if start == b"[":
            # A batch (2025-03-26).
            elements = [bytes(element) for element in _array.decode(data)]
            blanked = [self._message(kind, element) if element[:1] in b"{[" else element for element in elements]
            return data if blanked == elements else b"[" + b",".join(blanked) + b"]"
        if start != b"{":
            raise DecodeError("it is no message")
        covered = None
        if kind != "!" and "jsonrpc" in _object.decode(data):
            covered = {"params", "result"} if kind == ">" else {"params"}
        pieces = []
        copied = 0
        for start_of_value, end_of_value in self._values(data, covered):
            pieces += [data[copied:start_of_value], _VALUE]
            copied = end_of_value
        return b"".join([*pieces, data[copied:]])

    def _values(self, data: bytes, covered: set[str] | None) -> Iterator[tuple[int, int]]:
        """Where the values stand that are to be blanked, in an object.

        Args:
            data: The object.
            covered: Which members of it are searched; ``None`` for all, and its own.
        """
        depth = 0
        is_covered = covered is None
        start: int | None = None  # of a value that is to be blanked, once it has begun
        level = 0  # the depth that it began at
        wanted = False  # the next token begins such a value
        for token in _TOKEN.finditer(data):
            first = token[0][:1]
            if wanted:
                start, level, wanted = token.start(), depth, False
            if first in b"{[":
                depth += 1
            elif first in b"}]":
                depth -= 1
            if start is not None:
                if depth == level:
                    yield start, token.end()
                    start = None
            elif token[2] is not None:
                name = _string.decode(token[1])
                if depth == 1 and covered is not None:
                    is_covered = name in covered
                else:
                    wanted = is_covered and name.casefold() in self._names


def redacted_argv(argv: Sequence[str], names: Iterable[str]) -> list[str]:
    """A command as it may be written: the values of ``--name=value``, ``--name value`` and ``name=value`` are blanked.

    Here ``-`` and ``_`` are the same: ``--api-key`` is meant by ``api_key``, too.
    """
    wanted = {_as_option(name) for name in names}
    words = []
    is_value = False
    for word in argv:
        option, sign, _ = word.partition("=")
        if is_value:
            words.append("[redacted]")
            is_value = False
        elif _as_option(option) in wanted and sign:
            words.append(f"{option}=[redacted]")
        else:
            words.append(word)
            is_value = word.startswith("-") and _as_option(word) in wanted
    return words


def _as_option(name: str) -> str:
    return name.lstrip("-").replace("-", "_").casefold()


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]), text)
    # Letters beyond the first plane are written as two.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
