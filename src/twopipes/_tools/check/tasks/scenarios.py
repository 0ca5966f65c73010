"""The tasks extension of the modern revisions, in clients."""

from __future__ import annotations

from typing import Any

from twopipes._codes import INVALID_PARAMS
from twopipes._protocol.revisions import META_CAPABILITIES
from twopipes._tools.check.asking_tools import QUESTIONS
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import Fault, RawResult, text
from twopipes._tools.check.messages import ClientMessage, members
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.tasks_2025.receiver import EXTENSION, judge_polls
from twopipes._tools.check.verdict import Skip

_WHEN = "2026-07-28T10:00:00Z"
_INTERVAL = 60  # milliseconds between two polls that the fake server asks for


class _Tasks:
    """The tasks of the fake server: a call becomes one if the client declares the extension."""

    def __init__(self, fake: FakeServer, *, needs_input: bool = False) -> None:
        self.fake = fake
        self.needs_input = needs_input  # whether they ask something before they end
        self.made: dict[str, ClientMessage] = {}
        fake.healthy.capabilities["extensions"] = {EXTENSION: {}}
        fake.add_tool("long", self.call)
        fake.on["tasks/get"] = lambda message: self._fault(message) or self.state(message.params["taskId"])
        fake.on["tasks/update"] = fake.on["tasks/cancel"] = lambda message: self._fault(message) or {"resultType": "complete"}

    def call(self, message: ClientMessage) -> Any:
        """Serve the tool."""
        if _declared(message) is None:
            return text("Done at once.")
        task_id = f"fake-task-{len(self.made)}-6d1f08c2ba"
        self.made[task_id] = message
        return RawResult({"resultType": "task", **_task(task_id, "working")})

    def state(self, task_id: str) -> dict[str, Any]:
        """Return working twice, or input_required until there was an update and one more poll; then completed."""
        polls, updates = self.about("tasks/get", task_id), self.about("tasks/update", task_id)
        # An update may take effect later: the question is still there at the first poll after it.
        if self.needs_input and len([each for each in polls if updates and each.number > updates[0].number]) < 2:
            method, params = QUESTIONS["elicitation"]
            question = {"method": method, "params": {"mode": "form", **params}}
            return {**_task(task_id, "input_required"), "inputRequests": {"who": question}}
        if not self.needs_input and len(polls) < 3:
            return _task(task_id, "working")
        return {**_task(task_id, "completed"), "result": {"resultType": "complete", **text("Done.")}}

    def about(self, method: str, task_id: str) -> list[ClientMessage]:
        """Return the requests about a task."""
        return [message for message in self.fake.requests(method) if message.params.get("taskId") == task_id]

    def _fault(self, message: ClientMessage) -> Fault | None:
        return None if message.params.get("taskId") in self.made else Fault(INVALID_PARAMS, "unknown task")

    async def finished(self) -> None:
        """Wait until the client exits; raise Skip if it does not declare the extension, so that there are no tasks."""
        await self.fake.exited_after("tools/call")
        if not self.made:
            raise Skip(f"the client does not declare the extension {EXTENSION}")


def _task(task_id: str, status: str) -> dict[str, Any]:
    when = {"createdAt": _WHEN, "lastUpdatedAt": _WHEN}
    return {"taskId": task_id, "status": status, **when, "ttlMs": 60_000, "pollIntervalMs": _INTERVAL}


@scenario("TX-01", "TX-04", "TX-13", "TX-14")
async def makes_a_task_of_a_call(fake: FakeServer) -> None:
    """A call becomes a task that ends after a while."""
    tasks = _Tasks(fake)
    await tasks.finished()
    for_tasks = [each for each in fake.requests() if (each.method or "").startswith("tasks/") or _declared(each) is not None]
    wrong = [each for each in for_tasks if not isinstance(_declared(each), dict)]
    fake.forbid("TX-01", wrong, "a request about tasks does not declare the extension as an object")
    for task_id, call in tasks.made.items():
        polls = tasks.about("tasks/get", task_id)
        why = "the client declares the extension, and ignored the task that a call became"
        fake.expect("TX-04", polls or tasks.about("tasks/cancel", task_id), why, about=call)
        judge_polls(fake, "TX-14", polls, _INTERVAL)
        fake.forbid("TX-13", call.cancellation, "the client sent notifications/cancelled for a request that had become a task")


@scenario("TX-14")
async def makes_a_task_that_asks(fake: FakeServer) -> None:
    """A task has a question, which remains visible for a moment after it was answered."""
    tasks = _Tasks(fake, needs_input=True)
    await tasks.finished()
    for task_id in tasks.made:
        updates = tasks.about("tasks/update", task_id)
        answers = [message for message in updates if "who" in (message.params.get("inputResponses") or {})]
        if answers:
            why = f"the client answered one question of a task {len(answers)} times"
            fake.expect("TX-14", len(answers) == 1, why, about=answers[-1])


@scenario("TX-04", judged=False)
async def makes_a_task_of_a_prompt(fake: FakeServer) -> None:
    """The result of prompts/get is a task, which is not allowed."""
    task_id = "fake-task-of-a-prompt-41c0aa97"
    fake.healthy.capabilities["extensions"] = {EXTENSION: {}}
    fake.on["prompts/get"] = lambda _message: RawResult({"resultType": "task", **_task(task_id, "working")})
    await fake.exited_after("prompts/get")
    if all(_declared(message) is None for message in fake.requests()):
        raise Skip(f"the client does not declare the extension {EXTENSION}")
    accepted = [message for message in fake.requests("tasks/get") if message.params.get("taskId") == task_id]
    fake.forbid("TX-04", accepted, "the client accepted a task as the result of prompts/get, which cannot become one")


def _declared(message: ClientMessage) -> Any:
    return members(members(message.meta.get(META_CAPABILITIES)).get("extensions")).get(EXTENSION)
