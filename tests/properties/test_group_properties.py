"""A group under random use: whatever happens to its servers, every call ends, and nothing is left when the group is closed."""

import asyncio
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_server import SILENCE, FakeServer, legacy, scene
from twopipes import CallResult, RestartPolicy, Timeouts
from twopipes.errors import TwopipesError
from twopipes.host import Allow, Deny, Edit, ServerGroup

pytestmark = pytest.mark.slow  # many groups

NAMES = ["a", "a_b", "A"]
TOOLS = ["x", "b_x", "x.y", "x_y", "b__x"]
DECISIONS = [Allow(), Deny("no"), Edit({"edited": True}), None]


class Step(NamedTuple):
    """What happens next: to which server, with which tools, and how often the event loop runs before the next step."""

    kind: str
    server: str
    tools: list[str]
    turns: int


STEPS = st.builds(
    Step,
    st.sampled_from(["call", "call", "kill", "change", "flood", "add", "remove", "reconnect", "list", "hang", "cancel", "prompts"]),
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(TOOLS), max_size=4),
    st.integers(0, 5),
)


class Play:
    """The servers, and the tasks that use them."""

    def __init__(self, eras, *, lazy, decisions):
        self.fakes = {name: self._fake(era) for name, era in zip(NAMES, eras, strict=True)}
        self.tasks = []
        self.decisions = decisions
        self.group = ServerGroup(
            dict(self.fakes),
            lazy=lazy,
            approve=self._approve if decisions else None,
            restart=RestartPolicy(first_delay=0.0, max_delay=0.0, max_restarts=3),
            timeouts=Timeouts(connect=0.2, probe=0.1, request=0.2, total=0.3),
        )

    @staticmethod
    def _fake(era):
        listed = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}
        return (legacy if era == "legacy" else FakeServer)({"tools/list": listed})

    async def _approve(self, server, tool, arguments):
        await asyncio.sleep(0)
        return self.decisions[len(self.tasks) % len(self.decisions)]

    def start(self, coroutine):
        self.tasks.append(asyncio.create_task(coroutine))

    async def step(self, step):
        fake, group = self.fakes[step.server], self.group
        match step.kind:
            case "call":
                tool = next((tool.name for tool in group.tools if tool.server == step.server), f"{step.server}__x")
                self.start(group.call(tool))
            case "kill":
                if fake._channel is not None:
                    await fake.hang_up()
            case "change" | "flood":
                fake.answers["tools/list"] = {"tools": [{"name": name, "inputSchema": {}} for name in step.tools]}
                for _ in range(50 if step.kind == "flood" else 1):
                    if fake._channel is not None:
                        fake.notify("notifications/tools/list_changed")
            case "hang":
                fake.answers["tools/call"] = SILENCE
            case "cancel":
                if self.tasks:
                    self.tasks[-1].cancel()
            case "add":
                self.start(group.add(step.server, fake))
            case "list":
                self.start(group.list_tools(fresh=True))
            case "prompts":
                self.start(group.list_prompts())
            case "remove" | "reconnect":
                self.start(getattr(group, step.kind)(step.server))

    def check_names(self):
        """Each public name leads to the tool that has it."""
        for tool in self.group.tools:
            assert self.group._tools.get(tool.name) is tool
            assert tool.server in self.group.servers


@settings(max_examples=60)
@given(
    st.lists(STEPS, max_size=12),
    st.tuples(*[st.sampled_from(["legacy", "modern"])] * 3),
    st.booleans(),
    st.lists(st.sampled_from(DECISIONS), max_size=3),
)
def test_every_call_ends_and_nothing_is_left(steps, eras, lazy, decisions):
    @scene
    async def run():
        play = Play(eras, lazy=lazy, decisions=decisions)
        async with play.group:
            for step in steps:
                await play.step(step)
                for _ in range(step.turns):
                    await asyncio.sleep(0)
                play.check_names()
        outcomes = await asyncio.gather(*play.tasks, return_exceptions=True)
        for outcome in outcomes:
            assert not isinstance(outcome, BaseException) or isinstance(outcome, TwopipesError | asyncio.CancelledError), outcome
        assert all(server.state == "closed" for server in play.group.servers.values())
        assert all(fake.gone.is_set() for fake in play.fakes.values() if fake.lives)

    run()


def test_a_call_result_is_what_a_call_returns():
    @scene
    async def run():
        play = Play(["modern"] * 3, lazy=False, decisions=[])
        async with play.group:
            assert isinstance(await play.group.call("a__x"), CallResult)

    run()
