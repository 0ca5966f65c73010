"""The file with variables that ``envFile`` of VS Code and Cursor names."""

from __future__ import annotations

from pathlib import Path

from twopipes.errors import ConfigError


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file: lines of ``NAME=VALUE``, with optional quotes. Raises ``ConfigError``."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"has an envFile that cannot be read, {path}: {why}") from None
    found = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            found[name.strip()] = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
    return found
