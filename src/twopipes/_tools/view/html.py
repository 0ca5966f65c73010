"""A recording as one HTML page that needs nothing else: no network, no library, no leave to run anything but its own script.

What crossed the wire is untrusted. It stands in the page as JSON in a block that no browser runs, with every character escaped that
could end the block; the page's script puts it into the document as text and in no other way; and a policy in the page's head lets
the browser run that one script and use that one style sheet, known by their hashes, and load nothing from anywhere.
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

from twopipes._process.private_file import open_private
from twopipes._tools.view.page_data import PageData, page_data
from twopipes._trace.reader import Trace

__all__ = ["page_of", "write_page"]

# One script, in files that each can be read at one sitting. Their order is the order in which they need each other.
_SCRIPTS = ("text.js", "model.js", "list.js", "pane.js", "timeline.js", "page.js")
_SLOT = re.compile(r"@@([A-Z]+)@@")

# What could end the block of data or begin markup in it, and what would make the page's source lie to whoever reads it: controls,
# bidi controls and other invisible characters, line separators. All of them can only stand within strings of the JSON, where an
# escape means the same.
_UNSAFE = re.compile(
    "[<>&\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def write_page(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Writes the page of a recording. The same recording gives the same page, byte for byte.

    It can be read by its owner alone, like the recording: all that was said is in it.

    Raises:
        OSError: The recording cannot be read or the page cannot be written. What stood at the path before is then still there.
    """
    data = page_data(trace)
    path = Path(path)
    if path.exists() and path.samefile(trace.path):
        raise FileExistsError(EEXIST, "that is the recording itself", str(path))
    # Beside it and then in its place, so that nobody opens half a page. What is no plain file (/dev/stdout) is written to directly.
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
    """The page in pieces; the long ones are never together in memory."""
    style = _part("page.css")
    script = "\n".join(_part(name) for name in _SCRIPTS)
    fixed = {
        "POLICY": _policy(script, style),
        "TITLE": escape_markup(f"{data.name} · twopipes"),
        "STYLE": style,
        "SCRIPT": script,
    }
    # Splitting by a pattern with one group gives texts and names of slots in turn.
    for number, piece in enumerate(_SLOT.split(_part("page.html"))):
        if number % 2 == 0:
            yield piece
        elif piece == "DATA":
            yield from _data(data)
        else:
            yield fixed[piece]


def _part(name: str) -> str:
    return (files("twopipes._tools.view") / "page" / name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'; object-src 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(data: PageData) -> Iterator[str]:
    """The data as JSON, one row a line."""
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
