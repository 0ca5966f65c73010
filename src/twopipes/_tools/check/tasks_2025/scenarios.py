"""Tasks of 2025-11-25, of clients: those that they run for a server, and those that they let a server run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import Fault, text
from twopipes._tools.check.tasks_2025.requester import RELATED, TaskRunner, wrong_with_capability
from twopipes._tools.check.verdict import Skip

_WHEN = "2025-11-25T10:00:00Z"
_INTERVAL = 60  # milliseconds between two polls that the fake server asks for
_QUESTION: Mapping[str, Any] = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
_SAMPLE: Mapping[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}],
    "maxTokens": 10,
}
_ASKED = {"elicitation": ("elicitation/create", _QUESTION), "sampling": ("sampling/createMessage", _SAMPLE)}
_VERB = {"elicitation": "create", "sampling": "createMessage"}


class Replied(Struct, frozen=True, eq=False):
    """An answer of the client, as a server's is seen."""

    message: ClientMessage

    @property
    def result(self) -> dict[str, Any]:
        """The result; empty for an error."""
        found = self.message.members.get("result")
        return found if isinstance(found, dict) else {}

    @property
    def is_result(self) -> bool:
        """Whether there is one."""
        return isinstance(self.message.members.get("result"), dict)

    @property
    def code(self) -> Any:
        """Of the error."""
        error = self.message.members.get("error")
        return error.get("code") if isinstance(error, dict) else None

    @property
    def summary(self) -> str:
        """What it is, in a few words."""
        return "a result" if self.is_result else f"error {self.code}"

    @property
    def sent(self) -> Sequence[bytes]:
        """Not known any more."""
        return ()

    @property
    def received(self) -> Sequence[bytes]:
        """The line."""
        return (self.message.raw,)


async def _within_a_call(fake: FakeServer, work: Callable[[ClientMessage], Awaitable[None]]) -> None:
    """Does something with a client while it waits for the answer of a tool: that is when questions may come."""
    reasons: list[str] = []
    done: list[bool] = []

    async def run(message: ClientMessage) -> Any:
        if not done:
            done.append(True)
            try:
                await work(message)
            except Skip as skip:
                reasons.append(str(skip))
        return text("Done.")

    fake.add_tool("ask", run)
    await fake.client_exited()
    if reasons or not done:
        raise Skip(reasons[0] if reasons else "the client did not call the tool that asks")


async def _ask(fake: FakeServer, method: str, params: Mapping[str, Any]) -> Replied:
    message = await fake.ask(method, params)
    if message is None:
        raise Skip(f"the client did not answer {method}")
    return Replied(message)


@scenario("TK-02")
async def wants_a_task_that_was_not_offered(fake: FakeServer) -> None:
    """A question with a task member, to a client that does not declare tasks for it, is answered as any other."""

    async def ask(message: ClientMessage) -> None:
        kind = next(
            (each for each in _ASKED if each in message.connection.client_capabilities and not _offers(message, each)), None
        )
        if kind is None:
            raise Skip("the client can be asked nothing, or declares tasks for what it can be asked")
        method, params = _ASKED[kind]
        plain = await _ask(fake, method, params)
        if not plain.is_result:
            raise Skip(f"the client refuses {method} in any case")
        reply = await _ask(fake, method, {**params, "task": {"ttl": 60_000}})
        fake.expect(
            "TK-02",
            reply.is_result and "task" not in reply.result,
            f"{method} with a task member got {reply.summary}, and without it a result; tasks are not declared for it",
            fix="Pass over the member task unless you declare tasks for that request.",
            about=reply,
        )

    await _within_a_call(fake, ask)


def _runner(fake: FakeServer, message: ClientMessage) -> TaskRunner:
    kind = next((each for each in _ASKED if each in message.connection.client_capabilities and _offers(message, each)), None)
    if kind is None:
        raise Skip("the client does not declare that it runs tasks")

    async def ask(method: str, params: Mapping[str, Any]) -> Replied:
        return await _ask(fake, method, params)

    method, params = _ASKED[kind]
    tasks = message.connection.client_capabilities["tasks"]
    return TaskRunner(fake, ask, method=method, params=params, declared=tasks, timeouts=fake.timeouts.stimulus)


@scenario("TK-05", "TK-06", "TK-07", "TK-08", "TK-09", "TK-10", "TK-11", "TK-15")
async def lets_the_client_run_a_task(fake: FakeServer) -> None:
    """A question as a task, which is asked for while it runs and after its end; and one that is cancelled at once."""

    async def run(message: ClientMessage) -> None:
        runner = _runner(fake, message)
        await runner.judge_life()
        await runner.judge_cancel()

    await _within_a_call(fake, run)


class _Tasks:
    """What the fake server knows of the tasks that a client makes of its calls.

    Args:
        needs_input: Whether they need input at first.
    """

    def __init__(self, fake: FakeServer, *, needs_input: bool = False) -> None:
        self.fake = fake
        self.needs_input = needs_input
        self.made: list[str] = []
        fake.healthy.capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        fake.on["tasks/get"] = self.get
        fake.on["tasks/result"] = self.result
        fake.on["tasks/list"] = lambda _said: {"tasks": [self.task(each, "completed") for each in self.made]}
        fake.on["tasks/cancel"] = lambda message: self.task(str(message.params.get("taskId")), "cancelled")

    def call(self, message: ClientMessage) -> Any:
        """A tool that can be a task."""
        if "task" not in message.params:
            return text("Done at once.")
        self.made.append(f"fake-task-{len(self.made)}-b7f3a9d15e")
        return {"task": self.task(self.made[-1], "working")}

    def task(self, task_id: str, status: str) -> dict[str, Any]:
        """A task as it is told."""
        when = {"createdAt": _WHEN, "lastUpdatedAt": _WHEN}
        return {"taskId": task_id, "status": status, **when, "ttl": 60_000, "pollInterval": _INTERVAL}

    def get(self, message: ClientMessage) -> Any:
        """Working at the first question, completed at the third; or in need of input until the result is asked for."""
        task_id = message.params.get("taskId")
        if task_id not in self.made:
            return Fault(-32602, "there is no such task")
        asked = [each for each in self.fake.requests("tasks/get") if each.params.get("taskId") == task_id]
        fetched = any(each.params.get("taskId") == task_id for each in self.fake.requests("tasks/result"))
        if self.needs_input:
            return self.task(task_id, "completed" if fetched else "input_required")
        return self.task(task_id, "completed" if fetched or len(asked) > 2 else "working")

    def result(self, message: ClientMessage) -> Any:
        """What the tool would have said."""
        task_id = message.params.get("taskId")
        if task_id not in self.made:
            return Fault(-32602, "there is no such task")
        return text("Done.", _meta={RELATED: {"taskId": task_id}})


