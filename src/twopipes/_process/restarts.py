"""When to start a crashed child again, and when to stop trying (SD-04).

Nothing is started here: a crash goes in, a delay comes out. The clock and the dice are the caller's, so a test can run through a
day of crashes in no time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from twopipes.settings import RestartPolicy

__all__ = ["Restarts"]

# Seconds. After a first restart without any delay, the second one waits: a child that dies at once must not keep a core busy.
_LEAST_SECOND_DELAY: Final = 0.1


class Restarts:
    """The crashes of one child, and what follows from them.

    Each crash gives a delay, longer than the one before, up to a cap. A child that dies too often within the window opens the
    breaker: no more restarts. The crashes leave the window one by one, so the breaker closes by itself, and whoever still wants the
    child may then start it once more. A child that lived long enough begins with a clean sheet.

    Args:
        policy: The numbers.
        random: Gives a number from 0 up to 1, each time another one: ``random.random``.
    """

    def __init__(self, policy: RestartPolicy, *, random: Callable[[], float]) -> None:
        self.policy = policy
        self._random = random
        self._crashes: deque[float] = deque()
        self._last_uptime = 0.0
        self._next_delay = min(policy.first_delay, policy.max_delay)

    def crashed(self, now: float, uptime: float) -> float | None:
        """The child has died of itself.

        Args:
            now: The time.
            uptime: Seconds that it lived.

        Returns:
            Seconds to wait before it is started again, or ``None`` if it is not to be: then :meth:`why` tells the reason.
        """
        policy = self.policy
        if uptime >= policy.healthy_after:
            self.healthy(now)
        self._last_uptime = uptime
        self._crashes.append(now)
        if self.is_open(now):
            return None
        delay = self._next_delay
        # Multiplied step by step and capped each time: a power of the count would overflow in the end.
        self._next_delay = min(max(delay * policy.factor, _LEAST_SECOND_DELAY), policy.max_delay)
        return delay * (1.0 - policy.jitter * self._random())

    def healthy(self, now: float) -> None:
        """The child is well: what happened before is not held against it any more."""
        self._crashes.clear()
        self._next_delay = min(self.policy.first_delay, self.policy.max_delay)

    def is_open(self, now: float) -> bool:
        """Tells whether the child is not to be started now, because it died too often of late."""
        while self._crashes and now >= self._crashes[0] + self.policy.window:
            self._crashes.popleft()
        return self.policy.max_restarts is not None and len(self._crashes) > self.policy.max_restarts

    def closes_in(self, now: float) -> float:
        """Seconds until the child may be started again; 0 if it may be now."""
        if not self.is_open(now):
            return 0.0
        # One restart is free again when no more crashes than that are left in the window.
        last_to_go = self._crashes[len(self._crashes) - (self.policy.max_restarts or 0) - 1]
        return max(0.0, last_to_go + self.policy.window - now)

    def why(self, now: float) -> str:
        """Why the child is not started again, with the counts, and what can be done about it; empty if it may be started."""
        if not self.is_open(now):
            return ""
        policy, count = self.policy, len(self._crashes)
        times = "once" if count == 1 else f"{count} times"
        return (
            f"the server died {times} within {now - self._crashes[0]:.3g} s, the last time after {self._last_uptime:.3g} s of "
            f"life; at most {policy.max_restarts} restarts in {policy.window:.3g} s are allowed, so the next one may be tried in "
            f"{self.closes_in(now):.3g} s. Its stderr may tell what is wrong; RestartPolicy has the limits"
        )
