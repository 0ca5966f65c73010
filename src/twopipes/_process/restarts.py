"""Decide when to restart a crashed child, and when to stop trying (SD-04).

This only computes delays; the caller restarts the child. Time and randomness are arguments, so tests need no waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from twopipes.settings import RestartPolicy

# Seconds. If the first restart has no delay, the second one has this one: a child that crashes at once must not keep a core busy.
_MIN_SECOND_DELAY: Final = 0.1


class Restarts:
    """The crash history of one child.

    Each crash gives a delay that is longer than the one before, up to a maximum. A child that crashes too often within the window
    opens the circuit breaker: no more restarts. Crashes leave the window one by one, so the breaker closes by itself and the child
    may be started again. A child that ran long enough starts with an empty history. ``random`` is a function as ``random.random``.
    """

    def __init__(self, policy: RestartPolicy, *, random: Callable[[], float]) -> None:
        self.policy = policy
        self._random = random
        self._crashes: deque[float] = deque()
        self._last_uptime = 0.0
        self._next_delay = min(policy.first_delay, policy.max_delay)

    def crashed(self, now: float, uptime: float) -> float | None:
        """Record a crash after ``uptime`` seconds. Return the delay of the restart, or ``None`` if :meth:`why` forbids it."""
        policy = self.policy
        if uptime >= policy.healthy_after:
            self.healthy()
        self._last_uptime = uptime
        self._crashes.append(now)
        if self.is_open(now):
            return None
        delay = self._next_delay
        # Multiplied and capped step by step: a power of the count would overflow.
        self._next_delay = min(max(delay * policy.factor, _MIN_SECOND_DELAY), policy.max_delay)
        return delay * (1.0 - policy.jitter * self._random())

    def healthy(self) -> None:
        """Clear the history, because the child works."""
        self._crashes.clear()
        self._next_delay = min(self.policy.first_delay, self.policy.max_delay)

    def is_open(self, now: float) -> bool:
        """Whether the child must not be started now, because it crashed too often within the window."""
        while self._crashes and now >= self._crashes[0] + self.policy.window:
            self._crashes.popleft()
        return self.policy.max_restarts is not None and len(self._crashes) > self.policy.max_restarts

    def closes_in(self, now: float) -> float:
        """Seconds until the child may be started again; 0 if it may be started now."""
        if not self.is_open(now):
            return 0.0
        # The breaker closes when max_restarts crashes are left in the window.
        last_to_go = self._crashes[len(self._crashes) - (self.policy.max_restarts or 0) - 1]
        return max(0.0, last_to_go + self.policy.window - now)

    def why(self, now: float) -> str:
        """Explain why the child is not restarted, with counts and advice; empty if it may be started."""
        if not self.is_open(now):
            return ""
        policy, count = self.policy, len(self._crashes)
        times = "once" if count == 1 else f"{count} times"
        return (
            f"the server crashed {times} within {now - self._crashes[0]:.3g} s, the last time {self._last_uptime:.3g} s after its "
            f"start; RestartPolicy allows {policy.max_restarts} restarts in {policy.window:.3g} s, so the next one is possible in "
            f"{self.closes_in(now):.3g} s. Look at its stderr for the cause, or change RestartPolicy"
        )
