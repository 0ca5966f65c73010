"""Resources."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/resources")
_server = partial(_rule, side="server")

RULES = {
    "RS-01": _server(
        must="A listed resource has a uri and a name; a listed template has a uriTemplate (RFC 6570) and a name",
        basis="schema",
        fix="Give each resource a uri and a name, and each template a name and a uriTemplate as in RFC 6570.",
    ),
    "RS-02": _server(
        must="resources/read returns an array of contents, each with a uri and text or a blob",
        basis="schema",
        fix="Respond with contents, an array; each item has a uri, and text or a blob.",
    ),
    "RS-03": _server(
        must="A subscription is confirmed by an empty result; changes are announced until it ends, and not after",
        basis="schema",
        until="2025-11-25",
        partly=(
            "Only the confirmations, unless a tool named touch, as test servers have it, changes a listed resource;"
            " notifications that are collected and sent late are not waited for"
        ),
        fix="Confirm with an empty result, and send notifications/resources/updated with the uri until the client unsubscribes.",
    ),
    "RS-04": _server(
        should="Changes of a resource are announced only to its subscribers",
        basis="schema",
        until="2025-11-25",
        partly="Only for a client without subscriptions, with the tool touch of test servers",
        fix="Keep the subscriptions of each connection, and notify only the subscribers of a resource.",
    ),
    "RS-05": _rule(
        must="resources/subscribe and resources/unsubscribe no longer exist; clients listen instead",
        basis="schema",
        since="2026-07-28",
        partly_server="Only that both methods are gone; whether a listen for a resource is served belongs to SU-09",
        fix="Listen with resourceSubscriptions in subscriptions/listen; a server responds to the old methods with -32601.",
    ),
    "RS-06": _server(
        must="A resource that does not exist is an error, never empty contents",
        since="2026-07-28",
        fix="Respond with -32602, with the uri in its data.",
    ),
    "RS-07": _server(
        should="A server with resources.listChanged announces changes of its resources; in modern revisions only to listens",
        partly=(
            "The list of a server cannot be changed from outside: this needs a tool named mutate_resources, as test servers have it"
        ),
        fix="Announce changes, in modern revisions only to listens that ask for them, or do not declare listChanged.",
    ),
    "RS-08": _server(
        must="URIs are validated: an invalid URI, or one that leaves its folder, returns no content",
        partly="Three path traversals to files that every system has; links and other files are not tried",
        fix="Look URIs up; resolve their paths, links included, and reject everything outside the served folder.",
    ),
    "RS-09": _server(
        must="Listed URIs follow RFC 3986",
        since="2025-06-18",
        fix="Begin with a scheme, and percent-encode every character that a URI may not have.",
    ),
    "RS-10": _server(
        may="resources/read may return a result that asks for input",
        since="2026-07-28",
        untestable="It is a permission; the rules of section MR say how such a result must look",
    ),
    "RS-11": _server(
        should="A server without resources.subscribe rejects resources/subscribe with -32601",
        basis="inference",
        until="2025-11-25",
        lenient="The sub-capability permits the method; the text does not say with which error it is rejected otherwise",
        fix="Respond with -32601, or declare resources.subscribe.",
    ),
}
