"""Tests of a peer that runs tasks.

A server runs tasks for a client, and a client for a server, by the same rules, so both are tested in the same way.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from twopipes._codes import INVALID_PARAMS
from twopipes._tools.check.messages import ClientMessage, Response, members
from twopipes._tools.check.verdict import Skip, VerdictRecorder
from twopipes._trace.judges.values import is_json

RELATED = "io.modelcontextprotocol/related-task"
STATUSES = frozenset({"working", "input_required", "completed", "failed", "cancelled"})
TERMINAL = frozenset({"completed", "failed", "cancelled"})
EXTENSION = "io.modelcontextprotocol/tasks"
NO_SUCH_TASK = "twopipes-check-no-such-task"

_TTL = 60_000
# Seconds between two polls: at most, and at least.
_LONGEST_PAUSE, _SHORTEST_PAUSE = 1.0, 0.02
_POLLS = 200
_PAGES = 20
# Seconds that work is watched for at most after its task was cancelled.
_LONGEST = 5.0
# Ids that are shorter than this, or count in steps below this, can be guessed.
_SHORTEST_ID = 8
_NEAR = 1000

Reply = Response | ClientMessage


class TaskReceiver:
    """A peer that runs tasks for us."""

    def __init__(
        self,
        recorder: VerdictRecorder,
        ask: Callable[[str, Mapping[str, Any]], Awaitable[Reply]],
        *,
        method: str,
        params: Mapping[str, Any],
        declared: Mapping[str, Any],
        timeout: float,
        grace: float = 0.3,
    ) -> None:
        self.recorder = recorder
        self.ask = ask  # sends a request and returns the response; raises Skip if there is none
        self.method = method  # the request that can be a task
        self.params = params  # without task
        self.declared = declared  # the capability tasks
        self.timeout = timeout  # seconds to wait for the end of a task
        self.grace = grace  # seconds that a task may take longer than the same work took before
        self.plain: Mapping[str, Any] = {}  # the result of the same request without a task, if it is known
        self._began = 0.0
        self._took: float | None = None  # from the start of a task to its end, if that was seen

    async def create(self) -> str:
        """Create a task, judge it (TK-05), and return its id; raise Skip if there is none."""
        self._began = asyncio.get_running_loop().time()
        reply = await self.ask(self.method, {**self.params, "task": {"ttl": _TTL}})
        if not reply.is_result:
            raise Skip(f"{self.method} as a task got {reply.summary}")
        task = reply.result.get("task")
        fault = fault_of_task(task) if isinstance(task, dict) else "the result has no member task"
        if not fault and members(task)["status"] != "working":
            fault = f"its first status is {members(task)['status']!r} instead of 'working'"
        self.recorder.expect("TK-05", not fault, f"{self.method} as a task, which is declared: {fault}", about=reply)
        task_id = members(task).get("taskId")
        if not isinstance(task_id, str):
            raise Skip("no task was created")
        return task_id

    async def get(self, task_id: str, method: str = "tasks/get") -> Reply:
        """Send ``tasks/get``, or another request about one task."""
        return await self.ask(method, {"taskId": task_id})

    async def judge_life(self) -> None:
        """Judge a task from its start to its end, and afterwards."""
        task_id = await self.create()
        await self._judge_get(task_id)
        early = await self.get(task_id, "tasks/result")
        status, seen = await self.settle(task_id)
        if seen[0].is_result:  # some peers forget a task whose result was fetched
            first = seen[0].result.get("status")
            self.recorder.expect("TK-08", first in TERMINAL, f"tasks/result was answered while the task was {first!r}", about=early)
        if early.is_result:
            await self._judge_result(task_id, early)
        await self._judge_end(task_id, status)
        await self._judge_list(task_id)
        ids = [task_id, await self.create(), await self.create()]
        self.recorder.expect("TK-15", not are_guessable(ids), f"the ids of tasks can be guessed: {', '.join(ids)}")
        if (await self.get(ids[-1])).is_result:
            await self._judge_two_ids(ids[-1])

    async def judge_cancel(self) -> None:
        """Judge whether a task that is cancelled while it runs stays cancelled, even if its work ends normally."""
        if "cancel" not in self.declared:
            raise Skip("tasks.cancel is not declared")
        if self._took is None:
            await self.settle(await self.create())
        task_id = await self.create()
        reply = await self.get(task_id, "tasks/cancel")
        if reply.code == INVALID_PARAMS:
            raise Skip("the task had ended before it could be cancelled")
        fault = fault_of_task(reply.result) if reply.is_result else f"it got {reply.summary}"
        if not fault and reply.result["status"] != "cancelled":
            fault = f"the task is still {reply.result['status']!r}"
        self.recorder.expect("TK-09", not fault, f"tasks/cancel of a running task: {fault}", about=reply)
        for pause in (_SHORTEST_PAUSE, min(self._took or 0.0, _LONGEST) + self.grace):
            await asyncio.sleep(pause)
            again = await self.get(task_id)
            if fault or not again.is_result:  # a peer may forget a task that was cancelled
                return
            now = again.result.get("status")
            self.recorder.expect("TK-09", now == "cancelled", f"a task that was cancelled is {now!r} later", about=again)

    async def settle(self, task_id: str) -> tuple[Any, list[Reply]]:
        """Poll as :func:`poll` does. Return the last status and all responses."""
        seen = await poll(lambda: self.get(task_id), within=self.timeout)
        status = seen[-1].result.get("status")
        if status in TERMINAL:
            self._took = asyncio.get_running_loop().time() - self._began
        return status, seen

    async def _judge_get(self, task_id: str) -> None:
        reply = await self.get(task_id)
        fault = fault_of_task(reply.result) if reply.is_result else f"it got {reply.summary}"
        if not fault and reply.result["taskId"] != task_id:
            fault = "it is another task"
        self.recorder.expect("TK-07", not fault, f"tasks/get of a new task: {fault}", about=reply)
        unknown = await self.get(NO_SUCH_TASK)
        self.recorder.expect(
            "TK-07", unknown.code == INVALID_PARAMS, f"tasks/get of an unknown task got {unknown.summary}", about=unknown
        )

    async def _judge_result(self, task_id: str, early: Reply) -> None:
        related = members(members(early.result.get("_meta")).get(RELATED))
        why = f"the result of tasks/result does not name its task in _meta under {RELATED}"
        self.recorder.expect("TK-08", related.get("taskId") == task_id, why, about=early)
        late = await self.get(task_id, "tasks/result")
        is_kept = not late.is_result or _without_meta(late.result) == _without_meta(early.result)
        why = "tasks/result returns something other than the result of the request, or something else the second time"
        self.recorder.expect("TK-08", "task" not in early.result and is_kept, why, about=late)
        missing = self._missing_in(early.result)
        why = f"a plain {self.method} got a result with {missing}, and tasks/result returns one without it"
        self.recorder.expect("TK-08", not missing, why, about=early)

    def _missing_in(self, result: Mapping[str, Any]) -> str:
        """Return a member that the result of the same plain request has, and that is missing here. Values may differ."""
        if self.plain.get("isError") is True or result.get("isError") is True:
            return ""
        if isinstance(self.plain.get("content"), list) and not isinstance(result.get("content"), list):
            return "an array in content"
        return "structuredContent" if "structuredContent" in self.plain and "structuredContent" not in result else ""

    async def _judge_two_ids(self, task_id: str) -> None:
        about: Reply | None = None
        try:
            about = await self.ask("tasks/get", {"taskId": task_id, "_meta": {RELATED: {"taskId": NO_SUCH_TASK}}})
            result = f"it got {about.summary}"
        except Skip as silence:
            result = str(silence)  # similar requests were answered, so the second id is the cause
        is_found = about is not None and about.result.get("taskId") == task_id
        why = f"tasks/get with one id in taskId and another in _meta did not get the task of taskId: {result}"
        self.recorder.expect("TK-11", is_found, why, about=about)

    async def _judge_end(self, task_id: str, status: Any) -> None:
        if status not in TERMINAL:
            return
        for _ in range(2):
            reply = await self.get(task_id)
            if reply.is_result:
                now = reply.result.get("status")
                self.recorder.expect("TK-06", now == status, f"a task that was {status} is {now!r} later", about=reply)
        if "cancel" in self.declared:
            reply = await self.get(task_id, "tasks/cancel")
            why = f"tasks/cancel of a task that has ended got {reply.summary}"
            self.recorder.expect("TK-09", reply.code == INVALID_PARAMS, why, about=reply)

    async def _judge_list(self, task_id: str) -> None:
        if "list" not in self.declared:
            self.recorder.skip("TK-10", "tasks.list is not declared")
            return
        found: list[Any] = []
        params: dict[str, Any] = {}
        for _ in range(_PAGES):
            reply = await self.ask("tasks/list", params)
            found += [each.get("taskId") for each in reply.items("tasks")]
            params = {"cursor": reply.result.get("nextCursor")}
            if not isinstance(params["cursor"], str):
                break
        else:
            raise Skip(f"tasks/list has more than {_PAGES} pages")
        if (await self.get(task_id)).is_result:
            why = f"tasks/get returns a task that is not among the {len(found)} of tasks/list"
            self.recorder.expect("TK-10", task_id in found, why)
        bad = await self.ask("tasks/list", {"cursor": "twopipes-check-no-such-cursor"})
        self.recorder.expect("TK-10", bad.code == INVALID_PARAMS, f"tasks/list with an unknown cursor got {bad.summary}", about=bad)


async def poll(get: Callable[[], Awaitable[Reply]], *, within: float, interval: str = "pollInterval") -> list[Reply]:
    """Poll until a task has ended, needs input, or takes too long. Return all responses."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    seen = [await get()]
    for _ in range(_POLLS):
        pause: Any = seen[-1].result.get(interval)
        if seen[-1].result.get("status") != "working" or loop.time() > end:
            break
        await asyncio.sleep(min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, pause / 1000)) if is_json(pause, float) else _SHORTEST_PAUSE)
        seen.append(await get())
    return seen


