"""The result of one run of the check."""

from __future__ import annotations

from msgspec import Struct, field

from twopipes._tools.check.verdict import Verdict

__all__ = ["CheckResult"]


class CheckResult(Struct, kw_only=True):
    """The result of a run.

    Attributes:
        peer: What was checked.
        side: ``server`` or ``client``.
        revisions: The revisions that it speaks.
        not_spoken: For each other revision, why it does not count as spoken.
        verdicts: In the order of the table of rules.
        took: Seconds.
    """

    peer: str
    side: str
    revisions: list[str] = field(default_factory=list)
    not_spoken: dict[str, str] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    took: float = 0.0

    def of(self, rule: str) -> list[Verdict]:
        """Return the verdicts about one rule."""
        return [verdict for verdict in self.verdicts if verdict.rule.id == rule]

    @property
    def failures(self) -> list[Verdict]:
        """The verdicts that are breaches."""
        return [verdict for verdict in self.verdicts if verdict.outcome == "failed"]
