"""Judgements about progress that both sides share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twopipes._tools.check.messages import ReceivedLine, same_id
from twopipes._tools.check.verdict import VerdictRecorder

OVER = ("completed", "failed", "cancelled")
"""The final states of a task."""


def is_token(token: Any) -> bool:
    """Return whether a progress token has an allowed type."""
    return isinstance(token, str | int) and not isinstance(token, bool)


def judge_increase(recorder: VerdictRecorder, notes: Sequence[ReceivedLine]) -> None:
    """Judge PR-03: progress is a number that increases each time, and so is the total, if there is one."""
    last: float | None = None
    for line in notes:
        value: Any = line.params.get("progress")
        total = line.params.get("total", 0)
        increases = _is_number(value) and (last is None or value > last)
        why = f"progress changes from {last!r} to {value!r} (total {line.params.get('total')!r}); it must increase each time"
        recorder.expect("PR-03", increases and _is_number(total), why, about=line)
        last = value if _is_number(value) else last


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def judge_task(recorder: VerdictRecorder, notes: Sequence[ReceivedLine], *, token: Any, over: ReceivedLine | None) -> None:
    """Judge PR-06 by the progress of a task, and by the line that reports its end, if there is one."""
    if not notes:
        recorder.give_up("no progress of the task was reported, which is allowed")
    other = [line for line in notes if not same_id(line.params.get("progressToken"), token)]
    recorder.forbid("PR-06", other, f"the progress of a task has another token than {token!r}")
    late = [line for line in notes if over is not None and line.number > over.number]
    recorder.forbid("PR-06", late, "progress of a task was reported after the task had ended")
