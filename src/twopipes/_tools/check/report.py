"""Reports of a check: text, JSON, JUnit XML, Markdown, SARIF, and the data of a badge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from msgspec import Struct
from msgspec import json as msgspec_json

from twopipes._rules.rule import Rule
from twopipes._tools.check.sarif import badge, sarif
from twopipes._tools.check.verdict import CheckResult, Verdict, worst

Format = Literal["text", "json", "junit", "markdown", "sarif", "badge"]
Kind = Literal["passed", "skipped", "error", "warning", "note"]
FORMATS: tuple[Format, ...] = ("text", "json", "junit", "markdown", "sarif", "badge")

# Characters of a quoted line in a text report, and in a report for programs.
_SHOWN = 300
_KEPT = 16 * 1024
# Columns at which sentences are wrapped; quoted lines are not.
_WIDTH = 120
_HEADS: dict[Kind, str] = {"error": "FAIL", "warning": "WARN", "note": "NOTE"}  # the worst first


class Judgement(Struct, frozen=True, kw_only=True):
    """All verdicts about one rule, and what they amount to."""

    rule: Rule
    kind: Kind  # passed, skipped, or the severity of the worst breach
    verdicts: Sequence[Verdict]  # one or more for each revision in which the rule was tried

    @property
    def failures(self) -> list[Verdict]:
        """The verdicts that are breaches."""
        return [verdict for verdict in self.verdicts if verdict.outcome == "failed"]

    @property
    def basis(self) -> str:
        """The source of the rule, in the newest revision in which it was broken."""
        return self.rule.basis_in(max((verdict.revision for verdict in self.failures if verdict.revision), default=None))

    @property
    def reasons(self) -> list[str]:
        """Why the rule was skipped, each reason once."""
        return list(dict.fromkeys(verdict.why for verdict in self.verdicts if verdict.outcome == "skipped"))


def judgements(outcome: CheckResult) -> list[Judgement]:
    """Return the verdicts of a run, grouped by rule."""
    by_rule: dict[str, list[Verdict]] = {}
    for verdict in outcome.verdicts:
        by_rule.setdefault(verdict.rule.id, []).append(verdict)
    found = []
    for verdicts in by_rule.values():
        broken = {verdict.severity for verdict in verdicts}
        unbroken: Kind = "passed" if worst(verdicts) == "passed" else "skipped"
        kind = next((each for each in _HEADS if each in broken), unbroken)
        found.append(Judgement(rule=verdicts[0].rule, kind=kind, verdicts=verdicts))
    return found


def counted(found: Iterable[Judgement]) -> dict[str, int]:
    """Return how many rules were passed, broken and skipped."""
    counts = dict.fromkeys(("passed", "error", "warning", "note", "skipped"), 0)
    for judgement in found:
        counts[judgement.kind] += 1
    return counts


def exit_code(outcome: CheckResult, *, strict: bool = False) -> int:
    """Return 1 if a MUST was broken; with ``strict`` also if a SHOULD was."""
    bad = {"error", "warning"} if strict else {"error"}
    return int(any(verdict.severity in bad for verdict in outcome.failures))


def rendered(outcome: CheckResult, form: Format, *, strict: bool = False, subject: str | None = None) -> str:
    """Return the report in one of the formats, ending with a newline. SARIF points to the file ``subject``."""
    if form == "junit":
        return _junit(outcome, strict=strict)
    if form == "json":
        return _json(_for_programs(outcome))
    if form == "badge":
        return _json(badge(counted(judgements(outcome)), outcome.revisions))
    if form == "sarif":
        broken = [judgement for judgement in judgements(outcome) if judgement.failures]
        details = {judgement.rule.id: "\n".join(_finding(judgement)) for judgement in broken}
        return _json(sarif(outcome, broken, details, subject=subject))
    return "\n".join(_markdown(outcome) if form == "markdown" else _text(outcome)) + "\n"


def _json(content: dict[str, Any]) -> str:
    return msgspec_json.format(msgspec_json.encode(content), indent=2).decode() + "\n"


def _text(outcome: CheckResult) -> Iterable[str]:
    found = judgements(outcome)
    for judgement in found:
        if judgement.failures:
            yield from _finding(judgement)
            yield ""
    yield from _not_tried(found, outcome.side)
    yield f"{outcome.side}: {visible(outcome.peer)}"
    yield f"speaks: {', '.join(outcome.revisions) or 'no known revision'}"
    for revision, why in outcome.not_spoken.items():
        yield f"  not {revision}: {visible(why)}"
    yield summary(outcome)


def _not_tried(found: Iterable[Judgement], side: str) -> Iterable[str]:
    """The skipped rules, grouped by reason, since many share one."""
    by_reason: dict[str, list[str]] = {}
    hidden = 0
    for judgement in found:
        if judgement.kind == "skipped":
            if judgement.rule.why_untestable("client" if side == "client" else "server"):
                hidden += 1
            else:
                by_reason.setdefault("; ".join(judgement.reasons), []).append(judgement.rule.id)
    if by_reason or hidden:
        yield "not tried:"
        for reason, rules in by_reason.items():
            yield from wrap(f"{', '.join(rules)}: {visible(reason)}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
        if hidden:
            yield f"  {_plural(hidden, 'rule')} that cannot be judged from outside (--explain says why)"
        yield ""


def summary(outcome: CheckResult) -> str:
    """Return the counts, on one line."""
    counts = counted(judgements(outcome))
    total = _plural(sum(counts.values()), "rule")
    broken = f"{counts['error']} failed, {_plural(counts['warning'], 'warning')}, {_plural(counts['note'], 'note')}"
    return f"{total}: {counts['passed']} passed, {broken}, {counts['skipped']} not tried, in {outcome.took:.1f} s"


def _finding(judgement: Judgement) -> Iterable[str]:
    rule = judgement.rule
    where = ", ".join(dict.fromkeys(verdict.revision for verdict in judgement.failures if verdict.revision))
    ours = ", our reading" if judgement.basis == "inference" else ""
    yield f"{_HEADS[judgement.kind]}  {rule.id}  {rule.title} ({rule.degree}{ours})"
    for why, verdict in {verdict.why: verdict for verdict in reversed(judgement.failures)}.items():
        yield f"  why       {visible(why)}"
        yield from (f"  sent      {visible(line)}" for line in verdict.sent)
        yield from (f"  received  {visible(line)}" for line in verdict.received)
        if verdict.fix:
            yield f"  fix       {verdict.fix}"
    if rule.lenient:
        yield f"  note      {rule.lenient.rstrip('.')}."
    yield f"  in        {where or 'no known revision'}"
    yield f"  see       {rule.link_in(judgement.failures[-1].revision or rule.revisions[-1])}"


def _markdown(outcome: CheckResult) -> Iterable[str]:
    yield f"# {outcome.side}: `{visible(outcome.peer)}`"
    yield ""
    yield f"Speaks {', '.join(outcome.revisions) or 'no known revision'}. {summary(outcome)}."
    yield ""
    yield "| Rule | Level | Result | Rule text | Why |"
    yield "|---|---|---|---|---|"
    for judgement in judgements(outcome):
        rule = judgement.rule
        why = [verdict.why for verdict in judgement.failures] or (judgement.reasons if judgement.kind == "skipped" else [])
        reasons = visible("; ".join(dict.fromkeys(why))).replace("|", "\\|")
        yield f"| [{rule.id}]({rule.link}) | {rule.degree} | {judgement.kind} | {rule.title} | {reasons} |"


def _junit(outcome: CheckResult, *, strict: bool) -> str:
    found = judgements(outcome)
    bad = {"error", "warning"} if strict else {"error"}
    suite = Element("testsuite", name=f"twopipes check {outcome.side}", tests=str(len(found)), time=f"{outcome.took:.3f}")
    suite.set("failures", str(sum(judgement.kind in bad for judgement in found)))
    suite.set("skipped", str(sum(judgement.kind == "skipped" for judgement in found)))
    for judgement in found:
        rule = judgement.rule
        case = SubElement(suite, "testcase", classname=f"{outcome.side}.{rule.section}", name=f"{rule.id} {rule.title}")
        if judgement.kind in bad:
            failure = SubElement(
                case, "failure", message=visible(judgement.failures[0].why), type=rule.level_in(judgement.failures[0].revision)
            )
            failure.text = "\n".join(_finding(judgement))
        elif judgement.failures:
            SubElement(case, "system-out").text = "\n".join(_finding(judgement))
        elif judgement.kind == "skipped":
            SubElement(case, "skipped", message=visible("; ".join(judgement.reasons)))
    indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suite, encoding="unicode") + "\n"


def _for_programs(outcome: CheckResult) -> dict[str, Any]:
    found = judgements(outcome)
    return {
        "peer": outcome.peer,
        "side": outcome.side,
        "revisions": outcome.revisions,
        "not_spoken": outcome.not_spoken,
        "seconds": round(outcome.took, 3),
        "counts": counted(found),
        "rules": [
            {
                "id": judgement.rule.id,
                "level": judgement.rule.level_in(),
                "basis": judgement.basis,
                "title": judgement.rule.title,
                "link": judgement.rule.link,
                "result": judgement.kind,
                "verdicts": [_verdict(verdict) for verdict in judgement.verdicts],
            }
            for judgement in found
        ],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    data: dict[str, Any] = {"revision": verdict.revision, "outcome": verdict.outcome, "probe": verdict.probe}
    lines = {"sent": [_quoted(line) for line in verdict.sent], "received": [_quoted(line) for line in verdict.received]}
    optional = {"why": verdict.why, "fix": verdict.fix, **lines}
    return {**data, **{name: value for name, value in optional.items() if value}}


def _quoted(line: bytes) -> str:
    """Return a line for a report for programs, cut if it is very long."""
    text = line[:_KEPT].decode(errors="backslashreplace")
    return text if len(line) <= _KEPT else f"{text}... ({len(line)} bytes)"


def visible(text: str | bytes) -> str:
    """Return text from the wire for people: without control characters, and shortened."""
    if isinstance(text, bytes):
        text = text[: 4 * _SHOWN].decode(errors="backslashreplace")
    cut = text[:_SHOWN] + ("..." if len(text) > _SHOWN else "")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
