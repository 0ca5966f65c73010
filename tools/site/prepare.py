"""Write the sources of the site into build/pages: the pages, generated ones, files that pages link to, and the configuration.

The program that builds the site then needs no plugin for this. Run by ``make docs``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))

import api_pages
import links

TARGET = links.ROOT / "build" / "pages"
DECISIONS = links.DOCS / "decisions"


def main() -> int:
    """Run the program and return its exit code."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(links.DOCS, TARGET / "docs", ignore=shutil.ignore_patterns("*.md"))
    for place, text in all_pages().items():
        file = TARGET / "docs" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(with_metadata(place, text), encoding="utf-8")
    (TARGET / "mkdocs.yml").write_text(configuration(), encoding="utf-8")
    return 0


def all_pages() -> dict[str, str]:
    """Return the text of every page, by its path on the site. Links to files of the repository lead to the pages that show them."""
    origins = {file: file.read_text(encoding="utf-8") for file in sorted(links.DOCS.rglob("*.md"))}
    origins |= {links.ROOT / name: (links.ROOT / name).read_text(encoding="utf-8") for name in links.PROJECT}
    pages = {**api_pages.pages(), "decisions/index.md": index_of_decisions()}
    for file, text in origins.items():
        place = str(links.place_on_the_site(file))
        pages[place] = links.rewritten(text, origin=file, place=place)
    pages |= {str(links.place_on_the_site(file)): links.page_of(file) for file in links.shown_files(origins)}
    return pages


def with_metadata(place: str, text: str) -> str:
    """Return a page with what only the site needs to know about it."""
    metadata: dict[str, Any] = {}
    if place.startswith("source/"):  # files that pages show: what they are about is on those pages
        metadata["search"] = {"exclude": True}
    if place == "index.md":  # it leads everywhere by itself
        metadata["hide"] = ["navigation", "toc"]
    return f"---\n{yaml.safe_dump(metadata)}---\n\n{text}" if metadata else text


def configuration() -> str:
    """Return mkdocs.yml with the navigation filled in and its paths made absolute."""
    config = yaml.safe_load((links.ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config["nav"] = filled(config["nav"])
    config["docs_dir"] = "docs"
    config["site_dir"] = "site"
    options = next(plugin["mkdocstrings"] for plugin in config["plugins"] if isinstance(plugin, dict) and "mkdocstrings" in plugin)
    python = options["handlers"]["python"]
    python["paths"] = [str(links.ROOT / path) for path in python["paths"]]
    python["options"]["extensions"] = [str(links.ROOT / path) for path in python["options"]["extensions"]]
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def filled(entry: Any) -> Any:
    """Fill in the parts of the navigation that are written ``folder/``."""
    match entry:
        case list():
            return [filled(each) for each in entry]
        case dict():
            return {title: filled(each) for title, each in entry.items()}
        case "decisions/":
            return ["decisions/index.md", *(f"decisions/{file.name}" for file in sorted(DECISIONS.glob("0*.md")))]
        case "reference/api/":
            return list(api_pages.pages())
        case "project/":
            return list(links.PROJECT.values())
        case _:
            return entry


def index_of_decisions() -> str:
    """Return a page that lists the decisions."""
    lines = ["# Decisions\n", "What cost thought: the context, the choice, what it costs.\n"]
    files = sorted(DECISIONS.glob("0*.md"))
    lines += [f"* [{links.title_of(file.read_text(encoding='utf-8'))}]({file.name})" for file in files]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
