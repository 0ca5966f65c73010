"""TOML, edited without touching the rest: a new table goes to the end, and tomlkit does what is harder than that."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from twopipes._tools.install.values import AnotherEntry, Refused, check_place, found_at, newline_of, quoted, same, with_entry

__all__ = ["put", "read", "tables"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read(text: str) -> Any:
    """What the text says.

    Raises:
        ValueError: It is no TOML.
    """
    return tomllib.loads(text)


def put(text: str, place: Sequence[str], name: str, content: dict[str, Any], *, replace: bool = False) -> str:
    """The text with one more table below ``place``, or with another content of the one that is there.

    Raises:
        ValueError: It is no TOML.
        AnotherEntry: The name is taken.
        Refused: Something on the way is no table, or tomlkit is needed and not installed.
    """
    document = read(text)
    check_place(document, place)
    there = found_at(document, [*place, name])
    wanted = with_entry(document, place, name, content)
    if there is not None:
        if same(there, content):
            return text
        if not replace:
            raise AnotherEntry(name, there)
    else:
        newline = newline_of(text)
        gap = "" if not text.strip() else newline if text.endswith("\n") else 2 * newline
        appended = text + gap + tables([*place, name], content).replace("\n", newline)
        if _says(appended, wanted):
            return appended
    # Servers in one line of braces cannot be added to from outside, and what is to go can stand anywhere.
    edited = _by_tomlkit(text, place, name, content)
    if not _says(edited, wanted):
        raise Refused("its tables are laid out in a way that cannot be edited safely; please do it by hand")
    return edited


def tables(path: Sequence[str], content: dict[str, Any]) -> str:
    """A table and those below it, as text."""
    return "\n".join(_tables(path, content))


def _tables(path: Sequence[str], content: dict[str, Any]) -> Iterator[str]:
    lines = [f"{_key(key)} = {_value(value)}" for key, value in content.items() if not isinstance(value, dict)]
    yield "\n".join([f"[{'.'.join(map(_key, path))}]", *lines, ""])
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _tables([*path, key], value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else quoted(key)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return quoted(value) if isinstance(value, str) else str(value).lower()  # true, false, and whole numbers


def _says(text: str, wanted: Any) -> bool:
    try:
        return same(read(text), wanted)
    except ValueError:
        return False


def _by_tomlkit(text: str, place: Sequence[str], name: str, content: dict[str, Any]) -> str:
    try:
        import tomlkit  # noqa: PLC0415 - the extra `cli`
    except ImportError:
        raise Refused("to change this TOML file tomlkit is needed: pip install 'twopipes[cli]'; or do it by hand") from None
    try:
        document = tomlkit.parse(text)
        table: Any = document
        for key in place:
            table = table[key]
        table[name] = content
        edited = tomlkit.dumps(document)
    except Exception as error:  # it fails in many ways on files that it does not understand
        raise Refused(f"tomlkit cannot edit it ({type(error).__name__}: {error}); please do it by hand") from error
    # What is new ends as the lines around it do.
    return re.sub(r"(?<!\r)\n", "\r\n", edited) if "\r\n" in text and not re.search(r"(?<!\r)\n", text) else edited
