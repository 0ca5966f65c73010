"""The topic folders: each has the probes and scenarios of one section of the rules."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from twopipes._rules.table import SECTIONS

__all__ = ["load_all", "section_of"]


def load_all(kind: str) -> None:
    """Import the modules of every topic that register probes or scenarios.

    Args:
        kind: ``probes`` or ``scenarios``; a topic may have several modules whose names end with this word.
    """
    for topic in SECTIONS.values():
        package = import_module(f"twopipes._tools.check.{topic.name}")
        for found in sorted(iter_modules(package.__path__), key=lambda each: each.name):
            if found.name.endswith(kind):
                import_module(f"{package.__name__}.{found.name}")


def section_of(module: str) -> str:
    """Return the two letters of the section that a module belongs to."""
    topic = module.split(".")[-2]
    return next((section for section, found in SECTIONS.items() if found.name == topic), "")
