"""Take screenshots of the built site and of the README, as a phone and as a desktop show them, and check that nothing is cut off.

    python tools/site_screenshots.py [FOLDER]     build/screenshots by default; run `make docs` first

It needs Chromium (Debian's will do) and the dependency group ``browser``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import markdown
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "site"
PAGES = {
    "home": "index.html",
    "tutorial": "tutorial/first-server.html",
    "guide": "howto/install-in-a-host.html",
    "publish": "howto/publish-a-server.html",
    "command-line": "reference/cli.html",
    "rules": "reference/rules.html",
    "names": "reference/api/twopipes.html",
}
WIDTHS = {"phone": 390, "desktop": 1280}
# As a code forge shows a README: one column, tables and code that scroll by themselves.
README_STYLE = """
body { max-width: 860px; margin: 0 auto; padding: 24px; font: 16px/1.5 sans-serif; color: #1f2328; overflow-wrap: break-word }
img { max-width: 100% } table { display: block; overflow-x: auto; border-collapse: collapse }
td, th { border: 1px solid #d1d9e0; padding: 6px 13px }
pre { overflow-x: auto; background: #f6f8fa; padding: 16px } code { background: #f6f8fa; font-size: 85% }
"""

# The addresses that the search shows, the best first. Its elements are in shadow trees.
FOUND = """(() => {
  const found = []
  const walk = (root) => root.querySelectorAll("*").forEach((each) => {
    if (each.shadowRoot) { each.shadowRoot.querySelectorAll("a").forEach((link) => found.push(link.href)); walk(each.shadowRoot) }
  })
  walk(document)
  return found
})"""


def readme_page(folder: Path) -> Path:
    """Write the README as a page, with its pictures."""
    body = markdown.markdown((ROOT / "README.md").read_text(encoding="utf-8"), extensions=["tables", "fenced_code"])
    page = folder / "readme.html"
    page.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<base href='{ROOT.as_uri()}/'><title>README</title><style>{README_STYLE}</style>{body}",
        encoding="utf-8",
    )
    return page


def faults(page: Page) -> list[str]:
    """Return what is wrong with the layout of a page: it is wider than the window, or a picture is missing."""
    found = []
    width = page.evaluate("document.documentElement.scrollWidth")
    if width > page.viewport_size["width"]:
        found.append(f"it is {width} px wide")
    found += page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => 'no picture ' + i.src)")
    return found


def search_faults(page: Page) -> list[str]:
    """Return words for which the search finds a name of the reference before any guide."""
    found = []
    for word in ("progress", "install"):
        page.goto((SITE / "index.html").as_uri(), wait_until="load")
        page.keyboard.press("/")
        page.wait_for_function("document.activeElement.tagName !== 'BODY'")  # the field of the search has the focus
        page.keyboard.insert_text(word)
        page.wait_for_function(f"{FOUND}().length > 0", timeout=60_000)  # the index is loaded
        first = page.evaluate(f"{FOUND}()")[0]
        if not first.startswith(((SITE / "howto").as_uri(), (SITE / "tutorial").as_uri())):
            found.append(f"the search for {word} does not find a guide first")
    return found


def main(arguments: list[str]) -> int:
    """Run the program and return its exit code."""
    target = Path(arguments[0] if arguments else ROOT / "build" / "screenshots")
    target.mkdir(parents=True, exist_ok=True)
    chromium = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    problems = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        places = {name: SITE / path for name, path in PAGES.items()} | {"readme": readme_page(Path(folder))}
        for kind, width in WIDTHS.items():
            page = browser.new_page(viewport={"width": width, "height": 844 if kind == "phone" else 800})
            for name, file in places.items():
                page.goto(file.as_uri(), wait_until="load")
                page.screenshot(path=target / f"{name}-{kind}.png")
                problems += [f"{name} on a {kind}: {fault}" for fault in faults(page)]
            page.close()
        problems += search_faults(browser.new_page(viewport={"width": 1280, "height": 800}))
        browser.close()
    for problem in problems:
        print(problem)
    print(f"{len(places) * len(WIDTHS)} screenshots in {target}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
