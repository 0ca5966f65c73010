"""The command line of a batch file (``.cmd``, ``.bat``), which ``cmd.exe`` runs with rules of its own.

``cmd.exe`` interprets its command line before the batch file sees the arguments, so the usual quoting lets ``&`` start another
program and ``%`` insert a variable. The rules here are those of Rust's standard library, after CVE-2024-24576:

* Everything is in double quotes unless it consists of harmless characters. Inside of them only ``"`` and ``%`` have a meaning.
* A ``"`` is doubled, which both ``cmd.exe`` and the program behind the batch file read as one.
* ``%`` begins a variable in any case, also in the path of the file. ``%%cd:~,%`` is a percent sign and an empty part of a
  variable that always exists.
* Delayed expansion, which interprets ``!``, is off; command extensions, which the line above needs, are on.

A line break ends the command and cannot be quoted.
"""

from __future__ import annotations

from collections.abc import Sequence

EXTENSIONS = (".cmd", ".bat")
_LINE_BREAKS = frozenset("\r\n")
_PERCENT = "%%cd:~,%"
_HARMLESS = frozenset("#$*+-./:?@\\_")


def is_batch_file(executable: str) -> bool:
    """Whether ``cmd.exe`` runs this file."""
    # Windows ignores spaces and dots at the end of a name (CVE-2024-43402).
    return executable.rstrip(" .").lower().endswith(EXTENSIONS)


def argument_refused(argv: Sequence[str]) -> str | None:
    """Return why a program cannot get one of its arguments; ``None`` if it can. A batch file can get no line break."""
    executable, *words = argv
    if is_batch_file(executable):
        for word in words:
            if _LINE_BREAKS & set(word):
                return f"{executable} is a batch file, and no batch file can get the line break in {word!r}; call its program"
    return None


def batch_command_line(argv: Sequence[str]) -> str:
    """Return the arguments of ``cmd.exe`` for a batch file and its own arguments, which contain no line break."""
    script, *words = argv
    line = " ".join((f'"{script.replace("%", _PERCENT)}"', *map(_quoted, words)))
    # Without AutoRun commands (/d). The quotes around the whole are removed by cmd.exe.
    return f'cmd.exe /e:ON /v:OFF /d /c "{line}"'


def _quoted(word: str) -> str:
    is_harmless = all(not each.isascii() or each.isalnum() or each in _HARMLESS for each in word)
    if word and is_harmless and not word.endswith("\\"):
        return word
    text, backslashes = "", 0
    for each in word:
        if each == '"':
            text += "\\" * backslashes + '"'  # the program reads two backslashes before a quote as one
        backslashes = backslashes + 1 if each == "\\" else 0
        text += _PERCENT if each == "%" else each
    return '"' + text + "\\" * backslashes + '"'
