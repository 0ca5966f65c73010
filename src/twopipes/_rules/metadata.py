"""Metadata: the keys of ``_meta``, and trace context."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")

RULES = (
    _rule(
        id="MT-01",
        level="MUST",
        since="2025-06-18",
        title=("Keys of _meta are well formed: an optional prefix of labels with a slash, then a name of letters, digits, - _ ."),
        fix="Write keys of _meta as a name of letters, digits, - _ . with an optional prefix such as com.example/.",
    ),
    _rule(
        id="MT-02",
        level="MUST",
        basis="inference",
        since="2025-11-25",
        title="Custom keys of _meta avoid the reserved prefixes: those whose second label is modelcontextprotocol or mcp",
        lenient="The text reserves the prefixes; explicitly it only forbids assumptions about their values",
        fix="Use a prefix of your own domain, such as com.example/key.",
    ),
    _rule(
        id="MT-03",
        level="MUST",
        basis="inference",
        since="2025-06-18",
        until="2025-06-18",
        title=("Custom keys of _meta avoid the reserved prefixes: those with another label after modelcontextprotocol or mcp"),
        lenient="The text reserves the prefixes; explicitly it only forbids assumptions about their values",
        fix="Use a prefix of your own domain, such as com.example/key.",
    ),
    _rule(
        id="MT-04",
        level="MUST",
        since="2025-06-18",
        title="A reserved key of _meta without a defined meaning changes nothing, whatever its value",
        fix="Read the keys that you know, and ignore all others.",
    ),
    _rule(
        id="MT-05",
        level="MUST",
        since="2026-07-28",
        title="traceparent, tracestate and baggage follow the W3C formats",
        fix="Pass on the values of the tracing library unchanged.",
    ),
    _rule(
        id="MT-06",
        level="SHOULD",
        basis="inference",
        title="Unknown or unreadable metadata, including trace context, never makes a message fail",
        lenient="No sentence says what to do with metadata that cannot be read",
        fix="Read the keys that you know; ignore all others, and values that cannot be parsed.",
    ),
    _rule(
        id="MT-07",
        level="MUST",
        basis="schema",
        title="_meta is an object in every message that has one",
        partly="Only that it is an object; where the schemas define a _meta is not judged, since objects are open",
        fix="Make _meta an object, or leave it out.",
    ),
)
