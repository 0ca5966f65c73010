"""What the pages show of the command line is what it says: their commands are run, and the output is compared."""

import importlib.util
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("the commands of the pages are written for a POSIX shell", allow_module_level=True)

from twopipes import __version__

TOOL = Path(__file__).parents[1] / "tools" / "console"


def load(file, name):
    spec = importlib.util.spec_from_file_location(name, TOOL / file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# Imported under the names that they use for each other.
console_pages, console_sameness, console_sandbox = (
    load(f"{name}.py", name) for name in ("console_pages", "console_sameness", "console_sandbox")
)
tool = load("__main__.py", "console_tool")
PAGES = console_pages.pages()
AGAIN = "; run: .venv/bin/python tools/console "


def shows_commands(page):
    try:
        return any(block.is_run for block in console_pages.blocks(page.read_text(encoding="utf-8")))
    except console_pages.PageFault:
        return False


@pytest.mark.parametrize("page", PAGES, ids=console_pages.name)
def test_every_block_that_shows_commands_says_how_it_is_run_or_why_it_is_not(page):
    assert console_pages.faults(page) == []


@pytest.mark.walkthrough
@pytest.mark.parametrize("page", [page for page in PAGES if shows_commands(page)], ids=console_pages.name)
def test_the_page_shows_what_the_commands_say(page):
    found = tool.findings(page, quick=True)
    assert not found, "\n".join(each.what for each in found) + AGAIN + console_pages.name(page)


# The tool


@pytest.fixture
def sandbox(tmp_path):
    made = console_sandbox.Sandbox(tmp_path / "machine")
    yield made
    made.close()


@pytest.fixture
def page(tmp_path):
    """Writes a page, and returns its path."""

    def write(text):
        path = tmp_path / "page.md"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def blocks(text):
    return console_pages.blocks(text)


def test_a_mark_belongs_to_the_block_right_below_it():
    first, second = blocks("<!-- console -->\n```console\n$ true\n```\n\n```console\n$ true\n```\n")
    assert (first.kind, first.line) == ("console", 2)
    assert (second.kind, second.line) == ("", 6)


def test_a_mark_has_options_on_one_line_or_on_several():
    (block,) = blocks("<!-- console in: there -->\n```console\n$ true\n```\n")
    assert block.options == {"in": ["there"]}
    (block,) = blocks("<!-- console\nin: there\nbefore: a: b\nbefore: c\n-->\n```console\n$ true\n```\n")
    assert block.options == {"in": ["there"], "before": ["a: b", "c"]}
    (block,) = blocks("<!-- console not run: there is no docker here -->\n```console\n$ true\n```\n")
    assert not block.is_run


@pytest.mark.parametrize(
    ("mark", "why"),
    [("console what: x", "what is 'what: x'"), ("console not run:", "does not say why"), ("console x", "what is 'x'")],
)
def test_a_mark_that_makes_no_sense_is_a_fault(page, mark, why):
    (fault,) = console_pages.faults(page(f"<!-- {mark} -->\n```console\n$ true\n```\n"))
    assert why in fault


@pytest.mark.parametrize("language", ["console", "text", "sh"])
def test_commands_without_a_mark_are_a_fault(page, language):
    (fault,) = console_pages.faults(page(f"Text.\n\n```{language}\n$ true\n```\n"))
    assert "line 3: this block shows commands and has no mark" in fault


def test_other_blocks_need_no_mark(page):
    assert console_pages.faults(page("```text\n+--+\n```\n\n```python\nprint()\n```\n")) == []


def test_output_before_any_command_is_a_fault(page):
    (fault,) = console_pages.faults(page("<!-- console -->\n```console\nhello\n```\n"))
    assert "a block begins with a command" in fault


def test_a_command_may_go_on_over_lines_and_hold_a_file():
    (block,) = blocks("<!-- console -->\n```console\n$ echo a \\\n    b\na b\n$ cat <<'EOF'\nx\nEOF\nx\n```\n")
    first, second = block.steps()
    assert (first.command, first.shown) == ("echo a \\\n    b", ["a b"])
    assert (second.command, second.shown) == ("cat <<'EOF'\nx\nEOF", ["x"])


def test_a_block_in_a_list_is_read_and_written_with_its_indentation():
    text = "* item\n\n    <!-- console -->\n    ```console\n    $ echo a\n    b\n    ```\n"
    (block,) = blocks(text)
    assert block.body == ["$ echo a", "b"]
    assert console_pages.rewritten(text, {block.line: ["$ echo a", "a"]}) == text.replace("    b\n", "    a\n")


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ("started in 14 ms; after 30 ms", "started in 3.5 ms; after 1.2 s"),
        ("    0.009  = the server was started, pid 15411", "    1.234  = the server was started, pid 7"),
        (
            "recorded by tap 0.1.0 · Linux 6.18 x86_64, cpython 3.11.7",
            "recorded by tap 0.1.0 · Linux 5.4.0-x aarch64, cpython 3.13.1",
        ),
        ("/traces/20261116T141914Z-python-15408.jsonl", "/traces/20270101T000000Z-python-1.jsonl"),
        ("a link to /usr/local/bin/python3.11", "a link to /usr/local/bin/python3.13"),
        ("a   10 MB", "a 9 MB"),
        ("=========== 2 passed in 0.10s ===========", "====== 2 passed in 12.34s ======"),
    ],
)
def test_what_another_run_would_say_otherwise_is_the_same(shown, said):
    assert console_sameness.comparable([shown], version="0.1.0") == console_sameness.comparable([said], version="0.1.0")


