"""Resources."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/resources")

RULES = (
    _rule(
        id="RS-01",
        level="MUST",
        basis="schema",
        side="server",
        title="A listed resource has a uri and a name, a listed template a uriTemplate (RFC 6570) and a name",
        fix="Give each resource a uri and a name, and each template a uriTemplate and a name.",
    ),
    _rule(
        id="RS-02",
        level="MUST",
        basis="schema",
        side="server",
        title="What is read is an array of contents, each with its uri and a text or a blob",
        fix="Answer with contents, an array; each has the uri, and a text or a blob.",
    ),
    _rule(
        id="RS-03",
        level="MUST",
        basis="schema",
        side="server",
        title="A subscription is confirmed by an empty result; changes are told until it is ended, and not after",
        until="2025-11-25",
        partly=(
            "Only the confirmations, unless a tool by the name of touch, as test servers have it, changes a listed resource;"
            " what is gathered and told late after the end is not waited for"
        ),
    ),
    _rule(
        id="RS-04",
        level="SHOULD",
        basis="schema",
        side="server",
        title="Nobody is told of changes of a resource that he has not subscribed to",
        until="2025-11-25",
        partly="Only a client that has subscribed to nothing is tried, by the tool touch of test servers",
    ),
    _rule(
        id="RS-05",
        level="MUST",
        basis="schema",
        title="resources/subscribe and resources/unsubscribe are gone: whoever wants to know of changes listens",
        since="2026-07-28",
        partly_server="That the two are gone; whether a listen for a resource is served shows with SU-09",
        fix="Listen with resourceSubscriptions instead.",
    ),
    _rule(
        id="RS-06",
        level="MUST",
        side="server",
        title="A resource that is not there is an error, and never empty contents",
        since="2026-07-28",
    ),
    _rule(
        id="RS-07",
        level="SHOULD",
        side="server",
        title="A server that has declared listChanged tells when its resources change; on the stateless wire only those who listen",
        partly=(
            "Nobody outside can change the list of a server: it takes a tool by the name of mutate_resources, as test"
            " servers have it"
        ),
    ),
    _rule(
        id="RS-08",
        level="MUST",
        side="server",
        title="URIs are checked: one that is none, or that climbs out of its folder, gives no content",
        partly="Three ways to climb, to files that every system has; links, and other files, are not tried",
    ),
    _rule(id="RS-09", level="MUST", side="server", title="Listed URIs are written as RFC 3986 asks", since="2025-06-18"),
    _rule(
        id="RS-10",
        level="MAY",
        side="server",
        title="Reading may be answered with a question",
        since="2026-07-28",
        untestable="It permits something; how such a question must look is said by the rules of section MR",
    ),
    _rule(
        id="RS-11",
        level="SHOULD",
        basis="inference",
        side="server",
        title="A server that has not declared subscribe refuses it with -32601",
        until="2025-11-25",
        lenient="The sub-capability permits the method; with which error it is refused otherwise is not said",
    ),
)
