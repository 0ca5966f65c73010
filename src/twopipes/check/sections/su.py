"""Subscriptions: hearing of changes on the stateless wire."""

from __future__ import annotations

from functools import partial

from twopipes.check.rule import Rule

_rule = partial(Rule, page="basic/patterns/subscriptions", since="2026-07-28")

RULES = (
    _rule(
        id="SU-01",
        level="MUST",
        basis="schema",
        side="client",
        title="A listen says in notifications what to listen for: booleans for lists, an array of URIs for resources",
    ),
    _rule(
        id="SU-02",
        level="MUST",
        side="server",
        title="The first message of a subscription is its acknowledgement, which says what will be told",
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
    ),
    _rule(
        id="SU-05",
        level="MUST",
        side="server",
        title="Changes are told only to those who listen for them",
    ),
    _rule(
        id="SU-06",
        level="MUST",
        basis="schema",
        side="server",
        title="The acknowledgement leaves out what the server does not support or was not asked for",
    ),
    _rule(
        id="SU-07",
        level="SHOULD",
        side="client",
        title="A client goes on when a server acknowledges less than it was asked for",
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
    ),
    _rule(
        id="SU-10",
        level="MAY",
        title="Several listens may be open at once, and each that matches gets a copy of its own",
        untestable_client="It permits something; a client with one listen is right as well",
    ),
    _rule(
        id="SU-11",
        level="MUST",
        title="A listen is ended by notifications/cancelled with its id, and nothing more comes for it, not even a response",
    ),
    _rule(
        id="SU-12",
        level="MUST",
        basis="inference",
        side="server",
        title="A listen stays without an answer for as long as the subscription lives",
    ),
    _rule(
        id="SU-13",
        level="SHOULD",
        side="server",
        title="A server that ends a subscription answers the listen with a complete result that carries the id",
    ),
    _rule(
        id="SU-14",
        level="MUST",
        side="server",
        page="basic/patterns/cancellation",
        title="A server that tells the end of a subscription by notifications/cancelled names the listen, before the result "
        "(the pages disagree whether it has to; the result alone is accepted)",
    ),
    _rule(
        id="SU-15",
        level="MUST",
        basis="inference",
        side="client",
        title="A subscription that the server ends by a result, by notifications/cancelled, or by both ends once",
    ),
    _rule(
        id="SU-16",
        level="MUST",
        title="After a restart a client sends its listens again, since a server keeps none beyond the connection",
    ),
    _rule(
        id="SU-17",
        level="SHOULD",
        basis="inference",
        side="server",
        title="Listens are understood even where there is nothing to tell (a server without any changes may refuse the method)",
    ),
    _rule(
        id="SU-18",
        level="SHOULD",
        basis="inference",
        side="server",
        title="Very many listens are each acknowledged or refused, and the server lives on",
    ),
)
