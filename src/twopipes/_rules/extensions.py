"""Apps and extensions in general."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="/extensions/overview", since="2026-07-28")

RULES = {
    "AP-01": _rule(
        must="An extension that only one side knows changes nothing",
        fix="Use the extensions that you know, and ignore the others.",
    ),
    "AP-02": _rule(
        may="Apps are declared with their MIME type, pages are ui:// resources, and ui/ methods are not sent over the wire",
        page="/extensions/apps/overview",
        fix="Use ui:// resources of the type text/html;profile=mcp-app; keep ui/ methods between host and page.",
    ),
    "AP-03": _rule(
        should="A tool with an app also returns text for clients without apps",
        basis="inference",
        side="server",
        page="/extensions/apps/overview",
        lenient="The page recommends it without an RFC 2119 keyword",
        fix="Return the content of the page as text as well.",
    ),
}
