"""What a server left behind on its streams, and what may be meant, as the tail of an error message."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["by_interpreter", "left_behind", "silence"]

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


def silence(*, ended_well: bool) -> str:
    """What is said of a server that left nothing behind; one that ended well may never have begun."""
    hint = "; a server stays until its input ends: does the program call server.run()?" if ended_well else ""
    return f"; it left no word on stderr{hint}"


def by_interpreter(argv: Sequence[str]) -> str:
    """How a Python program is started that was given without its interpreter; empty for any other program."""
    if not argv[0].endswith(".py"):
        return ""
    return f": python {' '.join(argv)}, where in Python sys.executable is the better python"


def _printable(line: str) -> str:
    # A terminal must not be recoloured, or worse, by what a server said.
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in line)
