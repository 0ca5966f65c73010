"""Two eras side by side: how a client finds out which one a server is of, and how a server serves both."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_STDIO = "basic/transports/stdio"
_VERSIONING = "basic/versioning"

_client = partial(Rule, side="client", since="2026-07-28", page=_STDIO)
_reading = partial(_client, basis="inference")
_server = partial(Rule, side="server", page="basic/lifecycle", modern_page=_VERSIONING)

RULES = (
    _client(id="DE-01", level="SHOULD", title="A client of both eras asks server/discover before anything else"),
    _reading(
        id="DE-02",
        level="MUST",
        title="A server that can be discovered is spoken to without a handshake",
        lenient="The text says to go on with a version of the list; that no handshake follows is not spelled out",
    ),
    _client(
        id="DE-03",
        level="MUST",
        title="A server that refuses a version with -32022 and a list is of the new era: the client takes that, and no handshake",
        lenient=(
            "There is only one version of the new era so far, so that the list has none but the one that was refused: a client"
            " that gives up instead of trying it again is let pass"
        ),
    ),
    _reading(
        id="DE-04",
        level="MUST",
        title="A server that refuses the probe, answers it with nonsense or not at all is of the old era: initialize follows",
        lenient="The text speaks of other errors and of silence; a result that says nothing is our addition",
    ),
    _client(id="DE-05", level="MUST", title="Whatever the code with which the probe is refused, initialize follows"),
    _reading(
        id="DE-06",
        level="SHOULD",
        title="A server that the probe has ended is started again, and gets initialize",
        lenient=(
            "The text wants a server that died to be started again, and takes silence for the old era; it does not put the"
            " two together"
        ),
    ),
    _client(
        id="DE-07",
        level="SHOULD",
        title="The era of a server is found out once; a call that fails later does not change it",
    ),
    _client(
        id="DE-08",
        level="SHOULD",
        title="A client of the new era alone finds out by a probe that a server is of the old one, and leaves it in peace",
        page=_VERSIONING,
    ),
    _server(
        id="DE-09",
        level="MUST",
        since="2026-07-28",
        title="A server without a handshake refuses initialize with an error, and lives on",
        partly="Whether the error names the supported versions (a SHOULD) is not judged",
    ),
    _server(
        id="DE-10",
        level="MAY",
        since="2026-07-28",
        title="A request that carries the version of the new era is served by its rules, without a handshake",
    ),
    _server(id="DE-11", level="MUST", title="After a handshake, requests are served by the version that it agreed on"),
    _server(
        id="DE-12",
        level="MAY",
        title="After a handshake, a request of the new era gets an answer of one era or an error, and the session goes on",
        lenient=(
            "One sentence serves every request with modern _meta by the new rules, another lets initialize select the old"
            " era for the whole process: answers by either, and errors, are let pass"
        ),
        partly="Only that the session goes on, and that what comes back is an answer",
    ),
    _server(
        id="DE-13",
        level="SHOULD",
        basis="inference",
        title="Without a handshake, a request that names no version gets an error and is not carried out",
        lenient=(
            "The new era refuses what has no _meta, the old one is silent about requests before initialize, and the server"
            " may be of both"
        ),
    ),
    _server(
        id="DE-14",
        level="SHOULD",
        basis="inference",
        since="2026-07-28",
        title="A request that names a version of the old era gets -32022: those have no requests that stand alone",
        lenient="An example of the page has 2025-11-25 among the versions that a server supports for requests",
    ),
    _reading(
        id="DE-15",
        level="SHOULD",
        side="both",
        title="Versions of the old era in a server's list are not for requests; where there are no others, initialize follows",
        page=_VERSIONING,
        untestable_server="It permits a server to list them",
        lenient="An example of the page has 2025-11-25 among the versions that a server supports for requests",
    ),
    _server(
        id="DE-16",
        level="MUST",
        basis="inference",
        title=(
            "Work that is done by the rules of the new era asks no questions by requests, not even where there is a session"
            " beside it"
        ),
        lenient=(
            "By one sentence initialize selects the old era for the whole process: judged only of servers that answer"
            " requests of the new era, in a session, by the new rules"
        ),
        partly="Only tools that may be called, of servers that serve both eras on one connection",
    ),
    _reading(
        id="DE-17",
        level="SHOULD",
        title="An answer to the probe that comes after the client has given it up is dropped, and its id stays used",
        lenient="Late answers to the probe are not spoken of",
    ),
)
