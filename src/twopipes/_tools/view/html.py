"""A recording as one self-contained HTML page, without network access or libraries.

The recorded data is untrusted. The page contains it as JSON in a block that browsers do not run, with every character escaped that
could end the block. The script of the page inserts it only as text. A content security policy allows only this script and this
style sheet, by their hashes, and no other resources.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64encode
from collections.abc import Iterator
from errno import EEXIST
from html import escape as escape_markup
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import json

from twopipes._process.user_files import open_private
from twopipes._tools.view.page_data import PageData, page_data
from twopipes._trace.reader import Trace

# The parts of the script, each after those it depends on.
_SCRIPTS = ("text.js", "model.js", "list.js", "pane.js", "timeline.js", "page.js")
_SLOT = re.compile(r"@@([A-Z]+)@@")

# Characters that could end the data block or begin markup in it, or that would mislead a reader of the page's source: control
# characters, bidi controls and other invisible characters, line separators. They can occur only in JSON strings, where an escape is
# equivalent.
_UNSAFE = re.compile(
    "[<>&\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def write_page(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write the page of a recording. The same recording gives the same page, byte for byte.

    Only the owner can read the file, like the recording, because it contains every message.

    Raises:
        OSError: The recording cannot be read or the page cannot be written. An existing file at the path is then unchanged.
    """
    data = page_data(trace)
    path = Path(path)
    if path.exists() and path.samefile(trace.path):
        raise FileExistsError(EEXIST, "that is the recording itself", str(path))
    # Write a temporary file and rename it, so that a reader never sees half a page. Write directly to special files (/dev/stdout).
    is_plain = not path.is_symlink() and (path.is_file() or not path.exists())
    target = path.with_name(f".{path.name}.{os.getpid()}") if is_plain else path
    try:
        with open(target, "w", encoding="utf-8", newline="\n", opener=open_private) as file:
            file.writelines(page_of(data))
        if is_plain:
            target.replace(path)
    except BaseException:
        if is_plain:
            target.unlink(missing_ok=True)
        raise


def page_of(data: PageData) -> Iterator[str]:
    """Yield the page in pieces, so that it is never in memory as a whole."""
    style = _part("page.css")
    script = "\n".join(_part(name) for name in _SCRIPTS)
    fixed = {
        "POLICY": f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'; object-src 'none'",
        "TITLE": escape_markup(f"{data.name} · twopipes"),
        "STYLE": style,
        "SCRIPT": script,
    }
    # Splitting by a pattern with one group yields texts and slot names alternately.
    for number, piece in enumerate(_SLOT.split(_part("page.html"))):
        if number % 2 == 0:
            yield piece
        elif piece == "DATA":
            yield from _data(data)
        else:
            yield fixed[piece]


def _part(name: str) -> str:
    return (files("twopipes._tools.view") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(data: PageData) -> Iterator[str]:
    """Yield the data as JSON, with one line per row."""
    yield "{"
    for name in ("name", "end", "facts", "about", "connections", "batches", "calls", "findings"):
        yield f'"{name}":{_json(getattr(data, name))},\n'
    yield '"rows":['
    for number, row in enumerate(data.rows):
        yield ("\n" if number == 0 else ",\n") + _json(row)
    yield "]}"


def _json(value: Any) -> str:
    return _UNSAFE.sub(_escaped, json.encode(value).decode())


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
