"""Both eras side by side: how a client detects the era of a server, and how a server serves both."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_STDIO = "basic/transports/stdio"
_VERSIONING = "basic/versioning"

_client = partial(Rule, side="client", since="2026-07-28", page=_STDIO)
_reading = partial(_client, basis="inference")
_server = partial(Rule, side="server", page="basic/lifecycle", modern_page=_VERSIONING)

RULES = {
    "DE-01": _client(
        should="A client of both eras sends server/discover before anything else",
        fix="Begin with server/discover, in the newest version that you support.",
    ),
    "DE-02": _reading(
        must="A client uses no handshake with a server that answers server/discover",
        lenient="The text says to continue with a version of the list; it does not say explicitly that no handshake follows",
        fix="Choose a version of supportedVersions and send modern requests.",
    ),
    "DE-03": _client(
        must="A server that rejects a version with -32022 and a list is modern: the client uses that list, not a handshake",
        lenient=(
            "There is only one modern version so far, so the list has only the version that was rejected: a client that gives"
            " up instead of trying it again is accepted"
        ),
        fix="Send server/discover once more, with a version of data.supported.",
    ),
    "DE-04": _reading(
        must="A server that rejects the probe, answers it with nonsense or not at all is legacy: initialize follows",
        lenient="The text speaks of other errors and of silence; a result without meaning is our addition",
        fix="Send initialize unless the probe proves that the server is modern, also after some seconds of silence.",
    ),
    "DE-05": _client(
        must="Whatever error code the probe gets, initialize follows",
        fix="Send initialize, whatever the code of the error is.",
    ),
    "DE-06": _reading(
        should="If the server exits on the probe, the client starts it again and sends initialize",
        lenient="A server that exited is to be started again, and silence means the legacy era; the text does not combine the two",
        fix="Start the server again and begin with initialize.",
    ),
    "DE-07": _client(
        should="The era of a server is determined once; a later failed call does not change it",
        fix="Remember the era of a server as long as its process lives.",
    ),
    "DE-08": _client(
        should="A modern-only client detects a legacy server by a probe, and leaves it alone",
        page=_VERSIONING,
        fix="Begin with server/discover; if the server rejects it, report to the user that the server is too old.",
    ),
    "DE-09": _server(
        must="A server without a handshake rejects initialize with an error, and keeps running",
        since="2026-07-28",
        partly="Whether the error names the supported versions (a SHOULD) is not judged",
        fix="Reject initialize with an error (-32022, with your versions in data.supported), and continue.",
    ),
    "DE-10": _server(
        may="A request with a modern version is served by the modern rules, without a handshake",
        since="2026-07-28",
        fix="Serve a request with a modern version by its own _meta, without a handshake.",
    ),
    "DE-11": _server(
        must="After a handshake, requests are served by the agreed version",
        fix="Remember the handshake: requests without a modern _meta belong to the session.",
    ),
    "DE-12": _server(
        may="After a handshake, a modern request gets a response of either era or an error, and the session continues",
        lenient=(
            "One sentence says that requests with modern _meta are served by the modern rules, another that initialize"
            " selects the legacy era for the whole process: responses of either era, and errors, are accepted"
        ),
        partly="Only that the session continues, and that a response comes back",
        fix="Decide by the _meta of each message which era it belongs to, or let the session serve them all.",
    ),
    "DE-13": _server(
        should="Without a handshake, a request without a version gets an error and is not executed",
        basis="inference",
        lenient=(
            "The modern era rejects requests without _meta, the legacy era does not speak of requests before initialize, and"
            " the server may support both"
        ),
        fix="Reject a request without a handshake and without a modern _meta with -32600.",
    ),
    "DE-14": _server(
        should="A modern request that names a legacy version is rejected with -32022",
        basis="inference",
        since="2026-07-28",
        lenient="An example on the page lists 2025-11-25 among the versions that a server supports for requests",
        fix="Support only modern versions in the _meta of requests.",
    ),
    "DE-15": _reading(
        should="Legacy versions in a server's list are not used for requests; if there are no others, initialize follows",
        side="both",
        page=_VERSIONING,
        untestable_server="It permits a server to list them",
        lenient="An example on the page lists 2025-11-25 among the versions that a server supports for requests",
        fix="Use only versions from 2026-07-28 on for requests. If the list has none, send initialize.",
    ),
    "DE-16": _server(
        must="A request served by the modern rules sends no questions as requests, even if there is also a session",
        basis="inference",
        lenient=(
            "By one sentence initialize selects the legacy era for the whole process: judged only for servers that answer"
            " modern requests inside a session by the modern rules"
        ),
        partly="Only tools that may be called, of servers that serve both eras on one connection",
        fix="Ask with a result of type input_required if the call is a modern request.",
    ),
    "DE-17": _reading(
        should="A response to the probe that arrives after the client gave up is dropped, and its id stays in use",
        lenient="The text does not mention late responses to the probe",
        fix="Drop responses to requests that you have given up, and do not reuse their ids.",
    ),
}
