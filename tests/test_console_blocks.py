"""The console blocks of the pages are true: their commands are run, and the output is compared."""

import importlib
import importlib.util
import re
import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("the commands of the pages are written for a POSIX shell", allow_module_level=True)

from twopipes import __version__
from twopipes._cli import COMMANDS, main
from twopipes._cli.command_parser import CommandParser

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
pytestmark = pytest.mark.walkthrough
PAGES = console_pages.pages()
AGAIN = "; run: .venv/bin/python tools/console "


def shows_commands(page):
    try:
        return any(block.is_run for block in console_pages.blocks(page.read_text(encoding="utf-8")))
    except console_pages.PageFault:
        return False


@pytest.mark.parametrize("page", PAGES, ids=console_pages.name)
def test_every_block_with_commands_has_a_mark(page):
    assert console_pages.faults(page) == []


@pytest.mark.timeout(console_sandbox.BOUND)  # the page of the command line has seventy commands
@pytest.mark.parametrize("page", [page for page in PAGES if shows_commands(page)], ids=console_pages.name)
def test_the_page_shows_the_output_of_its_commands(page):
    found = tool.findings(page, quick=True)
    assert not found, "\n".join(each.what for each in found) + AGAIN + console_pages.name(page)


# The commands that are not run, by the reason in the mark of their block. Add a new one only if it cannot be run.
# Blocks with the mark `slow` are run by `make console`, and not by `make walkthrough`.
NOT_RUN = {
    "installs packages; tests/test_readme_steps.py runs it": 4,
    "belongs to the steps above; tests/test_readme_steps.py runs it": 6,
    "installs packages; tests/test_readme_steps.py runs such commands": 3,
    "installs packages; .ci/run runs it": 2,
    "downloads wheels for every system; tests/interop/test_pack.py runs such commands": 6,
    "needs a server in the internet": 5,
    "needs an ssh server; tests/interop/test_ssh.py runs it": 1,
    "needs socat; tests/interop/test_ssh.py runs it": 1,
    "it serves until it is stopped; tests/processes/test_hub.py runs such commands": 1,
    "needs bubblewrap; tests/processes/test_sandbox.py runs such commands": 1,
    "needs Redis and nginx; make scale runs the same steps": 7,
    "needs FastMCP; tests/interop/test_migration.py runs it": 2,
    "needs the official SDK; tests/interop/test_migration.py runs it": 2,
    "ends with Ctrl-C; docs/howto/view-a-recording.md runs it": 1,
    "takes long; docs/howto/check-a-server.md runs such commands": 10,
}


def commands():
    """Return every command of the pages with its page and block."""
    for page in PAGES:
        for block in console_pages.blocks(page.read_text(encoding="utf-8")):
            if block.kind == "console":
                yield from ((page, block, step.command) for step in block.steps())


def test_every_command_that_is_not_run_is_listed_with_its_reason():
    reasons = Counter(block.why_not_run(command) for _, block, command in commands())
    run = reasons.pop("")
    assert reasons == NOT_RUN
    assert run > 4 * sum(NOT_RUN.values())


class Accepted(BaseException):
    """A command has read its words without an error."""


def words_of(command):
    """Return the words for `twopipes` in a line of a shell; none if it starts something else."""
    line = command.replace("\\\n", " ")
    words = shlex.split(line.rpartition(" | ")[2], comments=True)
    ends = [place for place, word in enumerate(words) if word in {">", "&", "&&"}]
    return words[1 : min(ends, default=None)] if words[:1] == ["twopipes"] else []


def commands_not_run():
    """Return the words of every command that a page shows and does not run, with its place."""
    for page, block, command in commands():
        if block.why_not_run(command) and (words := words_of(command)):
            yield pytest.param(words, id=f"{console_pages.name(page)}:{block.line}")


@pytest.mark.parametrize("words", list(commands_not_run()))
def test_a_command_that_is_not_run_has_options_that_exist(words, monkeypatch):
    def accepting(read):
        def reading(*arguments, **options):
            read(*arguments, **options)
            raise Accepted

        return reading

    module = importlib.import_module(f"twopipes._cli.{COMMANDS[words[0]][0]}")
    if hasattr(module, "read_words"):
        monkeypatch.setattr(module, "read_words", accepting(module.read_words))
    for name in ("parse_args", "parse_intermixed_args"):
        monkeypatch.setattr(CommandParser, name, accepting(getattr(CommandParser, name)))
    with pytest.raises(Accepted):
        main(words)


