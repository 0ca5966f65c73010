"""Progress."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/utilities/progress", modern_page="basic/patterns/progress")
_server = partial(_rule, side="server")

RULES = (
    _rule(
        id="PR-01",
        level="MUST",
        title="A progress token is a string or an integer, and unique among the open requests of one side",
        fix="Use a string or an integer as progressToken, and a different one for each open request.",
    ),
    _rule(
        id="PR-02",
        level="MUST",
        title="Progress is sent only under the token of an open request that has one",
        partly="How often progress is sent (rate limits are a SHOULD) is not judged",
        fix="Send progress under the token of the request, and none if it has no token.",
    ),
    _rule(
        id="PR-03",
        level="MUST",
        title="Progress is a number that increases with every notification",
        fix="Make progress a number that increases each time.",
    ),
    _rule(
        id="PR-04",
        level="MUST",
        title="No progress is sent after the response",
        fix="Stop sending progress once the response is sent.",
    ),
    _rule(
        id="PR-05",
        level="MAY",
        title="In modern revisions only the server sends progress",
        untestable_server="It permits servers to send progress in every revision",
        fix="Do not send notifications/progress from a client; only the server has something to report.",
    ),
    _rule(
        id="PR-06",
        level="MUST",
        since="2025-11-25",
        until="2025-11-25",
        title="The progress of a task continues under the token of its request, until the task ends",
        fix="Send the progress of a task under the token of the request that created it, until the task ends.",
    ),
    _server(
        id="PR-07",
        level="MUST",
        since="2026-07-28",
        title="No progress is sent for a subscription",
        fix="Send progress only for calls, not for subscriptions.",
    ),
    _rule(
        id="PR-08",
        level="MUST",
        basis="inference",
        title='A progress token is returned unchanged: 7 and "7" are different',
        lenient="The token comes back; the text does not say that its type is part of it",
        fix="Return the token unchanged, with its JSON type.",
    ),
)
