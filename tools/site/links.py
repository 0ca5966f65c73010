"""Links of the pages to other files of the repository: the site shows these files as pages.

On a code forge such a link leads to the file; on the site it leads to a page that shows it. No page has to know of the two.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Pages of the repository's root that the site has, too.
PROJECT = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "SECURITY.md": "project/security.md",
}
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".md": "markdown", ".sh": "sh"}

# The end of a link: its label may have begun on an earlier line.
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?([^)]*\))")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")


def outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """Change the lines of a page outside of code blocks."""
    lines, fence = [], ""
    for line in text.split("\n"):
        if found := _FENCE.match(line):
            if not fence:
                fence = found[1]
            elif line.strip().startswith(fence):
                fence = ""
            lines.append(line)
        else:
            lines.append(line if fence else change(line))
    return "\n".join(lines)


def targets(text: str) -> Iterator[str]:
    """Return the targets of the links of a page within the repository."""
    found: list[str] = []

    def note(line: str) -> str:
        found.extend(match[2] for match in _LINK.finditer(line))
        return line

    outside_of_code(text, note)
    return (target for target in found if not _leaves(target))


def _leaves(target: str) -> bool:
    return bool(re.match(r"[a-z]+:", target))


def place_on_the_site(file: Path) -> str | None:
    """Return the path of a file or folder of the repository in the site; ``None`` if it cannot be shown."""
    if file.is_relative_to(DOCS):
        inside = file.relative_to(DOCS).as_posix()
        return f"{inside}/index.md" if file.is_dir() else inside
    if not file.is_relative_to(ROOT) or not file.exists():
        return None
    path = file.relative_to(ROOT).as_posix()
    if path in {"README.md", "."}:
        return "index.md"
    if path in PROJECT:
        return PROJECT[path]
    return f"source/{path}/index.md" if file.is_dir() else f"source/{path}.md"


def rewritten(text: str, *, origin: Path, place: str) -> str:
    """Return the page with its links converted for the site.

    Args:
        text: The page.
        origin: The file of the repository that it is.
        place: Its path on the site.
    """

    def link(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        if _leaves(target):
            return match[0]
        new = place_on_the_site((origin.parent / target).resolve())
        if new is None:
            return match[0]
        return f"{before}{posixpath.relpath(new, posixpath.dirname(place) or '.')}{anchor or ''}{after}"

    return outside_of_code(text, lambda line: _LINK.sub(link, line))


def shown_files(pages: dict[Path, str]) -> list[Path]:
    """Return files and folders that a page links to, and the content of these folders."""
    found = {
        file
        for origin, text in pages.items()
        for target in targets(text)
        if (file := (origin.parent / target).resolve()).exists()
        and file.is_relative_to(ROOT)
        and (place_on_the_site(file) or "").startswith("source/")
    }
    for folder in [file for file in found if file.is_dir()]:
        found.update(_files_in(folder))
    return sorted(found)


def _files_in(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix in LANGUAGES]


def page_of(file: Path) -> str:
    """A page that shows a file, or what is in a folder."""
    path = file.relative_to(ROOT).as_posix()
    if file.is_dir():
        names = [each.relative_to(file).as_posix() for each in _files_in(file)]
        return f"# {path}\n\n" + "".join(f"* [`{name}`]({name}.md)\n" for name in names)
    text = file.read_text(encoding="utf-8").rstrip("\n")
    return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{text}\n````\n"


def title_of(text: str) -> str:
    """The first heading of a page."""
    return next((line.removeprefix("# ").strip() for line in text.split("\n") if line.startswith("# ")), "")
