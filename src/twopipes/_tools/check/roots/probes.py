"""Roots that servers ask for."""

from __future__ import annotations

from twopipes._tools.check.explore import judge_asked_in_results
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import ROOTS


@probe("RT-04")
async def roots_are_asked_for_in_results(case: Case) -> None:
    """Tools that need roots ask for them in a result, and only a client that declares them."""
    await judge_asked_in_results(case, "RT-04", ROOTS)
