"""The pages of the site that list every public name with its docstring: one page for each public module.

The pages are made while the site is built and are not in the repository. ``docs/reference/names.md`` is the index for people; a
test compares it with this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "reference/api"

# The public modules in the order of the menu, with the titles of their pages.
TITLES = {
    "twopipes": "twopipes",
    "twopipes.types": "Types",
    "twopipes.errors": "Errors",
    "twopipes.settings": "Settings",
    "twopipes.outcome": "Errors as values",
    "twopipes.blocking": "Without await",
    "twopipes.host": "Several servers",
    "twopipes.http": "Serving over HTTP",
    "twopipes.testing": "Testing",
    "twopipes.trace": "Recordings",
    "twopipes.process": "Child processes",
    "twopipes.channels": "Channels",
    "twopipes.sansio": "Sessions without I/O",
}
# What people look for first; the other names follow in alphabetical order.
FIRST = ["Server", "Context", "ToolResult", "Image", "Audio", "connect", "Client", "CallResult", "Subscription", "TwopipesError"]
# Methods that other modules of the package call, and users do not.
INTERNAL = {
    "GroupServer": ["close", "connected", "lost", "open", "relist", "works"],
    "Subscription": ["acknowledged", "attach", "changed", "detach", "ended", "fail", "notified", "pause"],
}


def names_of(module: str) -> list[str]:
    """The public names of a module that have an entry, in the order of its page."""
    names = [name for name in import_module(module).__all__ if name != "__version__"]
    if module != "twopipes":  # what can be imported from the top has its entry there
        names = [name for name in names if name not in import_module("twopipes").__all__]
    return sorted(names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))


def identifiers() -> Iterator[str]:
    """Every public name with its module, as in the inventory of the site."""
    for module in TITLES:
        yield from (f"{module}.{name}" for name in names_of(module))


def pages() -> Mapping[str, str]:
    """The text of each page, by its path in the site."""
    return {f"{FOLDER}/{module.rpartition('.')[2]}.md": _page(module) for module in TITLES}


def _page(module: str) -> str:
    entries = [_entry(module, name) for name in names_of(module)]
    return "\n".join([f"# {TITLES[module]}\n", f"`from {module} import ...`\n", *entries])


def _entry(module: str, name: str) -> str:
    lines = [f"::: {module}.{name}", "    options:", "      heading_level: 2"]
    if name in INTERNAL:
        lines.append(f"      filters: {['!^_', *(f'!^{each}$' for each in INTERNAL[name])]}")
    if module == "twopipes.errors":  # the base classes matter to `except`
        lines.append("      show_bases: true")
    return "\n".join(lines) + "\n"
