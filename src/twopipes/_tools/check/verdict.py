"""Verdicts about rules, the class with which probes and scenarios record them, and the result of a run."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from msgspec import Struct, field, structs

from twopipes._rules.rule import Rule, Severity
from twopipes._rules.table import RULES, rules_for
from twopipes.errors import LocalProtocolError

Side = Literal["server", "client"]
Outcome = Literal["passed", "failed", "skipped"]

# Lines of each direction that a verdict quotes. The trace has all of them.
_QUOTED = 6


class Verdict(Struct, frozen=True, kw_only=True):
    """The verdict of one probe about one rule in one revision."""

    rule: Rule
    outcome: Outcome  # a rule that could not be tried is skipped, with the reason in why, and never passed
    revision: str | None = None  # None if the rule was not tried
    why: str = ""  # what breaks the rule, or why it could not be tried
    fix: str = ""  # what the author of the peer should change
    sent: tuple[bytes, ...] = ()  # lines that were sent to the peer, without newlines
    received: tuple[bytes, ...] = ()  # lines that came from the peer
    probe: str = ""  # the name of the probe or scenario, or "the conversation" for a passive finding

    @property
    def severity(self) -> Severity | None:
        """The severity of the breach; ``None`` if the rule was not broken."""
        return self.rule.severity_in(self.revision) if self.outcome == "failed" else None


class CheckResult(Struct, kw_only=True):
    """The result of a run."""

    peer: str  # what was checked
    side: Side
    revisions: list[str] = field(default_factory=list)  # those that it speaks
    not_spoken: dict[str, str] = field(default_factory=dict)  # for each other revision, why it does not count as spoken
    verdicts: list[Verdict] = field(default_factory=list)  # in the order of the table of rules
    took: float = 0.0  # seconds

    def of(self, rule: str) -> list[Verdict]:
        """Return the verdicts about one rule."""
        return [verdict for verdict in self.verdicts if verdict.rule.id == rule]

    @property
    def failures(self) -> list[Verdict]:
        """The verdicts that are breaches."""
        return [verdict for verdict in self.verdicts if verdict.outcome == "failed"]

    def finish(self, wanted: Container[str], why_not_tried: Callable[[Rule], str] | None = None) -> None:
        """Skip the selected rules that have no verdict, and sort all verdicts as the table of rules does."""
        tried = {verdict.rule.id for verdict in self.verdicts}
        for rule in rules_for(self.side):
            if rule.id in wanted and rule.id not in tried:
                why = rule.why_untestable(self.side) or (why_not_tried or self._why_not_tried)(rule)
                self.verdicts.append(Verdict(rule=rule, outcome="skipped", why=why))
        order = list(RULES)
        self.verdicts.sort(key=lambda verdict: (order.index(verdict.rule.id), verdict.revision or ""))

    def _why_not_tried(self, rule: Rule) -> str:
        if any(rule.applies_in(revision) for revision in self.revisions):
            return "the conversation did not show it"
        return f"the {self.side} does not speak a revision that has this rule ({rule.span})"


DEFECT = "the check itself failed here; please report it"
"""The start of the reason for rules that were skipped because a probe or a scenario raised an unexpected exception."""


def defect(error: Exception) -> str:
    """Return the reason for skipping rules after an unexpected exception in a probe or a scenario."""
    return f"{DEFECT}: {type(error).__name__}: {error}"


class Skip(Exception):
    """Raised by a probe or a scenario that cannot continue. The rules that it has not judged yet are skipped for this reason."""


class Quotable(Protocol):
    """Lines that a verdict can quote, such as a response with its request."""

    @property
    def sent(self) -> Sequence[bytes]:
        """The lines that were sent to the peer."""

    @property
    def received(self) -> Sequence[bytes]:
        """The lines that came from the peer."""


Found = TypeVar("Found", bound=Quotable)


class Quote(Struct, frozen=True, kw_only=True):
    """Lines to quote that differ from the wire: a part of a line, or a redacted one."""

    sent: tuple[bytes, ...] = ()
    received: tuple[bytes, ...] = ()


class VerdictRecorder:
    """Records the verdicts of one probe or scenario in one revision.

    Verdicts about rules that the revision does not have, or that were not selected, are dropped. So a probe that judges five rules
    need not know which of them count in this run.
    """

    def __init__(self, name: str, rules: Sequence[str], side: Side, revision: str) -> None:
        self.name = name
        self.revision = revision
        self.verdicts: list[Verdict] = []
        self._declared = rules
        known = [RULES[rule].for_side(side) for rule in rules if rule in RULES]
        self._rules = {rule.id: rule for rule in known if rule.applies_in(revision)}

    def restrict_to(self, wanted: Container[str]) -> None:
        """Drop the rules that were not selected."""
        self._rules = {name: rule for name, rule in self._rules.items() if name in wanted}

    def expect(self, rule: str, condition: Any, why: str = "", *, fix: str = "", about: Quotable | None = None) -> bool:
        """Judge a rule.

        Args:
            rule: The id of the rule; the decorator must name it.
            condition: Whether the rule was kept.
            why: What breaks the rule, if it was not kept.
            fix: What to change; by default the ``fix`` of the rule.
            about: The lines to quote; by default, or if it has none, the last ones of the conversation.

        Returns:
            Whether the rule was kept, even if it does not count in this run.
        """
        found = self._rule(rule)
        if found is not None and condition:
            self._note(found, "passed")
        elif found is not None:
            self._note_breach(found, why, fix or found.fix, about)
        return bool(condition)

    def forbid(self, rule: str, found: Iterable[Found] | Found | None, why: str | Callable[[Found], str]) -> bool:
        """Judge a rule that something received breaks: it was kept if nothing was found. See :meth:`expect`.

        Args:
            rule: The id of the rule.
            found: What breaks the rule, to be quoted; of several, the first one.
            why: A description of it, or a function that returns one.
        """
        first = next(iter(found), None) if isinstance(found, Iterable) else found
        text = "" if first is None else why if isinstance(why, str) else why(first)
        return self.expect(rule, first is None, text, about=first)

    def skip(self, rule: str, reason: str) -> None:
        """Record why a rule cannot be tried."""
        if (found := self._rule(rule)) is not None:
            self._note(found, "skipped", why=reason)

    def give_up(self, reason: str) -> NoReturn:
        """Raise :class:`Skip`: the rules that the probe has not judged are skipped for this reason."""
        raise Skip(reason)

    def skip_the_rest(self, reason: str) -> None:
        """Skip the rules without a verdict. Called by the runner after the probe has ended."""
        for rule in self._unjudged():
            self._note(rule, "skipped", why=reason)

    def fail_the_rest(self, why: str, *, fix: str) -> None:
        """Fail the rules without a verdict, and quote the last lines."""
        for rule in self._unjudged():
            self._note_breach(rule, why, fix)

    def withdraw(self, reason: str) -> None:
        """Turn failures into skips, for a reason that has nothing to do with the rules."""
        self.verdicts = [
            structs.replace(each, outcome="skipped", why=reason, fix="", sent=(), received=()) if each.outcome == "failed" else each
            for each in self.verdicts
        ]

    @property
    def has_failed(self) -> bool:
        """Whether a rule was broken."""
        return any(verdict.outcome == "failed" for verdict in self.verdicts)

    def quotable(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the lines sent and received last, for a verdict that names no lines."""
        return (), ()

    def _unjudged(self) -> list[Rule]:
        judged = {verdict.rule.id for verdict in self.verdicts}
        return [rule for rule in self._rules.values() if rule.id not in judged]

    def _rule(self, rule: str) -> Rule | None:
        if rule not in self._declared:
            raise LocalProtocolError(f"{self.name} judges {rule}, which its decorator does not name")
        return self._rules.get(rule)

    def _note_breach(self, rule: Rule, why: str, fix: str, about: Quotable | None = None) -> None:
        sent, received = (about.sent, about.received) if about is not None else ((), ())
        if not sent and not received:
            sent, received = self.quotable()
        self._note(rule, "failed", why=why, fix=fix, sent=tuple(sent[-_QUOTED:]), received=tuple(received[-_QUOTED:]))

    def _note(self, rule: Rule, outcome: Outcome, **more: Any) -> None:
        self.verdicts.append(Verdict(rule=rule, outcome=outcome, revision=self.revision, probe=self.name, **more))


def worst(verdicts: Iterable[Verdict]) -> Outcome:
    """Combine verdicts about one rule: failed if one failed, else passed if one passed, else skipped."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return "failed" if "failed" in outcomes else "passed" if "passed" in outcomes else "skipped"
