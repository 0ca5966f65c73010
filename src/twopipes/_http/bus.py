"""How a change that one process announces reaches the subscribers of the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from twopipes._session.subscriptions import Change

Deliver = Callable[[Change], None]
Lost = Callable[[str], None]
Missed = Callable[[], None]


class Bus(ABC):
    """Carries changes between the processes that serve one server.

    The process that announces a change notifies its own subscribers itself. The bus carries the change to the other processes. All
    methods are called in the event loop of the application, and the bus calls the callbacks there. One application uses one bus.
    """

    @abstractmethod
    async def open(self, deliver: Deliver, lost: Lost, missed: Missed) -> None:
        """Connect, and receive until :meth:`close`. Return after the first attempt to connect, successful or not.

        The bus reconnects by itself.

        Args:
            deliver: Is called with each change that another process published.
            lost: Is called with the reason when the connection is lost, or when the first attempt fails. The application then ends
                its subscriptions with an error, because it cannot know about changes any more.
            missed: Is called when changes of other processes may have been lost, for example after a lost connection is restored.
                The application then reports everything that its remaining subscribers watch as changed.
        """

    @abstractmethod
    def publish(self, change: Change) -> None:
        """Send a change to the other processes. Never block; hold a bounded number of changes while there is no connection."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """Whether changes of other processes arrive. While it is false, the application refuses new subscriptions."""

    @abstractmethod
    async def close(self) -> None:
        """Send the remaining changes if that is possible in a short time, and disconnect. A second call has no effect."""


class LocalBus(Bus):
    """The bus of a server that runs in one process: there is no other process to notify."""

    async def open(self, deliver: Deliver, lost: Lost, missed: Missed) -> None:
        """Do nothing."""

    def publish(self, change: Change) -> None:
        """Do nothing: the process notifies its own subscribers."""

    @property
    def is_connected(self) -> bool:
        """Always true."""
        return True

    async def close(self) -> None:
        """Do nothing."""
