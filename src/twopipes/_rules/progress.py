"""Progress."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/utilities/progress", modern_page="basic/patterns/progress")

RULES = (
    _rule(
        id="PR-01",
        level="MUST",
        title="A progress token is a string or an integer, and no two open requests of one side have the same",
        fix="Take a string or an integer as progressToken, another for each request that is open.",
    ),
    _rule(
        id="PR-02",
        level="MUST",
        title="Progress is told only under the token of a request that gave one and is not over",
        partly="How often progress is told (rate limits are a SHOULD) is not judged",
        fix="Tell progress under the token that the request gave, and not at all where it gave none.",
    ),
    _rule(
        id="PR-03",
        level="MUST",
        title="Progress is a number that rises with every notification",
        fix="Let progress be a number that is larger each time.",
    ),
    _rule(id="PR-04", level="MUST", title="No progress is told after the answer", fix="Tell no progress once the answer is sent."),
    _rule(
        id="PR-05",
        level="MAY",
        title="On the stateless wire the server alone tells of progress",
        untestable_server="It permits servers to tell of progress in every revision",
    ),
    _rule(
        id="PR-06",
        level="MUST",
        since="2025-11-25",
        until="2025-11-25",
        title="The progress of a task goes on under the token of its request, until the task is over",
        fix="Tell the progress of a task under the token of the request that made it, until the task ends.",
    ),
    _rule(
        id="PR-07",
        level="MUST",
        side="server",
        since="2026-07-28",
        title="Progress never belongs to a subscription",
        fix="Tell progress for calls alone, not for subscriptions.",
    ),
    _rule(
        id="PR-08",
        level="MUST",
        basis="inference",
        title='A progress token comes back as it was sent: 7 and "7" are two',
        lenient="The token comes back; that its type is a part of it is not said",
    ),
)
