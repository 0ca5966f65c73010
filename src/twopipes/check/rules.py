"""The table of all rules that the check knows, gathered from the files of the sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Literal

from twopipes.check import sections
from twopipes.check.rule import Rule
from twopipes.errors import LocalProtocolError

__all__ = ["RULES", "SECTIONS", "chosen", "modules_of", "rules_for"]


SECTIONS = {
    "FR": "Framing and streams",
    "JR": "Messages, ids, batches",
    "ER": "Error codes",
    "LC": "The handshake",
    "VN": "Requests without a handshake, versions, discovery",
    "DE": "Two eras side by side",
    "ST": "Statelessness",
    "MT": "Keys of `_meta`, and traces",
    "CP": "Capabilities",
    "PI": "Ping",
    "CA": "Cancellation",
    "TO": "Timeouts",
    "PR": "Progress",
    "LG": "Logging",
    "PG": "Pages of lists",
    "CM": "Completion",
    "TL": "Tools",
    "CT": "Content blocks, annotations, icons",
    "RS": "Resources",
    "PM": "Prompts",
    "RT": "Roots",
    "SA": "Sampling",
    "EL": "Elicitation",
    "MR": "Questions on the stateless wire",
    "SU": "Subscriptions",
    "CH": "Caching",
    "JS": "JSON Schema",
    "TK": "Tasks of 2025-11-25",
    "TX": "Tasks, the extension of 2026-07-28",
    "AP": "Apps and other extensions",
    "SD": "Ends and restarts",
}
"""What the sections are about, in the order in which one would read them."""


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    """The modules of a package, imported, in the order of their names: a new section is a new file and nothing else."""
    for found in sorted(iter_modules(package.__path__), key=lambda each: each.name):
        yield import_module(f"{package.__name__}.{found.name}")


def _gathered() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for module in modules_of(sections):
        for rule in module.RULES:
            if rule.id in rules:
                raise LocalProtocolError(f"the rule {rule.id} stands in the table twice")
            rules[rule.id] = rule
    order = list(SECTIONS)
    return {rule.id: rule for rule in sorted(rules.values(), key=lambda rule: order.index(rule.section))}


RULES: Mapping[str, Rule] = _gathered()
"""All rules by their ids, section by section, as one would read them."""


def rules_for(side: Literal["server", "client"]) -> list[Rule]:
    """The rules that a server, or a client, has to keep."""
    return [rule for rule in RULES.values() if rule.binds(side)]


def chosen(only: Iterable[str] = (), skip: Iterable[str] = ()) -> set[str]:
    """The ids that are left of the table.

    Args:
        only: Ids (``FR-04``) and sections (``FR``); everything if there are none.
        skip: The same, to leave out.

    Raises:
        LocalProtocolError: There is no such rule or section.
    """
    wanted = {each for name in only for each in _named(name)} or set(RULES)
    return wanted - {each for name in skip for each in _named(name)}


def _named(name: str) -> list[str]:
    name = name.strip().upper()
    found = [rule.id for rule in RULES.values() if name in {rule.id, rule.section}]
    if not found:
        raise LocalProtocolError(f"there is no rule or section {name!r}; see twopipes check --list")
    return found
