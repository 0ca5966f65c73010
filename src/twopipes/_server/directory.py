"""A folder as resources: every file in it can be read, and nothing outside of it (RS-08)."""

from __future__ import annotations

import heapq
import mimetypes
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from twopipes._protocol.types import ReadResourceResult, Resource, ResourceContents, ResourceTemplate
from twopipes._server.function_entry import RunBlocking
from twopipes._server.pagination import cursor_of, name_in, page_of
from twopipes._server.results import contents_of
from twopipes._server.safe_open import Opened, open_beneath
from twopipes.errors import InvalidParams, LocalProtocolError, NotFound
from twopipes.settings import MAX_FILE_SIZE, MIB

# Files on a page of a list if the server sets no page size, and entries in the listing of one folder.
_PAGE = 1000
# Entries that are scanned for one page. A tree of empty folders has no file to end a page with.
_MAX_SCANNED = 50_000
# Entries of one folder that are held at once.
_BATCH = 4096
# Levels of folders that a list descends into; each costs a descriptor. Files further below can still be read.
_MAX_DEPTH = 64
_AFTER = "?after="
# RFC 2483: a URI on each line; comment lines start with #.
_URI_LIST = "text/uri-list"

# The kind of cursors of files, to distinguish them from those of other resources.
_FILES = "files"

Parts = tuple[str, ...]


class Directory:
    """Serves the files below one folder; see :meth:`twopipes.Server.add_directory`."""

    def __init__(
        self,
        uri: str,
        path: str | Path,
        *,
        name: str | None = None,
        description: str | None = None,
        max_size: int | None = MAX_FILE_SIZE,
    ) -> None:
        root = Path(path).resolve()
        if not root.is_dir():
            raise LocalProtocolError(f"cannot serve {root} as {uri}: it is not a folder")
        self.uri = uri if uri.endswith("/") else uri + "/"
        self.place = str(root)
        self.template = ResourceTemplate(f"{self.uri}{{+path}}", name or root.name, description=description)
        self._as_given = str(Path(path).absolute())
        self._max_size = max_size

    def serves(self, uri: str) -> bool:
        """Return whether a URI is below that of the folder. The file system is not read."""
        return uri.startswith(self.uri) or uri == self.uri[:-1]

    def page(self, after: str | None, size: int) -> tuple[list[Resource], str | None]:
        """List files after a URI, sorted by name, folder by folder. Return the page, and its last URI if there may be more."""
        try:
            start = () if after is None else self._parts(after)
        except NotFound:
            raise InvalidParams(f"{after} is not in {self.uri}; start without a cursor") from None
        found: list[Resource] = []
        last: Parts = ()
        for number, (parts, size_of_file) in enumerate(self._files((), start)):
            if len(found) == size or number == _MAX_SCANNED:
                return found, self._uri_of(last)
            last = parts
            if size_of_file is not None:
                name = os.fsencode("/".join(parts)).decode(errors="replace")
                found.append(Resource(self._uri_of(parts), name, mime_type=mimetypes.guess_type(name)[0], size=size_of_file))
        return found, None

    def read(self, uri: str) -> ReadResourceResult:
        """Read a file, or list the URIs of the entries of a folder.

        A client cannot distinguish a file that does not exist from one outside of the folder.
        """
        address, sign, after = uri.rpartition(f"/{_AFTER}") if f"/{_AFTER}" in uri else (uri, "", "")
        parts = self._parts(address)
        try:
            with self._open(parts) as opened:
                if opened.is_folder:
                    return ReadResourceResult([self._listing(uri, parts, opened, os.fsdecode(unquote_to_bytes(after)))])
                if sign or not opened.is_file or not isinstance(opened.handle, int):
                    raise NotFound("resource", uri)
                data = self._data(uri, opened.handle, opened.status.st_size)
        except (OSError, ValueError):
            raise NotFound("resource", uri) from None
        return ReadResourceResult(_contents(uri, parts, data))

    def _data(self, uri: str, descriptor: int, size: int) -> bytes:
        """Read a file to its end. It may grow meanwhile, and files in /proc have no size."""
        limit = self._max_size
        data = bytearray()
        if limit is None or size <= limit:
            while chunk := os.read(descriptor, MIB):
                data += chunk
                if limit is not None and len(data) > limit:
                    size = len(data)
                    break
            else:
                return bytes(data)
        raise InvalidParams(
            f"{uri} has {size} bytes or more, and at most {limit} can be read at once; read it in another way, or use a larger "
            "max_size in the server",
            data={"uri": uri, "limit": limit},
        )

    def _listing(self, uri: str, parts: Parts, opened: Opened, after: str) -> ResourceContents:
        lines: list[str] = []
        folder = self._uri_of(parts)
        name = ""
        is_cut = False
        for number, entry in enumerate(_entries(opened, after, inclusive=False)):
            if len(lines) == _PAGE or number == _MAX_SCANNED:
                is_cut = True
                break
            name = entry.name
            shown = self._entry_uri((*parts, name), entry)
            if shown is not None:
                lines.append(shown)
        if is_cut:
            following = f"{folder.rstrip('/')}/{_AFTER}{quote(os.fsencode(name), safe='')}"
            lines += ["# There are more. Read this for the next ones:", following]
        elif not lines:
            lines.append("# Nothing more is here." if after else "# This folder is empty.")
        return ResourceContents(uri, text="\r\n".join(lines) + "\r\n", mime_type=_URI_LIST)

    def _entry_uri(self, parts: Parts, entry: os.DirEntry[str]) -> str | None:
        """Return the URI of an entry of a folder; ``None`` if it cannot be read."""
        try:
            if entry.is_file(follow_symlinks=False):
                return self._uri_of(parts)
            if entry.is_dir(follow_symlinks=False):
                return self._uri_of(parts) + "/"
            if entry.is_symlink():
                with self._open(parts) as opened:
                    if opened.is_file or opened.is_folder:
                        return self._uri_of(parts) + ("/" if opened.is_folder else "")
        except (OSError, ValueError):
            pass  # it does not exist any more, or leads out of the folder
        return None

    def _files(self, folder: Parts, after: Parts) -> Iterator[tuple[Parts, int | None]]:
        """Yield what comes after a path, with the size of files and ``None`` for others. Linked folders are not entered."""
        try:
            with self._open(folder) as opened:
                for entry in _entries(opened, after[0] if after else "", inclusive=True):
                    parts = (*folder, entry.name)
                    was_seen = after[:1] == (entry.name,)
                    if not was_seen:
                        yield parts, self._size(parts, entry)
                    if len(parts) < _MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                        yield from self._files(parts, after[1:] if was_seen else ())
        except OSError:
            return  # it does not exist any more, or cannot be read

    def _size(self, parts: Parts, entry: os.DirEntry[str]) -> int | None:
        try:
            if entry.is_file(follow_symlinks=False):
                return entry.stat(follow_symlinks=False).st_size
            if entry.is_symlink():
                with self._open(parts) as opened:
                    return opened.status.st_size if opened.is_file else None
        except (OSError, ValueError):
            pass  # as above
        return None

    def _open(self, parts: Parts) -> AbstractContextManager[Opened]:
        return open_beneath(self.place, parts, spellings=(self._as_given,))

    def _parts(self, uri: str) -> Parts:
        """Split a URI into the names of its path."""
        try:
            name = os.fsdecode(unquote_to_bytes(uri[len(self.uri) :]))  # decoded once: what is still encoded is part of a name
        except UnicodeDecodeError:  # on Windows names are text
            raise NotFound("resource", uri) from None
        parts = name.split("/")
        if parts[-1] == "":
            parts.pop()
        if "\0" in name or "\\" in name or any(part in {"", ".", ".."} for part in parts):
            raise NotFound("resource", uri)
        return tuple(parts)

    def _uri_of(self, parts: Parts) -> str:
        return self.uri + quote(os.fsencode("/".join(parts)))


