"""Serve the files in a folder, and nothing outside it: ``python files.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from twopipes import Server

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
server = Server("files", version="1.0", page_size=100)
server.add_directory(folder.as_uri() + "/", folder, description=f"The files below {folder.name}")


@server.tool(annotations={"readOnlyHint": True})
def find(name: str) -> list[str]:
    """Find files by a part of their name.

    Args:
        name: What the name must contain, in any case.
    """
    wanted = name.casefold()
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and wanted in path.name.casefold())
    return [path.relative_to(folder).as_posix() for path in found]


if __name__ == "__main__":
    server.run()
