"""Resources."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/resources")
_server = partial(_rule, side="server")

RULES = (
    _server(
        id="RS-01",
        level="MUST",
        basis="schema",
        title="A listed resource has a uri and a name; a listed template has a uriTemplate (RFC 6570) and a name",
        fix="Give each resource a uri and a name, and each template a name and a uriTemplate as in RFC 6570.",
    ),
    _server(
        id="RS-02",
        level="MUST",
        basis="schema",
        title="resources/read returns an array of contents, each with a uri and text or a blob",
        fix="Respond with contents, an array; each item has a uri, and text or a blob.",
    ),
    _server(
        id="RS-03",
        level="MUST",
        basis="schema",
        title="A subscription is confirmed by an empty result; changes are announced until it ends, and not after",
        until="2025-11-25",
        partly=(
            "Only the confirmations, unless a tool named touch, as test servers have it, changes a listed resource;"
            " notifications that are collected and sent late are not waited for"
        ),
        fix="Confirm with an empty result, and send notifications/resources/updated with the uri until the client unsubscribes.",
    ),
    _server(
        id="RS-04",
        level="SHOULD",
        basis="schema",
        title="Changes of a resource are announced only to its subscribers",
        until="2025-11-25",
        partly="Only for a client without subscriptions, with the tool touch of test servers",
        fix="Keep the subscriptions of each connection, and notify only the subscribers of a resource.",
    ),
    _rule(
        id="RS-05",
        level="MUST",
        basis="schema",
        title="resources/subscribe and resources/unsubscribe no longer exist; clients listen instead",
        since="2026-07-28",
        partly_server="Only that both methods are gone; whether a listen for a resource is served belongs to SU-09",
        fix="Listen with resourceSubscriptions in subscriptions/listen; a server responds to the old methods with -32601.",
    ),
    _server(
        id="RS-06",
        level="MUST",
        title="A resource that does not exist is an error, never empty contents",
        since="2026-07-28",
        fix="Respond with -32602, with the uri in its data.",
    ),
    _server(
        id="RS-07",
        level="SHOULD",
        title=("A server with resources.listChanged announces changes of its resources; in modern revisions only to listens"),
        partly=(
            "The list of a server cannot be changed from outside: this needs a tool named mutate_resources, as test servers have it"
        ),
        fix="Announce changes, in modern revisions only to listens that ask for them, or do not declare listChanged.",
    ),
    _server(
        id="RS-08",
        level="MUST",
        title="URIs are validated: an invalid URI, or one that leaves its folder, returns no content",
        partly="Three path traversals to files that every system has; links and other files are not tried",
        fix="Look URIs up; resolve their paths, links included, and reject everything outside the served folder.",
    ),
    _server(
        id="RS-09",
        level="MUST",
        title="Listed URIs follow RFC 3986",
        since="2025-06-18",
        fix="Begin with a scheme, and percent-encode every character that a URI may not have.",
    ),
    _server(
        id="RS-10",
        level="MAY",
        title="resources/read may return a result that asks for input",
        since="2026-07-28",
        untestable="It is a permission; the rules of section MR say how such a result must look",
    ),
    _server(
        id="RS-11",
        level="SHOULD",
        basis="inference",
        title="A server without resources.subscribe rejects resources/subscribe with -32601",
        until="2025-11-25",
        lenient="The sub-capability permits the method; the text does not say with which error it is rejected otherwise",
        fix="Respond with -32601, or declare resources.subscribe.",
    ),
)
