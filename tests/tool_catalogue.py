"""Reads the catalogue of tools and the table of queries of the tests of the hub."""

import re
from pathlib import Path
from typing import NamedTuple

from twopipes._gateway.hub.search import ToolText

FOLDER = Path(__file__).parent / "unit" / "gateway" / "hub"
_TOOL = re.compile(r"(?P<name>\w+)\((?P<parameters>[^)]*)\): (?P<description>.+)")


class Query(NamedTuple):
    """A query, and the tool that must be ranked first."""

    words: str
    tool: str


def read_catalogue() -> list[ToolText]:
    """Return every tool of ``catalogue.txt``."""
    tools = []
    for line in _lines("catalogue.txt"):
        found = _TOOL.fullmatch(line)
        assert found is not None, line
        parameters = [each for each in found["parameters"].split(", ") if each]
        tools.append(ToolText(found["name"], description=found["description"], parameters=parameters))
    return tools


def read_queries(name: str) -> list[Query]:
    """Return every row of a table of queries."""
    return [Query(*(part.strip() for part in line.split("->"))) for line in _lines(name)]


def _lines(name: str) -> list[str]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