def test_an_option_that_does_not_exist_is_not_accepted(capsys):
    assert main(["keep", "--nosuch", "--", "true"]) == 2
    assert "--nosuch" in capsys.readouterr().err


# Pages about how things were have options that are gone.
HISTORY = {"CHANGELOG.md", "docs/howto/migrate-from-0.1.md"}


def options_in_the_text():
    """Return the options of every command that is written within a sentence or a table, by the command."""
    found = {}
    for page in PAGES:
        if console_pages.name(page) not in HISTORY:
            for command, words in re.findall(r"`twopipes ([a-z]+) ([^`\n]*)`", page.read_text(encoding="utf-8")):
                options = re.findall(r"(?<![\w-])--[a-z][a-z-]+", words.partition(" -- ")[0])
                found.setdefault(command, {}).update(dict.fromkeys(options, console_pages.name(page)))
    return {command: options for command, options in found.items() if options}


@pytest.mark.parametrize(("command", "options"), options_in_the_text().items())
def test_an_option_in_the_text_of_a_page_exists(command, options, capsys):
    assert main([command, "--help"]) == 0
    known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    assert {option: page for option, page in options.items() if option not in known} == {}


# The tool


@pytest.fixture
def sandbox(tmp_path):
    made = console_sandbox.Sandbox(tmp_path / "machine")
    yield made
    made.close()


@pytest.fixture
def page(tmp_path):
    """Write a page, and return its path."""

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
    [
        ("console what: x", "what is 'what: x'"),
        ("console not run:", "does not say why"),
        ("console x", "what is 'x'"),
        ("console skip: true", "skip has two parts"),
        ("console instead: 8000", "instead has two parts"),
    ],
)
def test_an_invalid_mark_is_a_fault(page, mark, why):
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


def test_a_command_may_span_lines_and_contain_a_file():
    (block,) = blocks("<!-- console -->\n```console\n$ echo a \\\n    b\na b\n$ cat <<'EOF'\nx\nEOF\nx\n```\n")
    first, second = block.steps()
    assert (first.command, first.shown) == ("echo a \\\n    b", ["a b"])
    assert (second.command, second.shown) == ("cat <<'EOF'\nx\nEOF", ["x"])


def test_the_lines_of_a_shell_block_are_commands_except_for_its_comments():
    (block,) = blocks("<!-- console -->\n```sh\n# Show both.\necho a\n\necho b  # the second\n```\n")
    assert [step.command for step in block.steps()] == ["echo a", "echo b  # the second"]


def test_a_block_in_a_list_is_read_and_written_with_its_indentation():
    text = "* item\n\n    <!-- console -->\n    ```console\n    $ echo a\n    b\n    ```\n"
    (block,) = blocks(text)
    assert block.body == ["$ echo a", "b"]
    assert console_pages.rewritten(text, {block.line: ["$ echo a", "a"]}) == text.replace("    b\n", "    a\n")