async def page_with_files(
    resources: Mapping[str, Resource],
    directories: Sequence[Directory],
    cursor: str | None,
    size: int | None,
    run_blocking: RunBlocking,
) -> tuple[Sequence[Resource], str | None]:
    """Return one page of a list that ends with the files of folders, and the cursor of the next page (PG-05)."""
    size = size or _PAGE
    place = None if cursor is None else name_in(cursor, _FILES)
    page: list[Resource] = []
    number, after = 0, ""
    if place is None:
        first, following = page_of(resources, cursor, size, "resources")
        if following is not None:
            return first, following
        page = list(first)
    else:
        uri, _, after = place.partition("\n")
        number = next((position for position, directory in enumerate(directories) if directory.uri == uri), len(directories))
        if number == len(directories):
            raise InvalidParams(f"Invalid cursor: {uri} is not served any more; start without a cursor")
    for position, directory in enumerate(directories[number:], number):
        if len(page) == size:
            return page, cursor_of(f"{directory.uri}\n", _FILES)
        files, ended_with = await run_blocking(partial(directory.page, after or None, size - len(page)))
        # A URI that is also a resource, or in an earlier folder, is served and listed there.
        earlier = directories[:position]
        page += [file for file in files if file.uri not in resources and not any(each.serves(file.uri) for each in earlier)]
        if ended_with is not None:
            return page, cursor_of(f"{directory.uri}\n{ended_with}", _FILES)
        after = ""
    return page, None


def _entries(folder: Opened, start: str, *, inclusive: bool) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder, sorted by name, from a name on. At most one batch is held in memory."""
    while True:
        with os.scandir(folder.handle) as found:
            following = (entry for entry in found if entry.name > start or (inclusive and entry.name == start))
            batch = heapq.nsmallest(_BATCH, following, key=lambda entry: entry.name)
        yield from batch
        if len(batch) < _BATCH:
            return
        start, inclusive = batch[-1].name, False


def _contents(uri: str, parts: Parts, data: bytes) -> list[ResourceContents]:
    kind = mimetypes.guess_type(parts[-1])[0]
    try:
        return contents_of(uri, data.decode(), kind)
    except UnicodeDecodeError:
        return contents_of(uri, data, kind)
