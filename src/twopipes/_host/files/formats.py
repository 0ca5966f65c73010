"""Read and edit the configuration files of hosts, in JSON, TOML or YAML, and read JSON5."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal

from twopipes._host.files import json5, jsonc, toml_text, yaml_text
from twopipes._host.files.values import AnotherEntry, Refused, check_place, found_at, parses_to, same, with_entry

Language = Literal["JSON", "JSON5", "TOML", "YAML"]
# Each module has read(text), edited(text, place, name, content) and snippet(path, content); that of JSON5 only the first.
_EDITORS: dict[Language, ModuleType] = {"JSON": jsonc, "JSON5": json5, "TOML": toml_text, "YAML": yaml_text}
_ENDINGS: dict[str, Language] = {"json5": "JSON5", "toml": "TOML", "yaml": "YAML", "yml": "YAML"}


def language_of(file: str) -> Language:
    """Return the language of a file by its extension; JSON by default."""
    return _ENDINGS.get(file.rpartition(".")[2].lower(), "JSON")


def read(text: str, language: Language) -> Any:
    """Parse a text. Raises ``ValueError`` if it is not valid."""
    return _EDITORS[language].read(text)


def put(
    text: str,
    language: Language,
    place: Sequence[str],
    name: str,
    content: Any,
    *,
    replace: bool = False,
    fresh: dict[str, Any] | None = None,
) -> str:
    """Set one entry in a text, or one member of an entry, and keep the rest unchanged.

    Returns the same text if it is already there.

    ``place`` holds the keys that lead to the servers, and ``fresh`` the first members of a new file. Raises ``ValueError`` if the
    text is not valid, ``AnotherEntry`` if the name is taken, and ``Refused`` if the text cannot be edited safely.
    """
    if language == "JSON" and jsonc.is_blank(text):
        return jsonc.new_document(text, with_entry(fresh, place, name, content))
    document = read(text, language)
    check_place(document, place)
    servers = found_at(document, place) or {}
    if name in servers:
        if same(servers[name], content):
            return text
        if not replace:
            raise AnotherEntry(name, servers[name])
    edited: str | None = _EDITORS[language].edited(text, place, name, content)
    if edited is None or not parses_to(lambda each: read(each, language), edited, with_entry(document, place, name, content)):
        raise Refused("its layout cannot be edited safely; please edit it by hand")
    return edited


def snippet(language: Language, place: Sequence[str], name: str, content: dict[str, Any]) -> str:
    """Return a file that contains only the entry."""
    return str(_EDITORS[language].snippet([*place, name], content))
