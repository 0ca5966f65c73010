"""How a child is brought to its end: a plan that can be printed, replaced and timed, and a report of how it went.

There is no message that ends a conversation over stdio. The client closes the server's standard input and waits; then it asks
by a signal; then it does not ask any more (SD-01). The plan goes on until the whole process group is gone: a wrapper that
leaves at the end of its input while the server behind it stays has not ended anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from twopipes._process.exit_status import SIGKILL, SIGTERM, ExitStatus, signal_name
from twopipes.errors import LocalProtocolError

__all__ = [
    "POSIX",
    "WINDOWS",
    "CloseStdin",
    "Ending",
    "ShutdownPlan",
    "ShutdownReport",
    "Signal",
    "StepTaken",
    "Wait",
    "carry_out",
]

# Seconds for each patient step, as Timeouts.shutdown has it. Of 34 real servers the slowest needed 0.5 s after the end of input.
STEP = 2.0
# Seconds that the system gets to remove what was killed. Only a process that hangs inside of the kernel needs more.
SETTLE = 2.0


class CloseStdin(Struct, frozen=True):
    """Send what is still buffered, then let the child read the end of its input."""

    def __str__(self) -> str:
        return "close stdin"


class Wait(Struct, frozen=True):
    """Wait until the group is gone, but no longer than this."""

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
    """The steps that end a child, in order. They stop as soon as nothing is left to end.

    A plan that does not end with SIGKILL may leave something behind. The report then says so, and what is left is killed when
    the interpreter exits.
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        for step in self.steps:
            if not isinstance(step, CloseStdin | Wait | Signal):
                raise LocalProtocolError(
                    f"{step!r} is no step of a ShutdownPlan; "
                    "twopipes._process.shutdown has CloseStdin(), Wait(seconds), Signal(number)"
                )
            if isinstance(step, Wait) and not step.seconds >= 0:
                raise LocalProtocolError(f"a ShutdownPlan cannot wait for {step.seconds!r} seconds")

    @classmethod
    def default(cls, seconds: float = STEP) -> ShutdownPlan:
        """Close stdin, wait, SIGTERM, wait, SIGKILL; ``seconds`` for each wait (SD-01)."""
        return cls((CloseStdin(), Wait(seconds), Signal(SIGTERM), Wait(seconds), Signal(SIGKILL)))

    @classmethod
    def patient(cls, seconds: float) -> ShutdownPlan:
        """Give a server that has much to put in order so many seconds after the end of its input; then as usual."""
        return cls((CloseStdin(), Wait(seconds), Signal(SIGTERM), Wait(STEP), Signal(SIGKILL)))

    @classmethod
    def at_once(cls) -> ShutdownPlan:
        """SIGKILL, without a word before."""
        return cls((Signal(SIGKILL),))

    def __str__(self) -> str:
        return ", ".join(map(str, self.steps))


POSIX = ShutdownPlan.default()
# The same steps: what the two numbers mean there is written in windows.py.
WINDOWS = ShutdownPlan.default()


class StepTaken(Struct, frozen=True):
    """One step, and how many seconds after the beginning it was taken."""

    step: Step
    at: float


class ShutdownReport(Struct, frozen=True, kw_only=True):
    """How a child ended.

    ``ended_by`` names the last thing that was done to it: ``eof``, ``SIGTERM``, ``SIGKILL`` or another signal of the plan;
    ``already gone`` where nothing had to be done; ``nothing`` where the plan was only to wait.
    """

    steps: tuple[StepTaken, ...] = ()
    # Of the process that was started, not of what it started in turn; None when it is still there, or where there was none.
    exit: ExitStatus | None = None
    ended_by: str = "already gone"
    # Seconds from the first step to the end.
    took: float = 0.0
    # A process of the group survived the whole plan.
    left_behind: bool = False

    def describe(self) -> str:
        """Return one line for people: ``ended by eof after 0.03 s, exit code 0``."""
        status = "" if self.exit is None else f", {self.exit.describe()}"
        if self.left_behind:
            steps = ", ".join(str(taken.step) for taken in self.steps)
            return f"not ended after {self.took:.2f} s ({steps}){status}"
        if self.ended_by == "already gone":
            return f"had ended before{status}"
        return f"ended by {self.ended_by} after {self.took:.2f} s{status}"


class Ending(Protocol):
    """What a plan is carried out on: a child with its group, or a test's idea of one."""

    @property
    def exit(self) -> ExitStatus | None:
        """How the process itself ended, if it did."""

    @property
    def in_a_hurry(self) -> bool:
        """Whether whoever asked for the end has no time left."""

    def is_gone(self) -> bool:
        """Whether nothing of the group is left."""

    def close_stdin(self) -> None:
        """Begin to end its input; never wait for it."""

    def signal(self, number: int) -> None:
        """Send a signal to all that is left."""

    async def wait_until_gone(self, seconds: float) -> None:
        """Return when nothing is left, after so many seconds, or when somebody is in a hurry."""


async def carry_out(plan: ShutdownPlan, target: Ending, *, clock: Callable[[], float], settle: float = SETTLE) -> ShutdownReport:
    """Take the steps of a plan until nothing of the target is left.

    When the target gets into a hurry, what is left of the plan is skipped and SIGKILL is sent.

    Args:
        plan: The steps.
        target: What is to end.
        clock: Seconds, for the report.
        settle: Seconds that the system gets after the last step.
    """
    begun = clock()
    taken: list[StepTaken] = []
    ended_by = "already gone" if target.is_gone() else "nothing"
    rest = list(plan.steps)
    while rest and not target.is_gone():
        step = Signal(SIGKILL) if target.in_a_hurry else rest.pop(0)
        if target.in_a_hurry:
            rest.clear()
        taken.append(StepTaken(step, clock() - begun))
        if isinstance(step, CloseStdin):
            ended_by = "eof"
            target.close_stdin()
        elif isinstance(step, Signal):
            ended_by = signal_name(step.number)
            target.signal(step.number)
        else:
            await target.wait_until_gone(step.seconds)
    if not target.is_gone():
        await target.wait_until_gone(settle)
    return ShutdownReport(
        steps=tuple(taken),
        exit=target.exit,
        ended_by=ended_by,
        took=clock() - begun,
        left_behind=not target.is_gone(),
    )
