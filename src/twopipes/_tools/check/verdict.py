"""Verdicts about rules, and the class with which probes and scenarios record them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from msgspec import Struct

from twopipes._rules.rule import Rule, Severity
from twopipes.errors import LocalProtocolError

__all__ = ["DEFECT", "CheckResult", "Quotable", "Quote", "Skip", "Verdict", "VerdictRecorder", "defect", "worst"]

CheckResult = Literal["passed", "failed", "skipped"]

# Lines of each direction that a verdict quotes. The trace has all of them.
_QUOTED = 6


class Verdict(Struct, frozen=True, kw_only=True):
    """The verdict of one probe about one rule in one revision.

    Attributes:
        rule: The rule.
        revision: The revision in which it was tried; ``None`` if it was not tried.
        outcome: A rule that could not be tried is ``skipped``, with the reason in ``why``, and never ``passed``.
        why: What breaks the rule, or why it could not be tried; may be empty for a pass.
        fix: What the author of the peer should change.
        sent: The lines that were sent to the peer, without newlines.
        received: The lines that came from the peer.
        probe: The name of the probe or scenario, or ``the conversation`` for a passive finding.
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
        """The severity of the breach; ``None`` if the rule was not broken."""
        return self.rule.severity_in(self.revision) if self.outcome == "failed" else None


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

    Attributes:
        revision: The revision that is spoken.
        verdicts: The verdicts so far.
    """

    def __init__(self, name: str, rules: Iterable[Rule], revision: str) -> None:
        self.name = name
        self.revision = revision
        self.verdicts: list[Verdict] = []
        self._declared = {rule.id for rule in rules}
        self._rules = {rule.id: rule for rule in rules if rule.applies_in(revision)}

    def wants(self, rule: str) -> bool:
        """Return whether a rule counts in this run."""
        return rule in self._rules

    def restrict_to(self, wanted: Iterable[str]) -> None:
        """Drop the rules that were not selected."""
        self._rules = {each: self._rules[each] for each in wanted if each in self._rules}

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
        kept = bool(condition)
        found = self._rule(rule)
        if found is not None:
            sent, received = ((), ()) if kept else self._quote(about)
            outcome: CheckResult = "passed" if kept else "failed"
            advice = "" if kept else fix or found.fix
            self._note(found, outcome, why="" if kept else why, fix=advice, sent=sent, received=received)
        return kept

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
        found = self._rule(rule)
        if found is not None:
            self._note(found, "skipped", why=reason)

    def give_up(self, reason: str) -> NoReturn:
        """End the probe. The rules that it has not judged are skipped for this reason.

        Raises:
            Skip: Always.
        """
        raise Skip(reason)

    def skip_the_rest(self, reason: str) -> None:
        """Skip the rules without a verdict. Called by the runner after the probe has ended."""
        judged = {verdict.rule.id for verdict in self.verdicts}
        for rule in self._rules.values():
            if rule.id not in judged:
                self._note(rule, "skipped", why=reason)

    def fail_the_rest(self, why: str, *, fix: str) -> None:
        """Fail the rules without a verdict, and quote the last lines."""
        sent, received = self._quote(None)
        judged = {verdict.rule.id for verdict in self.verdicts}
        for rule in self._rules.values():
            if rule.id not in judged:
                self._note(rule, "failed", why=why, fix=fix, sent=sent, received=received)

    def withdraw(self, reason: str) -> None:
        """Turn failures into skips, for a reason that has nothing to do with the rules."""
        self.verdicts = [
            Verdict(rule=each.rule, outcome="skipped", revision=each.revision, why=reason, probe=each.probe)
            if each.outcome == "failed"
            else each
            for each in self.verdicts
        ]

    @property
    def has_failed(self) -> bool:
        """Whether a rule was broken."""
        return any(verdict.outcome == "failed" for verdict in self.verdicts)

    def quotable(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the lines sent and received last, for a verdict that names no lines."""
        return (), ()

    def _quote(self, about: Quotable | None) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        sent, received = (about.sent, about.received) if about is not None else ((), ())
        if not sent and not received:
            sent, received = self.quotable()
        return tuple(sent[-_QUOTED:]), tuple(received[-_QUOTED:])

    def _rule(self, rule: str) -> Rule | None:
        if rule not in self._declared:
            raise LocalProtocolError(f"{self.name} judges {rule}, which its decorator does not name")
        return self._rules.get(rule)

    def _note(self, rule: Rule, outcome: CheckResult, **more: Any) -> None:
        self.verdicts.append(Verdict(rule=rule, outcome=outcome, revision=self.revision, probe=self.name, **more))


def worst(verdicts: Iterable[Verdict]) -> CheckResult:
    """Combine verdicts about one rule: failed if one failed, else passed if one passed, else skipped."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if "failed" in outcomes:
        return "failed"
    return "passed" if "passed" in outcomes else "skipped"
