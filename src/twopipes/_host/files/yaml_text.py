"""Edit YAML in place: PyYAML gives the positions, and lines are inserted there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from twopipes._host.files.values import Refused, nested, newline_of, quoted

_TWO_SPACES = 2
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z_-]*")
# Words that are not strings in some version of YAML.
_NOT_STRINGS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def read(text: str) -> Any:
    """Parse a text."""
    yaml = _pyyaml()
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def edited(text: str, place: Sequence[str], name: str, content: Any) -> str | None:
    """Set an entry or a value below ``place``; ``None`` if that is not possible."""
    return _Editor(text, newline_of(text)).edited(place, name, content)


def snippet(path: Sequence[str], content: dict[str, Any]) -> str:
    """Return a document with only this content at a path of keys."""
    return block(nested(path, content))


def block(content: dict[str, Any], indentation: int = 0, unit: int = _TWO_SPACES) -> str:
    """Return a mapping as lines."""
    return "".join(f"{' ' * indentation}{line}\n" for line in _lines(content, unit))


def _lines(content: dict[str, Any], unit: int) -> Iterator[str]:
    for key, value in content.items():
        name = key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_STRINGS else quoted(key)
        if isinstance(value, dict) and value:
            yield f"{name}:"
            yield from (" " * unit + line for line in _lines(value, unit))
        elif isinstance(value, list) and value:
            yield f"{name}:"
            yield from (f"- {_scalar(item)}" for item in value)
        else:
            yield f"{name}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        # Always in quotes: versions of YAML differ in what a word without quotes means.
        return quoted(value)
    return {"[]": "[]", "{}": "{}"}.get(str(value), str(value).lower())


def _on_one_line(value: Any) -> str:
    return f"[{', '.join(map(_scalar, value))}]" if isinstance(value, list) else _scalar(value)


class _Editor:
    """Finds the positions for new lines."""

    def __init__(self, text: str, newline: str) -> None:
        self._text = text
        self._newline = newline
        yaml = _pyyaml()
        self._kinds = (yaml.MappingNode, yaml.SequenceNode)
        self._root = yaml.compose(text, Loader=yaml.SafeLoader)

    def edited(self, place: Sequence[str], name: str, content: Any) -> str | None:
        """Return the new text; ``None`` if no position was found."""
        if self._root is None or (self._is_empty(self._root) and not self._text.strip()):
            return self._inserted(len(self._text), nested([*place, name], content), 0)
        here, unit = self._root, self._unit()
        for depth, key in enumerate(place):
            missing = nested([*place[depth + 1 :], name], content)
            found = self._pair(here, key)
            if found is None:
                return self._appended(here, {key: missing}, unit)
            if self._is_empty(found[1]):
                return self._replaced(found, missing, unit)
            here = found[1]
        found = self._pair(here, name)
        if found is None:
            return self._appended(here, {name: content}, unit)
        return self._replaced(found, content, unit)

    def _pair(self, node: Any, key: str) -> tuple[Any, Any] | None:
        return next((pair for pair in reversed(node.value) if pair[0].value == key), None)

    def _is_empty(self, node: Any) -> bool:
        return node.tag == "tag:yaml.org,2002:null" or (isinstance(node, self._kinds) and not node.value)

    def _unit(self) -> int:
        """Return the indentation of the file: that of its first nested mapping."""
        for _, value in self._root.value if isinstance(self._root, self._kinds[0]) else ():
            if isinstance(value, self._kinds[0]) and value.value and not value.flow_style:
                return max(int(value.start_mark.column - self._root.start_mark.column), 1)
        return _TWO_SPACES

    def _appended(self, mapping: Any, content: dict[str, Any], unit: int) -> str | None:
        if mapping.flow_style:
            return None
        return self._inserted(self._end_of(mapping), content, mapping.start_mark.column, unit)

    def _replaced(self, pair: tuple[Any, Any], content: Any, unit: int) -> str | None:
        """Return the text with the value of a key replaced."""
        key, value = pair
        colon = self._text.find(":", key.end_mark.index)
        start, end = colon + 1, self._end_of(value)
        if not isinstance(content, dict):
            return self._replaced_value(pair, start, _on_one_line(content))
        if value.start_mark.line == key.start_mark.line:  # on the line of its key, perhaps followed by a comment
            end = value.end_mark.index
            if self._text[end : end + 1] not in {"", "\r", "\n"}:
                return None
        else:
            end = len(self._text[:end].rstrip("\r\n"))
        lines = block(content, key.start_mark.column + unit, unit).rstrip("\n")
        inserted = f"\n{lines}".replace("\n", self._newline)
        return self._text[:start] + inserted + self._text[end:]

    def _replaced_value(self, pair: tuple[Any, Any], after_colon: int, inserted: str) -> str:
        """Return the text with a scalar or a list replaced by one on the line of its key."""
        key, value = pair
        if value.start_mark.line == key.start_mark.line and value.start_mark.index > after_colon:
            start, end = value.start_mark.index, value.end_mark.index  # a comment after it stays
        else:
            start, end = after_colon, self._end_of(value)
            inserted = f" {inserted}"
        return self._text[:start] + inserted + self._text[len(self._text[:end].rstrip("\r\n")) :]

    def _end_of(self, node: Any) -> int:
        """Return the position after the last line of a value. The end mark of a block is further on, after any comments."""
        while isinstance(node, self._kinds) and not node.flow_style and node.value:
            node = node.value[-1][1] if isinstance(node, self._kinds[0]) else node.value[-1]
        end = int(node.end_mark.index)
        if end and self._text[end - 1] == "\n":  # a block scalar includes its last newline
            return end
        newline = self._text.find("\n", end)
        return len(self._text) if newline < 0 else newline + 1

    def _inserted(self, position: int, content: dict[str, Any], indentation: int, unit: int = _TWO_SPACES) -> str:
        before, after = self._text[:position], self._text[position:]
        if before and not before.endswith("\n"):
            before += self._newline
        return before + block(content, indentation, unit).replace("\n", self._newline) + after


def _pyyaml() -> Any:
    try:
        import yaml  # optional: the extra `cli`
    except ImportError:
        raise Refused("reading a YAML file needs PyYAML: pip install 'twopipes[cli]'") from None
    return yaml
