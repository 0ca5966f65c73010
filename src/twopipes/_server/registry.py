"""What a server offers: named entries in a stable order, each added once (TL-15, TL-16); and how an author adds them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from twopipes.errors import LocalProtocolError
from twopipes.settings import MAX_FILE_SIZE

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

    from twopipes._server.completion import CompletionEntry
    from twopipes._server.directory import Directory
    from twopipes._server.options import PromptOptions, ResourceOptions, ToolOptions
    from twopipes._server.prompts import PromptEntry
    from twopipes._server.resources import ResourceEntry, TemplateEntry
    from twopipes._server.tools import ToolEntry
    from twopipes._session.subscriptions import ListKind

__all__ = ["Offer", "Registry", "place_of"]


class RegistryEntry(Protocol):
    """Anything with a place in the author's code."""

    place: str


E = TypeVar("E", bound=RegistryEntry)
F = TypeVar("F", bound=Callable[..., Any])


def place_of(function: Callable[..., Any] | None) -> str:
    """Where a function stands in the author's code, for error messages: ``server.py:12``."""
    while isinstance(function, functools.partial):
        function = function.func
    plain, seen = function, {id(function)}
    while (inner := getattr(plain, "__wrapped__", None)) is not None and id(inner) not in seen:
        plain = inner
        seen.add(id(inner))
    code = getattr(plain, "__code__", None) or getattr(getattr(plain, "__call__", None), "__code__", None)  # noqa: B004
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "somewhere"


class Registry(Generic[E]):
    """Entries by name, in the order in which they were added. Any thread may change it, while others read.

    Args:
        kind: What they are, for error messages.
        changed: Told after every change.

    Attributes:
        used: Whether anything was ever added. A feature that was declared stays, with an empty list if need be (ST-06).
    """

    def __init__(self, kind: str, changed: Callable[[], None]) -> None:
        self._kind = kind
        self._changed = changed
        self._lock = threading.Lock()
        # No name comes or goes, but the whole is replaced: whoever goes through it at the time is not disturbed.
        self._entries: dict[str, E] = {}
        self.used = False

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[E]:
        return iter(self._entries.values())

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def entries(self) -> dict[str, E]:
        """All of them, by name."""
        return self._entries

    def get(self, name: str) -> E | None:
        """The entry of that name, or ``None``."""
        return self._entries.get(name)

    def add(self, name: str, entry: E) -> None:
        """Adds an entry.

        Raises:
            LocalProtocolError: The name is taken; both places are named.
        """
        with self._lock:
            other = self._entries.get(name)
            if other is not None:
                places = f"from {other.place}; this one is from {entry.place}"
                raise LocalProtocolError(f"there is a {self._kind} {name!r} already, {places}")
            self._entries = {**self._entries, name: entry}
            self.used = True
        self._changed()

    def remove(self, name: str) -> None:
        """Takes an entry out.

        Raises:
            LocalProtocolError: There is none of that name.
        """
        with self._lock:
            if name not in self._entries:
                raise LocalProtocolError(f"there is no {self._kind} {name!r} to remove")
            self._entries = {other: entry for other, entry in self._entries.items() if other != name}
        self._changed()


