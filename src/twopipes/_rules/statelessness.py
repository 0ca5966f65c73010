"""Statelessness."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic", since="2026-07-28")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "ST-01": _server(
        must="Each request is served by its own content, not by what earlier requests on the connection contained",
        fix="Read the version and the capabilities from the _meta of each request, and keep nothing of it for the next one.",
    ),
    "ST-02": _server(
        should="Unrelated requests may be mixed on a connection, without harm to any of them",
        fix="Keep the state of a call in its requestState, or under a handle that the client passes each time.",
    ),
    "ST-03": _server(
        should="A question of one process may be answered to another process of the same server",
        fix="Put everything that is needed to continue into requestState, sealed with a key that all processes share.",
    ),
    "ST-04": _client(
        should="One process serves many requests of the client; it is not started for each one",
        partly="A run of the client is one conversation; whether a second one would share its process is not visible",
        fix="Keep the process; it can serve any number of requests.",
    ),
    "ST-05": _server(
        must="The lists of tools, prompts and resources are the same on every connection, whatever was requested there before",
        page="server/tools",
        fix="Make the lists depend on the server and on what the user may see, not on the connection.",
    ),
    "ST-06": _server(
        must="A server that declares tools, prompts or resources answers the list request, even if the list is empty",
        page="server/tools",
        lenient="The page asks for a response: an error other than -32601 (Method not found) is accepted",
        fix="Answer the list request of each feature that you declare, with an empty list if there is nothing in it.",
    ),
}
