"""What a server was in its previous run: its identity, capabilities and lists, in a private file of the user.

``keep`` answers from it while the real server starts, and corrects it afterwards. So a manifest is only a hint: a file that is
missing, damaged, too large, of another format or of another version of the server counts as absent, and one that cannot be
written costs the next start its quick answers.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import DecodeError, Raw, Struct, structs, to_builtins
from msgspec import json as msgspec_json

from twopipes._process.command import ServerCommand
from twopipes._process.user_files import read_trusted, replace_private, state_path
from twopipes._protocol.types import ClientCapabilities, Implementation, ServerCapabilities
from twopipes._session.events import ClientOpened
from twopipes._session.subscriptions import ListKind
from twopipes.errors import McpError, StartFailed

# Increase it with every change of what the file contains.
_FORMAT: Final = 1
# Bytes. A server with a thousand tools has about 1 MB; a larger manifest would not be quick to read.
MAX_SIZE: Final = 8 * 1024 * 1024
# Manifests of one user. The oldest are removed, so that servers which are not used any more leave nothing for ever.
_MAX_FILES: Final = 500

_NULL: Final = Raw(b"null")

# The methods of the lists: the member with the items, and the change that announces them.
LISTS: Final[Mapping[str, tuple[str, ListKind]]] = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resourceTemplates", "resources"),
    "prompts/list": ("prompts", "prompts"),
}


Fetch = Callable[[str, Mapping[str, Any]], Awaitable[Raw]]
"""Sends a request of a list method with these params, and returns the result."""


class Manifest(Struct, frozen=True, kw_only=True):
    """A server as it was when it was open.

    Attributes:
        opened: Its identity, capabilities, instructions, era and revision.
        lists: The result of each list method in that revision, with the items of all pages.
    """

    opened: ClientOpened
    lists: dict[str, Raw]

    @classmethod
    def of(cls, opened: ClientOpened, lists: dict[str, Raw]) -> Manifest:
        """Return the manifest of an open server. What it says about caching is dropped; see :func:`joined`."""
        if opened.raw is not None:
            opened = structs.replace(opened, raw=Raw(msgspec_json.encode(_stale(opened.raw))))
        return cls(opened=opened, lists=lists)

    def differences(self, other: Manifest) -> set[ListKind]:
        """Return which lists differ in the other manifest."""
        return {kind for method, (_, kind) in LISTS.items() if self._items(method) != other._items(method)}

    def _items(self, method: str) -> Any:
        raw = self.lists.get(method)
        return [] if raw is None else msgspec_json.decode(raw).get(LISTS[method][0])


class _File(Struct, frozen=True):
    format: int
    fingerprint: str
    manifest: Manifest  # opened.raw is apart, because msgspec does not decode a member that may be Raw or null
    raw: Raw = _NULL


class ManifestKey(Struct, frozen=True):
    """Where the manifest of a server is, and which files the server consists of. It reveals nothing about the command."""

    name: str
    fingerprint: str

    @classmethod
    def of(cls, command: ServerCommand, client: Implementation | None, capabilities: ClientCapabilities) -> ManifestKey | None:
        """Return the key of a command for one kind of client; ``None`` if the command cannot be started.

        Servers may offer a client what it can use, and what their sandbox lets them reach, so both belong to the key. The values of
        environment variables do not: a token that is renewed does not change the lists, and a digest of it has no place in a file.
        """
        environment = command.child_environment()
        try:
            executable = command.resolve(environment)
        except StartFailed:
            return None
        folder = command.folder()
        who = [None if client is None else client.name, to_builtins(capabilities)]
        sandbox = None if command.sandbox is None else structs.asdict(command.sandbox)
        name = _digest([list(command.argv), folder, sorted(environment), who, sandbox])
        words = (os.path.join(folder, word) for word in command.argv[1:])
        return cls(name, _digest([_fingerprint(path) for path in (executable, *words)]))


def load(key: ManifestKey) -> Manifest | None:
    """Return the manifest of the previous run, if there is one and the server's files are the same."""
    with suppress(OSError, ValueError, DecodeError, RecursionError, RuntimeError):
        found = msgspec_json.decode(read_trusted(_path(key), MAX_SIZE), type=_File)
        if (found.format, found.fingerprint) == (_FORMAT, key.fingerprint):
            raw = None if found.raw == _NULL else found.raw
            return structs.replace(found.manifest, opened=structs.replace(found.manifest.opened, raw=raw))
    return None