@pytest.mark.parametrize(("shown", "said"), [("exit code 0", "exit code 1"), ("2025-11-25", "2025-06-18"), ("#3 hi", "#4 hi")])
def test_what_means_something_is_compared(shown, said):
    assert console_sameness.comparable([shown], version="0.1.0") != console_sameness.comparable([said], version="0.1.0")


def test_what_a_block_says_that_varies_is_not_compared_and_lines_may_change_places():
    def comparable(*lines):
        return console_sameness.comparable(lines, version="9", varies=["^slowest .*"], unordered=["closed"])

    assert comparable("slowest a", "x closed", "between", "y closed") == comparable("slowest b", "y closed", "between", "x closed")
    assert comparable("x closed") != comparable("z closed")


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("a b", "a b", True),
        ("a b", "a b c", False),
        ("a ...", "a b c", True),
        ("... c", "a b c", True),
        ("a ... c", "a c", True),
        ("a ... c", "a b", False),
        ("a ... b ... d", "a x b y d", True),
        ("a ... b ... d", "a x y d", False),
        ("a ... a", "a", False),
        ("a{...} b", "a{x} b", True),
        ("a{...} b", "a{x b", False),
    ],
)
def test_three_dots_stand_for_any_number_of_lines(shown, said, same):
    assert console_sameness.is_same(shown.split(), said.split()) is same


def test_the_next_command_begins_where_the_last_one_ended(sandbox):
    assert sandbox.run("mkdir x && cd x && export WORD=here && exit 3").code == 3
    assert sandbox.run("echo $? $WORD; pwd").lines == ["3 here", "/home/ada/x"]


def test_the_commands_have_a_python_and_our_program_and_nothing_of_this_machine(sandbox):
    assert sandbox.run("command -v python3; echo $HOME").lines == ["/usr/local/bin/python3", "/home/ada"]
    said = sandbox.run("twopipes --version; python -c 'import twopipes, sys; print(sys.executable)'")
    assert said.lines == [f"twopipes {__version__}", "/usr/local/bin/python"]


def test_what_is_typed_at_a_terminal_is_shown_where_it_was_asked_for(sandbox):
    said = sandbox.run("test -t 1; printf '> '; read a; printf '> '; read b; echo $a$b", terminal=80, types=["x", "y"])
    assert (said.lines, said.code) == (["> x", "> y", "xy"], 0)


def test_a_prompt_that_never_comes_is_a_failure(sandbox):
    with pytest.raises(console_sandbox.CommandFailed, match="no prompt"):
        sandbox.run("echo hello", terminal=80, types=["x"])


def test_ctrl_c_comes_when_something_is_seen(sandbox):
    said = sandbox.run('python -c \'print("ready"); input_ = __import__("signal").pause()\'', interrupt="ready")
    assert said.lines[0] == "ready"
    assert said.code != 0


def test_a_hidden_command_has_to_work(sandbox):
    with pytest.raises(console_sandbox.CommandFailed, match="ended with 7"):
        sandbox.run_hidden("exit 7")


def test_what_runs_in_the_background_is_ended_with_the_page(sandbox):
    said = sandbox.run("sleep 600 & echo $!")
    sandbox.close()
    assert sandbox.run(f"while kill -0 {said.lines[0]} 2>/dev/null; do sleep 0.05; done; echo gone").lines == ["gone"]


def test_what_was_painted_over_is_not_shown():
    assert console_sandbox.on_the_screen("ask\r\n\x1b[?25l1/2 50%\r\n\x1b[1A\x1b[2Kdone\x1b[0m\r\n") == "ask\ndone\n"
    assert console_sandbox.on_the_screen("10%\r100%") == "100%"


PAGE = """\
```python
def hello():
    print("Hello, page!")
```

<!-- console python: hello.py -->
```console
$ python -c 'import hello; hello.hello()'
Bye!
$ false
$ echo $?
1
```

```python
hello()
```

<!-- printed -->
```text
Bye!
```
"""


def test_a_page_is_rewritten_once_and_then_left_alone(page, capsys):
    path = page(PAGE)
    assert tool.main(["--check", str(path)]) == 1
    assert path.read_text() == PAGE
    assert "+Hello, page!" in capsys.readouterr().out
    assert tool.main([str(path)]) == 0
    assert path.read_text() == PAGE.replace("\nBye!", "\nHello, page!")
    assert tool.main(["--check", str(path)]) == 0


def test_a_page_whose_commands_do_not_end_as_it_says_is_told(page, capsys):
    path = page("<!-- console\noutput: none\nexits: 0 1\n-->\n```console\n$ false\n$ false\n```\n")
    assert tool.main(["--check", str(path)]) == 1
    assert "false ended with 1, not with 0" in capsys.readouterr().out


def test_a_slow_block_is_left_out_of_the_quick_check(page):
    path = page("<!-- console slow: it thinks -->\n```console\n$ echo a\nb\n```\n")
    assert tool.main(["--check", "--quick", str(path)]) == 0
    assert tool.main(["--check", str(path)]) == 1
