"""Rank guides above wire types in the search of the built site. Run by ``make docs``.

The search prefers titles and short texts, and has no setting for the rank of a page. Names of the reference have both, so a word
such as `progress` would find a dozen types before the guide that explains them. Here the types of the wire become one entry for
their page, and the title of every other name becomes that of its module, with the name in the text.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SITE = Path(__file__).resolve().parents[2] / "site"
_REFERENCE = "reference/api/"
# Pages about what is on the wire.
_WIRE = ("reference/api/types.html", "reference/api/sansio.html")
_SCRIPT = "var __index = "
# The order of the kinds of pages, for results that are equally good.
_ORDER = ["tutorial/", "howto/", "index.html", "explanation/", "reference/", "decisions/", "project/", _REFERENCE]


def ranked(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of the index in the order of their rank."""
    pages = {place: [item for item in items if item["location"].startswith(f"{place}#")] for place in _WIRE}
    kept = [item for item in items if item["location"].partition("#")[0] not in _WIRE]
    for place, parts in pages.items():
        page = next(item for item in items if item["location"] == place)
        kept.append({**page, "text": f"<p>{' '.join(part['title'] for part in parts)}</p>"})
    return [_entry(item) for item in sorted(kept, key=lambda item: _rank(item["location"]))]


def _rank(location: str) -> int:
    kinds = [kind for kind in _ORDER if location.startswith(kind)]
    return _ORDER.index(max(kinds, key=len)) if kinds else len(_ORDER)


def _entry(item: dict[str, Any]) -> dict[str, Any]:
    page, _, anchor = item["location"].partition("#")
    if not page.startswith(_REFERENCE) or not anchor:
        return item
    module = page.removeprefix(_REFERENCE).removesuffix(".html")
    shown = "twopipes" if module == "twopipes" else f"twopipes.{module}"
    return {**item, "title": shown, "text": f"<p>{item['title']}</p>{item['text']}"}


def main() -> int:
    """Run the program and return its exit code."""
    index = json.loads((SITE / "search.json").read_text(encoding="utf-8"))
    index["items"] = ranked(index["items"])
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (SITE / "search.json").write_text(text, encoding="utf-8")
    # The same for pages that are opened from the disk.
    (SITE / "search.js").write_text(f"{_SCRIPT}{text};", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
