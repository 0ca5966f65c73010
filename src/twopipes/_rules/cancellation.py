"""Cancellation."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/utilities/cancellation", modern_page="basic/patterns/cancellation")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "CA-01": _rule(
        may="A sender that gives up a request sends notifications/cancelled with the id of the request and optionally a reason",
        # Cancelling is optional (MAY); over stdio this notification is then the only way to do it (MUST).
        must_since="2026-07-28",
        partly_server="Judged only for servers that cancel their own question when the call behind it is cancelled",
        partly_client="Judged only for clients that give up a call on their own while the check waits",
        fix="Name the request by its id, with its JSON type, in requestId; a reason is a string.",
    ),
    "CA-02": _rule(
        must="Each side cancels only its own requests that it believes to be open",
        until="2025-11-25",
        partly="What a side believes to be open is not visible: a cancellation may cross the response",
        fix="Cancel only requests that you have sent and that are still open.",
    ),
    "CA-03": _rule(
        should="A cancelled request is dropped: its work stops, and no response is sent",
        partly="Only that nothing more is sent; whether the work stops inside is not visible",
        fix="Stop the work when the cancellation arrives, and send neither a response nor progress for that request.",
    ),
    "CA-04": _server(
        must="After a cancellation nothing more is sent for that request: no response, no progress (a response may cross it)",
        since="2026-07-28",
        lenient=(
            "The transport page says MUST NOT. The cancellation page says SHOULD, and lets a server ignore the cancellation"
            " of a request that cannot be cancelled. So a breach is a warning, and a response that crosses the cancellation"
            " is accepted"
        ),
        basis="inference",
        fix="Drop a cancelled request: stop its work, and send neither a response nor progress.",
    ),
    "CA-05": _rule(
        may="Cancellations of unknown or finished requests, and malformed ones, are ignored",
        fix="Look up the request; if it is not open, or if the notification is malformed, do nothing.",
    ),
    "CA-06": _rule(
        should="A response that arrives after its request was cancelled is ignored",
        partly_client=(
            "Judged only for clients that continue after giving up a call, that complain on the wire, or that die of a signal"
        ),
        fix="Look up the request by the id of the response; if it is no longer open, drop the response.",
    ),
    "CA-07": _rule(
        must="Cancellations and responses may cross without harm: each request gets one response or none",
        partly="Some dozens of races are tried; a rare one may stay undetected",
        fix="Respond to each request once, or not at all if it was cancelled; ignore messages for finished requests.",
    ),
    "CA-08": _client(
        must="A client cancels only requests that it has sent",
        since="2026-07-28",
        fix="Cancel only requests that you have sent.",
    ),
    "CA-09": _server(
        must="A server cancels only subscriptions",
        since="2026-07-28",
        fix="Send notifications/cancelled for subscriptions only.",
    ),
    "CA-10": _client(
        should="A client ignores a server's cancellation of anything but a subscription, and keeps waiting",
        basis="inference",
        since="2026-07-28",
        lenient="Servers may not send it; the text does not say what a client does with one",
        fix="End only subscriptions when the server sends notifications/cancelled.",
    ),
    "CA-11": _rule(
        must="A task is cancelled with tasks/cancel, not with the notification",
        since="2025-11-25",
        until="2025-11-25",
        fix="Send tasks/cancel with the id of the task.",
    ),
    "CA-12": _rule(
        must="A cancellation has a requestId, which is a string or an integer",
        basis="schema",
        except_in=("2025-11-25",),
        fix="Put the id of the request into requestId, with its JSON type.",
    ),
    "CA-13": _rule(
        must='A cancellation matches id and type: "5" does not cancel 5',
        basis="inference",
        lenient="It follows from ids being strings or numbers; the cancellation page does not say it",
        fix="Compare ids with their JSON type.",
    ),
}
