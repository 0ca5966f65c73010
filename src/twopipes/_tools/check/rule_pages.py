"""The list of rules (``--list``), as text, as JSON and as a page of the documentation; and the text of ``--explain``."""

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
from twopipes._tools.check.verdict import Side
from twopipes.errors import LocalProtocolError

Form = Literal["text", "json", "markdown"]
SIDES: tuple[Side, ...] = ("server", "client")

_CONVERSATION = "the conversation"
_INTRODUCTION = """\
# Rules

All {rules} rules that `twopipes check` knows, in {sections} sections. {server} are judged for servers, by {probes} probes and by
the messages of the conversation; {client} are judged for clients, by {scenarios} scenarios and by the messages. The others are
not visible from outside, and the table says why. This page is the output of `twopipes check --list --format markdown`;
`twopipes check --explain FR-04` shows one rule, with its link to the specification.

A rule applies to the revisions in its row. MUST NOT counts as MUST, SHOULD NOT as SHOULD.

* *schema*: the rule is only in the schema. *JSON-RPC*: it is in JSON-RPC 2.0, which the specification makes binding.
* *our reading*: the text is silent or contradicts itself, so a breach is a warning at most. The note below the rule gives what the
  text says and what the check accepts.
* *the conversation*: judged by every message of a check, and in a recording (`--trace-file`).
* *In part*: what part of the rule is not visible from outside or not tried. A pass says nothing about that part.
"""
# The source of a rule, in a table and in a sentence.
_BASES = {
    "prose": ("", "a sentence of the specification"),
    "schema": (", schema", "the schema only"),
    "json-rpc": (", JSON-RPC", "JSON-RPC 2.0, which the specification makes binding"),
    "inference": (
        ", our reading",
        "our reading, where the specification is silent or contradicts itself; a breach is a warning at most",
    ),
}
_SIDES = {"server": "servers", "client": "clients", "both": "servers and clients"}


def judges_of(rule: Rule, side: Side) -> dict[str, str]:
    """Return what judges a rule for one side: probes or scenarios and ``the conversation``, with descriptions."""
    table: Iterable[Any] = all_probes() if side == "server" else all_scenarios()
    found = {each.name: each.description for each in table if rule.id in each.rules}
    if rule.id in passive_rules(side):
        found[_CONVERSATION] = "judged by every message, also in a recording (--trace-file)"
    return found


def listed(wanted: Container[str], form: Form = "text", *, side: Side | None = None) -> str:
    """Return the selected rules, ending with a newline; optionally only those of one side."""
    rules = [rule for rule in RULES.values() if rule.id in wanted and (side is None or rule.binds(side))]
    if form == "json":
        return msgspec_json.format(msgspec_json.encode([_for_programs(rule) for rule in rules]), indent=2).decode() + "\n"
    return "\n".join(_markdown(rules) if form == "markdown" else _text(rules, wanted, side)) + "\n"


def _text(rules: Iterable[Rule], wanted: Container[str], side: Side | None) -> Iterable[str]:
    for rule in rules:
        yield f"{rule.id}  {rule.level_in():<6}  {rule.side:<6}  {rule.title} ({rule.span})"
    if side == "client":
        yield ""
        yield "scenarios (for --print; 'healthy' is a correct server):"
        for scenario in all_scenarios():
            if any(rule in wanted for rule in scenario.rules):
                yield f"  {scenario.name}  ({', '.join(scenario.rules)})"


def _for_programs(rule: Rule) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": rule.id,
        "level": rule.level_in(),
        "basis": rule.basis,
        "inferred_for": rule.inferred_for,
        "side": rule.side,
        "revisions": rule.revisions,
        "title": rule.title,
        "link": rule.link,
        "lenient": rule.lenient,
        "fix": rule.fix,
    }
    for side in SIDES:
        if rule.binds(side):
            data[side] = {
                "judged_by": list(judges_of(rule, side)),
                "untestable": rule.why_untestable(side),
                "partly": rule.why_partly(side),
            }
    return data


def _markdown(rules: list[Rule]) -> Iterable[str]:
    judged = {side: sum(rule.binds(side) and bool(judges_of(rule, side)) for rule in rules) for side in SIDES}
    sections = {rule.section for rule in rules}
    yield _INTRODUCTION.format(
        rules=len(rules), sections=len(sections), probes=len(all_probes()), scenarios=len(all_scenarios()), **judged
    )
    for section, rows in groupby(rules, key=lambda rule: rule.section):
        yield f"## {SECTIONS[section].title} ({section})"
        yield ""
        yield "| Rule | Level | Side | Revisions | Rule text | Judged by |"
        yield "|---|---|---|---|---|---|"
        for rule in rows:
            how = "<br>".join(_how(rule, side) for side in SIDES if rule.binds(side))
            title = rule.title + (f"<br>*{rule.lenient.rstrip('.')}.*" if rule.lenient else "")
            title = title.replace("|", "\\|")
            level = rule.degree + _BASES[rule.basis][0] + (f"; for {rule.inferred_for}s our reading" if rule.inferred_for else "")
            yield f"| [{rule.id}]({rule.link}) | {level} | {rule.side} | {rule.span} | {title} | {how} |"
        yield ""


def _how(rule: Rule, side: Side) -> str:
    prefix = f"{side}: " if rule.side == "both" else ""
    if reason := rule.why_untestable(side):
        return f"{prefix}not judged. {reason.rstrip('.')}.".replace("|", "\\|")
    names = [each if each == _CONVERSATION else f"`{each}`" for each in judges_of(rule, side)]
    part = rule.why_partly(side)
    note = f". *In part:* {part.rstrip('.')}.".replace("|", "\\|") if part else ""
    return prefix + (", ".join(names) or "not judged yet") + note


def explained(name: str) -> str:
    """Return the text, the source and the judges of a rule, or of all rules of a section.

    Raises:
        LocalProtocolError: The rule does not exist.
    """
    wanted = name.strip().upper()
    found = [rule for rule in RULES.values() if wanted in {rule.id, rule.section}]
    if not found:
        raise LocalProtocolError(f"unknown rule {name!r}; see twopipes check --list")
    return "\n".join("\n".join(_explanation(rule)) + "\n" for rule in found)


def _explanation(rule: Rule) -> Iterable[str]:
    yield f"{rule.id}  {rule.title}"
    yield ""
    yield f"level  {rule.degree}, from {_BASES[rule.basis][1]}"
    if rule.inferred_for:
        yield f"       for {_SIDES[rule.inferred_for]}, {_BASES['inference'][1]}"
    yield f"for    {_SIDES[rule.side]}, in {rule.span}"
    yield f"see    {rule.link}"
    if rule.lenient:
        yield f"note   {rule.lenient.rstrip('.')}."
    if rule.fix:
        yield f"fix    {rule.fix}"
    for side in SIDES:
        if rule.binds(side):
            yield ""
            yield f"how {_SIDES[side]} are judged:"
            if reason := rule.why_untestable(side):
                yield f"  not at all. {reason.rstrip('.')}."
                continue
            yield from (f"  {judge}: {description}" for judge, description in judges_of(rule, side).items())
            if part := rule.why_partly(side):
                yield f"  in part: {part.rstrip('.')}."
