"""Read JSON5, the language of ``openclaw.json``. Such a file is never edited.

Its tokens are rewritten as those of JSON with comments, and then parsed as such. Lines stay the same, so that an error names the
right one.
"""

from __future__ import annotations

import json
import re
from typing import Any

from twopipes._host.files import jsonc
from twopipes._host.files.jsonc import InvalidJson

# Possessive quantifiers to avoid backtracking in a text that does not match.
_TOKEN = re.compile(
    r"(?P<comment>//[^\n\r\u2028\u2029]*+|/\*.*?\*/)"
    r"""|(?P<string>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')"""
    r"|(?P<word>[\w$+.-]++)(?P<colon>(?:\s|//[^\n\r]*+|/\*.*?\*/)*+:)?"
    r"|(?P<space>[^\S\n\r]++|\ufeff)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(\r\n|.))", re.DOTALL)
_CONTROL = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LINE_ENDS = ("\n", "\r", "\r\n", "\u2028", "\u2029")  # escaped, they continue a string on the next line
_IDENTIFIER = re.compile(r"[^\W\d][\w$]*+|\$[\w$]*+")
_NUMBER = re.compile(r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<whole>\d*)(?:\.(?P<part>\d*))?(?P<exponent>[eE][+-]?\d+)?)")
_LITERALS = {"true", "false", "null"}


def read(text: str) -> Any:
    """Parse a text. Raises ``InvalidJson``."""
    return jsonc.read(_TOKEN.sub(lambda found: _rewritten(found, text), text))


def _rewritten(found: re.Match[str], text: str) -> str:
    token = found[0]
    match found.lastgroup:
        case "comment":
            return token
        case "space":
            return " "
        case "string":
            # A string that goes on in the next line keeps its line ends after it.
            return json.dumps(_ESCAPE.sub(_unescaped, token[1:-1])) + "\n" * token.count("\n")
    word = found["word"]
    if found["colon"] is not None:
        if _IDENTIFIER.fullmatch(word) is None:
            raise InvalidJson(f"Expecting a name in quotes, not {word}: line {text.count(chr(10), 0, found.start()) + 1}")
        return f'"{word}"{found["colon"]}'
    return word if word in _LITERALS else _number(word)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    if code is not None:
        return chr(int(code, 16))
    return "" if found[3] in _LINE_ENDS else _CONTROL.get(found[3], found[3])


def _number(word: str) -> str:
    """Return a number as JSON writes it; the word itself if it is not one, which JSON rejects."""
    found = _NUMBER.fullmatch(word)
    if found is None or not (found["hex"] or found["whole"] or found["part"]):
        return word
    sign = "-" if found["sign"] == "-" else ""
    if found["hex"]:
        return f"{sign}{int(found['hex'], 16)}"
    part = f".{found['part']}" if found["part"] else ""
    return f"{sign}{found['whole'] or 0}{part}{found['exponent'] or ''}"
