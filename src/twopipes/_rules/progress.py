"""Progress."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/utilities/progress", modern_page="basic/patterns/progress")
_server = partial(_rule, side="server")

RULES = {
    "PR-01": _rule(
        must="A progress token is a string or an integer, and unique among the open requests of one side",
        fix="Use a string or an integer as progressToken, and a different one for each open request.",
    ),
    "PR-02": _rule(
        must="Progress is sent only under the token of an open request that has one",
        partly="How often progress is sent (rate limits are a SHOULD) is not judged",
        fix="Send progress under the token of the request, and none if it has no token.",
    ),
    "PR-03": _rule(
        must="Progress is a number that increases with every notification",
        fix="Make progress a number that increases each time.",
    ),
    "PR-04": _rule(
        must="No progress is sent after the response",
        fix="Stop sending progress once the response is sent.",
    ),
    "PR-05": _rule(
        may="In modern revisions only the server sends progress",
        untestable_server="It permits servers to send progress in every revision",
        fix="Do not send notifications/progress from a client; only the server has something to report.",
    ),
    "PR-06": _rule(
        must="The progress of a task continues under the token of its request, until the task ends",
        since="2025-11-25",
        until="2025-11-25",
        fix="Send the progress of a task under the token of the request that created it, until the task ends.",
    ),
    "PR-07": _server(
        must="No progress is sent for a subscription",
        since="2026-07-28",
        fix="Send progress only for calls, not for subscriptions.",
    ),
    "PR-08": _rule(
        must='A progress token is returned unchanged: 7 and "7" are different',
        basis="inference",
        lenient="The token comes back; the text does not say that its type is part of it",
        fix="Return the token unchanged, with its JSON type.",
    ),
}
