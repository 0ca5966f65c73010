"""Requests that stand alone: the version and the capabilities in each, and discovery."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic", since="2026-07-28")

RULES = (
    _rule(
        id="VN-01",
        level="MUST",
        side="client",
        title="Every request says in its _meta which version it is of and what the client can do",
        fix="Put the version and the client's capabilities into the _meta of every request.",
    ),
    _rule(
        id="VN-02",
        level="MUST",
        side="server",
        title="A request that lacks either is refused with -32602, whatever earlier requests said",
        lenient=(
            "A server of both eras may take a request that names no version for one of the old era: any error will do then,"
            " and -32602 has to come where the version is named"
        ),
        partly="Tried with server/discover alone",
        fix="Refuse a request that lacks the version or the capabilities with -32602; remember nothing of earlier ones.",
    ),
    _rule(
        id="VN-03",
        level="SHOULD",
        title="Every request says in its _meta who the client is; one that does not is served as well",
        inferred_for="server",
        lenient=(
            "The page asks it of clients, unless they are set up otherwise, and says that it is not required: that a server"
            " does without it follows from that"
        ),
        fix="Put clientInfo, with name and version, into the _meta of every request.",
    ),
    _rule(
        id="VN-04",
        level="MUST",
        side="server",
        title="A version that the server does not serve gets -32022, whatever the method",
        page="basic/versioning",
        lenient="What is looked at first, the version or the method, is left open: -32601 for a listen is let pass",
    ),
    _rule(
        id="VN-05",
        level="SHOULD",
        side="client",
        title="After -32022 the client tries a version of the server's list, under a new id, or gives up; never for ever",
        page="basic/versioning",
        lenient=(
            "The text speaks of one retry and not of what follows if that is refused as well: up to six times the same are let pass"
        ),
    ),
    _rule(
        id="VN-06",
        level="MUST",
        side="server",
        title="server/discover is there, and its result has all that a client chooses by",
        page="server/discover",
        fix="Answer server/discover with all members that the schema requires.",
    ),
    _rule(
        id="VN-07",
        level="MAY",
        # It permits something to clients, and so it asks something of servers.
        side="server",
        title="Nobody has to discover first: whatever request comes first is served",
        page="server/discover",
    ),
    _rule(
        id="VN-08",
        level="SHOULD",
        side="server",
        title="Every result says in its _meta who the server is",
        fix="Put serverInfo, with name and version, into the _meta of every result.",
    ),
    _rule(
        id="VN-09",
        level="MUST",
        side="server",
        title="Every result says of which type it is, and it is one that the client knows",
        fix='Put a resultType into every result: "complete", unless it asks for input.',
    ),
    _rule(
        id="VN-10",
        level="MUST",
        side="client",
        title="A result that does not say its type, as those of older servers do not, is taken for a complete one",
        lenient=(
            "The page says it of every result, for the sake of older servers, and the schema of results of those alone: a"
            " client that refuses one of a server of the new era is let pass"
        ),
        partly="Tried with the list of tools alone",
    ),
    _rule(id="VN-11", level="MUST", side="client", title="A result of a type that the client does not know is not used"),
    _rule(
        id="VN-12",
        level="MUST",
        basis="schema",
        side="server",
        title="Methods that this revision has done away with do not exist: -32601",
        page="changelog",
        fix="Answer what this revision does not have with -32601.",
    ),
    _rule(
        id="VN-13",
        level="MUST",
        side="server",
        title="The version, the capabilities and the name of the client are those of the request, and of no other",
        page="basic/versioning",
    ),
    _rule(id="VN-14", level="SHOULD", title="What the other side calls itself changes nothing about how it is treated"),
    _rule(
        id="VN-15",
        level="MUST",
        basis="schema",
        side="server",
        title="Notifications of the client are taken without any _meta",
        partly="Tried with notifications/cancelled alone, which is all that clients send",
    ),
)
