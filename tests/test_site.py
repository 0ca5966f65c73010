"""The sources of the documentation site, and the order of its search."""

import importlib.util
import sys
from pathlib import Path

import pytest
import yaml

SITE = Path(__file__).parents[1] / "tools" / "site"


def load(name):
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def prepare():
    path = list(sys.path)
    yield load("prepare")
    sys.path[:] = path


def test_every_page_of_the_navigation_is_written(prepare):
    def places(entry):
        if isinstance(entry, str):
            return {entry}
        values = entry.values() if isinstance(entry, dict) else entry
        return {place for value in values for place in places(value)}

    wanted = places(yaml.safe_load(prepare.configuration())["nav"])
    assert len(wanted) > 100
    assert wanted <= prepare.all_pages().keys()


def test_files_of_the_repository_have_pages_that_the_search_leaves_out(prepare):
    pages = prepare.all_pages()
    shown = [place for place in pages if place.startswith("source/")]
    assert "source/examples/everything.py.md" in shown
    assert prepare.with_metadata(shown[0], "text") == "---\nsearch:\n  exclude: true\n---\n\ntext"
    assert prepare.with_metadata("howto/keep.md", "text") == "text"
    assert "](../project/changelog.md" in pages["project/contributing.md"] or "](changelog.md" in pages["project/contributing.md"]


def entry(location, title):
    return {"location": location, "title": title, "text": "<p>about it</p>"}


def test_guides_come_before_names_and_wire_types_are_one_entry():
    items = [
        entry("reference/api/types.html", "Types"),
        entry("reference/api/types.html#twopipes.types.ProgressParams", "ProgressParams"),
        entry("reference/api/types.html#twopipes.types.Tool", "Tool"),
        entry("reference/api/twopipes.html#twopipes.Context.progress", "progress"),
        entry("reference/api/sansio.html", "Sessions without I/O"),
        entry("reference/rules.html#progress", "Progress (PR)"),
        entry("tutorial/long-work.html", "Long-running tools"),
    ]
    found = load("search_ranks").ranked(items)
    assert [item["location"] for item in found] == [
        "tutorial/long-work.html",
        "reference/rules.html#progress",
        "reference/api/twopipes.html#twopipes.Context.progress",
        "reference/api/types.html",
        "reference/api/sansio.html",
    ]
    assert (found[2]["title"], found[2]["text"]) == ("twopipes", "<p>progress</p><p>about it</p>")
    assert found[3]["text"] == "<p>ProgressParams Tool</p>"
