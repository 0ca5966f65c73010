"""YAML, edited without touching the rest: PyYAML says where everything stands, and lines are put there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from twopipes._tools.install.values import AnotherEntry, Refused, check_place, found_at, newline_of, quoted, same, with_entry

__all__ = ["block", "put", "read"]

_TWO_SPACES = 2
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z_-]*")
# Words that are no texts, in one version of YAML or another.
_NO_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def read(text: str) -> Any:
    """What the text says.

    Raises:
        ValueError: It is no YAML.
        Refused: PyYAML is not installed.
    """
    yaml = _pyyaml()
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def put(text: str, place: Sequence[str], name: str, content: dict[str, Any], *, replace: bool = False) -> str:
    """The text with one more entry below ``place``, or with another content of the one that is there.

    Raises:
        ValueError: It is no YAML.
        AnotherEntry: The name is taken.
        Refused: Something on the way is no mapping, or PyYAML is not installed.
    """
    document = read(text)
    check_place(document, place)
    there = found_at(document, [*place, name])
    if there is not None:
        if same(there, content):
            return text
        if not replace:
            raise AnotherEntry(name, there)
    newline = newline_of(text)
    # PyYAML reads \r\n as one, and its marks count characters of the text as it was given.
    edited = _Editor(text, newline).edited(place, name, content)
    if edited is None or not _says(edited, with_entry(document, place, name, content)):
        raise Refused("its servers are laid out in a way that cannot be edited safely; please do it by hand")
    return edited


def block(content: dict[str, Any], indentation: int = 0, unit: int = _TWO_SPACES) -> str:
    """A mapping as lines."""
    return "".join(f"{' ' * indentation}{line}\n" for line in _lines(content, unit))


def _lines(content: dict[str, Any], unit: int) -> Iterator[str]:
    for key, value in content.items():
        name = key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _NO_TEXT else quoted(key)
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
        # In quotes, always: what a word without them means is not the same in every version of YAML.
        return quoted(value)
    return {"[]": "[]", "{}": "{}"}.get(str(value), str(value).lower())


class _Editor:
    """Finds out where lines have to go."""

    def __init__(self, text: str, newline: str) -> None:
        self._text = text
        self._newline = newline
        yaml = _pyyaml()
        self._kinds = (yaml.MappingNode, yaml.SequenceNode)
        self._root = yaml.compose(text, Loader=yaml.SafeLoader)

    def edited(self, place: Sequence[str], name: str, content: dict[str, Any]) -> str | None:
        """The new text; ``None`` where no place can be found."""
        if self._root is None or (self._is_nothing(self._root) and not self._text.strip()):
            return self._with_lines(len(self._text), _nested([*place, name], content), 0)
        here, unit = self._root, self._unit()
        for depth, key in enumerate(place):
            missing = _nested([*place[depth + 1 :], name], content)
            found = self._pair(here, key)
            if found is None:
                return self._appended(here, {key: missing}, unit)
            if self._is_nothing(found[1]):
                return self._instead(found, missing, unit)
            here = found[1]
        found = self._pair(here, name)
        if found is None:
            return self._appended(here, {name: content}, unit)
        return self._instead(found, content, unit)

    def _pair(self, node: Any, key: str) -> tuple[Any, Any] | None:
        return next((pair for pair in reversed(node.value) if pair[0].value == key), None)

    def _is_nothing(self, node: Any) -> bool:
        return node.tag == "tag:yaml.org,2002:null" or (isinstance(node, self._kinds) and not node.value)

    def _unit(self) -> int:
        """How far this file indents: as its first mapping inside another does."""
        for _, value in self._root.value if isinstance(self._root, self._kinds[0]) else ():
            if isinstance(value, self._kinds[0]) and value.value and not value.flow_style:
                return max(int(value.start_mark.column - self._root.start_mark.column), 1)
        return _TWO_SPACES

    def _appended(self, mapping: Any, content: dict[str, Any], unit: int) -> str | None:
        if mapping.flow_style:
            return None
        return self._with_lines(self._end_of(mapping), content, mapping.start_mark.column, unit)

    def _instead(self, pair: tuple[Any, Any], content: Any, unit: int) -> str | None:
        """The text with another value behind a key, from the colon on."""
        key, value = pair
        colon = self._text.find(":", key.end_mark.index)
        start, end = colon + 1, self._end_of(value)
        if value.start_mark.line == key.start_mark.line:  # on the line of its key, and perhaps a comment behind it
            end = value.end_mark.index
            if self._text[end : end + 1] not in {"", "\r", "\n"}:
                return None
        else:
            end = len(self._text[:end].rstrip("\r\n"))
        lines = block(content, key.start_mark.column + unit, unit).rstrip("\n")
        said = f"\n{lines}".replace("\n", self._newline)
        return self._text[:start] + said + self._text[end:]

    def _end_of(self, node: Any) -> int:
        """Behind the last line of a value: the marks of a block reach to whatever comes next, past the comments between."""
        while isinstance(node, self._kinds) and not node.flow_style and node.value:
            node = node.value[-1][1] if isinstance(node, self._kinds[0]) else node.value[-1]
        end = int(node.end_mark.index)
        if end and self._text[end - 1] == "\n":  # a text over several lines has its last newline in it
            return end
        newline = self._text.find("\n", end)
        return len(self._text) if newline < 0 else newline + 1

    def _with_lines(self, position: int, content: dict[str, Any], indentation: int, unit: int = _TWO_SPACES) -> str:
        before, after = self._text[:position], self._text[position:]
        if before and not before.endswith("\n"):
            before += self._newline
        return before + block(content, indentation, unit).replace("\n", self._newline) + after


def _nested(place: Sequence[str], content: Any) -> Any:
    for key in reversed(place):
        content = {key: content}
    return content


def _says(text: str, wanted: Any) -> bool:
    try:
        return same(read(text), wanted)
    except ValueError:
        return False


def _pyyaml() -> Any:
    try:
        import yaml  # noqa: PLC0415 - the extra `cli`
    except ImportError:
        raise Refused("to read a YAML file PyYAML is needed: pip install 'twopipes[cli]'") from None
    return yaml
