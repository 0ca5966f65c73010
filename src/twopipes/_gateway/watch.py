"""Watch the files of a server, to restart it when they change. The library watchfiles does the work, in threads."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Final

from twopipes.errors import LocalProtocolError

logger = logging.getLogger("twopipes.gateway")

# Code. In a watched folder only these count: a server that writes its data there must not be restarted by its own calls.
_SOURCES: Final = frozenset(
    {".py", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs", ".rb", ".php", ".java", ".kt", ".scala"}
    | {
        ".cs",
        ".swift",
        ".c",
        ".h",
        ".cc",
        ".cpp",
        ".hpp",
        ".lua",
        ".ex",
        ".exs",
        ".clj",
        ".jl",
        ".pl",
        ".sh",
        ".jar",
        ".so",
        ".dll",
    }
)
# Folders of tools and libraries, and those of caches. Hidden folders are ignored as well.
_IGNORED_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
# Milliseconds. Changes that follow each other within a step count as one; a build that never stops writing counts after the limit.
_STEP: Final = 100
_LIMIT: Final = 2000


def check_paths(paths: Sequence[str]) -> list[str]:
    """Return the full paths to watch. Raises ``LocalProtocolError`` if one does not exist, or watchfiles is not installed."""
    if find_spec("watchfiles") is None:  # the extra `watch`, which is slow to import
        raise LocalProtocolError("watching files needs watchfiles; run: pip install 'twopipes[watch]'")
    for path in paths:
        if not os.path.exists(path):
            raise LocalProtocolError(f"{path!r} cannot be watched, because it does not exist")
    return [os.path.realpath(path) for path in paths]


class Watcher:
    """Calls a function in the event loop whenever watched files have changed.

    A file is watched through its folder, because editors replace files, and a watch on the old one would see nothing more.
    """

    def __init__(self, paths: Sequence[str], on_change: Callable[[list[str]], None]) -> None:
        found = check_paths(paths)
        self._folders = [path for path in found if os.path.isdir(path)]
        self._files = frozenset(found) - set(self._folders)
        self._on_change = on_change
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: set[str] = set()  # the first folder of each group that is not watched yet
        self._started = asyncio.Event()

    async def start(self) -> None:
        """Start watching. Changes from now on are reported; if the system cannot watch the files, that is logged."""
        self._loop = asyncio.get_running_loop()
        parents = sorted({os.path.dirname(path) for path in self._files})
        groups = [(self._folders, self._is_source, True), (parents, self._is_named, False)]
        self._starting = {folders[0] for folders, _, _ in groups if folders}
        for folders, wanted, recursive in groups:
            if folders:
                # A daemon: it must not hold the process if the event loop ends early.
                run = partial(self._run, folders, wanted, recursive=recursive)
                threading.Thread(target=run, name="twopipes: watched files", daemon=True).start()
        await self._started.wait()

    def close(self) -> None:
        """Stop watching. The threads end within a moment."""
        self._stop.set()

    def _run(self, folders: Sequence[str], wanted: Callable[[str], bool], *, recursive: bool) -> None:
        try:
            from watchfiles import watch  # optional, and slow to import

            for changes in watch(
                *folders,
                watch_filter=lambda _, path: wanted(path),
                debounce=_LIMIT,
                step=_STEP,
                stop_event=self._stop,
                rust_timeout=_STEP,
                yield_on_timeout=True,  # shows that it has started
                raise_interrupt=False,
                recursive=recursive,
                ignore_permission_denied=True,
            ):
                self._call(self._watching, folders[0])
                if changes:
                    self._call(self._changed, sorted({path for _, path in changes}))
        except Exception as error:  # such as the limit of the system for watched folders
            self._call(logger.error, "%s cannot be watched: %s; changes do not restart the server", ", ".join(folders), error)
        finally:
            self._call(self._watching, folders[0])

    def _watching(self, group: str) -> None:
        self._starting.discard(group)
        if not self._starting:
            self._started.set()

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function, *arguments)

    def _changed(self, paths: list[str]) -> None:
        if not self._stop.is_set():
            self._on_change(paths)

    def _is_named(self, path: str) -> bool:
        return path in self._files

    def _is_source(self, path: str) -> bool:
        folder = next((each for each in self._folders if path.startswith(os.path.join(each, ""))), None)
        if folder is None or os.path.splitext(path)[1].lower() not in _SOURCES:
            return False
        *parents, name = os.path.relpath(path, folder).split(os.sep)
        return not name.startswith(".") and not any(each.startswith(".") or each in _IGNORED_FOLDERS for each in parents)
