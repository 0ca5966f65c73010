"""Scenarios as rows of a table, and how the ``scenarios.py`` of a topic enters one."""

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
    """How long to wait for a client, in seconds."""

    client: float = 30.0  # for the whole of one run
    stimulus: float = 15.0  # for something that the client may do or not
    grace: float = 0.3  # of silence, before it counts as silence
    step: float = 2.0  # for each step of the plan that ends it
    limit: float | None = None  # the longest that the client is set to wait for an answer, where that is known


class Scenario(Struct, frozen=True, kw_only=True):
    """A scenario of the table; see :func:`scenario`."""

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
"""All scenarios, once :func:`all_scenarios` has loaded them."""


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
    """Enters a coroutine function into the table of scenarios.

    Args:
        *rules: The ids of the rules that it judges. What it leaves without a verdict counts as skipped.
        name: By which a person asks for it: the name of the function, with dashes, unless given.
        revisions: ``eras``: of the revisions that have one of the rules and that the client speaks, the newest with a handshake and
            the stateless one. ``each``: all of them. ``newest``: one of them. Or these. The server speaks this revision
            alone, unless ``speaks`` says more.
        speaks: The revisions that the posing server speaks, in order.
        relay: Options for the process that the client launches: see :mod:`twopipes._tools.check.relay_process`.
        needs_process: It is about processes (stderr, signals, exits); without one it is skipped.
        judged: Whether what the conversation shows by itself counts. Not, where the scenario provokes it.
        eras: It is about clients of both eras: what the client does with a healthy server of each is found out before, also where
            only one revision is tried; see :attr:`.FakeServer.baselines`.
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
    """The scenarios of all sections."""
    load_all("scenarios")
    return SCENARIOS
