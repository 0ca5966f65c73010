"""Caching."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/utilities/caching", since=MODERN[0])
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "CH-01": _server(
        must="Cacheable results (discovery, the four lists, resource contents) have ttlMs and cacheScope",
        fix="Add ttlMs and cacheScope to every cacheable result.",
    ),
    "CH-02": _server(
        must="ttlMs is an integer of at least 0; cacheScope is public or private",
        fix="Make ttlMs an integer of at least 0, and cacheScope public or private.",
    ),
    "CH-03": _client(
        should="A result without ttlMs, or with a ttlMs of 0 or less, is requested again when it is needed, not by a timer",
        fix="Treat a missing or negative ttlMs as 0. Request a stale result when it is needed, not by a timer.",
    ),
    "CH-04": _client(
        must="A cached result is used only for the same method with the same params",
        fix="Cache results by the method and all params that matter: the uri, the cursor.",
    ),
    "CH-05": _rule(
        must="Results that ask for input carry no caching hints, and results obtained by answering them are not cached",
        fix="Send hints only in complete results. Do not cache the results of requests with inputResponses or requestState.",
    ),
    "CH-06": _client(
        must="Private results are not shared between users",
        untestable="A client has one identity here, and there is no general way to give a client a second one",
    ),
    "CH-07": _client(
        should="When a change is announced, the cached result is requested again",
        basis="inference",
        lenient="The page allows notifications and ttlMs side by side, without saying which one wins",
        fix="Drop the cached list when its change is announced, whatever its ttlMs is.",
    ),
    "CH-08": _server(
        must="All pages of a list have the same cacheScope",
        fix="Give all pages of a list the same cacheScope: private, if one of them is private.",
    ),
    "CH-09": _client(
        should="When a cursor is rejected, the client drops the cached pages and requests the list from its start",
        fix="Drop the cached pages, and request the list once without a cursor.",
    ),
}