def judge_polls(recorder: VerdictRecorder, rule: str, polls: Sequence[ClientMessage], interval: int) -> None:
    """Judge whether a client waits between two polls; ``interval`` is in milliseconds."""
    hasty = [later for before, later in pairwise(polls) if later.at - before.at < interval / 2000]
    recorder.forbid(rule, hasty, f"the client polled again after less than half of the {interval} ms that the task requires")


def fault_of_task(task: Mapping[str, Any], *, ttl: str = "ttl", interval: str = "pollInterval") -> str:
    """Return the first fault of a task, or nothing. ``ttl`` and ``interval`` are the names of two members."""
    for name in ("taskId", "createdAt", "lastUpdatedAt"):
        if not isinstance(task.get(name), str):
            return f"{name} is missing, or not a string"
    if task.get("status") not in STATUSES:
        return f"its status {task.get('status')!r} does not exist"
    if ttl not in task or not (task[ttl] is None or is_json(task[ttl], float)):
        return f"{ttl} is missing, or neither a number nor null"
    if interval in task and not is_json(task[interval], float):
        return f"{interval} is not a number"
    return "" if isinstance(task.get("statusMessage", ""), str) else "statusMessage is not a string"


def fault_of_capability(declared: Any, *requests: str) -> str:
    """Return the first fault of the capability ``tasks``, or nothing. ``requests`` can be tasks: ``tools.call``."""
    if not isinstance(declared, dict):
        return "it is not an object"
    for path in ("list", "cancel", "requests", *(f"requests.{request}" for request in requests)):
        at: Any = declared
        for name in path.split("."):
            at = at.get(name, {})
            if not isinstance(at, dict):
                return f"{path} is not an object"
    return ""


def are_guessable(ids: Sequence[str]) -> bool:
    """Return whether ids are very short, or count. Others may be guessable as well, but that is not visible."""
    if any(len(each) < _SHORTEST_ID for each in ids):
        return True
    if len({re.sub(r"\d+", "#", each) for each in ids}) != 1:
        return False
    columns = list(zip(*([int(digits) for digits in re.findall(r"\d+", each)] for each in ids), strict=True))
    moving = [column for column in columns if len(set(column)) > 1]
    return len(moving) == 1 and all(0 < abs(after - before) < _NEAR for before, after in pairwise(moving[0]))


def _without_meta(result: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "_meta"}