def save(key: ManifestKey, manifest: Manifest) -> bool:
    """Store a manifest and replace the previous one. Return False, and store nothing, if that is not possible."""
    opened = manifest.opened
    without_raw = structs.replace(manifest, opened=structs.replace(opened, raw=None))
    raw = msgspec_json.encode(_File(_FORMAT, key.fingerprint, without_raw, opened.raw or _NULL))
    if len(raw) > MAX_SIZE:
        return False
    try:
        path = _path(key)
        replace_private(path, raw)
    except (OSError, ValueError, RuntimeError):
        return False
    with suppress(OSError):
        _prune(os.path.dirname(path))
    return True


async def read_lists(fetch: Fetch, capabilities: ServerCapabilities, *, max_pages: int | None) -> dict[str, Raw]:
    """Return the whole lists that a server declares. One that it refuses, or that is too long for a manifest, is left out."""
    found = {}
    left = MAX_SIZE
    for method, (_, kind) in LISTS.items():
        if not capabilities.allows(kind):
            continue
        with suppress(McpError, DecodeError):
            pages = await _pages(fetch, method, max_pages=max_pages, max_size=left)
            if pages:
                found[method] = joined(method, pages)
                left -= len(bytes(found[method]))
    return found


async def _pages(fetch: Fetch, method: str, *, max_pages: int | None, max_size: int) -> list[Raw]:
    """Return all pages of a list; none if there are too many."""
    pages: list[Raw] = []
    cursor = None
    while max_pages is None or len(pages) < max_pages:
        page = await fetch(method, {} if cursor is None else {"cursor": cursor})
        max_size -= len(bytes(page))
        if max_size < 0:
            return []
        pages.append(page)
        cursor = next_cursor(page)
        if cursor is None:
            return pages
    return []


def joined(method: str, pages: Sequence[Raw]) -> Raw:
    """Return one result with the items of all pages of a list, which is stale at once (CH-03).

    A client that caches the result would not ask again when the real server has started.
    """
    member, _ = LISTS[method]
    parts = [_stale(page) for page in pages]
    items = [item for part in parts for item in _items(part.get(member))]
    first = {name: value for name, value in parts[0].items() if name != "nextCursor"}
    return Raw(msgspec_json.encode({**first, member: items}))


def _stale(result: Raw) -> dict[str, Raw]:
    members = msgspec_json.decode(result, type=dict[str, Raw])
    return {**members, "ttlMs": Raw(b"0")} if "ttlMs" in members else members


def next_cursor(page: Raw) -> str | None:
    """Return the cursor of the page that follows this one."""
    return msgspec_json.decode(page, type=_Page).next_cursor


class _Page(Struct, rename="camel"):
    next_cursor: str | None = None


def _items(raw: Raw | None) -> Iterable[Raw]:
    return () if raw is None else msgspec_json.decode(raw, type=list[Raw])


def _path(key: ManifestKey) -> str:
    return os.path.join(state_path(), "manifests", f"{key.name}.json")


def _prune(folder: str) -> None:
    with os.scandir(folder) as entries:
        files = [(entry.stat().st_mtime_ns, entry.path) for entry in entries]
    for _, path in sorted(files)[:-_MAX_FILES]:
        os.unlink(path)


def _fingerprint(path: str) -> tuple[str, int, int] | None:
    """Return what changes when a file is replaced; ``None`` if there is no such file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (os.path.realpath(path), found.st_size, found.st_mtime_ns) if os.path.isfile(path) else None


def _digest(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()  # json, because an argument may be no valid text
