"""Adding an entry to JSON with comments changes nothing else."""

import json
import re
import string
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._host.files import formats
from twopipes._host.files.jsonc import InvalidJson, read
from twopipes._host.files.values import AnotherEntry, Refused, same, with_entry

PLACE = ("mcpServers",)
NEW = {"command": "new", "args": ["-a"]}


def put(text, *arguments, **options):
    return formats.put(text, "JSON", *arguments, **options)


def text_of(block):
    return textwrap.dedent(block).lstrip("\n")


def added(text, *, place=PLACE, name="new", content=None, **options):
    return put(text, place, name, NEW if content is None else content, **options)


# Where the entry goes


def test_a_new_entry_follows_the_others():
    before = text_of("""
        {
          "mcpServers": {
            "files": {
              "command": "npx",
              "args": []
            }
          },
          "theme": "dark"
        }
    """)
    assert added(before) == text_of("""
        {
          "mcpServers": {
            "files": {
              "command": "npx",
              "args": []
            },
            "new": {
              "command": "new",
              "args": [
                "-a"
              ]
            }
          },
          "theme": "dark"
        }
    """)


def test_a_missing_object_is_created():
    before = text_of("""
        {
        \t"theme": "dark",
        \t"editor": {"size": 12}
        }
    """)
    assert added(before) == text_of("""
        {
        \t"theme": "dark",
        \t"editor": {"size": 12},
        \t"mcpServers": {
        \t\t"new": {
        \t\t\t"command": "new",
        \t\t\t"args": [
        \t\t\t\t"-a"
        \t\t\t]
        \t\t}
        \t}
        }
    """)


def test_an_empty_inner_object_is_filled():
    before = '{\n    "theme": "dark",\n    "mcpServers": {},\n    "size": 1\n}'
    inside = '{\n        "new": {\n            "command": "x"\n        }\n    }'
    assert added(before, content={"command": "x"}) == before.replace("{}", inside)


@pytest.mark.parametrize("before", ["", "  \n\n", "\r\n"])
def test_an_empty_file_is_filled(before):
    newline = "\r\n" if "\r\n" in before else "\n"
    lines = ["{", '  "mcpServers": {', '    "new": {', '      "command": "x"', "    }", "  }", "}", ""]
    assert added(before, content={"command": "x"}) == newline.join(lines)


def test_a_file_with_only_comments():
    after = added("// mine\n/* and\nyours */", content={"command": "x"}, fresh={"$schema": "s"})
    assert after.startswith('// mine\n/* and\nyours */\n{\n  "$schema": "s",\n  "mcpServers": {')
    assert read(after) == {"$schema": "s", "mcpServers": {"new": {"command": "x"}}}


@pytest.mark.parametrize("before", ["{}", "{ }\n", "{\n}\n", "\t{}"])
def test_an_empty_object_is_filled(before):
    after = added(before, content={"command": "x"}, fresh={"$schema": "only in files made from nothing"})
    assert read(after) == {"mcpServers": {"new": {"command": "x"}}}
    assert "\n" in after
    assert after.endswith(before[-1])


def test_null_counts_as_missing():
    assert read(added('{"a": 1, "mcpServers": null}')) == {"a": 1, "mcpServers": {"new": NEW}}


def test_deeper_down():
    assert read(added('{"mcp": {"timeout": 5}}', place=("mcp", "servers"))) == {"mcp": {"timeout": 5, "servers": {"new": NEW}}}


# Layout


def test_a_file_on_one_line_stays_on_it():
    assert added('{"mcpServers":{"a":{"command":"x"}}}') == (
        '{"mcpServers":{"a":{"command":"x"},"new":{"command":"new","args":["-a"]}}}'
    )
    assert added('{"mcpServers": {"a": {"command": "x"}}}\n') == (
        '{"mcpServers": {"a": {"command": "x"}, "new": {"command": "new", "args": ["-a"]}}}\n'
    )
    assert added('{"mcpServers":{}}') == '{"mcpServers":{"new":{"command":"new","args":["-a"]}}}'
    assert added('{"a":1}') == '{"a":1,"mcpServers":{"new":{"command":"new","args":["-a"]}}}'
    assert added('{"mcpServers": {"a": {},}}', content={}) == '{"mcpServers": {"a": {}, "new": {},}}'


