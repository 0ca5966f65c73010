"""The shutdown of a child: a plan that can be printed, replaced and timed, and a report of how it went.

MCP over stdio has no message that ends a conversation. The client closes the server's standard input and waits; then it sends
SIGTERM and waits; then it sends SIGKILL (SD-01). The plan continues until the whole process group is gone: a wrapper that
exits on EOF may leave the server behind it running.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from twopipes._process.exit_status import SIGKILL, SIGTERM, ExitStatus, signal_name
from twopipes.errors import LocalProtocolError

# Seconds for each wait, the default of Timeouts.shutdown. Of 34 real servers the slowest needed 0.5 s after EOF.
STEP = 2.0
# Seconds that the system gets to remove killed processes. Only a process that hangs in the kernel needs more.
SETTLE = 2.0


class CloseStdin(Struct, frozen=True):
    """Send what is still buffered, then close the child's stdin."""

    def __str__(self) -> str:
        return "close stdin"


class Wait(Struct, frozen=True):
    """Wait until the group is gone, but no longer than ``seconds``."""

    seconds: float

    def __str__(self) -> str:
        return f"wait {self.seconds:g} s"


class Signal(Struct, frozen=True):
    """Send a signal to the whole group. On Windows 15 is a Ctrl-Break, and 9 ends every process of the job."""

    number: int

    def __str__(self) -> str:
        return signal_name(self.number)


Step = CloseStdin | Wait | Signal


class ShutdownPlan(Struct, frozen=True):
    """The steps that end a child, in order. They stop as soon as the group is gone.

    A plan that does not end with SIGKILL may leave processes behind. The report then says so, and they are killed when the
    interpreter exits.
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        for step in self.steps:
            if not isinstance(step, CloseStdin | Wait | Signal):
                raise LocalProtocolError(
                    f"{step!r} is not a step of a ShutdownPlan; "
                    "twopipes._process.shutdown has CloseStdin(), Wait(seconds), Signal(number)"
                )
            if isinstance(step, Wait) and not step.seconds >= 0:
                raise LocalProtocolError(f"a ShutdownPlan cannot wait for {step.seconds!r} seconds; pass a number from 0 up")

    @classmethod
    def default(cls, seconds: float = STEP) -> ShutdownPlan:
        """Close stdin, wait, SIGTERM, wait, SIGKILL; ``seconds`` for each wait (SD-01)."""
        return cls((CloseStdin(), Wait(seconds), Signal(SIGTERM), Wait(seconds), Signal(SIGKILL)))

    @classmethod
    def patient(cls, seconds: float) -> ShutdownPlan:
        """Wait ``seconds`` after closing stdin, for a server that needs time to clean up; then continue as usual."""
        return cls((CloseStdin(), Wait(seconds), Signal(SIGTERM), Wait(STEP), Signal(SIGKILL)))

    @classmethod
    def at_once(cls) -> ShutdownPlan:
        """SIGKILL at once."""
        return cls((Signal(SIGKILL),))

    def __str__(self) -> str:
        return ", ".join(map(str, self.steps))


class StepTaken(Struct, frozen=True):
    """A step, and the number of seconds after the start of the shutdown at which it was taken."""

    step: Step
    at: float


class ShutdownReport(Struct, frozen=True, kw_only=True):
    """How a child ended.

    ``ended_by`` names the last action: ``eof``, ``SIGTERM``, ``SIGKILL`` or another signal of the plan; ``already gone`` if nothing
    had to be done; ``nothing`` if the plan only waited.
    """

    steps: tuple[StepTaken, ...] = ()
    # Of the started process, not of its descendants; None if it still runs or there was no process.
    exit: ExitStatus | None = None
    ended_by: str = "already gone"
    # Seconds from the first step to the end.
    took: float = 0.0
    # Whether a process of the group survived the whole plan.
    left_behind: bool = False

    def describe(self) -> str:
        """Return a one-line summary: ``exited on EOF after 0.03 s (exit code 0)``."""
        status = "" if self.exit is None else f" ({self.exit.describe()})"
        if self.left_behind:
            steps = ", ".join(str(taken.step) for taken in self.steps)
            return f"not gone after {self.took:.2f} s: {steps}{status}"
        if self.ended_by == "already gone":
            return f"had already exited{status}"
        how = "exited on EOF" if self.ended_by == "eof" else f"ended by {self.ended_by}"
        return f"{how} after {self.took:.2f} s{status}"


class ShutdownTarget(Protocol):
    """The object of a plan: a :class:`~twopipes._process.child.Child`, or a fake in a test."""

    @property
    def exit(self) -> ExitStatus | None: ...
    @property
    def shutdown_cancelled(self) -> bool: ...
    def is_gone(self) -> bool: ...
    def close_stdin(self) -> None: ...
    def signal(self, number: int) -> None: ...
    async def wait_until_gone(self, seconds: float) -> None: ...


async def run_plan(
    plan: ShutdownPlan, target: ShutdownTarget, *, clock: Callable[[], float], settle: float = SETTLE
) -> ShutdownReport:
    """Take the steps of a plan until the target is gone, and wait ``settle`` seconds after the last one.

    If the shutdown is cancelled, also after the last step, skip the rest and send SIGKILL.
    """
    started_at = clock()
    if target.is_gone():
        return ShutdownReport(exit=target.exit, took=clock() - started_at)
    taken: list[StepTaken] = []
    for step in plan.steps:
        if target.is_gone() or target.shutdown_cancelled:
            break
        taken.append(StepTaken(step, clock() - started_at))
        await _take(step, target)
    if not (target.is_gone() or target.shutdown_cancelled):
        await target.wait_until_gone(settle)
    if target.shutdown_cancelled and not target.is_gone():
        taken.append(StepTaken(Signal(SIGKILL), clock() - started_at))
        target.signal(SIGKILL)
        await target.wait_until_gone(settle)
    ended_by = _last_action(taken)
    took = clock() - started_at
    return ShutdownReport(steps=tuple(taken), exit=target.exit, ended_by=ended_by, took=took, left_behind=not target.is_gone())


async def _take(step: Step, target: ShutdownTarget) -> None:
    match step:
        case CloseStdin():
            target.close_stdin()
        case Signal(number):
            target.signal(number)
        case Wait(seconds):
            await target.wait_until_gone(seconds)


def _last_action(taken: list[StepTaken]) -> str:
    for each in reversed(taken):
        if not isinstance(each.step, Wait):
            return "eof" if isinstance(each.step, CloseStdin) else signal_name(each.step.number)
    return "nothing"
