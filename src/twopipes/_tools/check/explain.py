"""The text of ``twopipes check --explain``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from twopipes._rules.rule import Rule
from twopipes._rules.table import RULES
from twopipes._tools.check.passive import passive_rules
from twopipes._tools.check.probe import all_probes
from twopipes._tools.check.scenario import all_scenarios
from twopipes.errors import LocalProtocolError

_BASES = {
    "prose": "a sentence of the specification",
    "schema": "the schema only",
    "json-rpc": "JSON-RPC 2.0, which the specification makes binding",
    "inference": "our reading, where the specification is silent or contradicts itself; a breach is a warning at most",
}
_SIDES = {"server": "servers", "client": "clients", "both": "servers and clients"}


def explained(name: str) -> str:
    """Return the text, the source and the judges of a rule, or of all rules of a section.

    Raises:
        LocalProtocolError: The rule does not exist.
    """
    wanted = name.strip().upper()
    found = [rule for rule in RULES.values() if wanted in {rule.id, rule.section}]
    if not found:
        raise LocalProtocolError(f"unknown rule {name!r}; see twopipes check --list")
    return "\n".join("\n".join(_lines(rule)) + "\n" for rule in found)


def _lines(rule: Rule) -> Iterable[str]:
    yield f"{rule.id}  {rule.title}"
    yield ""
    yield f"level  {rule.degree}, from {_BASES[rule.basis]}"
    if rule.inferred_for:
        yield f"       for {_SIDES[rule.inferred_for]}, {_BASES['inference']}"
    yield f"for    {_SIDES[rule.side]}, in {rule.span}"
    yield f"see    {rule.link}"
    if rule.lenient:
        yield f"note   {rule.lenient.rstrip('.')}."
    if rule.fix:
        yield f"fix    {rule.fix}"
    sides: tuple[Literal["server", "client"], ...] = ("server", "client")
    for side in sides:
        if rule.binds(side):
            yield ""
            yield f"how {_SIDES[side]} are judged:"
            yield from (f"  {line}" for line in _judges(rule, side))


def _judges(rule: Rule, side: Literal["server", "client"]) -> Iterable[str]:
    if reason := rule.why_untestable(side):
        yield f"not at all. {reason.rstrip('.')}."
        return
    if side == "server":
        yield from (f"{each.name}: {each.description}" for each in all_probes() if rule.id in each.rules)
    else:
        yield from (f"{each.name}: {each.description}" for each in all_scenarios() if rule.id in each.rules)
    if rule.id in passive_rules(side):
        yield "the conversation: judged by every message, also in a recording (--trace-file)"
    if part := rule.why_partly(side):
        yield f"in part: {part.rstrip('.')}."
