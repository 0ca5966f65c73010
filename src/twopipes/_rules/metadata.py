"""Metadata: the keys of ``_meta``, and trace context."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")

RULES = {
    "MT-01": _rule(
        must="Keys of _meta are well formed: an optional prefix of labels with a slash, then a name of letters, digits, - _ .",
        since="2025-06-18",
        fix="Write keys of _meta as a name of letters, digits, - _ . with an optional prefix such as com.example/.",
    ),
    "MT-02": _rule(
        must="Custom keys of _meta avoid the reserved prefixes: those whose second label is modelcontextprotocol or mcp",
        basis="inference",
        since="2025-11-25",
        lenient="The text reserves the prefixes; explicitly it only forbids assumptions about their values",
        fix="Use a prefix of your own domain, such as com.example/key.",
    ),
    "MT-03": _rule(
        must="Custom keys of _meta avoid the reserved prefixes: those with another label after modelcontextprotocol or mcp",
        basis="inference",
        since="2025-06-18",
        until="2025-06-18",
        lenient="The text reserves the prefixes; explicitly it only forbids assumptions about their values",
        fix="Use a prefix of your own domain, such as com.example/key.",
    ),
    "MT-04": _rule(
        must="A reserved key of _meta without a defined meaning changes nothing, whatever its value",
        since="2025-06-18",
        fix="Read the keys that you know, and ignore all others.",
    ),
    "MT-05": _rule(
        must="traceparent, tracestate and baggage follow the W3C formats",
        since="2026-07-28",
        fix="Pass on the values of the tracing library unchanged.",
    ),
    "MT-06": _rule(
        should="Unknown or unreadable metadata, including trace context, never makes a message fail",
        basis="inference",
        lenient="No sentence says what to do with metadata that cannot be read",
        fix="Read the keys that you know; ignore all others, and values that cannot be parsed.",
    ),
    "MT-07": _rule(
        must="_meta is an object in every message that has one",
        basis="schema",
        partly="Only that it is an object; where the schemas define a _meta is not judged, since objects are open",
        fix="Make _meta an object, or leave it out.",
    ),
}
