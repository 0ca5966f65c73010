"""The table of scenarios, and the decorator that registers one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from twopipes._tools.check.probe import Revisions
from twopipes._tools.check.topics import load_all, section_of

if TYPE_CHECKING:
    from twopipes._tools.check.fake_server import FakeServer

__all__ = ["SCENARIOS", "Scenario", "ScenarioTimeouts", "all_scenarios", "scenario"]

Body = Callable[["FakeServer"], Coroutine[Any, Any, None]]


class ScenarioTimeouts(Struct, frozen=True, kw_only=True):
    """Timeouts of the check of a client, in seconds."""

    client: float = 30.0  # for a whole run of the client
    stimulus: float = 15.0  # for something that the client may do
    grace: float = 0.3  # without output, before the client counts as quiet
    step: float = 2.0  # for each step of the shutdown plan
    limit: float | None = None  # the request timeout that the client is configured with, if known

    @property
    def brief(self) -> float:
        """For something that the client sends while it waits for a response itself."""
        return min(self.stimulus / 3, 5.0)


class Scenario(Struct, frozen=True, kw_only=True):
    """A registered scenario; see :func:`scenario`."""

    name: str
    section: str
    rules: tuple[str, ...]
    body: Body
    revisions: Revisions = "eras"
    speaks: tuple[str, ...] = ()
    relay: tuple[str, ...] = ()
    needs_process: bool = False
    judged: bool = True
    eras: bool = False
    description: str = ""


SCENARIOS: list[Scenario] = []
"""All scenarios, after :func:`all_scenarios` has loaded them."""


def scenario(
    *rules: str,
    name: str | None = None,
    revisions: Revisions = "eras",
    speaks: Sequence[str] = (),
    relay: Sequence[str] = (),
    needs_process: bool = False,
    judged: bool = True,
    eras: bool = False,
) -> Callable[[Body], Body]:
    """Register a coroutine function as a scenario.

    Args:
        *rules: The ids of the rules that the scenario judges. Those without a verdict at its end are skipped.
        name: The name on the command line; by default the name of the function, with dashes.
        revisions: Of the revisions that have one of the rules and that the client speaks: ``eras`` for the newest legacy and the
            newest modern one, ``each`` for all, ``newest`` for one. Or the given ones. The fake server speaks only this revision,
            unless ``speaks`` is given.
        speaks: The revisions that the fake server speaks, in order.
        relay: Options for the process that the client launches: see :mod:`twopipes._tools.check.relay_process`.
        needs_process: The scenario is about processes (stderr, signals, exits) and is skipped without one.
        judged: Whether the messages of the client are judged passively. Use ``False`` if the scenario provokes breaches.
        eras: The scenario is about clients of both eras: what the client does with a healthy server of each era is recorded first,
            even if only one revision is tried; see :attr:`.FakeServer.baselines`.
    """

    def enter(body: Body) -> Body:
        SCENARIOS.append(
            Scenario(
                name=name or body.__name__.replace("_", "-"),
                section=section_of(body.__module__),
                rules=rules,
                body=body,
                revisions=revisions,
                speaks=tuple(speaks),
                relay=tuple(relay),
                needs_process=needs_process or bool(relay),
                judged=judged,
                eras=eras,
                description=(body.__doc__ or "").strip(),
            )
        )
        return body

    return enter


def all_scenarios() -> list[Scenario]:
    """Return the scenarios of all sections."""
    load_all("scenarios")
    return SCENARIOS
