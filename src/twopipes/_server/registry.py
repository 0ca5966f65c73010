"""What a server offers: named entries in a stable order, each registered once (TL-15, TL-16), and the methods to add them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from twopipes._server.hints import no_such_option, not_a_uri
from twopipes.errors import LocalProtocolError
from twopipes.settings import MAX_FILE_SIZE

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

    from twopipes._server.completion import CompletionEntry
    from twopipes._server.directory import Directory
    from twopipes._server.options import PromptOptions, ResourceOptions, ToolOptions
    from twopipes._server.prompts import PromptEntry
    from twopipes._server.resources import ResourceEntry
    from twopipes._server.tools import ToolEntry
    from twopipes._session.subscriptions import ListKind


class RegistryEntry(Protocol):
    """An entry with a place in the author's code."""

    @property
    def place(self) -> str:
        """The file and line."""


E = TypeVar("E", bound=RegistryEntry)
F = TypeVar("F", bound=Callable[..., Any])


def place_of(function: Callable[..., Any] | None) -> str:
    """Return where a function is defined, for error messages: ``server.py:12``."""
    while isinstance(function, functools.partial):
        function = function.func
    plain, seen = function, {id(function)}
    while (inner := getattr(plain, "__wrapped__", None)) is not None and id(inner) not in seen:
        plain = inner
        seen.add(id(inner))
    code = getattr(plain, "__code__", None) or getattr(getattr(plain, "__call__", None), "__code__", None)  # noqa: B004
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "an unknown place"


class Registry(Generic[E]):
    """Entries by name, in the order in which they were added. Any thread may change it while others read.

    Attributes:
        entries: Replaced as a whole at each change, so that a thread which iterates over it is not disturbed.
        used: Whether anything was ever added. A feature that was declared stays declared, even with an empty list (ST-06).
    """

    def __init__(self, kind: str, changed: Callable[[], None]) -> None:
        self._kind = kind
        self._changed = changed
        self._lock = threading.Lock()
        self.entries: dict[str, E] = {}
        self.used = False

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[E]:
        return iter(self.entries.values())

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def add(self, name: str, entry: E) -> None:
        """Add an entry. A name that is already registered is refused, with both places."""
        with self._lock:
            other = self.entries.get(name)
            if other is not None:
                raise LocalProtocolError(
                    f"the {self._kind} {name!r} is already registered ({other.place}); rename that one or this one ({entry.place})"
                )
            self.entries = {**self.entries, name: entry}
            self.used = True
        self._changed()

    def remove(self, name: str) -> None:
        """Remove an entry."""
        with self._lock:
            if name not in self.entries:
                raise LocalProtocolError(f"cannot remove the {self._kind} {name!r}: it is not registered")
            self.entries = {other: entry for other, entry in self.entries.items() if other != name}
        self._changed()


