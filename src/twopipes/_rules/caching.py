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
        title="Cacheable results (discovery, the four lists, resource contents) have ttlMs and cacheScope",
        fix="Add ttlMs and cacheScope to every cacheable result.",
    ),
    _rule(
        id="CH-02",
        level="MUST",
        side="server",
        title="ttlMs is an integer of at least 0; cacheScope is public or private",
        fix="Make ttlMs an integer of at least 0, and cacheScope public or private.",
    ),
    _rule(
        id="CH-03",
        level="SHOULD",
        side="client",
        title="A result without ttlMs, or with a ttlMs of 0 or less, is requested again when it is needed, not by a timer",
        fix="Treat a missing or negative ttlMs as 0. Request a stale result when it is needed, not by a timer.",
    ),
    _rule(
        id="CH-04",
        level="MUST",
        side="client",
        title="A cached result is used only for the same method with the same params",
        fix="Cache results by the method and all params that matter: the uri, the cursor.",
    ),
    _rule(
        id="CH-05",
        level="MUST",
        title="Results that ask for input carry no caching hints, and results obtained by answering them are not cached",
        fix="Send hints only in complete results. Do not cache the results of requests with inputResponses or requestState.",
    ),
    _rule(
        id="CH-06",
        level="MUST",
        side="client",
        title="Private results are not shared between users",
        untestable="A client has one identity here, and there is no general way to give a client a second one",
    ),
    _rule(
        id="CH-07",
        level="SHOULD",
        basis="inference",
        side="client",
        title="When a change is announced, the cached result is requested again",
        lenient="The page allows notifications and ttlMs side by side, without saying which one wins",
        fix="Drop the cached list when its change is announced, whatever its ttlMs is.",
    ),
    _rule(
        id="CH-08",
        level="MUST",
        side="server",
        title="All pages of a list have the same cacheScope",
        fix="Give all pages of a list the same cacheScope: private, if one of them is private.",
    ),
    _rule(
        id="CH-09",
        level="SHOULD",
        side="client",
        title="When a cursor is rejected, the client drops the cached pages and requests the list from its start",
        fix="Drop the cached pages, and request the list once without a cursor.",
    ),
)
