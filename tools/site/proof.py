"""Check the built site: every public name has an entry, and no page loads anything from elsewhere. Run by ``make docs``."""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import api_pages

SITE = api_pages.ROOT / "site"
# What a browser loads by itself; links do not count.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preconnect|preload|dns-prefetch|icon))[^>]*\bhref=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|@import\s+(?:url\()?[\"']?((?:https?:)?//[^\"')\s]+)"
    r"|url\([\"']?((?:https?:)?//[^\"')\s]+)"
)


def inventory(site: Path = SITE) -> set[str]:
    """The names that have an entry, as other sites would link to them."""
    data = (site / "objects.inv").read_bytes()
    listed = zlib.decompress(data.split(b"\n", 4)[4]).decode()
    return {line.split(" ", 1)[0] for line in listed.splitlines() if line}


def fetched(site: Path = SITE) -> list[str]:
    """Return what pages and style sheets would load from other places."""
    found = []
    for file in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        text = file.read_text(encoding="utf-8")
        # A picture within a style sheet names the namespace of SVG, which is not loaded.
        for match in _FETCHED.finditer(re.sub(r"url\([\"']?data:[^)]*\)", "", text)):
            address = next(group for group in match.groups() if group)
            found.append(f"{file.relative_to(site)}: {address}")
    return found


def main() -> int:
    """Run the program and return its exit code."""
    missing = sorted(set(api_pages.identifiers()) - inventory())
    elsewhere = fetched()
    for name in missing:
        print(f"{name} has no entry in the reference")
    for what in elsewhere:
        print(f"{what} would be loaded from elsewhere")
    return 1 if missing or elsewhere else 0


if __name__ == "__main__":
    sys.exit(main())
