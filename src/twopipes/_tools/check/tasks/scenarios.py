"""Tasks as an extension of the stateless wire, from the side of a server that makes them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from twopipes._protocol.revisions import META_CAPABILITIES
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import Fault, RawResult, text
from twopipes._tools.check.verdict import Skip

_EXTENSION = "io.modelcontextprotocol/tasks"
_WHEN = "2026-07-28T10:00:00Z"
_INTERVAL = 60  # milliseconds between two polls that the fake server asks for
_QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Who are you?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}


class _Tasks:
    """The tasks of the fake server: a call becomes one if the client declares the extension.

    Args:
        needs_input: Whether they ask something before they end.
    """

    def __init__(self, fake: FakeServer, *, needs_input: bool = False) -> None:
        self.fake = fake
        self.needs_input = needs_input
        self.made: dict[str, ClientMessage] = {}
        fake.healthy.capabilities["extensions"] = {_EXTENSION: {}}
        fake.add_tool("long", self.call)
        fake.on["tasks/get"] = self.get
        fake.on["tasks/update"] = lambda message: self._known(message) or {"resultType": "complete"}
        fake.on["tasks/cancel"] = lambda message: self._known(message) or {"resultType": "complete"}

    def call(self, message: ClientMessage) -> Any:
        """The tool."""
        if not _declares(message):
            return text("Done at once.")
        task_id = f"fake-task-{len(self.made)}-6d1f08c2ba"
        self.made[task_id] = message
        return RawResult({"resultType": "task", **_task(task_id, "working")})

    def get(self, message: ClientMessage) -> Any:
        """Working at the first question; then in need of input, if it is to be; at last completed."""
        fault = self._known(message)
        if fault is not None:
            return fault
        task_id = message.params["taskId"]
        updates = self.about("tasks/update", task_id)
        # What an update does may show later: the question is still there at the first poll after it.
        polls = [each for each in self.about("tasks/get", task_id) if updates and each.number > updates[0].number]
        if self.needs_input and len(polls) < 2:
            return {**_task(task_id, "input_required"), "inputRequests": {"who": _QUESTION}}
        if not self.needs_input and len(self.about("tasks/get", task_id)) < 3:
            return _task(task_id, "working")
        return {**_task(task_id, "completed"), "result": {"resultType": "complete", **text("Done.")}}

    def about(self, method: str, task_id: str) -> list[ClientMessage]:
        """What the client has asked about a task."""
        return [message for message in self.fake.requests(method) if message.params.get("taskId") == task_id]

    def _known(self, message: ClientMessage) -> Fault | None:
        return None if message.params.get("taskId") in self.made else Fault(-32602, "there is no such task")

    async def played(self) -> None:
        """Waits for the end of the client.

        Raises:
            Skip: It does not declare the extension, so that nothing became a task.
        """
        await self.fake.wait_for("tools/call")
        await self.fake.client_exited()
        if not self.made:
            raise Skip(f"the client does not declare the extension {_EXTENSION}")


def _task(task_id: str, status: str) -> dict[str, Any]:
    when = {"createdAt": _WHEN, "lastUpdatedAt": _WHEN}
    return {"taskId": task_id, "status": status, **when, "ttlMs": 60_000, "pollIntervalMs": _INTERVAL}


@scenario("TX-01", "TX-04", "TX-13", "TX-14")
async def makes_a_task_of_a_call(fake: FakeServer) -> None:
    """A call becomes a task that ends after a while."""
    tasks = _Tasks(fake)
    await tasks.played()
    about_tasks = [message for message in fake.requests() if (message.method or "").startswith("tasks/")]
    undeclared = next((message for message in about_tasks if not isinstance(_declared(message), dict)), None)
    odd = next((message for message in fake.requests() if _declares(message) and not isinstance(_declared(message), dict)), None)
    fake.expect(
        "TX-01",
        undeclared is None and odd is None,
        "a request about tasks does not declare the extension as an object",
        fix=f'Put "extensions": {{"{_EXTENSION}": {{}}}} into the clientCapabilities of each request.',
        about=undeclared or odd,
    )
    for task_id, call in tasks.made.items():
        polls = tasks.about("tasks/get", task_id)
        fake.expect(
            "TX-04",
            polls or tasks.about("tasks/cancel", task_id),
            "the client declares the extension, and did nothing about a call that became a task",
            fix="Poll by tasks/get until the task has ended.",
            about=call,
        )
        hasty = next((later for before, later in pairwise(polls) if later.at - before.at < _INTERVAL / 2000), None)
        fake.expect(
            "TX-14",
            hasty is None,
            f"the client polled again in less than half of the {_INTERVAL} ms that the task asks for",
            fix="Wait for pollIntervalMs between two questions.",
            about=hasty,
        )
        cancels = [
            message for message in fake.notifications("notifications/cancelled") if message.params.get("requestId") == call.id
        ]
        fake.expect(
            "TX-13",
            not cancels,
            "the client sent notifications/cancelled for a request that had become a task",
            fix="Cancel a task by tasks/cancel.",
            about=cancels[0] if cancels else None,
        )


@scenario("TX-14")
async def makes_a_task_that_asks(fake: FakeServer) -> None:
    """A task has a question, which can still be seen for a moment after it was answered."""
    tasks = _Tasks(fake, needs_input=True)
    await tasks.played()
    for task_id in tasks.made:
        answered = [
            message for message in tasks.about("tasks/update", task_id) if "who" in (message.params.get("inputResponses") or {})
        ]
        if answered:
            fake.expect(
                "TX-14",
                len(answered) == 1,
                f"the client answered one question of a task {len(answered)} times",
                fix="Remember the keys that were answered.",
                about=answered[-1],
            )


@scenario("TX-04", judged=False)
async def makes_a_task_of_a_prompt(fake: FakeServer) -> None:
    """A prompt is answered with a task, which is not possible."""
    task_id = "fake-task-of-a-prompt-41c0aa97"
    fake.healthy.capabilities["extensions"] = {_EXTENSION: {}}
    fake.on["prompts/get"] = lambda _said: RawResult({"resultType": "task", **_task(task_id, "working")})
    await fake.wait_for("prompts/get")
    await fake.client_exited()
    if not any(_declares(message) for message in fake.requests()):
        raise Skip(f"the client does not declare the extension {_EXTENSION}")
    taken = next((message for message in fake.requests("tasks/get") if message.params.get("taskId") == task_id), None)
    fake.expect(
        "TX-04",
        taken is None,
        "the client took a task for the answer to prompts/get, which cannot become one",
        fix="Take a task for an answer to tools/call alone; elsewhere it is an error of the server.",
        about=taken,
    )


def _declared(message: ClientMessage) -> Any:
    client_capabilities = message.meta.get(META_CAPABILITIES)
    extensions = client_capabilities.get("extensions") if isinstance(client_capabilities, dict) else None
    return extensions.get(_EXTENSION) if isinstance(extensions, dict) else None


def _declares(message: ClientMessage) -> bool:
    return _declared(message) is not None
