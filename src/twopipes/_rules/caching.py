"""Caching."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/utilities/caching", since=MODERN[0])

RULES = (
    _rule(
        id="CH-01",
        level="MUST",
        side="server",
        title="What may be kept (discovery, the four lists, resources that are read) says for how long and by whom",
        fix="Put ttlMs and cacheScope into what may be kept.",
    ),
    _rule(
        id="CH-02",
        level="MUST",
        side="server",
        title="ttlMs is an integer of at least 0, cacheScope is public or private",
        fix="Let ttlMs be an integer from 0 on, and cacheScope public or private.",
    ),
    _rule(
        id="CH-03",
        level="SHOULD",
        side="client",
        title="A result without ttlMs, or with one that is not above 0, is asked for again when it is needed, and not by a timer",
    ),
    _rule(
        id="CH-04",
        level="MUST",
        side="client",
        title="What is kept is used for the same method with the same params alone",
    ),
    _rule(
        id="CH-05",
        level="MUST",
        title="Questions carry no caching hints; what was got by answering them is not kept",
    ),
    _rule(
        id="CH-06",
        level="MUST",
        side="client",
        title="What is private is not shared between users",
        untestable="A client has one identity here, and no way is known to give every client a second one",
    ),
    _rule(
        id="CH-07",
        level="SHOULD",
        basis="inference",
        side="client",
        title="When a change is announced, what was kept of that is asked for again",
        lenient="The page lets both ways of keeping up to date stand side by side",
    ),
    _rule(id="CH-08", level="MUST", side="server", title="All pages of a list have the same cacheScope"),
    _rule(
        id="CH-09",
        level="SHOULD",
        side="client",
        title="When a cursor is refused, the pages that were kept are dropped, and the list is asked for from its beginning",
    ),
)
