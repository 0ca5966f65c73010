"""Cancellation."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/utilities/cancellation", modern_page="basic/patterns/cancellation")

RULES = (
    _rule(
        id="CA-01",
        level="MAY",
        # Whether to cancel is up to the client; over stdio it is then done in this way, and in no other.
        must_since="2026-07-28",
        title="A request that is given up is named in a notifications/cancelled, by its id as it was sent, perhaps with a reason",
        partly_server="Only of servers that give up their own question when the call that it is for is cancelled",
        partly_client="Only of clients that give up a call of their own accord while the check waits",
    ),
    _rule(
        id="CA-02",
        level="MUST",
        until="2025-11-25",
        title="Each side cancels only what it asked itself, and what it believes to be open",
        partly="What a side believes to be open is not seen: a cancellation may cross the answer",
        fix="Cancel only requests that you have sent and that are still open.",
    ),
    _rule(
        id="CA-03",
        level="SHOULD",
        title="A cancelled request is dropped: its work stops, and no answer is sent",
        partly="Only that nothing is said any more; whether the work inside stops is not seen",
    ),
    _rule(
        id="CA-04",
        level="MUST",
        side="server",
        since="2026-07-28",
        title="After a cancellation nothing more is said about that request: no answer, no progress (an answer may cross it)",
        lenient=(
            "The page of the transport says MUST NOT; that of cancellation says SHOULD, and lets a server ignore the"
            " cancellation of what cannot be cancelled. So a breach is a warning, and an answer that crosses the"
            " cancellation none"
        ),
        basis="inference",
        fix="Drop a request that was cancelled: stop its work, and send neither an answer nor progress.",
    ),
    _rule(
        id="CA-05",
        level="MAY",
        title="Cancellations of what is unknown or over, and ones that make no sense, are ignored",
    ),
    _rule(
        id="CA-06",
        level="SHOULD",
        title="An answer that comes after its request was given up is ignored",
        partly_client="Only of clients that go on after they have given up a call, complain over the wire or die of a signal",
    ),
    _rule(
        id="CA-07",
        level="MUST",
        title="Cancellations and answers that cross do no harm: each request gets one answer or none",
        partly="Some dozens of races; one that takes luck may stay unseen",
        fix="Answer each request once, or not at all when it was taken back; pass over what comes for one that is over.",
    ),
    _rule(
        id="CA-08",
        level="MUST",
        side="client",
        since="2026-07-28",
        title="A client cancels only requests that it has sent",
        fix="Cancel only requests that you have sent.",
    ),
    _rule(
        id="CA-09",
        level="MUST",
        side="server",
        since="2026-07-28",
        title="A server cancels nothing but subscriptions",
        fix="Send notifications/cancelled for subscriptions alone.",
    ),
    _rule(
        id="CA-10",
        level="SHOULD",
        basis="inference",
        side="client",
        since="2026-07-28",
        title="A cancellation by the server of anything but a subscription is ignored: the client keeps waiting",
        lenient="Servers may not send it; what a client makes of one is not said",
    ),
    _rule(
        id="CA-11",
        level="MUST",
        since="2025-11-25",
        until="2025-11-25",
        title="A task is given up by tasks/cancel, and not by the notification",
    ),
    _rule(
        id="CA-12",
        level="MUST",
        basis="schema",
        except_in=("2025-11-25",),
        title="A cancellation says what it cancels: requestId is there, a string or an integer",
        fix="Put the id of the request into requestId, with its JSON type.",
    ),
    _rule(
        id="CA-13",
        level="MUST",
        basis="inference",
        title='What is cancelled is found by id and type: "5" does not cancel 5',
        lenient="It follows from ids that are strings or numbers; the page of cancellation does not say so",
    ),
)
