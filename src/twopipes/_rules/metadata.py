"""Metadata: the keys of ``_meta``, and the context of traces."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")

RULES = (
    _rule(
        id="MT-01",
        level="MUST",
        since="2025-06-18",
        title="The keys of _meta are well formed: perhaps a prefix of labels with a slash, then a name of letters, digits, - _ .",
        fix=("Write keys of _meta as a name of letters, digits, - _ . and perhaps a prefix such as com.example/ before it."),
    ),
    _rule(
        id="MT-02",
        level="MUST",
        basis="inference",
        since="2025-11-25",
        title="Own keys of _meta stay out of the protocol's prefixes: those whose second label is modelcontextprotocol or mcp",
        lenient="The text reserves the prefixes, and forbids in so many words only to make assumptions about them",
    ),
    _rule(
        id="MT-03",
        level="MUST",
        basis="inference",
        since="2025-06-18",
        until="2025-06-18",
        title="Own keys of _meta stay out of the protocol's prefixes: those with another label after modelcontextprotocol or mcp",
        lenient="The text reserves the prefixes, and forbids in so many words only to make assumptions about them",
    ),
    _rule(
        id="MT-04",
        level="MUST",
        since="2025-06-18",
        title="A key of _meta that is reserved and has no meaning yet changes nothing, whatever its value",
    ),
    _rule(
        id="MT-05",
        level="MUST",
        since="2026-07-28",
        title="traceparent, tracestate and baggage are written as the W3C describes them",
    ),
    _rule(
        id="MT-06",
        level="SHOULD",
        basis="inference",
        title="Metadata that nobody knows or can read, trace context included, never makes a message fail",
        lenient="No sentence says what becomes of metadata that cannot be read",
    ),
    _rule(
        id="MT-07",
        level="MUST",
        basis="schema",
        title="Wherever a message has a _meta, it is an object",
        partly="Only that it is an object; where the schemas define one is not judged, since objects are open",
        fix="Make _meta an object wherever it stands, or leave it out.",
    ),
)
