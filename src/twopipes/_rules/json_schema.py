"""JSON Schema."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")

_GIVEN_NONE = "A server is given no schemas: it judges by its own"

RULES = (
    _rule(
        id="JS-01",
        level="MUST",
        title="A schema that names no dialect is read and written as 2020-12; others say which one they are written in",
        since="2025-11-25",
        partly_server="Only how schemas are written; whether arguments are judged by them in that dialect is not tried",
    ),
    _rule(
        id="JS-02",
        level="MUST",
        title="Schemas are read by the dialect they name; one that is not known does no harm to anything else",
        since="2025-11-25",
        untestable_server=_GIVEN_NONE,
    ),
    _rule(
        id="JS-03",
        level="MUST",
        title="Schemas are valid in their own dialect",
        since="2025-11-25",
        untestable_client="A client sends no schemas",
    ),
    _rule(
        id="JS-04",
        level="MUST",
        title="Nothing is fetched because a schema refers to it",
        since=MODERN[0],
        untestable_server=_GIVEN_NONE,
    ),
    _rule(
        id="JS-05",
        level="SHOULD",
        title="What cannot be validated, because a reference leads out of the schema, is not taken for valid",
        since=MODERN[0],
        untestable_server=_GIVEN_NONE,
        untestable_client="What a client thinks of a result does not show on the wire",
    ),
    _rule(
        id="JS-06",
        level="SHOULD",
        title="A schema that would take for ever to validate by does not stop anything",
        since=MODERN[0],
        untestable_server=_GIVEN_NONE,
    ),
    _rule(
        id="JS-07",
        level="MUST",
        basis="schema",
        title='An inputSchema has "type":"object" at its root, and whatever else JSON Schema knows',
        since=MODERN[0],
    ),
    _rule(
        id="JS-08",
        level="MAY",
        basis="schema",
        title="For old clients, schemas keep to what all dialects have in common, where that is possible",
        until="2025-06-18",
        untestable_server="Whether a schema could have said the same with less, only its author knows",
        untestable_client="A client sends no schemas",
    ),
)
