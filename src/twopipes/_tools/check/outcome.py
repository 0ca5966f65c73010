"""All that one run of the check has found out."""

from __future__ import annotations

from msgspec import Struct, field

from twopipes._tools.check.verdict import Verdict

__all__ = ["CheckResult"]


class CheckResult(Struct, kw_only=True):
    """All that a run found out.

    Attributes:
        peer: What was checked.
        side: What it is.
        revisions: Which revisions it speaks; by revision why not, for the others.
        verdicts: In the order of the table.
        took: Seconds.
    """

    peer: str
    side: str
    revisions: list[str] = field(default_factory=list)
    not_spoken: dict[str, str] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    took: float = 0.0

    def of(self, rule: str) -> list[Verdict]:
        """The verdicts about one rule."""
        return [verdict for verdict in self.verdicts if verdict.rule.id == rule]

    @property
    def failures(self) -> list[Verdict]:
        """The rules that were broken."""
        return [verdict for verdict in self.verdicts if verdict.outcome == "failed"]
