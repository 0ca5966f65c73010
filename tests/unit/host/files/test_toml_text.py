"""Adding a table to TOML."""

import re
import sys
import tomllib

import pytest

from twopipes._host.files import formats
from twopipes._host.files.toml_text import read, snippet
from twopipes._host.files.values import AnotherEntry, Refused

PLACE = ("mcp_servers",)
NEW = {"command": "/usr/bin/new", "args": ["-a", 'b "c"'], "env": {"KEY": "1"}}
# As Codex writes it: scalars first, then tables in any order.
CODEX = """\
# my settings
model = "gpt-5"   # the big one
notify = ["say", "done"]

[mcp_servers.files]
command = "npx"
args = [
    "-y", # no questions
    "files",
]

[projects."/home/ada/x"]
trust_level = "trusted"

[mcp_servers.docs]
url = "https://example.com/mcp"
# the end
"""


def put(text, *arguments, **options):
    return formats.put(text, "TOML", *arguments, **options)


def test_a_new_one_goes_to_the_end_and_nothing_else_changes():
    after = put(CODEX, PLACE, "new", NEW)
    assert after == CODEX + (
        '\n[mcp_servers.new]\ncommand = "/usr/bin/new"\nargs = ["-a", "b \\"c\\""]\n\n[mcp_servers.new.env]\nKEY = "1"\n'
    )
    assert tomllib.loads(after) == {
        **tomllib.loads(CODEX),
        "mcp_servers": {**tomllib.loads(CODEX)["mcp_servers"], "new": NEW},
    }


@pytest.mark.parametrize("before", ["", "\n", "a = 1", "a = 1\n", "# nothing but this", "[mcp_servers]\n", "[mcp_servers.a]\n[b]"])
def test_in_files_of_every_kind(before):
    after = put(before, PLACE, "new", NEW)
    assert after.startswith(before)
    assert after.endswith("\n")
    assert read(after)["mcp_servers"]["new"] == NEW


def test_lines_end_as_the_others_do():
    after = put(CODEX.replace("\n", "\r\n"), PLACE, "new", NEW)
    assert not re.search(r"(?<!\r)\n", after)
    assert read(after)["mcp_servers"]["new"] == NEW


def test_the_same_again_changes_nothing():
    once = put(CODEX, PLACE, "new", NEW)
    assert put(once, PLACE, "new", NEW) == once


def test_a_different_entry_is_not_replaced():
    with pytest.raises(AnotherEntry, match="'files'"):
        put(CODEX, PLACE, "files", NEW)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_different_entry_is_replaced_on_request(newline):
    before = CODEX.replace("\n", newline)
    after = put(before, PLACE, "files", NEW, replace=True)
    assert read(after) == {**read(before), "mcp_servers": {"files": NEW, "docs": {"url": "https://example.com/mcp"}}}
    for kept in ["# my settings", 'model = "gpt-5"   # the big one', '[projects."/home/ada/x"]', "# the end"]:
        assert kept + newline in after
    assert after.count("\n") == after.count(newline)


@pytest.mark.parametrize("before", ['mcp_servers = {a = {command = "x"}} # inline\n', 'mcp_servers.a.command = "x"\n[b]\nc = 1\n'])
def test_servers_in_one_line_are_added_to(before):
    after = put(before, PLACE, "new", NEW)
    assert read(after)["mcp_servers"] == {"a": {"command": "x"}, "new": NEW}
    assert {**read(after), "mcp_servers": 0} == {**read(before), "mcp_servers": 0}


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    assert read(put(CODEX, PLACE, "new", NEW))  # appending needs no library
    with pytest.raises(Refused, match=r"needs tomlkit: pip install 'twopipes\[cli\]'"):
        put(CODEX, PLACE, "files", NEW, replace=True)


@pytest.mark.parametrize("before", ["a = ", "[a", "a = 1\na = 2\n", '{"mcpServers": {}}', "a = 1\rb = 2"])
def test_invalid_toml(before):
    with pytest.raises(ValueError, match=r"line|Expected|Cannot|Invalid"):
        put(before, PLACE, "new", NEW)


@pytest.mark.parametrize("before", ["mcp_servers = []\n", 'mcp_servers = "none"\n'])
def test_a_value_of_the_wrong_type_is_rejected(before):
    with pytest.raises(Refused, match="its mcp_servers is"):
        put(before, PLACE, "new", NEW)


def test_nan_does_not_prevent_an_edit():
    assert read(put("a = nan\n", PLACE, "new", NEW))["mcp_servers"] == {"new": NEW}


@pytest.mark.parametrize("text", ["", "a b", 'q"\\', "\x00\x1f\x7f\x85\u2028", "ключ 🙂", "\n\r\t"])
def test_every_text_survives_a_round_trip(text):
    said = snippet(["mcp_servers", text], {"command": text, "args": [text], "on": True, "env": {text: text}})
    assert tomllib.loads(said) == {"mcp_servers": {text: {"command": text, "args": [text], "on": True, "env": {text: text}}}}
