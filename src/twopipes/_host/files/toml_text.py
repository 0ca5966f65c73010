"""Edit TOML in place: append a new table at the end, or let tomlkit edit what is more difficult."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from twopipes._host.files.values import Refused, found_at, newline_of, parses_to, quoted, with_entry

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read(text: str) -> Any:
    """Parse a text."""
    return tomllib.loads(text)


def edited(text: str, place: Sequence[str], name: str, content: Any) -> str:
    """Set a table or a value below ``place``. Raises ``Refused`` if tomlkit is needed and cannot do it."""
    document = read(text)
    if isinstance(content, dict) and found_at(document, [*place, name]) is None:
        newline = newline_of(text)
        gap = "" if not text.strip() else newline if text.endswith("\n") else 2 * newline
        appended = text + gap + snippet([*place, name], content).replace("\n", newline)
        if parses_to(read, appended, with_entry(document, place, name, content)):
            return appended
    # An inline table cannot be extended by appending, and an entry to replace can be anywhere.
    return _edit_with_tomlkit(text, place, name, content)


def snippet(path: Sequence[str], content: dict[str, Any]) -> str:
    """Return a table and its subtables as text."""
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
    return quoted(value) if isinstance(value, str) else str(value).lower()  # booleans and integers


def _edit_with_tomlkit(text: str, place: Sequence[str], name: str, content: Any) -> str:
    try:
        import tomlkit  # optional: the extra `cli`
    except ImportError:
        raise Refused("editing this TOML file needs tomlkit: pip install 'twopipes[cli]', or edit it by hand") from None
    try:
        document = tomlkit.parse(text)
        table: Any = document
        for key in place:
            table = table[key]
        table[name] = content
        result = tomlkit.dumps(document)
    except Exception as error:  # tomlkit raises many kinds of exceptions for files that it cannot handle
        raise Refused(f"tomlkit cannot edit it ({type(error).__name__}: {error}); please edit it by hand") from error
    # Use the line ends of the file for the new lines.
    return re.sub(r"(?<!\r)\n", "\r\n", result) if "\r\n" in text and not re.search(r"(?<!\r)\n", text) else result
