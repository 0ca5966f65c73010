"""The grammar of `_meta` keys and the two definitions of what is reserved."""

from __future__ import annotations

import pytest

from twopipes._protocol.meta_keys import is_extension_name, meta_key_fault

WELL_FORMED = [
    *("a", "A1", "a.b", "a-b_c.d", "7", "", "progressToken", "traceparent"),
    *("com.example/a", "com.example/", "x/y", "a-b.c1/z", "c0m/name", "com.example.deep.er/na-me"),
]
MALFORMED = [
    *("-a", "a-", ".a", "a.", "_", "a b", "é", "a\n", "a/b/c", "/a"),
    *("1com/a", "com-/a", "-com/a", "com..x/a", ".com/a", "com./a", "com.1x/a", "com_x/a", "com.example/-a", "com.example/a!"),
]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("key", WELL_FORMED)
def test_a_well_formed_key_is_legal(key, revision):
    """MT-01."""
    assert meta_key_fault(key, revision) is None


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("key", MALFORMED)
def test_a_malformed_key_is_refused(key, revision):
    """MT-01."""
    assert meta_key_fault(key, revision) == "grammar"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
@pytest.mark.parametrize("key", [*MALFORMED, "mcp.dev/x", "io.modelcontextprotocol/x"])
def test_old_revisions_have_no_grammar(key, revision):
    """MT-01, MT-03: the rules begin with 2025-06-18."""
    assert meta_key_fault(key, revision) is None


@pytest.mark.parametrize(
    ("key", "in_2506", "later"),
    [
        ("mcp.dev/x", True, False),
        ("modelcontextprotocol.io/x", True, False),
        ("tools.mcp.com/x", True, True),
        ("api.modelcontextprotocol.org/x", True, True),
        ("a.b.mcp.c/x", True, False),
        ("io.modelcontextprotocol/x", False, True),
        ("com.mcp.tools/x", True, True),
        ("com.mcp/x", False, True),
        ("com.example.mcp/x", False, False),
        ("mcp/x", False, False),
        ("modelcontextprotocol/x", False, False),
        ("com.mcpx/x", False, False),
        ("mcp.x", False, False),
    ],
)
def test_reserved_prefixes_have_two_definitions(key, in_2506, later):
    """MT-02, MT-03."""
    assert (meta_key_fault(key, "2025-06-18") == "reserved") is in_2506
    assert (meta_key_fault(key, "2025-11-25") == "reserved") is later
    assert (meta_key_fault(key, "2026-07-28") == "reserved") is later


@pytest.mark.parametrize(
    ("key", "in_2511", "in_2607"),
    [
        ("io.modelcontextprotocol/related-task", None, "reserved"),
        ("io.modelcontextprotocol/protocolVersion", "reserved", None),
        ("io.modelcontextprotocol/subscriptionId", "reserved", None),
        ("io.modelcontextprotocol/future", "reserved", "reserved"),
    ],
)
def test_a_reserved_key_is_legal_in_the_revisions_that_define_it(key, in_2511, in_2607):
    """MT-02, MT-04."""
    assert meta_key_fault(key, "2025-11-25") == in_2511
    assert meta_key_fault(key, "2026-07-28") == in_2607


@pytest.mark.parametrize(
    ("name", "legal"),
    [("com.example/x", True), ("io.modelcontextprotocol/ui", True), ("x", False), ("", False), ("com.-/x", False)],
)
def test_an_extension_has_a_prefix(name, legal):
    """CP-07."""
    assert is_extension_name(name) is legal
