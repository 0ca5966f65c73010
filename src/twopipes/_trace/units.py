"""Times, sizes and widths for people."""

from __future__ import annotations

import unicodedata


def duration(seconds: float) -> str:
    """Format a time: 340 µs, 12 ms, 1.25 s, 3 min 20 s."""
    if seconds < 0.001:
        return f"{max(seconds, 0) * 1e6:.0f} µs"
    if seconds < 0.1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size_of(count: int) -> str:
    """Format a number of bytes: 512 bytes, 12.3 KiB, 64.0 MiB."""
    if count < 1024:
        return f"{count} bytes"
    size = count / 1024
    for unit in ("KiB", "MiB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def columns(text: str) -> int:
    """Return the width of a text in a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, room: int) -> str:
    """Cut the text to ``room`` columns, with an ellipsis at the cut."""
    if columns(text) <= room:
        return text
    taken = 0
    for position, character in enumerate(text):
        taken += _columns_of(character)
        if taken > room - 1:
            return text[:position] + "…" if room > 0 else ""
    return text
