"""Streamable HTTP: the endpoint, the two kinds of responses, streams, and the sessions of legacy revisions."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import LATEST_LEGACY, MODERN
from twopipes._rules.rule import Rule

_FIRST = "2025-03-26"  # the first revision with Streamable HTTP
_rule = partial(Rule, page="basic/transports", modern_page="basic/transports/streamable-http", since=_FIRST)
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")
_legacy_server = partial(_server, until=LATEST_LEGACY)
_legacy_client = partial(_client, until=LATEST_LEGACY)
_modern_server = partial(_server, since=MODERN[0])
_modern_client = partial(_client, since=MODERN[0])

_NO_CLOSE = "Only a server that closes connections by itself shows it, and no request makes every server do so"

RULES = {
    # Who may connect
    "HT-01": _server(
        must="All messages go to one path, the endpoint, which accepts POST",
        untestable="A server without such a path cannot be checked at all",
        fix="Serve POST at one path.",
    ),
    "HT-02": _server(
        must="A request with an Origin that is not allowed is rejected with 403",
        lenient="Before 2025-11-25 the text does not name the status; 400 and 401 are accepted there",
        fix="Compare the Origin header with a list of allowed origins, before anything else is done, and reject others with 403.",
    ),
    "HT-03": _server(
        should="A server on the loopback address rejects a Host that is not its own",
        basis="inference",
        lenient=(
            "The text asks for a check of Origin against DNS rebinding; browsers leave Origin out of some requests, so Host"
            " has to be checked as well. Any 4xx status is accepted, and servers at other addresses are not judged"
        ),
        fix="Compare the Host header with localhost, 127.0.0.1, [::1] and the names of your configuration; reject others with 403.",
    ),
    "HT-04": _server(
        should="A local server listens on the loopback address only",
        untestable="The check knows one address of the server, and connects to no other",
        fix="Bind to 127.0.0.1, not to 0.0.0.0.",
    ),
    "HT-05": _server(
        should="All connections are authenticated",
        untestable="Whether a server is open to everybody on purpose is not visible",
        fix="Ask for a token, unless the server is for one user of one machine.",
    ),
    # POST
    "HT-06": _client(
        must="Each message is its own POST to the endpoint",
        fix="Send each message as the body of a new POST to the URL that the user gave.",
    ),
    "HT-07": _client(
        must="Each POST accepts both application/json and text/event-stream",
        fix="Send Accept: application/json, text/event-stream with each POST.",
    ),
    "HT-08": _client(
        must="The body of a POST is one message, and in modern revisions never a response",
        lenient="2025-03-26 also allows an array of messages; elsewhere it is a breach",
        fix="Send one object as the body: a request or a notification, and in legacy revisions also a response.",
    ),
    "HT-09": _client(
        should="Each POST has the content type application/json",
        basis="inference",
        lenient="Only the examples show it; servers reject bodies of other types",
        fix="Send Content-Type: application/json with each POST.",
    ),
    "HT-10": _server(
        must="An accepted notification gets 202 without a body",
        fix="Respond to a notification, and in legacy revisions to a response, with 202 Accepted and an empty body.",
    ),
    "HT-11": _server(
        must="A notification or response that is not accepted gets an HTTP error status",
        partly="Only a notification that is malformed is tried",
        fix="Respond with 400 to a notification that cannot be accepted, for example one without a method.",
    ),
    "HT-12": _server(
        must="The response to a request has the content type application/json or text/event-stream",
        fix="Respond to a request with one JSON object as application/json, or with a stream as text/event-stream.",
    ),
    "HT-13": _client(
        must="A client reads a response as JSON and as a stream",
        fix="Look at the content type of each response: application/json is one message, text/event-stream is a stream of them.",
    ),
    "HT-14": _server(
        should="A body that is not JSON, or not a message, is rejected with 400",
        basis="inference",
        lenient="The text gives no status for it; any 4xx status is accepted",
        fix="Respond with 400 and an error response without an id (-32700 or -32600).",
    ),
    # Response streams
    "HT-15": _server(
        should="The stream of a request contains its response, and ends after it",
        partly="A stream that ends without a response is not judged if it can be resumed",
        fix="Send the response as the last event of the stream, then end the stream.",
    ),
    "HT-16": _server(
        should="Messages on the stream of a request relate to that request",
        must_since=MODERN[0],
        partly="Only progress with another token, and changes of lists and resources, are known not to relate to a request",
        fix="Send progress and logs on the stream of their request; announce changes on the stream of a listen, or of GET.",
    ),
    "HT-17": _modern_server(
        should="Streams have the header X-Accel-Buffering: no",
        fix="Send X-Accel-Buffering: no with each response of type text/event-stream, or a proxy may hold events back.",
    ),
    "HT-18": _rule(
        may="Comment lines keep a stream alive, and are ignored",
        since=MODERN[0],
        untestable_server="How long a server waits between two comments is up to it",
        fix="Ignore lines of a stream that start with a colon.",
    ),
    "HT-19": _rule(
        must="Streams follow the standard of server-sent events: every line end, fields without a space, data of several lines",
        basis="inference",
        lenient="The text refers to the standard, and states none of its rules",
        partly_server="Only that each event of a stream has one message as its data, or no data",
        fix=(
            "Write a message as `data: ` and one line of JSON, followed by a blank line. When reading, accept CRLF, CR and LF,"
            " join the data lines of an event with newlines, and ignore fields that you do not know."
        ),
    ),
    "HT-20": _modern_server(
        must="A closed response stream cancels its request",
        untestable="What a server does after the client has closed the stream is not visible to that client",
        fix="Watch the connection while a request is served; when the client closes it, cancel the request and its handler.",
    ),
    "HT-21": _modern_client(
        should="A client cancels a request by closing its stream, and sends no notifications/cancelled",
        basis="inference",
        lenient="The text calls the notification neither required nor expected over HTTP; it does not forbid it",
        fix="Close the response of the POST to cancel a request.",
    ),
    "HT-22": _legacy_server(
        should="A lost connection does not cancel a request",
        fix="Finish the request when the client disconnects, and keep its response for a client that resumes the stream.",
    ),
    "HT-23": _legacy_client(
        should="A client cancels a request with notifications/cancelled",
        fix="Send notifications/cancelled with the id of the request as a new POST; closing the connection is not enough.",
    ),
    # GET
    "HT-24": _legacy_client(
        must="Each GET accepts text/event-stream",
        fix="Send Accept: text/event-stream with each GET.",
    ),
    "HT-25": _legacy_server(
        must="GET gets a stream, or 405",
        fix="Respond to GET with text/event-stream, or with 405 Method Not Allowed if the server has nothing to announce.",
    ),
    "HT-26": _legacy_server(
        must="Responses are not sent on the stream of GET, unless it resumes the stream of their request",
        fix="Send each response on the stream of its POST; a GET without Last-Event-ID gets only requests and notifications.",
    ),
    "HT-27": _legacy_server(
        should="Messages on the stream of GET do not relate to a request that is served",
        partly="Only progress, which names its request by a token, is known to relate to one",
        fix="Send progress and logs of a request on the stream of its POST.",
    ),
    "HT-28": _legacy_server(
        must="Each message is sent on one stream only",
        fix="Choose one stream for each message; do not broadcast it to all that are open.",
    ),
    # Resumption
    "HT-29": _legacy_server(
        must="Event ids are unique in all streams of a session",
        fix="Make the stream a part of the event id, for example a stream number and a position in it.",
    ),
    "HT-30": _legacy_server(
        should="Event ids identify the stream they belong to",
        since="2025-11-25",
        untestable="Event ids are opaque to a client; that the right stream is resumed is another rule",
        fix="Make the stream a part of the event id.",
    ),
    "HT-31": _legacy_server(
        must="A resumed stream contains only messages of the stream that was lost",
        fix="Keep events by stream, and replay those of the stream that Last-Event-ID belongs to.",
    ),
    "HT-32": _legacy_server(
        should="A stream that can be resumed starts with an event that has an id and empty data",
        since="2025-11-25",
        lenient="Judged only for streams whose later events have ids: without them the first one would be useless",
        fix="Send an event with an id and an empty data field as soon as the stream is open.",
    ),
    "HT-33": _legacy_server(
        should="Before a server closes a connection whose stream goes on, it sends a retry field",
        since="2025-11-25",
        untestable=_NO_CLOSE,
        fix="Send `retry:` with milliseconds before the connection is closed.",
    ),
    "HT-34": _legacy_client(
        must="A client waits as long as the retry field says before it connects again",
        since="2025-11-25",
        fix="Keep the last retry field of a stream, and wait that many milliseconds before the next GET.",
    ),
    "HT-35": _legacy_client(
        should="A client resumes a lost stream by GET with Last-Event-ID",
        fix="Keep the id of the last event. If a stream ends before its response, send GET with that id as Last-Event-ID.",
    ),
    # Sessions
    "HT-36": _legacy_server(
        should="Session ids are unique, and cannot be guessed",
        partly="Only that ids differ, and are long enough to be random",
        fix="Create session ids from at least 128 random bits, for example with secrets.token_urlsafe().",
    ),
    "HT-37": _legacy_server(
        must="Session ids consist of visible ASCII characters",
        fix="Use letters, digits and hyphens in session ids.",
    ),
    "HT-38": _legacy_client(
        must="After the handshake, every request has the session id that the server sent",
        fix="Keep the Mcp-Session-Id of the response to initialize, and send it with each POST, GET and DELETE.",
    ),
    "HT-39": _legacy_client(
        must="Session ids are kept secret",
        since="2025-11-25",
        untestable="What a client does with the id besides sending it is not visible",
        fix="Treat the session id as a password: no logs, no other hosts.",
    ),
    "HT-40": _legacy_server(
        should="A server with sessions rejects requests without a session id with 400",
        fix="Respond with 400 to any request without Mcp-Session-Id, other than initialize.",
    ),
    "HT-41": _legacy_server(
        must="A session that has ended, or never existed, gets 404",
        partly="Only sessions that a DELETE has ended, and made-up ids",
        lenient="The text speaks of sessions that ended; a made-up id must not be served either, and any 4xx is accepted for it",
        fix="Respond with 404 to every request with the id of a session that does not exist.",
    ),
    "HT-42": _legacy_client(
        must="After 404 for its session, a client starts a new one",
        fix="Send initialize without a session id, and continue with the new session.",
    ),
    "HT-43": _legacy_client(
        should="A client that no longer needs its session ends it with DELETE",
        fix="Send DELETE with the session id before the client exits.",
    ),
    "HT-44": _legacy_server(
        may="DELETE ends a session; a server that does not allow it responds with 405",
        fix="Respond to DELETE with a 2xx status and end the session, or with 405.",
    ),
    # Both eras
    "HT-45": _modern_client(
        should="A modern error with status 400 does not make a client fall back to initialize",
        fix="Read the body of a 400: an error -32020, -32021 or -32022 comes from a modern server; correct the request and retry.",
    ),
    "HT-46": _modern_client(
        should="A 400 without a modern error makes a client of both eras fall back to initialize",
        lenient="Judged only for clients that also speak a legacy revision",
        fix="If the body of a 400 is empty, or not a modern error, send initialize to the same URL.",
    ),
    "HT-47": _modern_server(
        should="A server without legacy revisions responds to GET and DELETE with 405",
        lenient="Judged only for servers that speak no legacy revision",
        fix="Respond with 405 Method Not Allowed to everything but POST, and OPTIONS if browsers may connect.",
    ),
    "HT-48": _modern_server(
        should="A modern request with an Mcp-Session-Id is served without it, and gets none",
        fix="Ignore Mcp-Session-Id on requests that name a modern revision, and send it only with the response to initialize.",
    ),
    "HT-49": _modern_server(
        should="A modern request with a Last-Event-ID is served without it",
        fix="Ignore Last-Event-ID on requests that name a modern revision.",
    ),
}
