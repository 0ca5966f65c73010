"""Compare two outputs; numbers that depend on the clock, the system and the machine are not compared."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from console_pages import CUT

# What another run would say otherwise. In this order: what is more particular comes first.
RULES = [
    (re.compile(pattern, re.MULTILINE), stands_for)
    for pattern, stands_for in (
        # Moments
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\b", "<when>"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*Z?", "<when>"),
        (r"\b\d{8}T\d{6}Z-(\w+)-\d+", r"<when>-\1-<pid>"),
        # How long, as our commands and pytest say it
        (r"\b\d+(\.\d+)? ?(µs|ms|s|seconds|min)\b(?!=)", "<time>"),
        (r"^\s*\d+\.\d{3}(?= )", "<time>"),
        (r"\bat \d+\.\d{3}\b", "at <time>"),
        # The machine
        (r"\bpid \d+\b", "pid <pid>"),
        (r"\b(Linux|Darwin|Windows) \S+ \w+, cpython [\w.]+", "<platform>"),
        (r"\bplatform \w+ -- Python .*", "<platform>"),
        (r"/usr/(local/)?bin/(?=python)", "/usr/bin/"),
        (r"\b\d+ lines, the last", "<number> lines, the last"),
        (r"\b[Pp]ython ?3\.\d+(\.\d+)?\b", "python3.N"),
        (r"\b\d+(\.\d+)? (B|kB|KB|MB|GB|KiB|MiB)\b", "<size>"),
        (r"\b\d+x\d+ (?=pixels)", "<size> "),
        # Names that are drawn by lot
        (r"\btwopipes-[\w]{8}\b", "twopipes-<name>"),
        (r"\btmp[a-z0-9_]{8}\b", "tmp<name>"),
        # What other versions of Python point at otherwise
        (r"\bline \d+\b", "line <number>"),
        # Columns that are as wide as their widest number
        (r"[─-]{4,}", "----"),
        (r"={4,}", "===="),
        (r"[ \t]+", " "),
    )
]
_POINTERS = re.compile(r"^[\s|:!│]*[~^]+[\s~^]*$")
VARIES = "<varies>"


def comparable(lines: Sequence[str], *, version: str, varies: Sequence[str] = (), unordered: Sequence[str] = ()) -> list[str]:
    """Return the lines without the parts that change each time; ellipses stay."""
    found: list[str] = []
    for each in lines:
        line = each
        if _POINTERS.match(line):
            continue
        for pattern in varies:
            line = re.sub(pattern, VARIES, line)
        for rule, stands_for in RULES:
            line = rule.sub(stands_for, line)
        line = line.replace(version, "<version>").strip()
        if line != VARIES:
            found.append(line)
    while found and not found[-1]:
        found.pop()
    for pattern in unordered:
        _sort(found, pattern)
    return found


def _sort(lines: list[str], pattern: str) -> None:
    places = [number for number, line in enumerate(lines) if re.search(pattern, line)]
    for place, line in zip(places, sorted(lines[number] for number in places), strict=True):
        lines[place] = line


def is_same(shown: Sequence[str], said: Sequence[str]) -> bool:
    """Return whether the text is the output; an ellipsis stands for any number of lines, or of characters in a line."""
    pieces: list[list[str]] = [[]]
    for line in shown:
        if line in CUT:
            pieces.append([])
        else:
            pieces[-1].append(line)
    first, *others = pieces
    if not _fits(first, said[: len(first)]) or (not others and len(said) != len(first)):
        return False
    place = len(first)
    for piece in others[:-1]:
        found = next((start for start in range(place, len(said)) if _fits(piece, said[start : start + len(piece)])), None)
        if found is None:
            return False
        place = found + len(piece)
    last = others[-1] if others else []
    return not others or (len(said) - len(last) >= place and _fits(last, said[len(said) - len(last) :]))


def _fits(piece: Sequence[str], said: Sequence[str]) -> bool:
    return len(piece) == len(said) and all(_line_fits(one, other) for one, other in zip(piece, said, strict=True))


def _line_fits(shown: str, said: str) -> bool:
    if shown == said or "..." not in shown:
        return shown == said
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), said) is not None


def difference(shown: Sequence[str], said: Sequence[str]) -> str:
    """Return a readable comparison."""
    return "\n".join(difflib.unified_diff(list(shown), list(said), "the page shows", "it was said", lineterm="", n=2))
