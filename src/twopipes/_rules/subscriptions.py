"""Subscriptions: notifications about changes in modern revisions."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/patterns/subscriptions", since="2026-07-28")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "SU-01": _rule(
        must="A listen request names in notifications what to listen for: booleans for lists, an array of URIs for resources",
        basis="schema",
        inferred_for="server",
        lenient=(
            "It is not stated that a server rejects a listen without notifications, or that the code is -32602: an"
            " acknowledgement that promises nothing is accepted, and so is any error"
        ),
        partly_server="Only a listen without notifications",
        fix="Name in notifications what to listen for: true for lists, an array of URIs. A server rejects a listen without it.",
    ),
    "SU-02": _server(
        must="The first message of a subscription is its acknowledgement, which names what will be announced",
        fix="Send notifications/subscriptions/acknowledged before any other message of a subscription.",
    ),
    "SU-03": _rule(
        may="Other messages may come before an acknowledgement, and a client handles that",
        untestable_server="It is a permission; a server that sends nothing in between is correct as well",
        fix="Wait for the message with the id of your listen, and ignore the others.",
    ),
    "SU-04": _server(
        must="Every message of a subscription carries the id of its listen request, with the same JSON type",
        partly="Only acknowledgements, unless there is a tool named mutate that changes the list of tools",
        fix="Put the id of the listen request, with its JSON type, into the _meta of every message of the subscription.",
    ),
    "SU-05": _server(
        must="Changes are announced only to listens that ask for them",
        partly="Only tools change, with the tool mutate of test servers",
        fix="Announce a change only on listens that ask for changes of that kind.",
    ),
    "SU-06": _server(
        must="The acknowledgement leaves out what the server does not support or was not asked for",
        basis="schema",
        lenient="A server that neither declares nor denies that a list changes is not judged",
        fix="Acknowledge only what was asked for and what you support.",
    ),
    "SU-07": _client(
        should="A client continues if a server acknowledges less than it asked for",
        partly="Only that the client continues; whether it reads the acknowledgement and polls instead is not visible",
        fix="Read the acknowledgement, and poll for what the server does not announce.",
    ),
    "SU-08": _client(
        must="A client delivers each notification to the subscription whose id it carries",
        untestable="Where a client delivers a notification is visible only inside it: it sends nothing because of one",
    ),
    "SU-09": _server(
        must="Resource updates are announced for the requested URIs and what is below them, and for no others",
        basis="inference",
        lenient="The text has the filter; it does not say explicitly that the notifications follow it",
        partly="A resource cannot be changed from outside: this needs a tool named touch, as test servers have it",
        fix="Announce an update on the listens that name its URI in resourceSubscriptions, and on no others.",
    ),
    "SU-10": _rule(
        may="Several listens may be open at once, and each matching one gets its own copy",
        partly_server="Only tools change, with the tool mutate of test servers",
        untestable_client="It is a permission; a client with one listen is correct as well",
        fix="Send a copy of the notification for each listen that matches.",
    ),
    "SU-11": _rule(
        must="notifications/cancelled with its id ends a listen; nothing more is sent for it, not even a response",
        partly_server="Only that there is no response, unless there is a tool named mutate that causes a change",
        fix="End a listen with notifications/cancelled and its unchanged id; a server then drops that one, without a response.",
    ),
    "SU-12": _server(
        must="A listen gets no response while the subscription is open",
        basis="inference",
        lenient="That the response comes at the end of the subscription follows from its meaning",
        fix="Acknowledge a listen with a notification, and keep the request open; answer it when the subscription ends.",
    ),
    "SU-13": _server(
        should="A server that ends a subscription answers the listen with a complete result that carries the id",
        lenient="Two pages disagree on how a server ends a subscription: by the result or by notifications/cancelled",
        partly="Only on SIGTERM, for servers that shut down in order on it",
        fix="When you end a listen, answer it with a complete result that has its id in _meta.",
    ),
    "SU-14": _server(
        must="A server that ends a subscription with notifications/cancelled names the listen, and sends it before the result",
        page="basic/patterns/cancellation",
        lenient="Two pages disagree on how a server ends a subscription: the result alone is accepted",
        partly="Only on SIGTERM, for servers that shut down in order on it",
        fix="Send notifications/cancelled with the id of the listen first, and then the result.",
    ),
    "SU-15": _client(
        must="A subscription that the server ends by a result, by notifications/cancelled, or by both ends once",
        basis="inference",
        lenient="Two pages disagree on how a server ends a subscription, so a client has to accept either, or both",
        partly="Only that the client continues; how often the end is reported inside it is not visible",
        fix="Treat the first of the two as the end, and ignore the other.",
    ),
    "SU-16": _rule(
        must="After a restart a client sends its listens again, since a server keeps none beyond the connection",
        inferred_for="server",
        lenient="The page binds the client; that a server holds no subscription across connections is given as the reason",
        partly_server=(
            "Over stdio a new connection is a new process, which hardly knows the previous one; a socket shows more. It also"
            " needs a tool named mutate"
        ),
        partly_client=(
            "Only for clients that restart the server on their own, and repeat the requests that they sent beside the listen:"
            " others may have dropped the listen when the server died"
        ),
        fix="A client repeats its open listens on a new connection; a server drops the listens of a connection that ends.",
    ),
    "SU-17": _server(
        should="Listen requests are served even if there is nothing to announce",
        basis="inference",
        lenient="The text does not say whether a server with nothing to announce needs the method: -32601 is accepted then",
        fix="Serve subscriptions/listen: acknowledge what you can announce, and keep the request open.",
    ),
    "SU-18": _server(
        should="Each of very many listens is acknowledged or rejected, and the server keeps running",
        basis="inference",
        lenient="No sentence gives a limit",
        fix="Reject a listen beyond your limit with an error, before its acknowledgement.",
    ),
}
