"""Tasks of 2025-11-25, of clients: those that they run for a server, and those that they let a server run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from twopipes._tools.check.fake_server import FakeServer, Said, scenario
from twopipes._tools.check.healthy_responses import Fault, text
from twopipes._tools.check.tasks_2025.requester import RELATED, TaskRunner, wrong_with_capability
from twopipes._tools.check.verdict import Skip

_WHEN = "2025-11-25T10:00:00Z"
_INTERVAL = 60  # milliseconds between two polls that the posing server asks for
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

    said: Said

    @property
    def result(self) -> dict[str, Any]:
        """The result; empty for an error."""
        found = self.said.members.get("result")
        return found if isinstance(found, dict) else {}

    @property
    def is_result(self) -> bool:
        """Whether there is one."""
        return isinstance(self.said.members.get("result"), dict)

    @property
    def code(self) -> Any:
        """Of the error."""
        error = self.said.members.get("error")
        return error.get("code") if isinstance(error, dict) else None

    @property
    def told(self) -> str:
        """What it is, in a few words."""
        return "a result" if self.is_result else f"error {self.code}"

    @property
    def sent(self) -> Sequence[bytes]:
        """Not known any more."""
        return ()

    @property
    def received(self) -> Sequence[bytes]:
        """The line."""
        return (self.said.line,)


async def _within_a_call(fake: FakeServer, work: Callable[[Said], Awaitable[None]]) -> None:
    """Does something with a client while it waits for the answer of a tool: that is when questions may come."""
    reasons: list[str] = []
    done: list[bool] = []

    async def run(said: Said) -> Any:
        if not done:
            done.append(True)
            try:
                await work(said)
            except Skip as skip:
                reasons.append(str(skip))
        return text("Done.")

    fake.add_tool("ask", run)
    await fake.left()
    if reasons or not done:
        raise Skip(reasons[0] if reasons else "the client did not call the tool that asks")


async def _ask(fake: FakeServer, method: str, params: Mapping[str, Any]) -> Replied:
    said = await fake.ask(method, params)
    if said is None:
        raise Skip(f"the client did not answer {method}")
    return Replied(said)


@scenario("TK-02")
async def wants_a_task_that_was_not_offered(fake: FakeServer) -> None:
    """A question with a task member, to a client that does not declare tasks for it, is answered as any other."""

    async def ask(said: Said) -> None:
        kind = next((each for each in _ASKED if each in said.connection.can and not _offers(said, each)), None)
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
            f"{method} with a task member got {reply.told}, and without it a result; tasks are not declared for it",
            mend="Pass over the member task unless you declare tasks for that request.",
            about=reply,
        )

    await _within_a_call(fake, ask)


def _runner(fake: FakeServer, said: Said) -> TaskRunner:
    kind = next((each for each in _ASKED if each in said.connection.can and _offers(said, each)), None)
    if kind is None:
        raise Skip("the client does not declare that it runs tasks")

    async def ask(method: str, params: Mapping[str, Any]) -> Replied:
        return await _ask(fake, method, params)

    method, params = _ASKED[kind]
    tasks = said.connection.can["tasks"]
    return TaskRunner(fake, ask, method=method, params=params, declared=tasks, patience=fake.patience.stimulus)


@scenario("TK-05", "TK-06", "TK-07", "TK-08", "TK-09", "TK-10", "TK-11", "TK-15")
async def lets_the_client_run_a_task(fake: FakeServer) -> None:
    """A question as a task, which is asked for while it runs and after its end; and one that is cancelled at once."""

    async def run(said: Said) -> None:
        runner = _runner(fake, said)
        await runner.judge_life()
        await runner.judge_cancel()

    await _within_a_call(fake, run)


class _Tasks:
    """What the posing server knows of the tasks that a client makes of its calls.

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
        fake.on["tasks/cancel"] = lambda said: self.task(str(said.params.get("taskId")), "cancelled")

    def call(self, said: Said) -> Any:
        """A tool that can be a task."""
        if "task" not in said.params:
            return text("Done at once.")
        self.made.append(f"posing-task-{len(self.made)}-b7f3a9d15e")
        return {"task": self.task(self.made[-1], "working")}

    def task(self, task_id: str, status: str) -> dict[str, Any]:
        """A task as it is told."""
        when = {"createdAt": _WHEN, "lastUpdatedAt": _WHEN}
        return {"taskId": task_id, "status": status, **when, "ttl": 60_000, "pollInterval": _INTERVAL}

    def get(self, said: Said) -> Any:
        """Working at the first question, completed at the third; or in need of input until the result is asked for."""
        task_id = said.params.get("taskId")
        if task_id not in self.made:
            return Fault(-32602, "there is no such task")
        asked = [each for each in self.fake.requests("tasks/get") if each.params.get("taskId") == task_id]
        fetched = any(each.params.get("taskId") == task_id for each in self.fake.requests("tasks/result"))
        if self.needs_input:
            return self.task(task_id, "completed" if fetched else "input_required")
        return self.task(task_id, "completed" if fetched or len(asked) > 2 else "working")

    def result(self, said: Said) -> Any:
        """What the tool would have said."""
        task_id = said.params.get("taskId")
        if task_id not in self.made:
            return Fault(-32602, "there is no such task")
        return text("Done.", _meta={RELATED: {"taskId": task_id}})


