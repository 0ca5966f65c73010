"""Adding an entry to YAML."""

import re
import sys
import textwrap

import pytest

from twopipes._host.files import formats
from twopipes._host.files.values import AnotherEntry, Refused
from twopipes._host.files.yaml_text import block, read

PLACE = ("extensions",)
NEW = {"name": "new", "enabled": True, "cmd": "x", "args": ["-a", "b: c"], "envs": {"KEY": "1"}, "env_keys": [], "timeout": 300}
LINES = """\
new:
  name: "new"
  enabled: true
  cmd: "x"
  args:
  - "-a"
  - "b: c"
  envs:
    KEY: "1"
  env_keys: []
  timeout: 300
"""
GOOSE = """\
# mine
GOOSE_PROVIDER: anthropic   # for now
extensions:
  developer:
    bundled: true
    enabled: true
    name: developer
    timeout: 300
    type: builtin
  files:
    type: stdio
    cmd: npx
    args:
    - -y
    - files   # all of them

# below
GOOSE_MODE: smart_approve
"""


def put(text, *arguments, **options):
    return formats.put(text, "YAML", *arguments, **options)


def test_a_new_entry_follows_the_others_and_nothing_else_changes():
    after = put(GOOSE, PLACE, "new", NEW)
    here = GOOSE.index("\n# below")
    assert after == GOOSE[:here] + textwrap.indent(LINES, "  ") + GOOSE[here:]
    assert read(after)["extensions"]["new"] == NEW


@pytest.mark.parametrize(
    "before",
    [
        "",
        "\n",
        "# nothing but this\n",
        "a: 1",
        "a: 1\n",
        "---\na: 1\n",
        "extensions:\n",
        "extensions: {}\n",
        "extensions: null\nb: 2\n",
        "extensions:\n# later\nb: 2\n",
        "extensions:\n    a:\n        cmd: x\n",
        "extensions:\n  a:\n    cmd: x",
        "extensions:\n  a: {cmd: x}  # flow\nb: 1\n",
        "extensions:\n  a:\n    text: |\n      one\n      two\nb: 1\n",
        "extensions:\n  a:\n    text: |\n      one\n\n  # a word\nb: 1\n",
        "extensions:\n  a:\n    cmd:\nb: 1\n",
        "extensions:\n  a:\n  - x\n",
        'extensions:\n  a: "x\n    y"\nb: 1\n',
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_in_files_of_every_kind(before, newline):
    before = before.replace("\n", newline)
    after = put(before, PLACE, "new", NEW)
    old = read(before) or {}
    assert read(after) == {**old, "extensions": {**(old.get("extensions") or {}), "new": NEW}}
    if newline == "\r\n" and "\n" in before:
        assert not re.search(r"(?<!\r)\n", after)
    assert put(after, PLACE, "new", NEW) == after
    for line in before.split(newline):
        assert line.removesuffix(" {}").removesuffix(" null") in after


def test_a_different_entry_is_not_replaced():
    with pytest.raises(AnotherEntry, match="'files'"):
        put(GOOSE, PLACE, "files", NEW)


def test_a_different_entry_is_replaced_on_request():
    after = put(GOOSE, PLACE, "files", NEW, replace=True)
    assert read(after) == {**read(GOOSE), "extensions": {**read(GOOSE)["extensions"], "files": NEW}}
    assert after.startswith(GOOSE[: GOOSE.index("  files:")])
    assert after.endswith(GOOSE[GOOSE.index("\n# below") :])
    after = put(GOOSE, PLACE, "developer", NEW, replace=True)
    assert after.endswith(GOOSE[GOOSE.index("  files:") :])


def test_flow_mappings_are_not_edited():
    with pytest.raises(Refused, match="cannot be edited safely"):
        put("extensions: {a: {cmd: x}}\n", PLACE, "new", NEW)


def test_an_alias_is_not_edited_by_mistake():
    before = "base: &b\n  cmd: x\nextensions:\n  a: *b\n"
    with pytest.raises(Refused, match="cannot be edited safely"):
        put(before, PLACE, "new", NEW)


@pytest.mark.parametrize("before", ["a: [", "a: b: c", "\tx: 1", "--- a\n--- b\n", "a: !!python/none x"])
def test_invalid_yaml(before):
    with pytest.raises(ValueError, match=r"\w"):
        put(before, PLACE, "new", NEW)


def test_a_value_of_the_wrong_type_is_rejected():
    with pytest.raises(Refused, match="its extensions is a list"):
        put("extensions: [a]\n", PLACE, "new", NEW)
    with pytest.raises(Refused, match="it is a list"):
        put("- a\n", PLACE, "new", NEW)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert block({"a": 1}) == "a: 1\n"  # showing an entry needs no library
    with pytest.raises(Refused, match=r"needs PyYAML: pip install 'twopipes\[cli\]'"):
        put("", PLACE, "new", NEW)


@pytest.mark.parametrize(
    "text", ["", "yes", "1", "a: b", 'q"\\', "\x00\x1f\x7f\x85\u2028\ufeff", "ключ 🙂", "\n\r\t", "#", "- a", "null"]
)
def test_every_text_survives_a_round_trip(text):
    content = {"cmd": text, "args": [text], "envs": {text: text}}
    assert read(block({text: content})) == {text: content}
