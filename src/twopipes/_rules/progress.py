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
    ),
    _rule(
        id="PR-02",
        level="MUST",
        title="Progress is told only under the token of a request that gave one and is not over",
        partly="How often progress is told (rate limits are a SHOULD) is not judged",
    ),
    _rule(id="PR-03", level="MUST", title="Progress is a number that rises with every notification"),
    _rule(id="PR-04", level="MUST", title="No progress is told after the answer"),
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
    ),
    _rule(
        id="PR-07",
        level="MUST",
        side="server",
        since="2026-07-28",
        title="Progress never belongs to a subscription",
    ),
    _rule(
        id="PR-08",
        level="MUST",
        basis="inference",
        title='A progress token comes back as it was sent: 7 and "7" are two',
        lenient="The token comes back; that its type is a part of it is not said",
    ),
)
