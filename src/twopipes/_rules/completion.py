"""Completion."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, side="server", page="server/utilities/completion")

RULES = {
    "CM-01": _rule(
        must="A completion request names a prompt or a resource template, and an argument with its partial value",
        basis="schema",
        side="client",
        partly="Whether the server listed that prompt, template or argument is not judged",
        fix="Send ref (the name of a prompt or the URI of a template) and argument (its name and its partial value).",
    ),
    "CM-02": _rule(
        must="A completion has at most 100 values, all strings; total and hasMore are optional",
        basis="schema",
        fix="Send at most 100 values, all strings; total is a number, hasMore is true or false.",
    ),
    "CM-03": _rule(
        should=(
            "completion/complete is rejected with -32601 if unsupported, and with -32602 for an unknown prompt or a missing"
            " argument"
        ),
        since="2025-03-26",
        fix="Reject with -32601 if you do not declare completions, and with -32602 if the prompt is unknown or a param is missing.",
    ),
    "CM-04": _rule(
        should="Arguments that are already resolved are sent in the context, and may change the suggestions",
        since="2025-06-18",
        partly=(
            "Only the author knows whether suggestions should depend on other arguments: identical suggestions are not a breach"
        ),
        fix="Read context.arguments, and ignore unknown names in it.",
    ),
    "CM-05": _rule(
        must="completion/complete never returns a result that asks for input",
        since=MODERN[0],
        fix="Return the suggestions that need no question, or none.",
    ),
}
