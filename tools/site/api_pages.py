"""The pages of the site that list every public name with its docstring: which there are, and what stands on each.

The pages themselves are made while the site is built and lie nowhere in the repository. ``docs/reference/names.md`` is the index
that people read there; a test compares it with this one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import twopipes

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "reference/api"

# On which page the names behind `from twopipes import ...` stand, by where they live: the first of these that fits.
HOMES = {
    "twopipes._server": "server",
    "twopipes._client": "client",
    "twopipes._session": "client",
    "twopipes._process": "process",
    "twopipes.settings": "settings",
    "twopipes.errors": "errors",
    "twopipes.outcome": "errors",
    "twopipes._protocol.rejections": "errors",
    "twopipes._protocol": "types",
}
# What people look for first; the others follow by the alphabet.
FIRST = [
    *("Server", "Context", "ToolResult", "Image", "Audio"),
    *("connect", "Client", "CallResult", "Validation", "Subscription", "Change", "InputRequired", "Elicitation", "Sampling"),
    *("ServerCommand", "ShutdownPlan", "ShutdownReport"),
    *(
        "TwopipesError",
        "LocalProtocolError",
        "RemoteProtocolError",
        "StartFailed",
        "ServerExited",
        "ConnectionLost",
        "ClientClosed",
    ),
    *("RequestTimedOut", "RequestCancelled", "OpeningFailed", "QuestionFailed", "InvalidOutput", "ToolError", "McpError"),
]
# Modules that have names of their own, by page. Everything in `__all__`, unless names are given.
MODULES: dict[str, dict[str, Sequence[str]]] = {
    "server": {"twopipes._server.options": ()},
    "blocking": {"twopipes.blocking": ()},
    "testing": {"twopipes.testing": ()},
    "trace": {"twopipes.trace": (), "twopipes._trace.conversation": (), "twopipes._trace.findings": ()},
    "wire": {"twopipes._wire": (), "twopipes._jsonrpc": ()},
    "protocol": {"twopipes._protocol.revisions": (), "twopipes._protocol.dialect": ()},
    "types": {"twopipes._protocol.types": ()},
    "session": {
        "twopipes._session.server": (),
        "twopipes._session.client": (),
        "twopipes._session.identity": (),
        "twopipes._session.events": (),
        "twopipes._session.eras": (),
        "twopipes._session.state_token": ("StateSealer",),
    },
    "channels": {
        "twopipes._channels.base": (),
        "twopipes._channels.memory": ("memory_pair", "MemoryChannel"),
        "twopipes._channels.pipes": (),
        "twopipes._channels.sockets": (),
        "twopipes._channels.stdio": (),
        "twopipes._channels.stdout_guard": ("Guard",),
        "twopipes._channels.stderr": ("StderrLog",),
    },
    "process": {
        "twopipes._process.child": (),
        "twopipes._process.shutdown": ("CloseStdin", "Wait", "Signal"),
        "twopipes._process.stderr": ("StderrTail",),
        "twopipes._process.parent": ("watch_parent",),
        "twopipes._process.state_folder": (),
        "twopipes._process.observer": ("ProcessObserver",),
        "twopipes._process.restarts": (),
    },
    "client": {
        "twopipes._client.cache": ("ResultCache", "Ticket", "Page"),
        "twopipes._client.pagination": (),
        "twopipes._client.retry_safety": (),
        "twopipes._client.era_cache": ("Verdict", "default_path"),
    },
}
TITLES = {
    "server": "Server",
    "client": "Client",
    "blocking": "Client without await",
    "process": "Processes",
    "settings": "Settings",
    "errors": "Errors",
    "testing": "Testing",
    "trace": "Recordings",
    "channels": "Channels",
    "session": "Sessions without I/O",
    "wire": "The wire",
    "protocol": "Revisions and dialects",
    "types": "Types of the protocol",
}
# Methods that other rooms of the package call, and users do not.
FOR_OTHER_ROOMS = {
    "Server": ["answers_alone", "connect", "handle", "new_session", "profile", "running", "serve_channel", "threads_at_work"],
    "Context": ["answered", "close", "is_begun", "is_beside", "pace", "postponed", "task", "tell_all", "tell_held", "waits"],
    "Client": ["lost", "notified", "reopened"],
    "Subscription": ["acknowledged", "attach", "detach", "ended", "fail", "hear", "notified"],
}


class Listing(NamedTuple):
    """A module on a page, and the names that are shown of it."""

    module: str
    names: list[str]


def source_of(module: str) -> Path | None:
    """The file of a module; ``None`` where there is none (yet)."""
    path = ROOT / "src" / Path(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def exported_by(module: str) -> list[str]:
    """What a module says that it exports; without such a list, what it defines under a name without an underscore."""
    file = source_of(module)
    if file is None:
        return []
    tree = ast.parse(file.read_text(encoding="utf-8"))
    defined = []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                return [str(name) for name in ast.literal_eval(node.value)]
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                defined.append(name)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                defined.append(name)
    return [name for name in defined if not name.startswith("_")]


def front_door() -> dict[str, list[str]]:
    """The names behind ``from twopipes import ...``, by page."""
    found: dict[str, list[str]] = {}
    for name, home in sorted(twopipes._HOMES.items(), key=lambda item: (_place(item[0]), item[0])):  # noqa: SLF001 - our own
        page = next((page for room, page in HOMES.items() if f"{home}.".startswith(f"{room}.")), None)
        if page is not None:
            found.setdefault(page, []).append(name)
    return found


def _place(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def listings() -> dict[str, list[Listing]]:
    """What stands on each page, by its name."""
    found: dict[str, list[Listing]] = {page: [] for page in TITLES}
    for page, names in front_door().items():
        found[page].append(Listing("twopipes", names))
    for page, modules in MODULES.items():
        for module, names in modules.items():
            if source_of(module):
                found[page].append(
                    Listing(module, [name for name in names or exported_by(module) if not _is_elsewhere(module, name)])
                )
    return {page: shown for page, shown in found.items() if shown}


def _is_elsewhere(module: str, name: str) -> bool:
    """Whether a name of a module is one at the front door, too, and has its entry there."""
    return name in twopipes._HOMES and getattr(twopipes, name) is getattr(import_module(module), name)  # noqa: SLF001 - our own


def identifiers() -> Iterator[str]:
    """Every public name with the module in front, as it stands in the inventory of the site."""
    for shown in listings().values():
        for listing in shown:
            yield from (f"{listing.module}.{name}" for name in listing.names)


def pages() -> Mapping[str, str]:
    """The text of each page, by its path in the site."""
    return {f"{FOLDER}/{page}.md": _page(page, shown) for page, shown in listings().items()}


def _page(page: str, shown: Sequence[Listing]) -> str:
    parts = [f"# {TITLES[page]}\n"]
    for listing in shown:
        if listing.module == "twopipes":
            parts.append("From `twopipes`:\n")
            parts += [_entry(name, page) for name in listing.names]
        else:
            parts.append(_module(listing))
    return "\n".join(parts)


def _entry(name: str, page: str) -> str:
    lines = [f"::: twopipes.{name}", "    options:", "      heading_level: 2"]
    if name in FOR_OTHER_ROOMS:
        lines.append(f"      filters: {['!^_', *(f'!^{each}$' for each in FOR_OTHER_ROOMS[name])]}")
    if page == "errors":  # what they are is what `except` is written for
        lines.append("      show_bases: true")
    return "\n".join(lines) + "\n"


def _module(listing: Listing) -> str:
    lines = [f"::: {listing.module}", "    options:", "      heading_level: 2", "      show_root_full_path: true"]
    return "\n".join([*lines, f"      members: {listing.names}"]) + "\n"
