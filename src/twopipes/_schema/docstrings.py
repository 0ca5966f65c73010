"""Read docstrings in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import re
from inspect import cleandoc

from msgspec import Struct

# The patterns are compiled on first use, to keep the start of a server fast.
_TITLES = {"args", "arguments", "parameters", "params", "other parameters", "keyword args", "keyword arguments", "attributes"}
# A field of Sphinx: `:param name: text` or `:param type name: text`.
_SPHINX = r":(?P<kind>param|parameter|arg|argument|key|keyword|ivar|var|type)\s+(?P<head>[^:]+):\s*(?P<text>.*)"
_FIELD = r":[a-zA-Z]+[^:]*:"
# Google: `name: text`, `name (type): text`, `*name: text`. The type is in parentheses.
_GOOGLE = r"\*{0,2}(?P<name>\w+)\s*(?:\((?:[^()]|\([^()]*\))*\))?\s*:(?:\s+(?P<text>.*)|$)"
# NumPy: `name`, `name : type`, `a, b : type`.
_NUMPY = r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"


class Docstring(Struct, frozen=True):
    """The text without the sections about parameters and attributes, and their descriptions by name, each as one paragraph."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Split a docstring into its parts. If its style is unknown, all of it is the description."""
    if not text or not text.strip():
        return Docstring("", {})
    lines = cleandoc(text).split("\n")
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    position = 0
    while position < len(lines):
        position = (
            _numpy_section(lines, position, found)
            or _google_section(lines, position, found)
            or _sphinx_field(lines, position, found)
            or _keep(lines, position, kept)
        )
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Docstring(description, {name: " ".join(" ".join(texts).split()) for name, texts in found.items() if any(texts)})


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _keep(lines: list[str], position: int, kept: list[str]) -> int:
    kept.append(lines[position].rstrip())
    return position + 1


def _end_of_block(lines: list[str], position: int, indent: int) -> int:
    """Return the first line from ``position`` that is not blank and not indented deeper than ``indent``."""
    while position < len(lines) and (not lines[position].strip() or _indent(lines[position]) > indent):
        position += 1
    return position


def _is_title(line: str) -> bool:
    return line.strip().rstrip(":").lower() in _TITLES


def _google_section(lines: list[str], position: int, found: dict[str, list[str]]) -> int:
    """Read ``Args:`` and the indented lines below it; return the number of the line after it, or 0 if there is no such section."""
    title = lines[position]
    if not (_is_title(title) and title.rstrip().endswith(":")):
        return 0
    end = _end_of_block(lines, position + 1, _indent(title))
    body = [line for line in lines[position + 1 : end] if line.strip()]
    if not body:
        return 0
    level = _indent(body[0])
    texts: list[str] = []
    for line in body:
        entry = re.match(_GOOGLE, line.strip()) if _indent(line) <= level else None
        if entry:
            texts = found.setdefault(entry["name"], [])
            texts.append(entry["text"] or "")
        else:
            texts.append(line)
    return end


def _numpy_section(lines: list[str], position: int, found: dict[str, list[str]]) -> int:
    """Read ``Parameters`` with a row of dashes below it, up to the next title; return the line after it, or 0."""
    if not (_is_title(lines[position]) and _is_underline(lines, position + 1)):
        return 0
    position += 2
    current: list[list[str]] = []
    while position < len(lines) and not _is_underline(lines, position + 1):
        line = lines[position]
        entry = re.match(_NUMPY, line)
        if entry:
            names = [name.strip().lstrip("*") for name in entry["names"].split(",")]
            current = [found.setdefault(name, []) for name in names]
        elif line.strip() and not _indent(line):
            break  # the section is over
        for texts in () if entry else current:
            texts.append(line)
        position += 1
    return position


def _is_underline(lines: list[str], position: int) -> bool:
    line = lines[position].strip() if position < len(lines) else ""
    return len(line) >= 3 and not line.strip("-")


def _sphinx_field(lines: list[str], position: int, found: dict[str, list[str]]) -> int:
    """Read one ``:param name:`` and the indented lines below it; return the line after it, or 0."""
    line = lines[position]
    field = re.match(_SPHINX, line.strip()) if line.lstrip().startswith(":") else None
    if not field:
        return 0
    end = position + 1
    while end < len(lines) and _indent(lines[end]) > _indent(line) and not re.match(_FIELD, lines[end].strip()):
        end += 1
    if field["kind"] != "type":
        name = field["head"].split()[-1].lstrip("\\*")
        found.setdefault(name, []).extend([field["text"], *lines[position + 1 : end]])
    return end