@pytest.mark.parametrize(
    ("shown", "output"),
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
def test_values_that_vary_between_runs_are_not_compared(shown, output):
    assert console_sameness.comparable([shown], version="0.1.0") == console_sameness.comparable([output], version="0.1.0")


@pytest.mark.parametrize(("shown", "output"), [("exit code 0", "exit code 1"), ("2025-11-25", "2025-06-18"), ("#3 hi", "#4 hi")])
def test_meaningful_differences_are_compared(shown, output):
    assert console_sameness.comparable([shown], version="0.1.0") != console_sameness.comparable([output], version="0.1.0")


def test_a_block_may_declare_varying_text_and_lines_in_any_order():
    def comparable(*lines):
        return console_sameness.comparable(lines, version="9", varies=["^slowest .*"], unordered=["closed"])

    assert comparable("slowest a", "x closed", "between", "y closed") == comparable("slowest b", "y closed", "between", "x closed")
    assert comparable("x closed") != comparable("z closed")


@pytest.mark.parametrize(
    ("shown", "output", "same"),
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
def test_three_dots_match_any_number_of_lines(shown, output, same):
    assert console_sameness.is_same(shown.split(), output.split()) is same


def test_commands_share_a_working_folder(sandbox):
    assert sandbox.run("mkdir x && cd x && export WORD=here && exit 3").code == 3
    assert sandbox.run("echo $? $WORD; pwd").lines == ["3 here", "/home/ada/x"]


def test_the_commands_use_our_python_and_program_only(sandbox):
    assert sandbox.run("command -v python3; echo $HOME").lines == ["/usr/local/bin/python3", "/home/ada"]
    output = sandbox.run("twopipes --version; python -c 'import twopipes, sys; print(sys.executable)'")
    assert output.lines == [f"twopipes {__version__}", "/usr/local/bin/python"]


def test_typed_input_is_shown_after_its_prompt(sandbox):
    output = sandbox.run("test -t 1; printf '> '; read a; printf '> '; read b; echo $a$b", terminal=80, types=["x", "y"])
    assert (output.lines, output.code) == (["> x", "> y", "xy"], 0)


def test_a_missing_prompt_is_a_failure(sandbox):
    with pytest.raises(console_sandbox.CommandFailed, match="no prompt"):
        sandbox.run("echo hello", terminal=80, types=["x"])


def test_ctrl_c_is_sent_when_a_text_appears(sandbox):
    output = sandbox.run('python -c \'print("ready"); input_ = __import__("signal").pause()\'', interrupt="ready")
    assert output.lines[0] == "ready"
    assert output.code != 0


SERVING_PAGE = """\
```python
from twopipes import Server

server = Server("hello")
server.tool(lambda: "hi", name="greet")
```

<!-- console
python: server.py
instead: 8000 => {port}
-->
```console
$ twopipes run server.py --tcp 127.0.0.1:8000
hello listens on tcp 127.0.0.1:8000
$ twopipes call greet --tcp 127.0.0.1:8000
hi
```
"""


def test_a_server_at_an_address_runs_until_the_page_ends(page, capsys):
    assert tool.main(["--check", str(page(SERVING_PAGE))]) == 0
    assert tool.main(["--check", str(page(SERVING_PAGE.replace("\nhi\n", "\nho\n")))]) == 1
    assert "-ho\n" in capsys.readouterr().out


def test_a_server_that_does_not_listen_is_a_failure(page, capsys):
    path = page("<!-- console serve: twopipes run nosuch.py --tcp 127.0.0.1:0 -->\n```console\n$ true\n```\n")
    assert tool.main(["--check", str(path)]) == 1
    assert "nosuch.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("twopipes run server.py", "stdio"),
        ("twopipes run server.py --http 8000", "address"),
        ("twopipes bridge --unix /s.sock -- python server.py", "address"),
        ("twopipes keep -- python server.py --http 8000", "stdio"),
        ("twopipes keep status", ""),
        ("twopipes list --unix /s.sock", ""),
        ("echo twopipes run server.py", ""),
    ],
)
def test_the_commands_that_serve_are_known(command, kind):
    assert console_sandbox.serves(command) == kind


def test_a_launcher_starts_the_server_of_the_folder(sandbox):
    sandbox.add_launchers(["npx"])
    assert sandbox.run("echo 'print(1)' > server.py; npx -y some-server").lines == ["1"]


def test_a_replaced_text_is_not_seen_in_the_output(sandbox):
    sandbox.replace("/run/", "{root}/run/")
    assert sandbox.run("mkdir /run/ && cd /run/ && pwd && ls /run").lines[0] == "/run"
    assert (sandbox.root / "run").is_dir()


def test_a_skipped_command_is_not_run(page, tmp_path):
    mark = "skip: mark: it leaves a file\noutput: none"
    path = page(f"<!-- console\n{mark}\n-->\n```console\n$ touch {tmp_path}/mark\n$ touch {tmp_path}/other\n```\n")
    assert tool.main(["--check", str(path)]) == 0
    assert not (tmp_path / "mark").exists()
    assert (tmp_path / "other").exists()


def test_a_hidden_command_must_succeed(sandbox):
    with pytest.raises(console_sandbox.CommandFailed, match="ended with 7"):
        sandbox.run_hidden("exit 7")


def test_background_processes_end_with_the_page(sandbox):
    output = sandbox.run("sleep 600 & echo $!")
    sandbox.close()
    assert sandbox.run(f"while kill -0 {output.lines[0]} 2>/dev/null; do sleep 0.05; done; echo gone").lines == ["gone"]


def test_overwritten_output_is_not_shown():
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


def test_an_unexpected_exit_code_is_reported(page, capsys):
    path = page("<!-- console\noutput: none\nexits: 0 1\n-->\n```console\n$ false\n$ false\n```\n")
    assert tool.main(["--check", str(path)]) == 1
    assert "false ended with 1, not with 0" in capsys.readouterr().out


def test_a_slow_block_is_left_out_of_the_quick_check(page):
    path = page("<!-- console slow: it thinks -->\n```console\n$ echo a\nb\n```\n")
    assert tool.main(["--check", "--quick", str(path)]) == 0
    assert tool.main(["--check", str(path)]) == 1
