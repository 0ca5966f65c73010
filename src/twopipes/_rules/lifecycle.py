"""The handshake and the version that it agrees on."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/lifecycle", until="2025-11-25")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "LC-01": _client(
        must="initialize is the first request (after the probe of a client that knows both eras)",
        fix="Send initialize before anything else, except the probe server/discover and ping.",
    ),
    "LC-02": _client(
        must="initialize has protocolVersion, capabilities and clientInfo",
        # No page says what a server does if one is missing: responding with its own version is accepted.
        fix="Send protocolVersion, capabilities and clientInfo (with name and version) in initialize.",
    ),
    "LC-03": _server(
        must="The result of initialize has protocolVersion, capabilities and serverInfo",
        fix="Respond to initialize with protocolVersion, capabilities and serverInfo (with name and version).",
    ),
    "LC-04": _client(
        must="After the result of initialize, the client sends notifications/initialized",
        fix="Send notifications/initialized after the response to initialize, before the first request.",
    ),
    "LC-05": _client(
        should="Before the result of initialize, the client sends no request except ping",
        fix="Wait for the result of initialize before you send any request except ping.",
    ),
    "LC-06": _server(
        should="Before notifications/initialized, the server sends no request except ping",
        fix="Wait for notifications/initialized before you send any request except ping.",
    ),
    "LC-07": _client(
        must="The client requests a version that it supports",
        partly="Whether it is the newest that the client supports (a SHOULD) is not judged",
        fix="Request the newest version that you support.",
    ),
    "LC-08": _server(
        must="The server agrees to a version that it supports",
        fix="Return the requested version unchanged if you support it.",
    ),
    "LC-09": _server(
        must="For a version that it does not support, the server responds with one that it supports, not with an error",
        lenient="An example on the page has an error for this: an error that names the supported versions is accepted",
        partly="Whether the version in the response is the newest that the server supports (a SHOULD) is not judged",
        fix="Respond with the newest version that you support; the client decides whether it can use it.",
    ),
    "LC-10": _client(
        should="A client that does not support the server's version disconnects",
        fix="Close the connection if you do not support the version in the result of initialize, and report why.",
    ),
    "LC-11": _rule(
        should="Only features of the agreed version and of the declared capabilities are used",
        must_since="2025-06-18",
        partly_server="Only what callable tools cause, for a client that declares nothing",
        partly_client=(
            "Only the methods of its requests, compared with the version and with what the server declared; before"
            " 2025-06-18, a recording shows only the version"
        ),
        fix="Check the agreed version and capabilities, and use nothing else.",
    ),
    "LC-12": _client(
        must="initialize is never cancelled",
        page="basic/utilities/cancellation",
        partly="Only while the check leaves a handshake without a response",
        fix="Close the connection instead: nothing can be done on it without a handshake.",
    ),
    "LC-13": _rule(
        should="A failed handshake does not crash the program",
        partly_client="Only death by a signal is visible: an orderly and a disorderly failure may have the same exit code",
        fix="A server responds to an invalid initialize with -32602 and waits for the next one; a client reports the error.",
    ),
    "LC-14": _server(
        should="A request before initialize gets an error, is not executed, and does not end the server",
        basis="inference",
        lenient="The client must begin with initialize; no revision says what a server does otherwise",
        fix="Serve a request only after a handshake, or with the _meta of a modern one; otherwise respond with -32600.",
    ),
    "LC-15": _server(
        should="A second initialize is rejected, and the session continues",
        basis="inference",
        lenient="No revision says what to do with a second initialize",
        fix="Reject initialize with -32600 in an open session, and change nothing about the session.",
    ),
    "LC-16": _server(
        must="initialize for a revision without a handshake gets a revision with one",
        basis="inference",
        lenient="It follows from the rule for unsupported versions; the old revisions could not know the modern era",
        fix="Respond with the newest version that has a handshake.",
    ),
}
