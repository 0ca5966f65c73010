"""Classifies lines on stdout that are not messages, and finds where they are printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from twopipes._tools.doctor.observations import StrayKind, StrayLine
from twopipes._wire import LineRejected

_TERMINAL: Final = re.compile(r"\x1b[\[\]()]")
_HEADER: Final = re.compile(r"(?:^|[}\]])Content-(?:Length|Type)\s*:", re.IGNORECASE)
_LEVEL: Final = re.compile(
    r"^\s*(?:\[?\d{4}-\d\d-\d\d[T ]?|\[?\d\d:\d\d:\d\d|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b"
    r"|(?:trace|debug|info|warn(?:ing)?|error)\s*:)"
)
_INSTALLER: Final = re.compile(
    r"^\s*(?:npm (?:WARN|warn|notice|ERR!|error|http)|(?:added|audited) \d+ packages?|up to date|changed \d+ package|found \d+ vuln"
    r"|Need to install the following|yarn (?:run|install) v|\$ \S+|> \S+(?:@\S+)? \S+|Collecting \S+|Downloading \S+"
    r"|Installing collected packages|Successfully (?:installed|built)|Requirement already satisfied|Looking in indexes"
    r"|Resolved \d+ packages?|Installed \d+ packages?|Prepared \d+ packages?|Audited \d+ packages?|Building \S+|Built \S+"
    r"|Creating virtual environment|Using (?:CPython|Python) |\S+: Pulling from |Status: Downloaded newer|Digest: sha256:"
    r"|Done in [\d.]+ ?m?s)"
)
_TRACEBACK: Final = re.compile(r'^(?:Traceback \(most recent call last\)|\s+File "[^"]+", line \d+|\s+at \S+ \(.+:\d+:\d+\))')
_LOG_KEYS: Final = {"level", "msg", "message", "severity", "timestamp", "time", "logger", "levelname"}
# The least characters of a text to search for in the source, for several words and for one. A shorter text matches anywhere.
_LEAST_TEXT: Final = 6
_LEAST_WORD: Final = 8
_MAX_SOURCE: Final = 2 * 1024 * 1024
_PRINTS: Final = re.compile(r"\b(?:print|pprint|console\.\w+|sys\.stdout\.write|process\.stdout\.write|puts|echo|printf|println)\b")
_PIECE: Final = re.compile(r"""[^\d"'`{}%\\\x00-\x1f]+""")
_SHOWN: Final = 100


def kind_of(rejected: LineRejected) -> StrayKind:
    """Classify one rejected line."""
    if rejected.reason == "not UTF-8":
        return "not UTF-8"
    if rejected.reason == "too long":
        return "too long"
    text = rejected.excerpt.decode("utf-8", "replace")
    if _HEADER.search(text):
        return "content-length"
    if rejected.reason == "not JSON-RPC":
        return "malformed message" if _is_meant_as_message(rejected) else _json_kind(rejected.excerpt)
    if rejected.reason in {"not an object", "too deep"}:
        return "other JSON" if text[:1] in "[{" else "text"
    if _TERMINAL.search(text):
        return "terminal codes"
    if _TRACEBACK.match(text):
        return "traceback"
    if _INSTALLER.match(text):
        return "installer"
    return "log" if _LEVEL.match(text) else "text"


def _is_meant_as_message(rejected: LineRejected) -> bool:
    return b'"jsonrpc"' in rejected.excerpt or rejected.is_response or rejected.is_notification


def _json_kind(line: bytes) -> StrayKind:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "other JSON"
    return "log" if isinstance(found, dict) and len(_LOG_KEYS & set(found)) > 1 else "other JSON"


def with_assembled(strays: Sequence[StrayLine]) -> tuple[StrayLine, ...]:
    """Return the lines, with a new kind for those that together form one message printed over several lines (FR-01, FR-02)."""
    found = list(strays)
    start: int | None = None
    for position, stray in enumerate(found):
        text = stray.text.rstrip()
        if start is None and text in {"{", "["}:
            start = position
        if start is not None and text.lstrip() in {"}", "]", "},", "],"}:
            whole = "\n".join(each.text for each in found[start : position + 1])
            try:
                message = msgspec.json.decode(whole)
            except (msgspec.DecodeError, RecursionError):
                continue
            kind: StrayKind = "pretty-printed" if "jsonrpc" in str(message)[:_MAX_SOURCE] else "other JSON"
            for each in range(start, position + 1):
                found[each] = msgspec.structs.replace(found[each], kind=kind)
            start = None
    return tuple(found)


def source_of(text: str, script: str, source: str) -> str | None:
    """Return the line of a script that seems to print a text, as ``server.py:3: print("ready")``, or ``None``."""
    # Numbers and times are probably inserted at run time; the words between them are in the source.
    pieces = sorted({piece.strip() for piece in _PIECE.findall(text)}, key=len, reverse=True)
    pieces = [piece for piece in pieces if len(piece) >= (_LEAST_TEXT if " " in piece else _LEAST_WORD)][:3]
    lines = [(number, line) for number, line in enumerate(source[:_MAX_SOURCE].splitlines(), start=1) if _PRINTS.search(line)]
    for needle in pieces:
        for number, line in lines:
            if needle in line:
                return f"{script}:{number}: {line.strip()[:_SHOWN]}"
    return None
