"""Completion."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, side="server", page="server/utilities/completion")

RULES = (
    _rule(
        id="CM-01",
        level="MUST",
        basis="schema",
        side="client",
        title="A request for completion names a prompt or a resource template, and an argument with what is typed so far",
        partly="Whether the prompt, the template and the argument are ones that the server listed is not judged",
        fix="Send ref (a prompt's name or the URI of a template) and argument (its name, and the value so far).",
    ),
    _rule(
        id="CM-02",
        level="MUST",
        basis="schema",
        title="At most a hundred suggestions, all strings; with them, if known, how many there are and whether there are more",
        fix="Send at most a hundred values, all texts; total is a number, hasMore true or false.",
    ),
    _rule(
        id="CM-03",
        level="SHOULD",
        title="Completion is refused by -32601 where there is none, and by -32602 for an unknown prompt or a missing argument",
        since="2025-03-26",
    ),
    _rule(
        id="CM-04",
        level="SHOULD",
        title="Arguments that are settled already are taken along, and may change what is suggested",
        since="2025-06-18",
        partly="Whether a suggestion should depend on another argument, only the author knows: no difference is no breach",
    ),
    _rule(id="CM-05", level="MUST", title="Completion never asks back", since=MODERN[0]),
)
