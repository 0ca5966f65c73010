"""The documentation is run: every Python block, in the order of its page, and every link to a file of the project."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=name)
def test_the_python_of_the_page_runs(page):
    text = page.read_text()
    names = {"__name__": "documentation"}
    for block in BLOCK.finditer(text):
        # Padded with newlines, so that a failure names the line of the page.
        source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(source, name(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_of_the_page_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target