class Offer:
    """What a server offers, and how its author adds to it and takes away from it, before and while it is served.

    What describes the entries is loaded when the first one is added that needs it: a host waits for the first answer.

    Args:
        changed: Told which list has changed.
    """

    def __init__(self, changed: Callable[[ListKind], None]) -> None:
        self.tools: Registry[ToolEntry] = Registry("tool", lambda: changed("tools"))
        self.resources: Registry[ResourceEntry] = Registry("resource", lambda: changed("resources"))
        self.templates: Registry[TemplateEntry] = Registry("resource template", lambda: changed("resources"))
        self.directories: Registry[Directory] = Registry("directory", lambda: changed("resources"))
        self.prompts: Registry[PromptEntry] = Registry("prompt", lambda: changed("prompts"))
        self.completions: Registry[CompletionEntry] = Registry("completion", lambda: None)

    # Tools

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Registers a function as a tool: ``@server.tool`` or ``@server.tool(name=..., title=..., annotations=...)``.

        The schema comes from the signature, descriptions from the docstring. The options are those of
        :class:`~twopipes._server.options.ToolOptions`. A class is no tool; its methods are, once there is an object:
        ``server.add_tool(thing.method)``.
        """

        def register(function: F) -> F:
            self.add_tool(function, **options)
            return function

        return register if function is None else register(function)

    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        """Registers a tool at any time; clients are told as their era allows."""
        from twopipes._server.tools import make_tool  # noqa: PLC0415 - see above

        entry = _described("tool", make_tool, function, **options)
        self.tools.add(entry.tool.name, entry)

    def remove_tool(self, name: str) -> None:
        """Takes a tool away; clients are told as their era allows."""
        self.tools.remove(name)

    # Resources

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Registers a function as a resource, or as a template where the URI has ``{variables}``."""
        _check_uri(uri, "@server.resource")

        def register(function: F) -> F:
            self.add_resource(uri, function, **options)
            return function

        return register

    def add_resource(self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]) -> None:
        """Registers a resource at any time."""
        from twopipes._server.resources import TemplateEntry, make_resource  # noqa: PLC0415 - see above

        _check_uri(uri, "server.add_resource()")
        entry = _described("resource", make_resource, uri, function, **options)
        if isinstance(entry, TemplateEntry):
            self.templates.add(uri, entry)
        else:
            self.resources.add(uri, entry)

    def remove_resource(self, uri: str) -> None:
        """Takes a resource, a template or a directory away."""
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
        """Serves the files below a folder, and nothing outside of it. :meth:`remove_resource` takes it away.

        A link in the folder is followed if it leads to a place in the folder. Reading the address of a folder lists what is in it.

        Args:
            uri: The address of the folder, such as ``file:///docs/``.
            path: The folder. It must exist.
            name: What it is called in lists.
            description: What it holds.
            max_size: Bytes of the largest file that can be read; ``None`` for no limit.
        """
        from twopipes._server.directory import Directory  # noqa: PLC0415 - few servers have one, and it brings paths and URLs along

        directory = Directory(uri, path, name=name, description=description, max_size=max_size)
        self.directories.add(directory.uri, directory)

    # Prompts and completion

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, function: None = None, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Registers a function as a prompt: ``@server.prompt`` or ``@server.prompt(name=..., title=...)``."""

        def register(function: F) -> F:
            self.add_prompt(function, **options)
            return function

        return register if function is None else register(function)

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        """Registers a prompt at any time."""
        from twopipes._server.prompts import make_prompt  # noqa: PLC0415 - see above

        entry = _described("prompt", make_prompt, function, **options)
        self.prompts.add(entry.prompt.name, entry)

    def remove_prompt(self, name: str) -> None:
        """Takes a prompt away."""
        self.prompts.remove(name)

    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Registers a function that suggests values: ``@server.completion("review", "language")``.

        Args:
            ref: The name of a prompt, or the URI template of a resource.
            argument: The argument of the prompt, or the variable of the template.
        """

        def register(function: F) -> F:
            self.add_completion(ref, argument, function)
            return function

        return register

    def add_completion(self, ref: str, argument: str, function: Callable[..., Any]) -> None:
        """Registers a function that suggests values at any time.

        It is given what is typed so far and, if it has a second parameter, a dict of the arguments that are settled. A parameter
        that is annotated with :class:`~twopipes.Context` is given the context of the request.
        """
        from twopipes._server.completion import CompletionEntry  # noqa: PLC0415 - see above

        self.completions.add(f"{ref} {argument}", CompletionEntry(function))

    def remove_completion(self, ref: str, argument: str) -> None:
        """Takes such a function away."""
        self.completions.remove(f"{ref} {argument}")


def _described(kind: str, describe: Callable[..., E], *given: Any, **options: Any) -> E:
    known: Mapping[str, Any] = getattr(describe, "__kwdefaults__")  # noqa: B009 - every option has a default; mypy knows no functions
    if not options.keys() <= known.keys():
        from twopipes._server.hints import no_such_option  # noqa: PLC0415 - see there

        raise no_such_option(kind, options, known)
    return describe(*given, **options)


def _check_uri(uri: object, where: str) -> None:
    if not isinstance(uri, str):
        from twopipes._server.hints import not_a_uri  # noqa: PLC0415 - see there

        raise not_a_uri(uri, where)