def test_lines_end_as_the_others_do():
    before = '{\r\n  "mcpServers": {\r\n    "a": {}\r\n  }\r\n}\r\n'
    after = added(before)
    assert not re.search(r"(?<!\r)\n", after)
    assert read(after) == {"mcpServers": {"a": {}, "new": NEW}}


def test_a_trailing_comma_is_kept():
    before = '{\n  "mcpServers": {\n    "a": {}, // the first\n  },\n}\n'
    assert added(before, content={}) == '{\n  "mcpServers": {\n    "a": {}, // the first\n    "new": {},\n  },\n}\n'


def test_comments_stay_with_their_value():
    before = text_of("""
        // settings
        {
          /* all of them */
          "mcpServers": {
            // the first
            "a": {} /* short */ // and good
            // "b": {"command": "later"}
          } // end
        }
        // bye
    """)
    assert added(before, content={}) == text_of("""
        // settings
        {
          /* all of them */
          "mcpServers": {
            // the first
            "a": {}, /* short */ // and good
            "new": {}
            // "b": {"command": "later"}
          } // end
        }
        // bye
    """)


def test_an_object_with_only_comments():
    before = '{\n  "mcpServers": {\n    // none yet\n  }\n}'
    assert added(before, content={}) == '{\n  "mcpServers": {\n    // none yet\n    "new": {}\n  }\n}'


def test_a_block_comment_after_the_last_entry():
    before = '{\n  "mcpServers": {\n    "a": {} /* one\n    two */\n  }\n}'
    assert added(before, content={}) == '{\n  "mcpServers": {\n    "a": {}, /* one\n    two */\n    "new": {}\n  }\n}'


def test_a_brace_on_the_line_of_the_last_entry():
    before = '{\n  "mcpServers": {\n    "a": {} }}'
    assert read(added(before)) == {"mcpServers": {"a": {}, "new": NEW}}


# Existing entries


def test_the_same_again_changes_nothing():
    once = added('{\n  "mcpServers": {"a": {}}\n}')
    assert added(once) == once


def test_the_same_in_another_order_changes_nothing():
    before = '{"mcpServers": {"new": {"args": ["-a"], "command": "new"}}}'
    assert added(before) == before


def test_a_different_entry_is_not_replaced():
    before = '{"mcpServers": {"new": {"command": "mine"}}}'
    with pytest.raises(AnotherEntry, match=r"already another server 'new'.*mine"):
        added(before)


def test_a_different_entry_is_replaced_on_request():
    before = text_of("""
        {
          "mcpServers": {
            "a": {}, // first
            "new": {"command": "old"}, // second
            "b": {}
          }
        }
    """)
    assert added(before, content={"command": "x"}, replace=True) == text_of("""
        {
          "mcpServers": {
            "a": {}, // first
            "new": {
              "command": "x"
            }, // second
            "b": {}
          }
        }
    """)
    assert added('{"mcpServers": {"new": 1, "b": 2}}', replace=True, content={"c": 1}) == (
        '{"mcpServers": {"new": {"c": 1}, "b": 2}}'
    )


def test_of_two_with_one_key_the_last_counts():
    before = '{"mcpServers": {"a": 1}, "mcpServers": {"b": 2}}'
    assert read(added(before, content={})) == {"mcpServers": {"b": 2, "new": {}}}


