"""`twopipes keep` in front of servers that a file already has: only the command changes, and it can be undone."""

import pytest

from twopipes._host.files.formats import read
from twopipes._host.files.host_table import HOSTS
from twopipes._host.files.values import Refused
from twopipes._tools.install.keep import Change, as_before, command_line, servers_in, with_command, without_keep

KEEP = ["/usr/bin/python3", "-m", "twopipes", "keep", "--lazy", "--"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"command": "x"}, ["x"]),
        ({"command": "x", "args": None}, ["x"]),
        ({"command": "x", "args": ["y"], "url": "https://example.com"}, ["x", "y"]),
        ({"type": "stdio", "cmd": "x", "args": ["y"]}, ["x", "y"]),
        ({"type": "local", "command": ["x", "y"]}, ["x", "y"]),
        ({"command": {"path": "x", "args": ["y"], "env": None}}, ["x", "y"]),
    ],
)
def test_the_command_of_an_entry(content, words):
    assert command_line(content).words == words


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"url": "https://example.com"}, "it is a URL"),
        ({"type": "sse", "uri": "https://example.com"}, "it is a URL"),
        ({"type": "builtin"}, "it has no command"),
        ({"command": ""}, "its command is not"),
        ({"command": []}, "its command is not"),
        ({"command": 5}, "its command is not"),
        ({"command": "x", "args": "y"}, "its args is not a list"),
        ({"command": "x", "args": [1]}, "its command is not a list of strings"),
        ([], "it is not an object"),
    ],
)
def test_an_entry_without_a_usable_command(content, why):
    with pytest.raises(Refused, match=why):
        command_line(content)


@pytest.mark.parametrize(
    ("words", "inner"),
    [
        (["twopipes", "keep", "--", "x", "--", "y"], ["x", "--", "y"]),
        (["C:\\Tools\\twopipes.exe", "keep", "--idle", "10m", "--", "x"], ["x"]),
        (["python", "-I", "-m", "twopipes", "keep", "--", "x"], ["x"]),
        (["uvx", "--from", "twopipes[watch]", "twopipes", "keep", "--", "x"], ["x"]),
        (
            ["python", "-m", "twopipes", "tap", "--", "twopipes", "keep", "--", "x"],
            ["python", "-m", "twopipes", "tap", "--", "x"],
        ),
        (["twopipes", "tap", "--", "x"], None),
        (["twopipes", "run", "keep", "--", "x"], None),
        (["npx", "server", "--", "twopipes", "keep", "--", "x"], None),
        (["x"], None),
    ],
)
def test_a_command_without_keep(words, inner):
    assert without_keep(words) == inner


# The text before and after; PY and KEEP are the words in front of the command.
_TEXTS = {
    "cursor": """\
{
\t"mcpServers": {
\t\t"db": {
\t\t\t"command": "npx", // mine
\t\t\t"args": ["-y", "db"], // all
\t\t\t"disabled": true,
\t\t},
\t},
}
=>
{
\t"mcpServers": {
\t\t"db": {
\t\t\t"command": PY, // mine
\t\t\t"args": [KEEP, "npx", "-y", "db"], // all
\t\t\t"disabled": true,
\t\t},
\t},
}
""",
    "vscode": """\
{"servers": {"db": {"command": "npx"}}}
=>
{"servers": {"db": {"command": PY, "args": [KEEP, "npx"]}}}
""",
    "opencode": """\
{"mcp": {"db": {"type": "local", "command": ["npx", "db"], "enabled": false}}}
=>
{"mcp": {"db": {"type": "local", "command": [PY, KEEP, "npx", "db"], "enabled": false}}}
""",
    "zed": """\
{"context_servers": {"db": {"command": {"path": "npx", "args": ["db"], "env": null}, "settings": {}}}}
=>
{"context_servers": {"db": {"command": {"path": PY, "args": [KEEP, "npx", "db"], "env": null}, "settings": {}}}}
""",
    "codex": """\
# mine
[mcp_servers.db] # two
command = "npx" # three
args = ["db"]
enabled = false

[mcp_servers.db.env]
A = "1"
=>
# mine
[mcp_servers.db] # two
command = PY # three
args = [KEEP, "npx", "db"]
enabled = false

[mcp_servers.db.env]
A = "1"
""",
    "goose": """\
extensions:
  db:
    cmd: npx # mine
    args:
    - db
    enabled: false
GOOSE_MODE: smart
=>
extensions:
  db:
    cmd: PY # mine
    args: [KEEP, "npx", "db"]
    enabled: false
GOOSE_MODE: smart
""",
}
_WORDS = {"PY": '"/usr/bin/python3"', "KEEP": '"-m", "twopipes", "keep", "--lazy", "--"'}
FILES = {name: text.replace("PY", _WORDS["PY"]).replace("KEEP", _WORDS["KEEP"]).split("=>\n") for name, text in _TEXTS.items()}


@pytest.mark.parametrize("name", FILES)
def test_only_the_command_changes_in_the_file(name):
    before, after = FILES[name]
    words = command_line(servers_in(before, HOSTS[name], HOSTS[name].place)["db"]).words
    changed = with_command(before, HOSTS[name], HOSTS[name].place, "db", [*KEEP, *words])
    assert changed == after
    undone = with_command(after, HOSTS[name], HOSTS[name].place, "db", words)
    entry, original = (servers_in(text, HOSTS[name], HOSTS[name].place)["db"] for text in (undone, before))
    if name == "vscode":
        original["args"] = []  # the one difference to the file before: it had no arguments
    assert entry == original


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    cmd: npx\n    args: []\n", '    cmd: "x"\n    args: ["y"]\n'),
        ("    cmd: npx\n    args:\n", '    cmd: "x"\n    args: ["y"]\n'),
        ("    cmd: npx\n", '    cmd: "x"\n    args:\n    - "y"\n'),
        ("    args: [a, b] # c\n    cmd: 'npx'\n", '    args: ["y"] # c\n    cmd: "x"\n'),
        ("    args:\n      - a\n      - b\n\n    cmd: >-\n      npx\n    z: 1\n", '    args: ["y"]\n\n    cmd: "x"\n    z: 1\n'),
        ("    {cmd: npx, args: [a], z: 1}\n", '    {cmd: "x", args: ["y"], z: 1}\n'),
    ],
)
def test_a_command_in_yaml_of_many_kinds(before, after):
    start = "extensions:\n  db:\n"
    changed = with_command(start + before, HOSTS["goose"], HOSTS["goose"].place, "db", ["x", "y"])
    assert changed == start + after
    assert read(changed, "YAML")["extensions"]["db"]["args"] == ["y"]


def test_a_layout_that_cannot_be_edited_is_refused():
    text = "extensions:\n  db: &x\n    cmd: npx\n  other: *x\n"
    with pytest.raises(Refused, match="edit it by hand"):
        with_command(text, HOSTS["goose"], HOSTS["goose"].place, "db", ["x"])


@pytest.mark.parametrize("name", FILES)
def test_a_backup_is_restored_only_if_nothing_else_changed(name):
    before, after = FILES[name]
    words = command_line(servers_in(before, HOSTS[name], HOSTS[name].place)["db"]).words
    changes = [Change("db", [*KEEP, *words], words, HOSTS[name].place)]
    assert as_before(after, HOSTS[name], changes, before)
    assert not as_before(after + " ", HOSTS[name], changes, before)
    assert not as_before(after, HOSTS[name], changes, before.replace("npx", "node"))
    assert not as_before(after, HOSTS[name], changes, "")
    assert not as_before(after, HOSTS[name], changes, "{ [")
