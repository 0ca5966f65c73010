"""The whole table, for people, for programs, and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import groupby
from typing import Any, Literal

from msgspec import json as msgspec_json

from twopipes._rules.rule import Rule
from twopipes._rules.table import RULES, SECTIONS
from twopipes._tools.check.passive import passive_rules
from twopipes._tools.check.probe import all_probes
from twopipes._tools.check.scenario import all_scenarios

__all__ = ["judges_of", "listed"]

Form = Literal["text", "json", "markdown"]
Side = Literal["server", "client"]
SIDES: tuple[Side, ...] = ("server", "client")

_CONVERSATION = "the conversation"
_INTRODUCTION = """\
# Rules

Every rule that `twopipes check` knows: {rules} of them, in {sections} sections. {server} are judged of servers, by {probes} probes
and by what the conversation shows by itself; {client} of clients, by {scenarios} scenarios and likewise. The rest cannot be seen
from outside, and the table says why. It is written by `twopipes check --list --format markdown`; `twopipes check --explain FR-04`
shows one row, with its link to the specification.

A rule binds in the revisions of its row. MUST NOT counts as MUST, SHOULD NOT as SHOULD. *Schema*: it stands in the schema
alone; *JSON-RPC*: in JSON-RPC 2.0, which the specification makes binding; *our reading*: where the text is silent or contradicts
itself, so that a breach is a warning at most; what the text says, and what is let pass, stands below the rule. *The conversation*:
judged by all that is said during a check, and in a recording (`--trace-file`). *In part*: what of the rule nobody can see from
outside, or is not tried; a pass says nothing about that.
"""
_BASES = {"prose": "", "schema": ", schema", "json-rpc": ", JSON-RPC", "inference": ", our reading"}


def judges_of(rule: Rule, side: Side) -> list[str]:
    """What judges a rule on one side: the names of probes or scenarios, and ``the conversation``."""
    table: Iterable[Any] = all_probes() if side == "server" else all_scenarios()
    named = [each.name for each in table if rule.id in each.rules]
    return [*named, *([_CONVERSATION] if rule.id in passive_rules(side) else [])]


def listed(wanted: Container[str], form: Form = "text", *, side: Side | None = None) -> str:
    """The rows of the table that are wanted, with a newline at the end; of one side where it is named."""
    rules = [rule for rule in RULES.values() if rule.id in wanted and (side is None or rule.binds(side))]
    if form == "json":
        return msgspec_json.format(msgspec_json.encode([_for_programs(rule) for rule in rules]), indent=2).decode() + "\n"
    return "\n".join(_markdown(rules) if form == "markdown" else _text(rules, wanted, side)) + "\n"


def _text(rules: Iterable[Rule], wanted: Container[str], side: Side | None) -> Iterable[str]:
    for rule in rules:
        yield f"{rule.id}  {rule.level_in():<6}  {rule.side:<6}  {rule.title} ({rule.span})"
    if side == "client":
        yield ""
        yield "scenarios (for --print; 'healthy' is the one in which nothing is wrong):"
        for scenario in all_scenarios():
            if any(rule in wanted for rule in scenario.rules):
                yield f"  {scenario.name}  ({', '.join(scenario.rules)})"


def _for_programs(rule: Rule) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": rule.id,
        "level": rule.level_in(),
        "basis": rule.basis,
        "inferred_for": rule.inferred_for,
        "side": rule.side,
        "revisions": rule.revisions,
        "title": rule.title,
        "link": rule.link,
        "lenient": rule.lenient,
    }
    for side in SIDES:
        if rule.binds(side):
            told[side] = {
                "judged_by": judges_of(rule, side),
                "untestable": rule.why_untestable(side),
                "partly": rule.why_partly(side),
            }
    return told


def _markdown(rules: list[Rule]) -> Iterable[str]:
    judged = {side: sum(rule.binds(side) and bool(judges_of(rule, side)) for rule in rules) for side in SIDES}
    sections = {rule.section for rule in rules}
    yield _INTRODUCTION.format(
        rules=len(rules), sections=len(sections), probes=len(all_probes()), scenarios=len(all_scenarios()), **judged
    )
    for section, rows in groupby(rules, key=lambda rule: rule.section):
        yield f"## {SECTIONS[section].title} ({section})"
        yield ""
        yield "| Rule | Level | Who | Revisions | What a good one does | How it is judged |"
        yield "|---|---|---|---|---|---|"
        for rule in rows:
            how = "<br>".join(_how(rule, side) for side in SIDES if rule.binds(side))
            title = rule.title + (f"<br>*{rule.lenient.rstrip('.')}.*" if rule.lenient else "")
            title = title.replace("|", "\\|")
            level = rule.degree + _BASES[rule.basis] + (f"; for {rule.inferred_for}s our reading" if rule.inferred_for else "")
            yield f"| [{rule.id}]({rule.link}) | {level} | {rule.side} | {rule.span} | {title} | {how} |"
        yield ""


def _how(rule: Rule, side: Side) -> str:
    prefix = f"{side}: " if rule.side == "both" else ""
    if reason := rule.why_untestable(side):
        return f"{prefix}not. {reason.rstrip('.')}.".replace("|", "\\|")
    names = [each if each == _CONVERSATION else f"`{each}`" for each in judges_of(rule, side)]
    part = rule.why_partly(side)
    why = f". *In part:* {part.rstrip('.')}.".replace("|", "\\|") if part else ""
    return prefix + (", ".join(names) or "not yet") + why
