"""Hooks for mkdocs: pages from elsewhere in the repository, generated pages, and the links to them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import api_pages
import links
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

DECISIONS = links.DOCS / "decisions"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the parts of the navigation that are written ``folder/``."""
    config.nav = _filled(config.nav)
    return config


def _filled(entry: Any) -> Any:
    match entry:
        case list():
            return [_filled(each) for each in entry]
        case dict():
            return {title: _filled(each) for title, each in entry.items()}
        case "decisions/":
            return ["decisions/index.md", *(f"decisions/{file.name}" for file in sorted(DECISIONS.glob("0*.md")))]
        case "reference/api/":
            return list(api_pages.pages())
        case "project/":
            return [place for name, place in links.PROJECT.items() if (links.ROOT / name).is_file()]
        case _:
            return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    made = dict(api_pages.pages())
    made["decisions/index.md"] = _index_of_decisions()
    origins = {Path(file.abs_src_path): file.content_string for file in files.documentation_pages() if file.abs_src_path}
    for name, place in links.PROJECT.items():
        if (links.ROOT / name).is_file():
            made[place] = (links.ROOT / name).read_text(encoding="utf-8")
            origins[links.ROOT / name] = made[place]
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    for file in links.shown_files(origins):
        place = links.place_on_the_site(file)
        files.append(File.generated(config, str(place), content=links.page_of(file), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links to files of the repository into links to the pages that show them."""
    place = page.file.src_uri
    if place == "index.md":  # it leads everywhere by itself
        page.meta["hide"] = ["navigation"]
    from_the_root = {place: links.ROOT / name for name, place in links.PROJECT.items()}
    if place in from_the_root:
        return links.rewritten(markdown, origin=from_the_root[place], place=place)
    if page.file.generated_by:
        return markdown
    return links.rewritten(markdown, origin=links.DOCS / place, place=place)


def _index_of_decisions() -> str:
    lines = ["# Decisions\n", "What cost thought: the context, the choice, what it costs.\n"]
    files = sorted(DECISIONS.glob("0*.md"))
    lines += [f"* [{links.title_of(file.read_text(encoding='utf-8'))}]({file.name})" for file in files]
    return "\n".join(lines) + "\n"
