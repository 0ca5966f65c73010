r"""Redaction: values that must not be recorded are blanked, by name, before anything is written.

In a JSON-RPC message this covers ``params``, ``error`` and members that the protocol does not know, at any depth and in both
directions; ``result`` in what a client sends, because it is the response to a question of the server; and, in the result of a
server, ``inputRequests``, which are requests. ``requestState`` is opaque and may hold earlier responses of the user in any
encoding, so it is always replaced as a whole. Strings in these places are searched too: JSON inside of them by member, other text
for ``name=value`` and ``name: value``.

A line that is not a message (on stderr, or noise on the wire) is searched completely if it is a JSON object. Any other such line
that contains one of the names is blanked as a whole. Upper and lower case are the same.

Not covered: a secret that a server repeats in its result, or that is written without its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from os import urandom
from urllib.parse import unquote

from msgspec import DecodeError, Raw, ValidationError, json

# Bytes. The longest line that is searched. It has to be held together for that, by a recorder that shares the memory of the
# program that it records; pictures and long texts are shorter.
LONGEST = 16 * 1024 * 1024
# Written in place of a value, and in place of a line that cannot be searched.
BLANK = "[redacted]"
REDACTED = BLANK.encode()
_VALUE = b'"%b"' % REDACTED
_STATE = "requeststate"

# Members of a message that are never blanked themselves, so that a message stays one.
_ENVELOPE = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_NOT_SEARCHED = frozenset({"jsonrpc", "id", "method"})

_any = json.Decoder(Raw)
_object = json.Decoder(dict[str, Raw])
_array = json.Decoder(list[Raw])
_string = json.Decoder(str)

# Of text that is known to be JSON: a string, with the colon that makes it the name of a member; a bracket; a number or a word.
_TOKEN = re.compile(rb'("(?:[^"\\]++|\\.)*+")(\s*:)?|[{}\[\]]|[^\s"{}\[\],:]++')
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# How often text inside of text is decoded in search of a name: JSON in a string of JSON, in a URI, ...
_LEVELS = 6
_END_OF_QUERY_VALUE = re.compile(r"[&#\s]|\Z")


class Redactor:
    """Blanks the values of members with these names in lines. Everything else stays unchanged, byte for byte."""

    def __init__(self, names: Iterable[str]) -> None:
        from hashlib import blake2b  # loads OpenSSL, and few programs redact

        self._names = frozenset(name.casefold() for name in names if name)
        self._needles = (*self._names, _STATE)
        self._texts = _Texts(self._needles)
        # The key is never written, so a short secret cannot be guessed from its replacement.
        self._hash = blake2b(key=urandom(32), digest_size=8)

    def line(self, kind: str, data: bytes) -> bytes:
        """Return the line with blanked values. A message stays a message."""
        if not self._is_named_in(data):
            return data
        try:
            return self._message(kind, data)
        except (DecodeError, ValidationError, RecursionError, UnicodeDecodeError):
            return REDACTED

    def _is_named_in(self, data: bytes) -> bool:
        """Whether one of the names is anywhere in a line, escaped or not. For most lines this is the only check."""
        text = data.decode(errors="replace")
        plain = _decoded(text)
        if plain is None:
            return True
        folded = f"{text}\n{plain}".casefold() if plain != text else text.casefold()
        return any(name in folded for name in self._needles)

    def _message(self, kind: str, data: bytes) -> bytes:
        _any.decode(data)  # what follows requires valid JSON
        start = data.lstrip()[:1]
        if start == b"[":
            # A batch (2025-03-26).
            elements = [bytes(element) for element in _array.decode(data)]
            blanked = [self._element(kind, element) for element in elements]
            return data if blanked == elements else b"[" + b",".join(blanked) + b"]"
        if start != b"{":
            raise DecodeError("it is not a message")
        is_message = kind != "!" and "jsonrpc" in _object.decode(data)
        return self._blanked(data, kind if is_message else None)

    def _element(self, kind: str, data: bytes) -> bytes:
        if data[:1] in b"{[":
            return self._message(kind, data)
        return self._string(data) if data[:1] == b'"' else data

    def _blanked(self, data: bytes, kind: str | None) -> bytes:
        pieces = []
        copied = 0
        for start, end, value in self._replacements(data, kind):
            pieces += [data[copied:start], value]
            copied = end
        return b"".join([*pieces, data[copied:]])

    def _replacements(self, data: bytes, kind: str | None) -> Iterator[tuple[int, int, bytes]]:
        """Yield the start, end and replacement of each value to replace. What is not a message has no kind."""
        depth = 0
        is_covered = kind is None
        section = ""  # the member of the message that we are in
        start: int | None = None  # of a value that is replaced, once it has begun
        level = 0  # the depth that it began at
        wanted = ""  # the name of the member whose value comes next, if that is replaced
        for token in _TOKEN.finditer(data):
            first = token[0][:1]
            if wanted and start is None:
                start, level = token.start(), depth
            if first in b"{[":
                depth += 1
            elif first in b"}]":
                depth -= 1
            if start is not None:
                if depth == level:
                    yield start, token.end(), self._replacement(data[start : token.end()]) if wanted == _STATE else _VALUE
                    start, wanted = None, ""
            elif token[2] is not None:
                name = _string.decode(token[1])
                folded = name.casefold()
                if kind is not None and depth == 1:
                    section = name
                    is_covered = name not in _NOT_SEARCHED and (name, kind) != ("result", "<")
                    is_replaced = is_covered and name not in _ENVELOPE and folded in self._names
                elif (section, kind, depth) == ("result", "<", 2):
                    is_covered = name == "inputRequests"
                    is_replaced = folded == _STATE
                else:
                    is_replaced = is_covered and (folded == _STATE or folded in self._names)
                wanted = folded if is_replaced else ""
            elif is_covered and first == b'"' and (string := self._string(token[1])) != token[1]:
                yield token.start(), token.end(), string

    def _string(self, token: bytes) -> bytes:
        """Return a string with blanked values."""
        text = _string.decode(token)
        blanked = self._json(text) if text.lstrip()[:1] in {"{", "["} else None
        if blanked is None:
            blanked = self._texts.blanked(text)
        return token if blanked == text else json.encode(blanked)

    def _json(self, text: str) -> str | None:
        """Return JSON inside a string with blanked values; ``None`` if it is not JSON."""
        data = text.encode(errors="surrogatepass")
        try:
            _any.decode(data)
            return self._blanked(data, None).decode(errors="surrogatepass")
        except (DecodeError, ValidationError, UnicodeDecodeError):
            return None

    def _replacement(self, value: bytes) -> bytes:
        """Return the replacement of an opaque value. Equal values of a recording get the same, so a retry can be matched."""
        with suppress(DecodeError, ValidationError):
            value = _string.decode(value).encode()  # the two peers may escape the same text differently
        digest = self._hash.copy()
        digest.update(value)
        return b'"[redacted %b]"' % digest.hexdigest().encode()


class _Texts:
    """Blanks ``name=value`` and ``name: value`` in text.

    The value extends to the end of the text, because the end of a secret is unknown; in the query of a URI it ends with its
    parameter. A word that ends with a name counts as that name: ``-eTOKEN=x``, ``API_TOKEN=x``. ``-`` and ``_`` are the same.
    """

    def __init__(self, names: Iterable[str]) -> None:
        spelt = "|".join(re.sub(r"\\?[-_]", "[-_]", re.escape(name)) for name in names if name)
        self._named = re.compile(rf"""(?:{spelt})[\\"']*\s*([=:])\s*""" if spelt else r"(?!)", re.IGNORECASE)
        self._option = re.compile(rf"-.*(?:{spelt})" if spelt else r"(?!)", re.IGNORECASE | re.DOTALL)

    def blanked(self, text: str) -> str:
        """Return the text with blanked values."""
        pieces = []
        position = 0
        while (found := self._named.search(text, position)) is not None:
            pieces += [text[position : found.end()], BLANK]
            is_in_query = found[1] == "=" and text[found.start() - 1 : found.start()] in {"?", "&"}
            end = _END_OF_QUERY_VALUE.search(text, found.end()) if is_in_query else None
            position = len(text) if end is None else end.start()
        blanked = "".join([*pieces, text[position:]])
        # An escaped name is left: blank everything instead of searching for its value.
        plain = _decoded(blanked)
        is_left = plain is None or any(not plain.startswith(BLANK, found.end()) for found in self._named.finditer(plain))
        return BLANK if is_left else blanked

    def expects_value(self, word: str) -> bool:
        """Whether the next word of a command is a value: after ``--name``, and after ``name:``."""
        found = self._named.search(word)
        is_cut = found is not None and found[1] == ":" and found.end() == len(word)
        return is_cut or self._option.fullmatch(word) is not None


def redacted_argv(argv: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return a command with blanked values.

    Values are blanked after ``--name value``, and in words that contain ``name=value`` or ``name: value``: options, variables,
    headers, the query of a URI.
    """
    texts = _Texts(names)
    words = []
    is_value = False
    for word in argv:
        words.append(BLANK if is_value else texts.blanked(word))
        is_value = not is_value and texts.expects_value(word)
    return words


def _decoded(text: str) -> str | None:
    """Return text without JSON escapes and percent-encoding; ``None`` if they are nested too deeply."""
    for _ in range(_LEVELS):
        before = text
        if "%" in text:
            text = unquote(text)
        if "\\" in text:
            text = _unescaped(text)
        if text == before:
            return text
    return None


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]), text)
    # Characters outside the BMP are written as two escapes.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
