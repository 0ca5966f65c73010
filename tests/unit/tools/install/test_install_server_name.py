"""The name of a server is found in its source, without running it."""

import shlex

import pytest

from twopipes._tools.install.command_words import suggested_name
from twopipes._tools.install.server_name import declared_name


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "project"
    sources = {
        "server.py": 'raise SystemExit("it was run")\nfrom twopipes import Server\nserver = Server("travel agent", version="1")\n',
        "two.py": 'import twopipes\none = twopipes.Server(name="first")\nother: object = twopipes.Server("second")\n',
        "constant.py": 'NAME = "by-constant"\nserver = Server(NAME)\n',
        "computed.py": 'server = Server("a" + "b")\n',
        "fast.py": 'mcp = FastMCP("fast one")\n',
        "inner.py": 'def main():\n    server = Server("in a function")\n',
        "broken.py": "server = Server(\n",
        "odd.py": 'server = Server("???")\n',
        "package/__main__.py": "from package.server import server\n",
        "package/server.py": 'server = Server("packaged")\n',
        "src/lib/tool.py": 'server = Server("in-src")\n',
        "deep/server.py": 'server = Server("deep-one")\n',
    }
    for path, text in sources.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    return place


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python server.py", "travel agent"),
        ("python -u server.py two.py", "travel agent"),
        ("uv run server.py", "travel agent"),
        ("uv run --directory deep server.py", "deep-one"),
        ("twopipes run server.py", "travel agent"),
        ("python -m twopipes run two.py:other", "second"),
        ("twopipes run two.py", "first"),
        ("twopipes run two.py:missing", None),
        ("python -m package", "packaged"),
        ("uv run python -m lib.tool", "in-src"),
        ("python constant.py", "by-constant"),
        ("python fast.py", "fast one"),
        ("python inner.py", "in a function"),
        ("python computed.py", None),
        ("python broken.py", None),
        ("python missing.py", None),
        ("python -m missing", None),
        ("uvx mcp-server-time", None),
        ("python", None),
    ],
)
def test_the_name_is_that_of_the_server(folder, command, name):
    assert declared_name(shlex.split(command), str(folder)) == name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python server.py", "travel-agent"),
        ("python computed.py", "computed"),
        ("python odd.py", "odd"),
        ("python broken.py", "broken"),
    ],
)
def test_a_name_is_cleaned_or_made_from_the_command(folder, command, name):
    assert suggested_name(shlex.split(command), str(folder)) == name


def test_a_source_that_is_too_long_or_too_deep_is_not_read(folder):
    (folder / "deep.py").write_text('server = Server("x")\n' + "(" * 100_000)
    (folder / "long.py").write_text('server = Server("x")\n' + "# padding\n" * 200_000)
    assert declared_name(["python", "deep.py"], str(folder)) is None
    assert declared_name(["python", "long.py"], str(folder)) is None