# Invalid documents


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ('{"mcpServers" {}}', "Expecting ':' delimiter: line 1 column 15"),
        ('{\n  "a": 1\n  "b": 2\n}', "Expecting ',' delimiter: line 3 column 3"),
        ('{"a": 1', "Expecting ',' delimiter"),
        ('{"a": }', "Expecting value"),
        ("{'a': 1}", "Expecting property name enclosed in double quotes"),
        ("{a: 1}", "Expecting property name"),
        ('{"a": 1} {}', "Extra data: line 1 column 10"),
        ('{"a": "x}', "Unterminated string"),
        ('{"a": "\n"}', "Invalid control character"),
        ('{"a": "\\x"}', "Invalid .*escape"),
        ('{"a": 01}', "Expecting ',' delimiter"),
        ('{"a": NaN}', "Expecting value"),
        ('{"a": [1 2]}', "Expecting ',' delimiter"),
        ('{"a": [,]}', "Expecting value"),
        ('{,"a": 1}', "Expecting property name"),
        ('{"a": 1,,}', "Expecting property name"),
        ('{"a": 1 /* }', "Unterminated comment"),
        ("<xml/>", "Expecting value: line 1 column 1"),
        ("[" * 100_000, "Nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "Exceeds the limit"),
    ],
)
def test_invalid_json(before, said):
    with pytest.raises(InvalidJson, match=said):
        added(before)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("[]", "it is a list"),
        ('"text"', "it is 'text'"),
        ('{"mcpServers": []}', "its mcpServers is a list, not an object with servers"),
        ('{"mcpServers": "none"}', "its mcpServers is 'none'"),
    ],
)
def test_a_value_of_the_wrong_type_is_rejected(before, said):
    with pytest.raises(Refused, match=said):
        added(before)


def test_a_long_unterminated_text_is_rejected_quickly():
    """Backtracking would take forever."""
    with pytest.raises(InvalidJson):
        read('{"a": "' + "x" * 1_000_000)
    with pytest.raises(InvalidJson):
        read("{" + " " * 1_000_000 + "/*" * 1000)


# Any document


scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(st.sampled_from(["mcpServers", "ключ", 'q"', *string.ascii_letters]), documents, max_size=4)
servers = st.dictionaries(st.text(max_size=4), documents, max_size=3)
blanks = st.sampled_from(["", "", " ", "  ", "\n", "\n  ", "\t", "\r\n", " // note: {}\n", "/* , } */", "\n/* a\nb */\n"])


@st.composite
def texts(draw):
    """A document with or without servers, in any valid layout."""
    document = draw(objects.filter(lambda found: isinstance(found.get("mcpServers"), dict | None)))
    if draw(st.booleans()):
        document["mcpServers"] = draw(servers)

    def blank():
        return draw(blanks)

    def written(value):
        if isinstance(value, dict):
            inside = [f"{blank()}{json.dumps(key)}{blank()}:{blank()}{written(each)}{blank()}" for key, each in value.items()]
            return "{" + _joined(inside) + "}"
        if isinstance(value, list):
            return "[" + _joined([f"{blank()}{written(each)}{blank()}" for each in value]) + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def _joined(parts):
        return ",".join(parts) + ("," if parts and draw(st.booleans()) else "") + blank()

    style = draw(st.sampled_from(["any", "2", "tab", "tight"]))
    if style == "any":
        return blank() + written(document) + blank()
    indents = {"2": 2, "tab": "\t", "tight": None}
    text = json.dumps(document, indent=indents[style], separators=(",", ":") if style == "tight" else None)
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def is_within(old, new):
    """Return whether the other text contains this one in order, in at most three pieces: an edit has two places."""
    start = 0
    while start < len(old) and start < len(new) and old[start] == new[start]:
        start += 1
    end = 0
    while end < len(old) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle = old[start : len(old) - end]
    return middle in new[start : len(new) - end]


@given(texts(), st.text(min_size=1, max_size=6), st.dictionaries(st.text(max_size=3), documents, max_size=3))
def test_nothing_changes_but_the_one_entry(text, name, content):
    before = read(text)
    try:
        after = put(text, PLACE, name, content)
    except AnotherEntry:
        assert not same(before["mcpServers"][name], content)
        after = put(text, PLACE, name, content, replace=True)
    else:
        # The old text is unchanged, except for null and the blanks in an empty object.
        if before.get("mcpServers") and name not in before["mcpServers"]:
            assert is_within(text, after)
    assert same(read(after), with_entry(before, PLACE, name, content))
    assert put(after, PLACE, name, content) == after  # a second edit changes nothing


@given(documents)
def test_plain_json_is_read_as_python_reads_it(document):
    text = json.dumps(document)
    assert same(read(text), json.loads(text))