@scenario("TK-01", "TK-04", "TK-12")
async def has_tools_that_can_be_tasks(fake: FakeServer) -> None:
    """Three tools: one that cannot be a task, one that can, and one that must; nothing is told of a task that was not asked."""
    tasks = _Tasks(fake)
    fake.add_tool("never", text("Done."), execution={"taskSupport": "forbidden"})
    fake.add_tool("perhaps", tasks.call, execution={"taskSupport": "optional"})

    def must(said: Said) -> Any:
        return tasks.call(said) if "task" in said.params else Fault(-32601, "this tool has to be a task")

    fake.add_tool("always", must, execution={"taskSupport": "required"})
    await fake.heard("tools/call")
    await fake.left()
    _judge_capability(fake)
    calls = fake.requests("tools/call")
    knows_tasks = "tasks" in fake.connection.can or any("task" in said.params for said in calls)
    if not knows_tasks:
        raise Skip("the client knows nothing of tasks")
    wrong = [said for said in calls if "task" in said.params and said.params.get("name") in {"never", "greet", "work"}]
    wrong += [said for said in calls if "task" not in said.params and said.params.get("name") == "always"]
    fake.expect(
        "TK-04",
        not wrong,
        "the client called a tool as a task that cannot be one, or one plainly that has to be a task",
        mend="Look at execution.taskSupport of the tool before you call it.",
        about=wrong[0] if wrong else None,
    )
    if not tasks.made:
        raise Skip("the client made no task of a call")
    for task_id in tasks.made:
        polls = [said for said in fake.requests("tasks/get") if said.params.get("taskId") == task_id]
        fetched = [said for said in fake.requests("tasks/result") if said.params.get("taskId") == task_id]
        fake.expect(
            "TK-12",
            polls or fetched,
            "the client made a task and never asked for it: it waits for a notification that need not come",
            mend="Poll by tasks/get, or wait in tasks/result.",
        )
        hasty = next((later for before, later in pairwise(polls) if later.at - before.at < _INTERVAL / 2000), None)
        fake.expect(
            "TK-12",
            hasty is None,
            f"the client polled again in less than half of the {_INTERVAL} ms that the task asks for",
            mend="Wait for pollInterval between two questions.",
            about=hasty,
        )


def _judge_capability(fake: FakeServer) -> None:
    if "tasks" not in fake.connection.can:
        fake.skip("TK-01", "the client does not declare tasks")
        return
    wrong = wrong_with_capability(fake.connection.can["tasks"], "sampling.createMessage", "elicitation.create")
    fake.expect(
        "TK-01",
        not wrong,
        f"the capability for tasks is not as it has to be: {wrong}",
        mend='Declare "tasks": {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}}, or a part of it.',
        about=next(iter(fake.requests("initialize")), None),
    )


@scenario("TK-04")
async def says_nothing_of_tasks(fake: FakeServer) -> None:
    """The server does not declare tasks, and has a tool that says it could be one."""
    fake.add_tool("perhaps", text("Done."), execution={"taskSupport": "optional"})
    await fake.heard("tools/call")
    await fake.left()
    wrong = next((said for said in fake.requests("tools/call") if "task" in said.params), None)
    if wrong is None and "tasks" not in fake.connection.can:
        raise Skip("the client knows nothing of tasks")
    fake.expect(
        "TK-04",
        wrong is None,
        "the client called a tool as a task, and the server does not declare tasks",
        mend="Look for tasks.requests.tools.call among the server's capabilities first.",
        about=wrong,
    )


@scenario("TK-13")
async def has_a_task_that_needs_input(fake: FakeServer) -> None:
    """A task is in need of input until somebody asks for its result."""
    tasks = _Tasks(fake, needs_input=True)
    fake.add_tool("perhaps", tasks.call, execution={"taskSupport": "required"})
    await fake.heard("tools/call")
    await fake.left()
    if not any(said.params.get("taskId") in tasks.made for said in fake.requests("tasks/get")):
        raise Skip("the client did not ask for the state of a task")
    fake.expect(
        "TK-13",
        any(said.params.get("taskId") in tasks.made for said in fake.requests("tasks/result")),
        "the client was told that a task needs input, and did not ask for its result, which is when the question would come",
        mend="When the status is input_required, send tasks/result and answer what comes.",
    )


def _offers(said: Said, kind: str) -> bool:
    """Whether a client declares that a question can be a task."""
    at: Any = said.connection.can.get("tasks")
    for key in ("requests", kind, _VERB[kind]):
        at = at.get(key) if isinstance(at, dict) else None
    return isinstance(at, dict)
