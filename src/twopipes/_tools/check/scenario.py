"""The table of scenarios, and the decorator that registers one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from twopipes._tools.check.probe import Revisions, about, load_topics

if TYPE_CHECKING:
    from twopipes._tools.check.fake_server import FakeServer

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
    """A registered scenario."""

    name: str  # on the command line
    section: str
    rules: tuple[str, ...]  # those without a verdict at its end are skipped
    body: Body
    description: str = ""
    revisions: Revisions = "eras"  # the fake server speaks only the revision of the run, unless speaks is given
    speaks: tuple[str, ...] = ()  # the revisions that the fake server speaks, in order
    relay: tuple[str, ...] = ()  # options for the process that the client launches: see relay_process.py
    needs_process: bool = False  # it is about processes (stderr, signals, exits) and is skipped without one
    transport: Literal["http", "stream"] | None = None  # it is about HTTP, or about streams of lines
    judged: bool = True  # whether the messages of the client are judged passively; False if the scenario provokes breaches
    # It is about clients of both eras: what the client does with a healthy server of each era is recorded first, even if only one
    # revision is tried; see FakeServer.baselines.
    eras: bool = False


SCENARIOS: list[Scenario] = []
"""All scenarios, after :func:`all_scenarios` has loaded them."""


def scenario(*rules: str, name: str = "", **options: Any) -> Callable[[Body], Body]:
    """Register a coroutine function as a scenario, with the fields of :class:`Scenario` as options."""
    options["needs_process"] = bool(options.get("needs_process") or options.get("relay"))

    def enter(body: Body) -> Body:
        named = name or body.__name__.replace("_", "-")
        SCENARIOS.append(Scenario(name=named, rules=rules, body=body, **about(body), **options))
        return body

    return enter


def all_scenarios() -> list[Scenario]:
    """Return the scenarios of all sections."""
    load_topics("scenarios")
    return SCENARIOS
