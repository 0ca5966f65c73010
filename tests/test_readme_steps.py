"""The README's first steps, copied from it literally and done in an empty folder, as a newcomer does them."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the steps are typed into a POSIX shell")

TOOL = Path(__file__).parents[1] / "tools" / "readme_steps.py"


def load():
    spec = importlib.util.spec_from_file_location("readme_steps", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before  # its neighbours have plain names
    return module


tool = load()
STEPS = tool.steps_of(tool.README.read_text(encoding="utf-8"))


@pytest.fixture
def empty(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.mark.walkthrough
def test_the_steps_work_with_the_twopipes_of_this_checkout(empty, tmp_path):
    tool.follow(STEPS, empty, tool.environment_here(tmp_path), here=True)


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_the_steps_work_from_nothing_but_a_python(empty, tmp_path):
    """As on a clean machine: the wheel, and what it needs from the registry."""
    wheel = tool.build_wheel(tmp_path / "wheels")
    tool.follow(STEPS, empty, tool.fresh_environment(tmp_path, wheel.parent))
    tool.check_installed(wheel, empty)


def test_they_install_write_a_server_and_a_client_and_run_both():
    files = {step.name: step.content for step in STEPS if isinstance(step, tool.File)}
    commands = [step.text for step in STEPS if isinstance(step, tool.Command)]
    assert {"server.py", "client.py"} <= set(files)
    assert "pip install twopipes" in commands
    assert any(command.startswith("twopipes doctor") for command in commands)


@pytest.mark.parametrize(("name", "most"), [("server.py", 10), ("client.py", 6)])
def test_a_server_has_ten_lines_and_a_client_six(name, most):
    (content,) = [step.content for step in STEPS if isinstance(step, tool.File) and step.name == name]
    assert len([line for line in content.splitlines() if line.strip()]) <= most


PAGE = """\
# Page

```console
$ not this
```

## First steps

```python title="a.txt"
hello
```

<!-- console not run: elsewhere -->
```console
$ cat a.txt
hello
$ cd / && cat a.txt || echo gone
gone
```

```python
neither this
```

## Later

```console
$ nor this
```
"""


def test_the_steps_of_a_page_are_those_under_its_heading():
    assert tool.steps_of(PAGE) == [
        tool.File(9, "a.txt", "hello\n"),
        tool.Command(14, "cat a.txt", ["hello"]),
        tool.Command(14, "cd / && cat a.txt || echo gone", ["gone"]),
    ]


@pytest.mark.parametrize("text", ["# nothing\n", "## First steps\n\nNothing.\n"])
def test_a_page_without_steps_is_an_error(text):
    with pytest.raises(ValueError, match="First steps"):
        tool.steps_of(text)


def follow(text, folder, tmp_path):
    page = f"## First steps\n\n```console\n{text}\n```\n"
    tool.follow(tool.steps_of(page), folder, tool.environment_here(tmp_path))


def test_what_one_command_changes_the_next_one_finds(empty, tmp_path):
    follow("$ mkdir inner && cd inner\n$ X=1\n$ basename $PWD; echo $X\ninner\n1", empty, tmp_path)


def test_times_and_left_out_lines_are_not_compared(empty, tmp_path):
    follow("$ printf 'a\\nb\\nc\\nit took 12 ms\\n'\na\n...\nit took 3.4 s", empty, tmp_path)


def test_a_command_reads_nothing_of_what_is_typed_next(empty, tmp_path):
    follow("$ cat\n$ echo done\ndone", empty, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$ echo hello\nhullo", "hullo"),
        ("$ echo hello; exit 3\nhello", "did not come to its end"),
        ("$ (echo hello; exit 3)\nhello", "ended with 3"),
        ("$ there-is-no-such-command", "ended with 127"),
    ],
)
def test_a_step_that_does_otherwise_is_told(text, said, empty, tmp_path):
    with pytest.raises((tool.Mismatch, TimeoutError), match=said):
        follow(text, empty, tmp_path)