@scenario("TK-01", "TK-04", "TK-12")
async def has_tools_that_can_be_tasks(fake: FakeServer) -> None:
    """Three tools: one that cannot be a task, one that can, and one that must; nothing is told of a task that was not asked."""
    tasks = _Tasks(fake)
    fake.add_tool("never", text("Done."), execution={"taskSupport": "forbidden"})
    fake.add_tool("perhaps", tasks.call, execution={"taskSupport": "optional"})

    def must(message: ClientMessage) -> Any:
        return tasks.call(message) if "task" in message.params else Fault(-32601, "this tool has to be a task")

    fake.add_tool("always", must, execution={"taskSupport": "required"})
    await fake.wait_for("tools/call")
    await fake.client_exited()
    _judge_capability(fake)
    calls = fake.requests("tools/call")
    knows_tasks = "tasks" in fake.connection.client_capabilities or any("task" in message.params for message in calls)
    if not knows_tasks:
        raise Skip("the client knows nothing of tasks")
    wrong = [message for message in calls if "task" in message.params and message.params.get("name") in {"never", "greet", "work"}]
    wrong += [message for message in calls if "task" not in message.params and message.params.get("name") == "always"]
    fake.expect(
        "TK-04",
        not wrong,
        "the client called a tool as a task that cannot be one, or one plainly that has to be a task",
        fix="Look at execution.taskSupport of the tool before you call it.",
        about=wrong[0] if wrong else None,
    )
    if not tasks.made:
        raise Skip("the client made no task of a call")
    for task_id in tasks.made:
        polls = [message for message in fake.requests("tasks/get") if message.params.get("taskId") == task_id]
        fetched = [message for message in fake.requests("tasks/result") if message.params.get("taskId") == task_id]
        fake.expect(
            "TK-12",
            polls or fetched,
            "the client made a task and never asked for it: it waits for a notification that need not come",
            fix="Poll by tasks/get, or wait in tasks/result.",
        )
        hasty = next((later for before, later in pairwise(polls) if later.at - before.at < _INTERVAL / 2000), None)
        fake.expect(
            "TK-12",
            hasty is None,
            f"the client polled again in less than half of the {_INTERVAL} ms that the task asks for",
            fix="Wait for pollInterval between two questions.",
            about=hasty,
        )


def _judge_capability(fake: FakeServer) -> None:
    if "tasks" not in fake.connection.client_capabilities:
        fake.skip("TK-01", "the client does not declare tasks")
        return
    wrong = wrong_with_capability(fake.connection.client_capabilities["tasks"], "sampling.createMessage", "elicitation.create")
    fake.expect(
        "TK-01",
        not wrong,
        f"the capability for tasks is not as it has to be: {wrong}",
        fix='Declare "tasks": {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}}, or a part of it.',
        about=next(iter(fake.requests("initialize")), None),
    )


@scenario("TK-04")
async def says_nothing_of_tasks(fake: FakeServer) -> None:
    """The server does not declare tasks, and has a tool that says it could be one."""
    fake.add_tool("perhaps", text("Done."), execution={"taskSupport": "optional"})
    await fake.wait_for("tools/call")
    await fake.client_exited()
    wrong = next((message for message in fake.requests("tools/call") if "task" in message.params), None)
    if wrong is None and "tasks" not in fake.connection.client_capabilities:
        raise Skip("the client knows nothing of tasks")
    fake.expect(
        "TK-04",
        wrong is None,
        "the client called a tool as a task, and the server does not declare tasks",
        fix="Look for tasks.requests.tools.call among the server's capabilities first.",
        about=wrong,
    )


@scenario("TK-13")
async def has_a_task_that_needs_input(fake: FakeServer) -> None:
    """A task is in need of input until somebody asks for its result."""
    tasks = _Tasks(fake, needs_input=True)
    fake.add_tool("perhaps", tasks.call, execution={"taskSupport": "required"})
    await fake.wait_for("tools/call")
    await fake.client_exited()
    if not any(message.params.get("taskId") in tasks.made for message in fake.requests("tasks/get")):
        raise Skip("the client did not ask for the state of a task")
    fake.expect(
        "TK-13",
        any(message.params.get("taskId") in tasks.made for message in fake.requests("tasks/result")),
        "the client was told that a task needs input, and did not ask for its result, which is when the question would come",
        fix="When the status is input_required, send tasks/result and answer what comes.",
    )


def _offers(message: ClientMessage, kind: str) -> bool:
    """Whether a client declares that a question can be a task."""
    at: Any = message.connection.client_capabilities.get("tasks")
    for key in ("requests", kind, _VERB[kind]):
        at = at.get(key) if isinstance(at, dict) else None
    return isinstance(at, dict)
