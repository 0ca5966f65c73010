"""Run the first steps of the README literally, in an empty folder, as a new user does."""

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
    sys.path[:] = before  # the names of its neighbours are too general to keep on the path
    return module


tool = load()
STEPS = tool.steps_of(tool.README.read_text(encoding="utf-8"))


@pytest.fixture
def empty(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.mark.walkthrough
def test_the_steps_work_with_this_checkout(empty, tmp_path):
    tool.follow(STEPS, empty, tool.environment_here(tmp_path), here=True)


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_the_steps_work_with_only_python_installed(empty, tmp_path):
    """As on a clean machine: install the wheel, and its dependencies from the registry."""
    wheel = tool.build_wheel(tmp_path / "wheels")
    tool.follow(STEPS, empty, tool.fresh_environment(tmp_path, wheel.parent))
    tool.check_installed(wheel, empty)


def test_the_steps_install_twopipes_and_run_a_server_and_a_client():
    files = {step.name: step.content for step in STEPS if isinstance(step, tool.File)}
    commands = [step.text for step in STEPS if isinstance(step, tool.Command)]
    assert {"server.py", "client.py"} <= set(files)
    assert "pip install twopipes" in commands
    assert any(command.startswith("twopipes doctor") for command in commands)


@pytest.mark.parametrize(("name", "most"), [("server.py", 10), ("client.py", 6)])
def test_the_server_has_at_most_ten_lines_and_the_client_six(name, most):
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


def test_commands_share_one_shell(empty, tmp_path):
    follow("$ mkdir inner && cd inner\n$ X=1\n$ basename $PWD; echo $X\ninner\n1", empty, tmp_path)


def test_times_and_omitted_lines_are_not_compared(empty, tmp_path):
    follow("$ printf 'a\\nb\\nc\\nit took 12 ms\\n'\na\n...\nit took 3.4 s", empty, tmp_path)


def test_a_command_does_not_read_the_commands_after_it(empty, tmp_path):
    follow("$ cat\n$ echo done\ndone", empty, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$ echo hello\nhullo", "hullo"),
        ("$ echo hello; exit 3\nhello", "did not come to its end"),
        ("$ (echo hello; exit 3)\nhello", "ended with 3"),
        ("$ there-is-no-such-command", "ended with 127"),
    ],
)
def test_a_step_with_another_outcome_is_reported(text, message, empty, tmp_path):
    with pytest.raises((tool.Mismatch, TimeoutError), match=message):
        follow(text, empty, tmp_path)
