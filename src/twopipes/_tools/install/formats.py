"""Read and edit the configuration files of hosts, in JSON, TOML or YAML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from twopipes._tools.install import jsonc, toml_text, yaml_text
from twopipes._tools.install.values import Refused, nested, same, with_entry

Language = Literal["JSON", "TOML", "YAML"]


def language_of(file: str) -> Language:
    """Return the language of a file by its extension; JSON by default."""
    ending = file.rpartition(".")[2].lower()
    return "TOML" if ending == "toml" else "YAML" if ending in {"yaml", "yml"} else "JSON"


def read(text: str, language: Language) -> Any:
    """Parse a text; an empty one is ``None``."""
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
    """Set one entry in a text and keep the rest unchanged. Returns the same text if the entry is already there."""
    if language == "TOML":
        return toml_text.put(text, place, name, content, replace=replace)
    if language == "YAML":
        return yaml_text.put(text, place, name, content, replace=replace)
    edited = jsonc.put(text, place, name, content, replace=replace, fresh=fresh)
    # The other languages verify their edits themselves. A difference here would be a bug of jsonc.
    if edited != text and not jsonc.is_blank(text):
        wanted = with_entry(jsonc.read(text), place, name, content)
        if not same(jsonc.read(edited), wanted):  # pragma: no cover - a safety net
            raise Refused("its layout cannot be edited safely; please edit it by hand")
    return edited


def snippet(language: Language, place: Sequence[str], name: str, content: dict[str, Any]) -> str:
    """Return a file that contains only the entry."""
    if language == "TOML":
        return toml_text.tables([*place, name], content)
    document = nested([*place, name], content)
    return yaml_text.block(document) if language == "YAML" else json.dumps(document, indent=2, ensure_ascii=False) + "\n"
