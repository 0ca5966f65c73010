"""JSON Schema."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")

_GIVEN_NONE = "A server is not given any schemas: it validates by its own"

RULES = {
    "JS-01": _rule(
        must="A schema without $schema is read and written as 2020-12; any other dialect is named in $schema",
        since="2025-11-25",
        partly_server="Only how schemas are written; whether arguments are validated in that dialect is not tried",
        fix="Read and write schemas without $schema as 2020-12; name any other dialect in $schema.",
    ),
    "JS-02": _rule(
        must="Schemas are read in the dialect that they name; an unknown dialect does no harm to anything else",
        since="2025-11-25",
        untestable_server=_GIVEN_NONE,
        fix="Report the tool whose schema cannot be used, and use the others.",
    ),
    "JS-03": _rule(
        must="Schemas are valid in their own dialect",
        since="2025-11-25",
        untestable_client="A client sends no schemas",
        fix="Fix the schema; any validator shows the place.",
    ),
    "JS-04": _rule(
        must="Nothing is fetched because a schema refers to it",
        since=MODERN[0],
        untestable_server=_GIVEN_NONE,
        fix="Do not fetch what a $ref names, unless the user has allowed that address.",
    ),
    "JS-05": _rule(
        should="A value that cannot be validated, because a reference points outside the schema, is not treated as valid",
        since=MODERN[0],
        untestable_server=_GIVEN_NONE,
        untestable_client="What a client thinks of a result is not visible on the wire",
    ),
    "JS-06": _rule(
        should="A schema that would take endless time to validate does not block anything",
        since=MODERN[0],
        untestable_server=_GIVEN_NONE,
        fix="Limit the depth, the number of subschemas or the time of a validation.",
    ),
    "JS-07": _rule(
        must='An inputSchema has "type":"object" at its root, and may use any other keyword of JSON Schema',
        basis="schema",
        since=MODERN[0],
        fix='Servers: put "type":"object" at the root, beside other keywords such as oneOf. Clients: accept every keyword.',
    ),
    "JS-08": _rule(
        may="For old clients, schemas use only what all dialects have in common, if possible",
        basis="schema",
        until="2025-06-18",
        untestable_server="Only its author knows whether a schema could be written with fewer keywords",
        untestable_client="A client sends no schemas",
    ),
}
