"""Subscriptions: hearing of changes on the stateless wire."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/patterns/subscriptions", since="2026-07-28")

RULES = (
    _rule(
        id="SU-01",
        level="MUST",
        basis="schema",
        inferred_for="server",
        title="A listen says in notifications what to listen for: booleans for lists, an array of URIs for resources",
        lenient=(
            "That a server refuses a listen without notifications, and with -32602, is not spelled out: an acknowledgement that"
            " promises nothing is let pass, and so is any error"
        ),
        partly_server="Only a listen without notifications",
        fix="Say in notifications what to listen for: true for lists, an array of URIs in resourceSubscriptions.",
    ),
    _rule(
        id="SU-02",
        level="MUST",
        side="server",
        title="The first message of a subscription is its acknowledgement, which says what will be told",
        fix="Send notifications/subscriptions/acknowledged before anything else of a subscription.",
    ),
    _rule(
        id="SU-03",
        level="MAY",
        title="Other messages may come before an acknowledgement, and a client copes with that",
        untestable_server="It permits something; a server that sends nothing else in between is right as well",
    ),
    _rule(
        id="SU-04",
        level="MUST",
        side="server",
        title="Every message of a subscription carries the id of its listen request, with the same JSON type",
        partly="Only acknowledgements, unless there is a tool by the name of mutate that changes the list of tools",
        fix="Put the id of the listen request, with its JSON type, into the _meta of every message of the subscription.",
    ),
    _rule(
        id="SU-05",
        level="MUST",
        side="server",
        title="Changes are told only to those who listen for them",
        partly="Tools alone change, by the tool mutate of test servers",
        fix="Tell of a change only on listens that ask for changes of that kind.",
    ),
    _rule(
        id="SU-06",
        level="MUST",
        basis="schema",
        side="server",
        title="The acknowledgement leaves out what the server does not support or was not asked for",
        lenient="A server that neither declares nor denies that something changes is not held to it",
        fix="Acknowledge what was asked for and what you support, and nothing else.",
    ),
    _rule(
        id="SU-07",
        level="SHOULD",
        side="client",
        title="A client goes on when a server acknowledges less than it was asked for",
        partly="Only that the client goes on; whether it looks into the acknowledgement, and polls instead, is not seen",
    ),
    _rule(
        id="SU-08",
        level="MUST",
        side="client",
        title="A client hands each notification to the subscription whose id it carries",
        untestable="To whom a client hands a notification shows inside of it alone: nothing is sent because of one",
    ),
    _rule(
        id="SU-09",
        level="MUST",
        basis="inference",
        side="server",
        title="Updates of resources are told for the URIs that were asked for, and what lies below them, and for no others",
        lenient="The text has the filter; that the notifications keep to it is not spelled out",
        partly="Nobody outside can change a resource: it takes a tool by the name of touch, as test servers have it",
    ),
    _rule(
        id="SU-10",
        level="MAY",
        title="Several listens may be open at once, and each that matches gets a copy of its own",
        partly_server="Tools alone change, by the tool mutate of test servers",
        untestable_client="It permits something; a client with one listen is right as well",
    ),
    _rule(
        id="SU-11",
        level="MUST",
        title="A listen is ended by notifications/cancelled with its id, and nothing more comes for it, not even a response",
        partly_server="Only that it is not answered, unless there is a tool by the name of mutate that makes something to tell",
    ),
    _rule(
        id="SU-12",
        level="MUST",
        basis="inference",
        side="server",
        title="A listen stays without an answer for as long as the subscription lives",
        lenient="That the answer waits for the end of the subscription follows from its meaning",
    ),
    _rule(
        id="SU-13",
        level="SHOULD",
        side="server",
        title="A server that ends a subscription answers the listen with a complete result that carries the id",
        lenient="Two pages disagree how a server ends a subscription, by the result or by notifications/cancelled",
        partly="Only at SIGTERM, of servers that take it for a reason to end in order",
        fix="Answer the listen with a complete result, with its id in _meta, when you end it.",
    ),
    _rule(
        id="SU-14",
        level="MUST",
        side="server",
        page="basic/patterns/cancellation",
        title="A server that tells the end of a subscription by notifications/cancelled names the listen, before the result",
        lenient="Two pages disagree how a server ends a subscription: the result alone is let pass",
        partly="Only at SIGTERM, of servers that take it for a reason to end in order",
    ),
    _rule(
        id="SU-15",
        level="MUST",
        basis="inference",
        side="client",
        title="A subscription that the server ends by a result, by notifications/cancelled, or by both ends once",
        lenient="Two pages disagree how a server ends a subscription, so that a client has to take either, or both",
        partly="Only that the client goes on; how often the end is told inside of it is not seen",
    ),
    _rule(
        id="SU-16",
        level="MUST",
        title="After a restart a client sends its listens again, since a server keeps none beyond the connection",
        inferred_for="server",
        lenient="The page binds the client; that a server holds no subscription across connections stands there as a reason for it",
        partly_server=(
            "Over stdio a new connection is a new process, which can hardly know of the one before; a socket shows more;"
            " and it takes a tool by the name of mutate"
        ),
        partly_client=(
            "Only of clients that start the server again of their own accord, and ask it once more what they asked beside the"
            " listen: others may have let go of the listen when the server died"
        ),
    ),
    _rule(
        id="SU-17",
        level="SHOULD",
        basis="inference",
        side="server",
        title="Listens are understood even where there is nothing to tell",
        lenient="Whether a server with nothing to announce needs the method is left open: -32601 is let pass then",
    ),
    _rule(
        id="SU-18",
        level="SHOULD",
        basis="inference",
        side="server",
        title="Very many listens are each acknowledged or refused, and the server lives on",
        lenient="No sentence has limits",
    ),
)
