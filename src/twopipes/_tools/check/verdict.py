"""What was found out about one rule, and the sheet on which probes and scenarios write it down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NoReturn, Protocol

from msgspec import Struct

from twopipes._rules.rule import Rule, Severity
from twopipes.errors import LocalProtocolError

__all__ = ["DEFECT", "CheckResult", "Quotable", "Quote", "Skip", "Verdict", "VerdictRecorder", "defect", "worst"]

CheckResult = Literal["passed", "failed", "skipped"]

# Lines of each direction that a finding quotes. The whole wire is in the trace.
_QUOTED = 6


class Verdict(Struct, frozen=True, kw_only=True):
    """What one probe found out about one rule in one revision.

    Attributes:
        rule: Which.
        revision: In which it was tried; ``None`` for a rule that was tried in none.
        outcome: A rule that could not be tried is ``skipped``, with the reason in ``why``, and never ``passed``.
        why: What breaks the rule, or why it could not be tried; for a pass it may be empty.
        fix: What to change, for whoever wrote the peer.
        sent: The lines that went to the peer, without their newlines.
        received: The lines that came from it.
        probe: What found out: the name of a probe or a scenario, or ``the conversation`` for what showed by itself.
    """

    rule: Rule
    outcome: CheckResult
    revision: str | None = None
    why: str = ""
    fix: str = ""
    sent: tuple[bytes, ...] = ()
    received: tuple[bytes, ...] = ()
    probe: str = ""

    @property
    def severity(self) -> Severity | None:
        """How bad it is; ``None`` unless the rule was broken."""
        return self.rule.severity_in(self.revision) if self.outcome == "failed" else None


DEFECT = "the check itself has failed here, which is worth a report"
"""How the reason begins why a rule was skipped when what a peer said was stranger than a probe or a scenario could bear."""


def defect(error: Exception) -> str:
    """The reason for skipping what a probe or a scenario could not judge, because it broke."""
    return f"{DEFECT}: {type(error).__name__}: {error}"


class Skip(Exception):
    """Raised by a probe or a scenario that cannot go on: what it has not judged yet is skipped, and this says why."""


class Quotable(Protocol):
    """Lines that a verdict can quote: an answer with its request, for one."""

    @property
    def sent(self) -> Sequence[bytes]:
        """What went to the peer."""

    @property
    def received(self) -> Sequence[bytes]:
        """What came from it."""


class Quote(Struct, frozen=True, kw_only=True):
    """Lines to quote that are not simply what was said: a part of it, or with something blanked."""

    sent: tuple[bytes, ...] = ()
    received: tuple[bytes, ...] = ()


class VerdictRecorder:
    """Where the verdicts of one probe or scenario in one revision are written down.

    A rule that the revision does not have, or that nobody asked for, is passed over in silence: a probe that judges five rules
    need not know which of them count today.

    Attributes:
        revision: The revision that is spoken.
        verdicts: What was found out so far.
    """

    def __init__(self, name: str, rules: Iterable[Rule], revision: str) -> None:
        self.name = name
        self.revision = revision
        self.verdicts: list[Verdict] = []
        self._declared = {rule.id for rule in rules}
        self._rules = {rule.id: rule for rule in rules if rule.applies_in(revision)}

    def wants(self, rule: str) -> bool:
        """Tells whether a rule counts here."""
        return rule in self._rules

    def restrict_to(self, wanted: Iterable[str]) -> None:
        """Leaves out the rules that nobody asked for."""
        self._rules = {each: self._rules[each] for each in wanted if each in self._rules}

    def expect(self, rule: str, condition: Any, why: str, *, fix: str = "", about: Quotable | None = None) -> bool:
        """Judges a rule.

        Args:
            rule: Its id; one of those that the decorator names.
            condition: Whether it was kept.
            why: What was seen that breaks it, for the case that it was not.
            fix: What to change; what the table of such sentences has, unless given.
            about: The lines to quote; the last ones of the conversation otherwise.

        Returns:
            Whether it was kept, also where it does not count.
        """
        kept = bool(condition)
        found = self._rule(rule)
        if found is not None:
            sent, received = ((), ()) if kept else self._quote(about)
            outcome: CheckResult = "passed" if kept else "failed"
            advice = "" if kept else fix or found.fix
            self._note(found, outcome, why="" if kept else why, fix=advice, sent=sent, received=received)
        return kept

    def skip(self, rule: str, reason: str) -> None:
        """Says why a rule cannot be tried."""
        found = self._rule(rule)
        if found is not None:
            self._note(found, "skipped", why=reason)

    def give_up(self, reason: str) -> NoReturn:
        """Ends the probe: all rules that it has not judged are skipped for this reason.

        Raises:
            Skip: Always.
        """
        raise Skip(reason)

    def skip_the_rest(self, reason: str) -> None:
        """Skips what has no verdict yet. Done by whoever runs the probe, when it has ended."""
        judged = {verdict.rule.id for verdict in self.verdicts}
        for rule in self._rules.values():
            if rule.id not in judged:
                self._note(rule, "skipped", why=reason)

    def fail_the_rest(self, why: str, *, fix: str) -> None:
        """Fails what has no verdict yet, by what was said last."""
        sent, received = self._quote(None)
        judged = {verdict.rule.id for verdict in self.verdicts}
        for rule in self._rules.values():
            if rule.id not in judged:
                self._note(rule, "failed", why=why, fix=fix, sent=sent, received=received)

    def withdraw(self, reason: str) -> None:
        """Skips what was failed, for a reason that has nothing to do with the rules."""
        self.verdicts = [
            Verdict(rule=each.rule, outcome="skipped", revision=each.revision, why=reason, probe=each.probe)
            if each.outcome == "failed"
            else each
            for each in self.verdicts
        ]

    @property
    def has_failed(self) -> bool:
        """Whether a rule was found broken."""
        return any(verdict.outcome == "failed" for verdict in self.verdicts)

    def quotable(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """What was sent and received last, for a finding that names no lines."""
        return (), ()

    def _quote(self, about: Quotable | None) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        sent, received = self.quotable() if about is None else (about.sent, about.received)
        return tuple(sent[-_QUOTED:]), tuple(received[-_QUOTED:])

    def _rule(self, rule: str) -> Rule | None:
        if rule not in self._declared:
            raise LocalProtocolError(f"{self.name} judges {rule}, which its decorator does not name")
        return self._rules.get(rule)

    def _note(self, rule: Rule, outcome: CheckResult, **more: Any) -> None:
        self.verdicts.append(Verdict(rule=rule, outcome=outcome, revision=self.revision, probe=self.name, **more))


def worst(verdicts: Iterable[Verdict]) -> CheckResult:
    """What several verdicts about one rule amount to: one failure is a failure, one pass is a pass if nothing failed."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if "failed" in outcomes:
        return "failed"
    return "passed" if "passed" in outcomes else "skipped"
