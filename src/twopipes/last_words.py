"""What a server left behind on its streams, as the tail of an error message."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["left_behind"]

# Lines of a server's output that an error shows; its attributes have all that was kept.
_SHOWN_LINES = 30


def left_behind(stderr: Sequence[str], stray_stdout: Sequence[str]) -> str:
    """What a server wrote for people, or by mistake, as the tail of an error message; empty if there is none."""
    text = ""
    for title, lines in (("its last words on stderr", stderr), ("on stdout, where only messages belong", stray_stdout)):
        if lines:
            more = f" ({len(lines) - _SHOWN_LINES} more before)" if len(lines) > _SHOWN_LINES else ""
            text += f"\n  {title}{more}:" + "".join(f"\n    {_printable(line)}" for line in lines[-_SHOWN_LINES:])
    return text


def _printable(line: str) -> str:
    # A terminal must not be recoloured, or worse, by what a server said.
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in line)
