"""Cancellation."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/utilities/cancellation", modern_page="basic/patterns/cancellation")

RULES = (
    _rule(
        id="CA-01",
        level="MAY",
        # Cancelling is optional (MAY); over stdio this notification is then the only way to do it (MUST).
        must_since="2026-07-28",
        title=("A sender that gives up a request sends notifications/cancelled with the id of the request and optionally a reason"),
        partly_server="Judged only for servers that cancel their own question when the call behind it is cancelled",
        partly_client="Judged only for clients that give up a call on their own while the check waits",
        fix="Name the request by its id, with its JSON type, in requestId; a reason is a string.",
    ),
    _rule(
        id="CA-02",
        level="MUST",
        until="2025-11-25",
        title="Each side cancels only its own requests that it believes to be open",
        partly="What a side believes to be open is not visible: a cancellation may cross the response",
        fix="Cancel only requests that you have sent and that are still open.",
    ),
    _rule(
        id="CA-03",
        level="SHOULD",
        title="A cancelled request is dropped: its work stops, and no response is sent",
        partly="Only that nothing more is sent; whether the work stops inside is not visible",
        fix="Stop the work when the cancellation arrives, and send neither a response nor progress for that request.",
    ),
    _rule(
        id="CA-04",
        level="MUST",
        side="server",
        since="2026-07-28",
        title=("After a cancellation nothing more is sent for that request: no response, no progress (a response may cross it)"),
        lenient=(
            "The transport page says MUST NOT. The cancellation page says SHOULD, and lets a server ignore the cancellation"
            " of a request that cannot be cancelled. So a breach is a warning, and a response that crosses the cancellation"
            " is accepted"
        ),
        basis="inference",
        fix="Drop a cancelled request: stop its work, and send neither a response nor progress.",
    ),
    _rule(
        id="CA-05",
        level="MAY",
        title="Cancellations of unknown or finished requests, and malformed ones, are ignored",
        fix="Look up the request; if it is not open, or if the notification is malformed, do nothing.",
    ),
    _rule(
        id="CA-06",
        level="SHOULD",
        title="A response that arrives after its request was cancelled is ignored",
        partly_client=(
            "Judged only for clients that continue after giving up a call, that complain on the wire, or that die of a signal"
        ),
        fix="Look up the request by the id of the response; if it is no longer open, drop the response.",
    ),
    _rule(
        id="CA-07",
        level="MUST",
        title="Cancellations and responses may cross without harm: each request gets one response or none",
        partly="Some dozens of races are tried; a rare one may stay undetected",
        fix="Respond to each request once, or not at all if it was cancelled; ignore messages for finished requests.",
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
        title="A server cancels only subscriptions",
        fix="Send notifications/cancelled for subscriptions only.",
    ),
    _rule(
        id="CA-10",
        level="SHOULD",
        basis="inference",
        side="client",
        since="2026-07-28",
        title="A client ignores a server's cancellation of anything but a subscription, and keeps waiting",
        lenient="Servers may not send it; the text does not say what a client does with one",
        fix="End only subscriptions when the server sends notifications/cancelled.",
    ),
    _rule(
        id="CA-11",
        level="MUST",
        since="2025-11-25",
        until="2025-11-25",
        title="A task is cancelled with tasks/cancel, not with the notification",
        fix="Send tasks/cancel with the id of the task.",
    ),
    _rule(
        id="CA-12",
        level="MUST",
        basis="schema",
        except_in=("2025-11-25",),
        title="A cancellation has a requestId, which is a string or an integer",
        fix="Put the id of the request into requestId, with its JSON type.",
    ),
    _rule(
        id="CA-13",
        level="MUST",
        basis="inference",
        title='A cancellation matches id and type: "5" does not cancel 5',
        lenient="It follows from ids being strings or numbers; the cancellation page does not say it",
        fix="Compare ids with their JSON type.",
    ),
)
