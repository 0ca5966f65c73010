"""JSON Schema."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")

_GIVEN_NONE = "A server is not given any schemas: it validates by its own"

RULES = (
    _rule(
        id="JS-01",
        level="MUST",
        title="A schema without $schema is read and written as 2020-12; any other dialect is named in $schema",
        since="2025-11-25",
        partly_server="Only how schemas are written; whether arguments are validated in that dialect is not tried",
        fix="Read and write schemas without $schema as 2020-12; name any other dialect in $schema.",
    ),
    _rule(
        id="JS-02",
        level="MUST",
        title="Schemas are read in the dialect that they name; an unknown dialect does no harm to anything else",
        since="2025-11-25",
        untestable_server=_GIVEN_NONE,
        fix="Report the tool whose schema cannot be used, and use the others.",
    ),
    _rule(
        id="JS-03",
        level="MUST",
        title="Schemas are valid in their own dialect",
        since="2025-11-25",
        untestable_client="A client sends no schemas",
        fix="Fix the schema; any validator shows the place.",
    ),
    _rule(
        id="JS-04",
        level="MUST",
        title="Nothing is fetched because a schema refers to it",
        since=MODERN[0],
        untestable_server=_GIVEN_NONE,
        fix="Do not fetch what a $ref names, unless the user has allowed that address.",
    ),
    _rule(
        id="JS-05",
        level="SHOULD",
        title="A value that cannot be validated, because a reference points outside the schema, is not treated as valid",
        since=MODERN[0],
        untestable_server=_GIVEN_NONE,
        untestable_client="What a client thinks of a result is not visible on the wire",
    ),
    _rule(
        id="JS-06",
        level="SHOULD",
        title="A schema that would take endless time to validate does not block anything",
        since=MODERN[0],
        untestable_server=_GIVEN_NONE,
        fix="Limit the depth, the number of subschemas or the time of a validation.",
    ),
    _rule(
        id="JS-07",
        level="MUST",
        basis="schema",
        title='An inputSchema has "type":"object" at its root, and may use any other keyword of JSON Schema',
        since=MODERN[0],
        fix='Servers: put "type":"object" at the root, beside other keywords such as oneOf. Clients: accept every keyword.',
    ),
    _rule(
        id="JS-08",
        level="MAY",
        basis="schema",
        title="For old clients, schemas use only what all dialects have in common, if possible",
        until="2025-06-18",
        untestable_server="Only its author knows whether a schema could be written with fewer keywords",
        untestable_client="A client sends no schemas",
    ),
)
