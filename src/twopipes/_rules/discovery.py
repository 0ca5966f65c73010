"""Self-contained requests: the version and the capabilities in each one, and discovery."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic", since="2026-07-28")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "VN-01": _client(
        must="Every request has the protocol version and the client capabilities in its _meta",
        fix="Put the version and the client capabilities into the _meta of every request.",
    ),
    "VN-02": _server(
        must="A request without the version or the capabilities is rejected with -32602, whatever earlier requests contained",
        lenient=(
            "A server of both eras may treat a request without a version as a legacy request. Then any error is accepted;"
            " -32602 is required only if the version is present"
        ),
        partly="Tried with server/discover only",
        fix=("Reject a request that lacks the version or the capabilities with -32602; do not reuse those of earlier requests."),
    ),
    "VN-03": _rule(
        should="Every request has clientInfo in its _meta; a request without it is served as well",
        inferred_for="server",
        lenient=(
            "The page asks it of clients, unless they are configured otherwise, and says that it is not required. That a"
            " server serves requests without it follows from that"
        ),
        fix="Clients: put clientInfo, with name and version, into the _meta of every request. Servers: do not require it.",
    ),
    "VN-04": _server(
        must="A version that the server does not support is rejected with -32022, for every method",
        page="basic/versioning",
        lenient="The text does not say whether the version or the method is checked first: -32601 for a listen is accepted",
        fix="Compare the version of each request with those that you support, before anything else.",
    ),
    "VN-05": _client(
        should=(
            "After -32022 the client retries with a version of the server's list and a new id, or gives up; it does not retry"
            " endlessly"
        ),
        page="basic/versioning",
        lenient=(
            "The text speaks of one retry, and not of what follows if it is rejected as well: up to six identical attempts"
            " are accepted"
        ),
        fix="Try a version of data.supported once, as a new request; if that is rejected as well, report it to the user.",
    ),
    "VN-06": _server(
        must="server/discover exists, and its result has every member that a client needs to choose a version",
        page="server/discover",
        fix="Respond to server/discover with all members that the schema requires.",
    ),
    "VN-07": _server(
        may="Discovery is optional: the server serves any first request",  # the permission is for clients
        page="server/discover",
        fix="Serve each request by its own _meta; nothing has to come before it.",
    ),
    "VN-08": _server(
        should="Every result has serverInfo in its _meta",
        fix="Put serverInfo, with name and version, into the _meta of every result.",
    ),
    "VN-09": _server(
        must="Every result has a resultType that the client knows",
        fix='Put a resultType into every result: "complete", unless the result asks for input.',
    ),
    "VN-10": _client(
        must="A result without a resultType, as older servers send it, is treated as complete",
        lenient=(
            "The page says it of every result, because of older servers; the schema says it only of the results of those. A"
            " client that rejects one from a modern server is accepted"
        ),
        partly="Tried with tools/list only",
        fix="Treat a result without a resultType as complete.",
    ),
    "VN-11": _client(
        must="A result with an unknown resultType is not used",
        fix="Treat a result with an unknown resultType as an error.",
    ),
    "VN-12": _server(
        must="Methods that this revision removed do not exist: -32601",
        basis="schema",
        page="changelog",
        fix="Reject methods that do not exist in this revision with -32601.",
    ),
    "VN-13": _server(
        must="Version, capabilities and clientInfo are taken from the request itself, never from another one",
        page="basic/versioning",
        fix="Do not remember anything about the client from one request to the next.",
    ),
    "VN-14": _rule(
        should="The name and version of the other side do not change how it is treated",
        fix="Show the name and version to people only; behaviour depends on the declared capabilities.",
    ),
    "VN-15": _server(
        must="Client notifications are accepted without any _meta",
        basis="schema",
        partly="Tried with notifications/cancelled only, which is the only notification that clients send",
        fix="Require _meta only in requests, and do not let a notification decide the era of the next request.",
    ),
}
