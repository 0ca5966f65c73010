"""The documentation is run: every Python block, in the order of its page, and every link to a file of the project."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

import twopipes

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=name)
def test_the_python_of_the_page_runs(page, monkeypatch):
    monkeypatch.chdir(ROOT)  # from where the pages name the examples
    text = page.read_text()
    names = {"__name__": "documentation"}
    with asyncio.Runner() as loop:
        for block in BLOCK.finditer(text):
            # Padded with newlines, so that a failure names the line of the page.
            source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
            code = compile(source, name(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            outcome = eval(code, names)
            if code.co_flags & inspect.CO_COROUTINE:  # as one types it into `python -m asyncio`
                loop.run(asyncio.wait_for(outcome, 60))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_of_the_page_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


def words_of(page):
    return set(re.findall(r"\w+", (ROOT / "docs" / "reference" / page).read_text()))


def test_the_reference_has_every_public_name():
    assert set(twopipes.__all__) <= words_of("names.md") | words_of("errors.md")


@pytest.mark.parametrize(
    "kind", [twopipes.Client, twopipes.CallResult, twopipes.Subscription, twopipes.InputRequired, twopipes.Elicitation]
)
def test_the_reference_of_the_client_has_every_member(kind):
    for_others = {"acknowledged", "attach", "detach", "ended", "fail", "hear", "lost", "notified", "reopened"}
    assert {each for each in dir(kind) if not each.startswith("_")} - for_others <= words_of("client.md")


@pytest.mark.parametrize(
    "function", [twopipes.connect, twopipes.Client.call_tool, twopipes.Client.read_resource, twopipes.Client.complete]
)
def test_the_reference_of_the_client_has_every_parameter(function):
    assert set(inspect.signature(function).parameters) - {"self"} <= words_of("client.md")
