"""Run every Python block of the documentation, in the order of its page, and check every link to a file of the project.

``make docs`` builds the site and fails on any warning. These tests check what can be checked without building it.
"""

import ast
import asyncio
import importlib
import importlib.util
import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest

import twopipes
from twopipes import host, types
from twopipes._protocol.revisions import ERROR_CODES
from twopipes._rules.table import RULES

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.walkthrough
@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))], ids=name)
def test_the_python_of_the_page_runs(page, monkeypatch):
    monkeypatch.chdir(ROOT)  # the pages use paths relative to it
    text = page.read_text(encoding="utf-8")
    names = {"__name__": "documentation"}
    with asyncio.Runner() as loop:
        for block in BLOCK.finditer(text):
            # Pad with newlines, so that a traceback shows the line number of the page.
            source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
            code = compile(source, name(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            outcome = eval(code, names)
            if code.co_flags & inspect.CO_COROUTINE:  # as in `python -m asyncio`
                loop.run(asyncio.wait_for(outcome, 60))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_of_the_page_have_a_target(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


def words_of(page):
    return set(re.findall(r"\w+", (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")))


def test_the_reference_has_every_public_name():
    assert set(twopipes.__all__) <= words_of("names.md") | words_of("errors.md")


@pytest.mark.parametrize(
    "kind", [twopipes.Client, twopipes.CallResult, twopipes.Subscription, types.InputRequired, types.Elicitation]
)
def test_the_reference_of_the_client_has_every_member(kind):
    internal = {"acknowledged", "attach", "changed", "detach", "ended", "fail", "lost", "notified", "pause", "reopened"}
    assert {each for each in dir(kind) if not each.startswith("_")} - internal <= words_of("client.md")


@pytest.mark.parametrize(
    "function", [twopipes.connect, twopipes.Client.call_tool, twopipes.Client.read_resource, twopipes.Client.complete]
)
def test_the_reference_of_the_client_has_every_parameter(function):
    assert set(inspect.signature(function).parameters) - {"self"} <= words_of("client.md")


HOST_TYPES = [getattr(host, name) for name in host.__all__ if isinstance(getattr(host, name), type) and name != "Sandbox"]


@pytest.mark.parametrize("kind", HOST_TYPES)
def test_the_reference_of_the_host_has_every_member_and_parameter(kind):
    parameters = set() if kind is host.GroupServer else set(inspect.signature(kind).parameters)  # users do not create it
    members = {each for each in dir(kind) if not each.startswith("_")} - set(api_pages.INTERNAL.get(kind.__name__, ()))
    assert members | parameters <= words_of("host.md")


@pytest.mark.parametrize("function", [host.load, host.ServerGroup.call, host.anthropic_result, host.openai_result])
def test_the_reference_of_the_host_has_every_parameter_of_its_functions(function):
    assert set(inspect.signature(function).parameters) - {"self"} <= words_of("host.md")


# The site


def load(file):
    # `links` alone could hide another module of that name.
    spec = importlib.util.spec_from_file_location(f"site_{Path(file).stem}", ROOT / "tools" / file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


api_pages, links, reference_pages = load("site/api_pages.py"), load("site/links.py"), load("reference_pages.py")
NAVIGATION = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_navigation_has_every_page_once():
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")}
    by_folder = {page for page in pages if page.startswith("decisions/")}  # tools/site/prepare.py adds them
    assert sorted(NAVIGATION) == sorted(pages - by_folder)


@pytest.mark.parametrize("page", reference_pages.PAGES)
def test_a_generated_page_is_up_to_date(page):
    written = (reference_pages.REFERENCE / page).read_text(encoding="utf-8")
    assert written == reference_pages.PAGES[page](), "run: .venv/bin/python tools/reference_pages.py"


def test_every_setting_has_a_reason():
    for group in reference_pages.groups():
        for field in reference_pages.fields_of(group):
            assert field.reason, f"{group.__name__}.{field.name}"


def test_every_error_code_has_a_row():
    rows = re.findall(r"^\| (-\d+) \|", (ROOT / "docs" / "reference" / "error-codes.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(code) for code in rows} == set(ERROR_CODES) - {-32020}  # a sentence below the table describes it


def test_every_command_has_a_column_in_the_table_of_exit_codes():
    words = words_of("exit-codes.md")
    assert set(reference_pages.COMMANDS) <= words


def test_every_public_module_has_its_page_in_the_generated_reference():
    package = ROOT / "src" / "twopipes"
    public = {path.stem for path in package.iterdir() if not path.name.startswith("_") and path.name != "py.typed"}
    assert set(api_pages.TITLES) == {"twopipes", *(f"twopipes.{name}" for name in public)}


def test_every_public_name_is_in_the_index():
    index = (ROOT / "docs" / "reference" / "names.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", index))
    assert {identifier.rpartition(".")[2] for identifier in api_pages.identifiers()} <= words
    assert "twopipes._" not in index


FOR_USERS = [
    *PAGES,
    *ROOT.glob("examples/**/*.py"),
    *ROOT.glob("src/twopipes/_tools/scaffold/**/*.txt"),
]


@pytest.mark.parametrize("page", [page for page in FOR_USERS if "decisions" not in page.parts], ids=name)
def test_nothing_for_users_imports_a_private_module(page):
    private = re.compile(r"^\s*(from|import) twopipes(\.\w+)*\._|^\s*from twopipes import _[a-z]")
    assert [line for line in page.read_text(encoding="utf-8").splitlines() if private.search(line)] == []


@pytest.mark.parametrize("identifier", sorted(set(api_pages.identifiers())))
def test_every_entry_of_the_reference_exists(identifier):
    module, _, name = identifier.rpartition(".")
    getattr(importlib.import_module(module), name)


def test_every_member_left_out_of_the_reference_exists():
    for kind, names in api_pages.INTERNAL.items():
        for each in names:
            assert hasattr(getattr(twopipes, kind, None) or getattr(host, kind), each), f"{kind}.{each}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_list_has_a_blank_line_before_it(page):
    """Without a blank line, a code forge shows a list, but the site shows a paragraph."""
    before = ""

    def look(line):
        nonlocal before
        begins = re.match(r" *([*-]|\d+\.) ", line)
        goes_on = re.match(r" *([*-]|\d+\.) | +\S", before)
        assert not begins or not before.strip() or goes_on, line
        before = line
        return line

    links.outside_of_code(page.read_text(encoding="utf-8"), look)


@pytest.mark.parametrize(
    ("target", "place", "leads_to"),
    [
        ("../../examples/hello.py", "tutorial/a.md", "../source/examples/hello.py.md"),
        ("../../examples", "tutorial/a.md", "../source/examples/index.md"),
        ("../decisions", "tutorial/a.md", "../decisions/index.md"),
        ("../../README.md", "tutorial/a.md", "../index.md"),
        ("../../CONTRIBUTING.md#decisions", "tutorial/a.md", "../project/contributing.md#decisions"),
        ("first-client.md#one", "tutorial/a.md", "first-client.md#one"),
        ("#below", "tutorial/a.md", "#below"),
        ("https://example.com/a.md", "tutorial/a.md", "https://example.com/a.md"),
        ("../../nowhere.py", "tutorial/a.md", "../../nowhere.py"),
    ],
)
def test_a_link_of_a_page_has_the_same_target_on_the_site(target, place, leads_to):
    text = f"See [`this`]({target}).\n\n```text\n[this]({target})\n```\n"
    expected = f"See [`this`]({leads_to}).\n\n```text\n[this]({target})\n```\n"
    assert links.rewritten(text, origin=ROOT / "docs" / place, place=place) == expected


def test_the_links_of_a_page_in_the_root_folder_are_rewritten_for_the_site():
    text = "[here](docs/howto/run-a-server.md), [there](docs/decisions), ![picture](docs/images/view-terminal.png)"
    assert links.rewritten(text, origin=ROOT / "CONTRIBUTING.md", place="project/contributing.md") == (
        "[here](../howto/run-a-server.md), [there](../decisions/index.md), ![picture](../images/view-terminal.png)"
    )


def test_a_link_whose_label_spans_lines_is_rewritten_for_the_site():
    text = "See ([what was\ntested](docs/howto/windows.md)): it works."
    rewritten = links.rewritten(text, origin=ROOT / "SECURITY.md", place="project/security.md")
    assert rewritten == "See ([what was\ntested](../howto/windows.md)): it works."


def test_a_linked_folder_is_shown_with_its_files():
    shown = links.shown_files({ROOT / "docs" / "a.md": "[all](../examples)"})
    assert {ROOT / "examples", ROOT / "examples" / "hello.py"} <= set(shown)
    assert "* [`hello.py`](hello.py.md)" in links.page_of(ROOT / "examples")
    assert "from twopipes import Server" in links.page_of(ROOT / "examples" / "hello.py")


def test_every_rule_of_the_table_of_the_official_suite_exists():
    table = tomllib.loads((ROOT / "tools" / "official_suite.toml").read_text(encoding="utf-8"))
    for names in [*table["server"].values(), *table["client"].values(), *(names for _, names in table["seps"].values())]:
        assert list(reference_pages.expanded(names))
    with pytest.raises(KeyError, match="unknown"):
        list(reference_pages.expanded(["unknown"]))
    with pytest.raises(KeyError, match="XX"):
        list(reference_pages.expanded(["XX"]))


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_scenario_names_rules_that_bind_its_side(side):
    table = tomllib.loads((ROOT / "tools" / "official_suite.toml").read_text(encoding="utf-8"))
    for scenario, names in table[side].items():
        assert all(RULES[rule].binds(side) for rule in reference_pages.expanded(names)), scenario
