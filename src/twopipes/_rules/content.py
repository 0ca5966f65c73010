"""Content blocks, annotations and icons."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/tools")

RULES = (
    _rule(
        id="CT-01",
        level="MUST",
        basis="schema",
        title="Blocks of content have a type that there is, and the members that belong to it",
        fix="Give each block a type that the revision has, and the members of that type.",
    ),
    _rule(
        id="CT-02",
        level="MUST",
        basis="inference",
        side="server",
        title="Blocks are of types that the revision has; for audio and links, older ones take text or an embedded resource",
        until="2025-11-25",
        lenient=(
            "The schema of each revision lists its blocks, and the agreed version is to be respected (LC-11); what to send"
            " instead is not said"
        ),
        fix="Send text, or an embedded resource, where the revision has no such block.",
    ),
    _rule(
        id="CT-03",
        level="MUST",
        title="Binary data is base64, with a MIME type that says what it is",
        fix="Encode binary data as base64, and say by mimeType what it is.",
    ),
    _rule(
        id="CT-04",
        level="MUST",
        basis="schema",
        title="Annotations are for user or assistant, of a priority from 0 to 1, and of a date in ISO 8601",
        page="server/resources",
    ),
    _rule(
        id="CT-05",
        level="SHOULD",
        side="server",
        title="A server that embeds resources declares resources",
        since="2025-06-18",
    ),
    _rule(
        id="CT-06",
        level="MUST",
        basis="schema",
        title="An icon has a src; its mimeType, sizes and theme are what the schema says, where they are there",
        page="basic",
        since="2025-11-25",
    ),
    _rule(
        id="CT-07",
        level="MUST",
        side="client",
        title="Icons at other addresses than https: and data: are left alone",
        page="basic",
        since="2025-11-25",
        lenient="One sentence wants https: or data:, another lets src be an http: address: that is let pass",
        partly=(
            "Only ftp: and ws: can be watched; redirects, credentials, and what is done about file: and javascript: are not seen"
        ),
    ),
    _rule(
        id="CT-08",
        level="SHOULD",
        basis="inference",
        side="client",
        title="A block of an unknown type does not spoil the blocks beside it",
        lenient="No sentence says what becomes of a block of an unknown type",
        partly="Only that the client goes on; whether the text reaches whoever made the call is not seen",
    ),
)