class Offer:
    """What a server offers. Entries can be added and removed before and while it is served.

    The module of each kind of entry is imported when the first one is added, so that a server starts faster.
    """

    def __init__(self, changed: Callable[[ListKind], None]) -> None:
        self.tools: Registry[ToolEntry] = Registry("tool", lambda: changed("tools"))
        self.resources: Registry[ResourceEntry] = Registry("resource", lambda: changed("resources"))
        self.templates: Registry[ResourceEntry] = Registry("resource template", lambda: changed("resources"))
        self.directories: Registry[Directory] = Registry("directory", lambda: changed("resources"))
        self.prompts: Registry[PromptEntry] = Registry("prompt", lambda: changed("prompts"))
        self.completions: Registry[CompletionEntry] = Registry("completion", lambda: None)

    # Tools

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Register a function as a tool: ``@server.tool`` or ``@server.tool(name=..., title=..., annotations=...)``.

        The schema comes from the signature, the descriptions from the docstring. The options are those of
        :class:`~twopipes.types.ToolOptions`. A class cannot be a tool; register the methods of an object:
        ``server.add_tool(thing.method)``.
        """
        register: Callable[[F], F] = _decorator(self.add_tool, **options)
        return register if function is None else register(function)

    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        """Register a tool at any time. Clients are notified as their era allows."""
        from twopipes._server.tools import make_tool

        entry = _described("tool", make_tool, function, **options)
        self.tools.add(entry.tool.name, entry)

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Clients are notified as their era allows."""
        self.tools.remove(name)

    # Resources

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function as a resource, or as a template if the URI has ``{variables}``."""
        _check_uri(uri, "@server.resource")
        return _decorator(functools.partial(self.add_resource, uri), **options)

    def add_resource(self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]) -> None:
        """Register a resource at any time."""
        from twopipes._server.resources import make_resource

        _check_uri(uri, "server.add_resource()")
        entry = _described("resource", make_resource, uri, function, **options)
        (self.resources if entry.matcher is None else self.templates).add(uri, entry)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource, a template or a directory."""
        if uri in self.templates:
            self.templates.remove(uri)
        elif (folder := uri.removesuffix("/") + "/") in self.directories:
            self.directories.remove(folder)
        else:
            self.resources.remove(uri)

    def add_directory(
        self,
        uri: str,
        path: str | Path,
        *,
        name: str | None = None,
        description: str | None = None,
        max_size: int | None = MAX_FILE_SIZE,
    ) -> None:
        """Serve the files below a folder, and nothing outside of it. :meth:`remove_resource` removes it.

        A link in the folder is followed if it leads to a place in the folder. Reading the URI of a folder lists its entries.

        Args:
            uri: The URI of the folder, such as ``file:///docs/``.
            path: The folder. It must exist.
            name: Its name in lists.
            description: What it contains.
            max_size: The largest file that can be read, in bytes; ``None`` for no limit.
        """
        from twopipes._server.directory import Directory

        directory = Directory(uri, path, name=name, description=description, max_size=max_size)
        self.directories.add(directory.uri, directory)

    # Prompts and completion

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, function: None = None, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Register a function as a prompt: ``@server.prompt`` or ``@server.prompt(name=..., title=...)``."""
        register: Callable[[F], F] = _decorator(self.add_prompt, **options)
        return register if function is None else register(function)

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        """Register a prompt at any time."""
        from twopipes._server.prompts import make_prompt

        entry = _described("prompt", make_prompt, function, **options)
        self.prompts.add(entry.prompt.name, entry)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt."""
        self.prompts.remove(name)

    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Register a function that suggests values: ``@server.completion("review", "language")``.

        Args:
            ref: The name of a prompt, or the URI template of a resource.
            argument: The argument of the prompt, or the variable of the template.
        """
        return _decorator(functools.partial(self.add_completion, ref, argument))

    def add_completion(self, ref: str, argument: str, function: Callable[..., Any]) -> None:
        """Register a function that suggests values at any time.

        The function gets the text typed so far and, if it has a second parameter, a dict of the arguments that are already
        filled in. A parameter annotated with :class:`~twopipes.Context` gets the context of the request.
        """
        from twopipes._server.completion import CompletionEntry

        self.completions.add(f"{ref} {argument}", CompletionEntry(function))

    def remove_completion(self, ref: str, argument: str) -> None:
        """Remove a function that suggests values."""
        self.completions.remove(f"{ref} {argument}")


def _decorator(add: Callable[..., None], **options: Any) -> Callable[[F], F]:
    def register(function: F) -> F:
        add(function, **options)
        return function

    return register


def _described(kind: str, describe: Callable[..., E], *given: Any, **options: Any) -> E:
    known: Mapping[str, Any] = getattr(describe, "__kwdefaults__")  # noqa: B009 - mypy does not know it; every option has a default
    if not options.keys() <= known.keys():
        raise no_such_option(kind, options, known)
    return describe(*given, **options)


def _check_uri(uri: object, where: str) -> None:
    if not isinstance(uri, str):
        raise not_a_uri(uri, where)
