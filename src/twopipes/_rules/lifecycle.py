"""The handshake and the version that it agrees on."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/lifecycle", until="2025-11-25")

RULES = (
    _rule(
        id="LC-01",
        level="MUST",
        side="client",
        title="initialize comes first (behind the probe of a client that knows both eras)",
        fix="Send initialize before anything else, but for the probe server/discover and ping.",
    ),
    _rule(
        id="LC-02",
        level="MUST",
        # What a server does with less, no page says: to answer with a version of its own will do.
        side="client",
        title="initialize says the version, the capabilities, and who the client is",
        fix="Send protocolVersion, capabilities and clientInfo (with name and version) with initialize.",
    ),
    _rule(
        id="LC-03",
        level="MUST",
        side="server",
        title="The result of initialize says the version, the capabilities, and who the server is",
        fix="Answer initialize with protocolVersion, capabilities and serverInfo (with name and version).",
    ),
    _rule(
        id="LC-04",
        level="MUST",
        side="client",
        title="After the result of initialize, the client sends notifications/initialized",
        fix="Send notifications/initialized as soon as initialize was answered, before the first request.",
    ),
    _rule(
        id="LC-05",
        level="SHOULD",
        side="client",
        title="Before the result of initialize, the client asks nothing but ping",
        fix="Wait for the result of initialize before you ask for anything but ping.",
    ),
    _rule(
        id="LC-06",
        level="SHOULD",
        side="server",
        title="Before notifications/initialized, the server asks nothing but ping",
        fix="Wait for notifications/initialized before you ask for anything but ping.",
    ),
    _rule(
        id="LC-07",
        level="MUST",
        side="client",
        title="The client asks for a version that it supports",
        partly="Whether it is the newest that the client supports (a SHOULD) is not judged",
    ),
    _rule(id="LC-08", level="MUST", side="server", title="A version that the server supports is agreed to"),
    _rule(
        id="LC-09",
        level="MUST",
        side="server",
        title="A version that the server does not support is answered with one that it does, not with an error",
        lenient="An example of the page has an error for it: one that names the supported versions is let pass",
        partly="Whether the version in the answer is the newest that the server supports (a SHOULD) is not judged",
    ),
    _rule(id="LC-10", level="SHOULD", side="client", title="A client that cannot use the version of the server leaves"),
    _rule(
        id="LC-11",
        level="SHOULD",
        title="Nothing is used that the version and the capabilities do not have",
        must_since="2025-06-18",
        partly_server="Only what tools that may be called bring about, for a client that declares nothing",
        partly_client="Only the methods of its requests, compared with the version and with what the server declared; "
        "before 2025-06-18, a recording shows the version alone",
        fix="Look at the version and the capabilities that were agreed on, and leave alone what is not among them.",
    ),
    _rule(
        id="LC-12",
        level="MUST",
        side="client",
        title="initialize is never cancelled",
        page="basic/utilities/cancellation",
        partly="Only for as long as the check leaves a handshake without an answer",
        fix="Close the connection instead: there is nothing on it without a handshake.",
    ),
    _rule(
        id="LC-13",
        level="SHOULD",
        title="A handshake that fails is no reason to crash",
        partly_client="Only death by a signal is seen: who fails in good order and who does not may end with the same code",
    ),
    _rule(
        id="LC-14",
        level="SHOULD",
        basis="inference",
        side="server",
        title="A request before initialize gets an error; it is not carried out, and the server lives on",
        lenient="The client has to begin with initialize; what a server does with one that does not, no revision says",
    ),
    _rule(
        id="LC-15",
        level="SHOULD",
        basis="inference",
        side="server",
        title="A second initialize is refused, and the session goes on",
        lenient="No revision says what becomes of a second initialize",
    ),
    _rule(
        id="LC-16",
        level="MUST",
        basis="inference",
        side="server",
        title="initialize for a revision that has no handshake is answered with one that has",
        lenient="It follows from the rule for versions that are not supported; the old revisions could not know of the new era",
    ),
)
