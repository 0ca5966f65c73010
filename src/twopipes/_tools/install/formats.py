"""The three languages that hosts keep their servers in, behind one door."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from twopipes._tools.install import jsonc, toml_text, yaml_text
from twopipes._tools.install.values import Refused, same, with_entry

__all__ = ["Language", "language_of", "put", "read", "snippet"]

Language = Literal["JSON", "TOML", "YAML"]


def language_of(file: str) -> Language:
    """What a file is written in, by the end of its name; JSON unless that says otherwise."""
    ending = file.rpartition(".")[2].lower()
    return "TOML" if ending == "toml" else "YAML" if ending in {"yaml", "yml"} else "JSON"


def read(text: str, language: Language) -> Any:
    """What a text says; ``None`` for one that is empty.

    Raises:
        ValueError: It is not in that language.
        Refused: What reads it is not installed.
    """
    if language == "JSON":
        return jsonc.read(text)
    return toml_text.read(text) if language == "TOML" else yaml_text.read(text)


def put(
    text: str,
    language: Language,
    place: Sequence[str],
    name: str,
    content: dict[str, Any],
    *,
    replace: bool = False,
    fresh: dict[str, Any] | None = None,
) -> str:
    """The text with one entry set, and all else as it was; the same text if it says so already.

    Args:
        text: Of the whole file.
        language: What it is written in.
        place: The keys under which servers stand.
        name: The server's.
        content: What is said of it.
        replace: Whether an entry that says something else may go.
        fresh: What a file that is made from nothing begins with.

    Raises:
        ValueError: The text is not in that language.
        AnotherEntry: The name is taken.
        Refused: It cannot be done without harm.
    """
    if language == "TOML":
        return toml_text.put(text, place, name, content, replace=replace)
    if language == "YAML":
        return yaml_text.put(text, place, name, content, replace=replace)
    edited = jsonc.put(text, place, name, content, replace=replace, fresh=fresh)
    # The others compare for themselves, to try another way. Here there is none, and a difference would be a defect of ours.
    if edited != text and not jsonc.says_nothing(text):
        wanted = with_entry(jsonc.read(text), place, name, content)
        if not same(jsonc.read(edited), wanted):  # pragma: no cover - a net
            raise Refused("its objects are laid out in a way that cannot be edited safely; please do it by hand")
    return edited


def snippet(language: Language, place: Sequence[str], name: str, content: dict[str, Any]) -> str:
    """The entry alone, as a whole small file would have it."""
    if language == "TOML":
        return toml_text.tables([*place, name], content)
    nested: Any = {name: content}
    for key in reversed(place):
        nested = {key: nested}
    return yaml_text.block(nested) if language == "YAML" else json.dumps(nested, indent=2, ensure_ascii=False) + "\n"
