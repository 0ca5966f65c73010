"""Shutdown plans, run on a fake child with a fake clock (SD-01)."""

import asyncio
import signal

import pytest

from twopipes._process.exit_status import SIGKILL, SIGTERM, ExitStatus, signal_name
from twopipes._process.shutdown import CloseStdin, ShutdownPlan, ShutdownReport, Signal, StepTaken, Wait, run_plan
from twopipes.errors import LocalProtocolError


class Actor:
    """Exits some time after the configured action."""

    def __init__(self, dies_of=None, *, after=0.0, cancelled_at=None):
        self.now = 0.0
        self.suffered = []
        self._dies_of = dies_of
        self._after = after
        self._dies_at = 0.0 if dies_of == "already" else None
        self._cancelled_at = cancelled_at

    @property
    def exit(self):
        return ExitStatus(code=0) if self.is_gone() else None

    @property
    def shutdown_cancelled(self):
        return self._cancelled_at is not None and self.now >= self._cancelled_at

    def is_gone(self):
        return self._dies_at is not None and self.now >= self._dies_at

    def close_stdin(self):
        self._suffer("eof")

    def signal(self, number):
        self._suffer(signal_name(number))

    def _suffer(self, what):
        self.suffered.append((what, self.now))
        if what == self._dies_of:
            self._dies_at = self.now + self._after

    async def wait_until_gone(self, seconds):
        ends = [self.now + seconds]
        if self._dies_at is not None:
            ends.append(self._dies_at)
        if self._cancelled_at is not None and self._cancelled_at > self.now:
            ends.append(self._cancelled_at)
        self.now = min(ends)

    def end_by(self, plan):
        return asyncio.run(run_plan(plan, self, clock=lambda: self.now))


def test_a_child_that_exits_on_eof_gets_no_signal():
    actor = Actor("eof", after=0.5)
    report = actor.end_by(ShutdownPlan.default())
    assert actor.suffered == [("eof", 0.0)]
    assert report == ShutdownReport(
        steps=(StepTaken(CloseStdin(), 0.0), StepTaken(Wait(2.0), 0.0)), exit=ExitStatus(code=0), ended_by="eof", took=0.5
    )
    assert report.describe() == "exited on EOF after 0.50 s (exit code 0)"


def test_a_child_that_ignores_eof_gets_sigterm_after_two_seconds():
    actor = Actor("SIGTERM", after=1.5)
    report = actor.end_by(ShutdownPlan.default())
    assert actor.suffered == [("eof", 0.0), ("SIGTERM", 2.0)]
    assert (report.ended_by, report.took) == ("SIGTERM", 3.5)


def test_a_child_that_ignores_sigterm_is_killed_after_two_more_seconds():
    actor = Actor("SIGKILL", after=0.1)
    report = actor.end_by(ShutdownPlan.default())
    assert actor.suffered == [("eof", 0.0), ("SIGTERM", 2.0), ("SIGKILL", 4.0)]
    assert report.ended_by == "SIGKILL"
    assert not report.left_behind
    assert [taken.at for taken in report.steps] == [0.0, 0.0, 2.0, 2.0, 4.0]


def test_a_child_that_survives_the_plan_is_reported():
    report = Actor().end_by(ShutdownPlan.default())
    assert report.left_behind
    assert report.exit is None
    assert report.describe() == "not gone after 6.00 s: close stdin, wait 2 s, SIGTERM, wait 2 s, SIGKILL"


def test_a_child_that_is_already_gone_gets_nothing():
    actor = Actor("already")
    report = actor.end_by(ShutdownPlan.default())
    assert actor.suffered == []
    assert report == ShutdownReport(exit=ExitStatus(code=0))
    assert report.describe() == "had already exited (exit code 0)"
    assert ShutdownReport().describe() == "had already exited"


def test_a_cancelled_shutdown_skips_to_sigkill():
    actor = Actor("SIGKILL", cancelled_at=0.5)
    report = actor.end_by(ShutdownPlan.default(60))
    assert actor.suffered == [("eof", 0.0), ("SIGKILL", 0.5)]
    assert report.ended_by == "SIGKILL"


@pytest.mark.parametrize(
    ("plan", "cancelled_at"),
    [
        (ShutdownPlan((CloseStdin(), Wait(10))), 5.0),
        (ShutdownPlan((CloseStdin(), Wait(10))), 11.0),
        (ShutdownPlan((CloseStdin(),)), 1.0),
        (ShutdownPlan((Wait(10),)), 5.0),
        (ShutdownPlan(()), 1.0),
    ],
    ids=["in the last wait", "after the last wait", "without a wait", "only a wait", "an empty plan"],
)
def test_a_shutdown_that_is_cancelled_at_its_end_still_kills(plan, cancelled_at):
    actor = Actor("SIGKILL", after=0.1, cancelled_at=cancelled_at)
    report = actor.end_by(plan)
    assert actor.suffered[-1] == ("SIGKILL", cancelled_at)
    assert (report.ended_by, report.left_behind) == ("SIGKILL", False)
    assert report.steps[-1] == StepTaken(Signal(SIGKILL), cancelled_at)


def test_a_shutdown_that_is_cancelled_after_sigkill_waits_for_the_end():
    actor = Actor("SIGKILL", after=2.5, cancelled_at=1.0)
    report = actor.end_by(ShutdownPlan.at_once())
    assert report.left_behind is True  # 2.5 s after the second SIGKILL, which is longer than the system gets
    assert [str(taken.step) for taken in report.steps] == ["SIGKILL", "SIGKILL"]


def test_a_plan_may_use_other_signals():
    plan = ShutdownPlan((Signal(signal.SIGINT), Wait(1)))
    report = Actor("SIGINT").end_by(plan)
    assert report.ended_by == "SIGINT"


def test_a_plan_can_be_printed():
    assert str(ShutdownPlan.default()) == "close stdin, wait 2 s, SIGTERM, wait 2 s, SIGKILL"
    assert str(ShutdownPlan.default(0.5)) == "close stdin, wait 0.5 s, SIGTERM, wait 0.5 s, SIGKILL"
    assert str(ShutdownPlan.patient(30)) == "close stdin, wait 30 s, SIGTERM, wait 2 s, SIGKILL"
    assert str(ShutdownPlan.at_once()) == "SIGKILL"


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        ("close stdin", "'close stdin' is not a step"),
        (Wait(-1), "cannot wait for -1"),
        (Wait(float("nan")), "cannot wait for nan"),
    ],
)
def test_an_invalid_plan_is_rejected(step, complaint):
    with pytest.raises(LocalProtocolError, match=complaint):
        ShutdownPlan((step,))


def test_signals_have_names_everywhere():
    assert (signal_name(SIGTERM), signal_name(SIGKILL)) == ("SIGTERM", "SIGKILL")
    assert signal_name(1000) == "signal 1000"


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (ExitStatus(code=0), "exit code 0"),
        (ExitStatus(code=3), "exit code 3"),
        (ExitStatus(signal=11), "signal SIGSEGV"),
        (ExitStatus(signal=1000), "signal 1000"),
        (ExitStatus(), "an unknown exit status"),
    ],
)
def test_an_exit_is_described(status, sentence):
    assert status.describe() == sentence


def test_an_exit_is_read_from_what_the_system_says():
    assert ExitStatus.from_wait(3 << 8) == ExitStatus(code=3)
    assert ExitStatus.from_wait(9) == ExitStatus(signal=9)
    assert ExitStatus.from_wait(9).signal_name == "SIGKILL"
    assert ExitStatus(code=1).signal_name is None
