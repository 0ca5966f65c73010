"""Content blocks, annotations and icons."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/tools")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "CT-01": _rule(
        must="Content blocks have a known type and the members of that type",
        basis="schema",
        fix="Give each block a type that exists in the revision, and the members of that type.",
    ),
    "CT-02": _server(
        must=(
            "Content blocks have types that exist in the revision; older ones get text or an embedded resource instead of"
            " audio and links"
        ),
        basis="inference",
        until="2025-11-25",
        lenient=(
            "The schema of each revision lists its block types, and the agreed version is to be respected (LC-11); the text"
            " does not say what to send instead"
        ),
        fix="Send text or an embedded resource where the revision does not have the block type.",
    ),
    "CT-03": _rule(
        must="Binary data is base64, with a MIME type",
        fix="Encode binary data as base64 (the standard alphabet, padded, without line breaks), and give its type in mimeType.",
    ),
    "CT-04": _rule(
        must="In annotations, audience is user or assistant, priority is from 0 to 1, and lastModified is an ISO 8601 date",
        basis="schema",
        page="server/resources",
        fix="Use only user and assistant in audience, 0 to 1 as priority, and dates such as 2025-01-12T15:00:58Z as lastModified.",
    ),
    "CT-05": _server(
        should="A server that embeds resources declares resources",
        since="2025-06-18",
        fix="Declare the capability resources, and let clients read the resources that you embed.",
    ),
    "CT-06": _rule(
        must="An icon has a src; its optional mimeType, sizes and theme match the schema",
        basis="schema",
        page="basic",
        since="2025-11-25",
        fix="Give each icon a src; sizes is an array of strings, theme is light or dark.",
    ),
    "CT-07": _client(
        must="Icons are not loaded from addresses other than https: and data:",
        page="basic",
        since="2025-11-25",
        lenient="One sentence requires https: or data:, another allows src to be an http: address: http: is accepted",
        partly="Only ftp: and ws: can be observed; redirects, credentials, file: and javascript: are not visible",
        fix="Load icons only from https: and data: addresses. Ignore all others, and keep the tool.",
    ),
    "CT-08": _client(
        should="A block of an unknown type does not affect the blocks beside it",
        basis="inference",
        lenient="The text does not say what to do with a block of an unknown type",
        partly="Only that the client continues; whether the text reaches the caller is not visible",
        fix="Keep or ignore a block of an unknown type, and use the other blocks.",
    ),
}
