"""A folder as resources: every file in it can be read, and nothing outside of it (RS-08)."""

from __future__ import annotations

import mimetypes
import os
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from twopipes.errors import LocalProtocolError, NotFound
from twopipes.mcp.types import ReadResourceResult, Resource, ResourceContents, ResourceTemplate
from twopipes.server.returned import contents_of

__all__ = ["Directory"]

# A listing is for people and models, not for backups.
_MOST_LISTED = 10_000


class Directory:
    """Serves the files below one folder.

    Args:
        uri: The address of the folder, such as ``file:///docs/``.
        path: The folder. It must exist.
        name: What it is called in lists.
        description: What it holds.

    Raises:
        LocalProtocolError: There is no such folder.
    """

    def __init__(self, uri: str, path: str | Path, *, name: str | None = None, description: str | None = None) -> None:
        self.root = Path(path).resolve()
        if not self.root.is_dir():
            raise LocalProtocolError(f"{self.root} is not a folder that could be served as {uri}")
        self.uri = uri if uri.endswith("/") else uri + "/"
        self.place = str(self.root)
        self.template = ResourceTemplate(f"{self.uri}{{+path}}", name or self.root.name, description=description)

    def serves(self, uri: str) -> bool:
        """Whether an address lies in the folder, going by the address alone."""
        return uri.startswith(self.uri) or uri == self.uri[:-1]

    def listing(self) -> list[Resource]:
        """The files, in the order of their names."""
        found: list[Resource] = []
        for path in sorted(self.root.rglob("*")):
            if len(found) == _MOST_LISTED:
                break
            if not self._is_file_inside(path):
                continue
            name = os.fsencode(path.relative_to(self.root).as_posix()).decode(errors="replace")
            kind = mimetypes.guess_type(name)[0]
            try:
                found.append(Resource(self._uri_of(path), name, mime_type=kind, size=path.stat().st_size))
            except OSError:  # pragma: no cover - gone since we looked
                continue
        return found

    def read(self, uri: str) -> ReadResourceResult:
        """A file, or the files directly in a folder.

        Raises:
            NotFound: There is no such file, or the address leads out of the folder; the two cannot be told apart.
        """
        path = self._locate(uri)
        if path.is_dir():
            inside = [each for each in self._entries(path) if self._is_file_inside(each)]
            contents = [content for each in inside for content in self._contents(self._uri_of(each), each)]
            if not contents:
                raise NotFound("resource", uri)
            return ReadResourceResult(contents)
        return ReadResourceResult(self._contents(uri, path))

    def _locate(self, uri: str) -> Path:
        relative = unquote_to_bytes(uri[len(self.uri) :])  # once: what is still encoded after it is a name
        name = os.fsdecode(relative)
        parts = name.split("/")
        if "\0" in name or "\\" in name or any(part in {".", ".."} for part in parts) or name.startswith("/"):
            raise NotFound("resource", uri)
        path = self.root.joinpath(*parts)
        # Neither file nor folder: a pipe or a device, which could be read for ever.
        if not self._is_inside(path) or not (path.is_file() or path.is_dir()):
            raise NotFound("resource", uri)
        return path

    @staticmethod
    def _entries(path: Path) -> list[Path]:
        try:
            return sorted(path.iterdir())
        except OSError:  # pragma: no cover - not ours to read
            return []

    def _is_file_inside(self, path: Path) -> bool:
        return self._is_inside(path) and path.is_file()

    def _is_inside(self, path: Path) -> bool:
        """Whether a path, once every link in it is followed, is still below the folder."""
        try:
            return path.resolve(strict=True).is_relative_to(self.root)
        except (OSError, RuntimeError):
            return False

    def _uri_of(self, path: Path) -> str:
        return self.uri + quote(os.fsencode(path.relative_to(self.root).as_posix()))

    @staticmethod
    def _contents(uri: str, path: Path) -> list[ResourceContents]:
        kind = mimetypes.guess_type(path.name)[0]
        try:
            data = path.read_bytes()
        except OSError:
            raise NotFound("resource", uri) from None
        try:
            return contents_of(uri, data.decode(), kind)
        except UnicodeDecodeError:
            return contents_of(uri, data, kind)
