"""Tasks of 2025-11-25 and clients: tasks that they run for a server, and tasks that a server runs for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twopipes._codes import INVALID_PARAMS, METHOD_NOT_FOUND
from twopipes._tools.check.asking_tools import QUESTIONS
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import Fault, text
from twopipes._tools.check.messages import ClientMessage, members
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.tasks_2025.receiver import RELATED, TaskReceiver, fault_of_capability, judge_polls
from twopipes._tools.check.verdict import Skip

_WHEN = "2025-11-25T10:00:00Z"
_INTERVAL = 60  # milliseconds between two polls that the fake server asks for
_VERBS = {"elicitation": "create", "sampling": "createMessage"}


async def _during_a_call(fake: FakeServer, work: Callable[[ClientMessage], Awaitable[None]]) -> None:
    """Do something while the client waits for the result of a tool: then it may be asked."""
    reasons: list[str] = []
    calls: list[ClientMessage] = []

    async def run(message: ClientMessage) -> Any:
        calls.append(message)
        try:
            if len(calls) == 1:
                await work(message)
        except Skip as skip:
            reasons.append(str(skip))
        return text("Done.")

    fake.add_tool("ask", run)
    await fake.client_exited()
    if reasons or not calls:
        raise Skip(reasons[0] if reasons else "the client did not call the tool that asks")


async def _ask(fake: FakeServer, method: str, params: Mapping[str, Any]) -> ClientMessage:
    message = await fake.ask(method, params)
    if message is None:
        raise Skip(f"the client did not respond to {method}")
    return message


def _question(message: ClientMessage, *, as_task: bool) -> tuple[str, dict[str, Any]] | None:
    """Return a question that the client can answer, and for which it declares tasks, or does not."""
    declared = message.connection.client_capabilities
    for kind, verb in _VERBS.items():
        tasks = members(members(members(declared.get("tasks")).get("requests")).get(kind)).get(verb)
        if kind in declared and isinstance(tasks, dict) == as_task:
            return QUESTIONS[kind]
    return None


@scenario("TK-02")
async def asks_for_an_undeclared_task(fake: FakeServer) -> None:
    """A question with a task member, to a client that does not declare tasks for it, is answered like any other."""

    async def ask(message: ClientMessage) -> None:
        question = _question(message, as_task=False)
        if question is None:
            raise Skip("the client cannot be asked anything, or declares tasks for all questions")
        method, params = question
        if not (await _ask(fake, method, params)).is_result:
            raise Skip(f"the client rejects {method} in any case")
        reply = await _ask(fake, method, {**params, "task": {"ttl": 60_000}})
        why = f"tasks are not declared; {method} with a task member got {reply.summary}, and without it a result"
        fake.expect("TK-02", reply.is_result and "task" not in reply.result, why, about=reply)

    await _during_a_call(fake, ask)


@scenario("TK-05", "TK-06", "TK-07", "TK-08", "TK-09", "TK-10", "TK-11", "TK-15")
async def lets_the_client_run_a_task(fake: FakeServer) -> None:
    """A question as a task, which is requested while it runs and after its end; and one that is cancelled at once."""

    async def ask(method: str, params: Mapping[str, Any]) -> ClientMessage:
        return await _ask(fake, method, params)

    async def run(message: ClientMessage) -> None:
        question = _question(message, as_task=True)
        if question is None:
            raise Skip("the client does not declare that it runs tasks")
        method, params = question
        tasks = message.connection.client_capabilities["tasks"]
        receiver = TaskReceiver(fake, ask, method=method, params=params, declared=tasks, timeout=fake.timeouts.stimulus)
        await receiver.judge_life()
        await receiver.judge_cancel()

    await _during_a_call(fake, run)


class _Tasks:
    """The tasks of the fake server, which a client makes of its calls."""

    def __init__(self, fake: FakeServer, *, needs_input: bool = False) -> None:
        self.fake = fake
        self.needs_input = needs_input  # whether they need input until their result is requested
        self.made: list[str] = []
        fake.healthy.capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        fake.on["tasks/get"] = self.get
        fake.on["tasks/result"] = self.result
        fake.on["tasks/list"] = lambda _message: {"tasks": [self.task(each, "completed") for each in self.made]}
        fake.on["tasks/cancel"] = lambda message: self.task(str(message.params.get("taskId")), "cancelled")

    def call(self, message: ClientMessage) -> Any:
        """Serve a tool that can be a task."""
        if "task" not in message.params:
            return text("Done at once.")
        self.made.append(f"fake-task-{len(self.made)}-b7f3a9d15e")
        return {"task": self.task(self.made[-1], "working")}

    def call_required(self, message: ClientMessage) -> Any:
        """Serve a tool that must be a task."""
        return self.call(message) if "task" in message.params else Fault(METHOD_NOT_FOUND, "this tool must be a task")

    def task(self, task_id: str, status: str) -> dict[str, Any]:
        """Return a task with a status."""
        when = {"createdAt": _WHEN, "lastUpdatedAt": _WHEN}
        return {"taskId": task_id, "status": status, **when, "ttl": 60_000, "pollInterval": _INTERVAL}

    def about(self, method: str, task_id: Any) -> list[ClientMessage]:
        """Return the requests about a task."""
        return [each for each in self.fake.requests(method) if each.params.get("taskId") == task_id]

    def get(self, message: ClientMessage) -> Any:
        """Return working twice, then completed; or input_required until the result is requested."""
        task_id = message.params.get("taskId")
        if task_id not in self.made:
            return Fault(INVALID_PARAMS, "unknown task")
        is_over = bool(self.about("tasks/result", task_id)) or (not self.needs_input and len(self.about("tasks/get", task_id)) > 2)
        return self.task(task_id, "completed" if is_over else "input_required" if self.needs_input else "working")

    def result(self, message: ClientMessage) -> Any:
        """Return the result of the tool."""
        task_id = message.params.get("taskId")
        return (
            text("Done.", _meta={RELATED: {"taskId": task_id}}) if task_id in self.made else Fault(INVALID_PARAMS, "unknown task")
        )


@scenario("TK-01", "TK-04", "TK-12")
async def has_tools_that_can_be_tasks(fake: FakeServer) -> None:
    """Three tools: one that cannot be a task, one that can, and one that must. The server sends no notifications about tasks."""
    tasks = _Tasks(fake)
    fake.add_tool("never", text("Done."), execution={"taskSupport": "forbidden"})
    fake.add_tool("perhaps", tasks.call, execution={"taskSupport": "optional"})
    fake.add_tool("always", tasks.call_required, execution={"taskSupport": "required"})
    await fake.exited_after("tools/call")
    declared = fake.connection.client_capabilities
    if "tasks" in declared:
        fault = fault_of_capability(declared["tasks"], "sampling.createMessage", "elicitation.create")
        fake.expect("TK-01", not fault, f"the capability tasks has a fault: {fault}", about=fake.first("initialize"))
    else:
        fake.skip("TK-01", "the client does not declare tasks")
    calls = fake.requests("tools/call")
    if "tasks" not in declared and not any("task" in message.params for message in calls):
        raise Skip("the client does not support tasks")
    wrong = [message for message in calls if "task" in message.params and message.params.get("name") in {"never", "greet", "work"}]
    wrong += [message for message in calls if "task" not in message.params and message.params.get("name") == "always"]
    fake.forbid("TK-04", wrong, "the client called a tool as a task that cannot be one, or one plainly that must be a task")
    if not tasks.made:
        raise Skip("the client did not call a tool as a task")
    for task_id in tasks.made:
        polls = tasks.about("tasks/get", task_id)
        why = "the client created a task and never requested it; notifications about it are optional"
        fake.expect("TK-12", polls or tasks.about("tasks/result", task_id), why)
        judge_polls(fake, "TK-12", polls, _INTERVAL)


@scenario("TK-04")
async def does_not_declare_tasks(fake: FakeServer) -> None:
    """The server does not declare tasks, and has a tool that could be one."""
    fake.add_tool("perhaps", text("Done."), execution={"taskSupport": "optional"})
    await fake.exited_after("tools/call")
    wrong = [message for message in fake.requests("tools/call") if "task" in message.params]
    if not wrong and "tasks" not in fake.connection.client_capabilities:
        raise Skip("the client does not support tasks")
    fake.forbid("TK-04", wrong, "the client called a tool as a task, and the server does not declare tasks")


@scenario("TK-13")
async def has_a_task_that_needs_input(fake: FakeServer) -> None:
    """A task needs input until its result is requested."""
    tasks = _Tasks(fake, needs_input=True)
    fake.add_tool("perhaps", tasks.call, execution={"taskSupport": "required"})
    await fake.exited_after("tools/call")
    if not any(tasks.about("tasks/get", task_id) for task_id in tasks.made):
        raise Skip("the client did not request the state of a task")
    is_fetched = any(tasks.about("tasks/result", task_id) for task_id in tasks.made)
    fake.expect(
        "TK-13", is_fetched, "a task needed input, and the client did not send tasks/result, during which it would be asked"
    )
