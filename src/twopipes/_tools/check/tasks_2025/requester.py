"""Tasks of 2025-11-25, as whoever asked for them sees them.

A server runs tasks for a client, and a client for a server, by the same rules: so the same questions are put to both.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from twopipes._tools.check.verdict import Skip, VerdictRecorder

__all__ = [
    "NO_SUCH_TASK",
    "RELATED",
    "TERMINAL",
    "Reply",
    "TaskRunner",
    "are_guessable",
    "wrong_with_capability",
    "wrong_with_task",
]

RELATED = "io.modelcontextprotocol/related-task"
STATUSES = frozenset({"working", "input_required", "completed", "failed", "cancelled"})
TERMINAL = frozenset({"completed", "failed", "cancelled"})
NO_SUCH_TASK = "twopipes-check-no-such-task"

_INVALID_PARAMS = -32602
_TTL = 60_000
# Seconds between two questions, at the most and at the least.
_SELDOM, _OFTEN = 1.0, 0.02
_POLLS = 200
_PAGES = 20
# Seconds that late work of a cancelled task is waited for at the most.
_LONGEST = 5.0
_SHORTEST = 8
_NEAR = 1000


class Reply(Protocol):
    """An answer: that of a server, or that of a client."""

    @property
    def result(self) -> dict[str, Any]:
        """The result; empty for an error."""

    @property
    def is_result(self) -> bool:
        """Whether there is one."""

    @property
    def code(self) -> Any:
        """Of the error; ``None`` for a result."""

    @property
    def summary(self) -> str:
        """What it is, in a few words."""

    @property
    def sent(self) -> Sequence[bytes]:
        """The line of the request."""

    @property
    def received(self) -> Sequence[bytes]:
        """The line of the answer."""


Ask = Callable[[str, Mapping[str, Any]], Awaitable[Reply]]


class TaskRunner:
    """Whoever runs tasks for us, and what is put to them.

    Args:
        sheet: Where the verdicts go.
        ask: Sends a request and returns the answer; raises ``Skip`` where there is none.
        method: What can be a task.
        params: Its params, without ``task``.
        declared: What was declared under ``tasks``.
        patience: Seconds to wait for the end of a task.
        grace: Seconds that a task may take longer than the same took before.
        plain: The result of the same request when it was no task; ``None`` if that was not requested.
    """

    def __init__(
        self,
        sheet: VerdictRecorder,
        ask: Ask,
        *,
        method: str,
        params: Mapping[str, Any],
        declared: Mapping[str, Any],
        timeouts: float,
        grace: float = 0.3,
        plain: Mapping[str, Any] | None = None,
    ) -> None:
        self.sheet = sheet
        self.ask = ask
        self.method = method
        self.params = params
        self.declared = declared
        self.timeouts = timeouts
        self.grace = grace
        self.plain = plain
        self._began = 0.0
        self._took: float | None = None  # from the beginning of a task to its end, as far as that was seen

    async def create(self) -> str:
        """Makes a task, which is judged (TK-05), and returns its id.

        Raises:
            Skip: There is none.
        """
        self._began = asyncio.get_running_loop().time()
        reply = await self.ask(self.method, {**self.params, "task": {"ttl": _TTL}})
        if not reply.is_result:
            raise Skip(f"{self.method} as a task got {reply.summary}")
        task = reply.result.get("task")
        wrong = wrong_with_task(task) if isinstance(task, dict) else "the result has no task in it"
        if not wrong and isinstance(task, dict) and task["status"] != "working":
            wrong = f"its first status is {task['status']!r}, and not 'working'"
        self.sheet.expect(
            "TK-05",
            not wrong,
            f"{self.method} was to be a task, which is declared to be possible: {wrong}",
            fix='Answer at once with {"task": {...}}: taskId, status "working", createdAt, lastUpdatedAt and ttl.',
            about=reply,
        )
        found = task.get("taskId") if isinstance(task, dict) else None
        if not isinstance(found, str):
            raise Skip("no task was made")
        return found

    async def judge_life(self) -> None:
        """A task from its beginning to its end, and what is known of it then."""
        task_id = await self.create()
        await self._judge_get(task_id)
        early = await self.ask("tasks/result", {"taskId": task_id})
        status, seen = await self.settle(task_id)
        if seen[0].is_result:  # some forget a task whose result was fetched
            first = seen[0].result.get("status")
            self.sheet.expect(
                "TK-08",
                first in TERMINAL,
                f"tasks/result was answered while the task was {first!r}",
                fix="Let tasks/result wait until the task is completed, failed or cancelled.",
                about=early,
            )
        if early.is_result:
            related = _members(_members(early.result.get("_meta")).get(RELATED))
            self.sheet.expect(
                "TK-08",
                related.get("taskId") == task_id,
                f"the result of tasks/result does not name its task in _meta under {RELATED}",
                fix="Put the id of the task into the _meta of the result.",
                about=early,
            )
            late = await self.ask("tasks/result", {"taskId": task_id})
            self.sheet.expect(
                "TK-08",
                "task" not in early.result and (not late.is_result or _bare(late.result) == _bare(early.result)),
                "tasks/result does not give what the request would have got, or not the same when it is asked again",
                fix="Keep the result of the request, and give that.",
                about=late,
            )
            missing = self._missing_in(early.result)
            self.sheet.expect(
                "TK-08",
                not missing,
                f"a plain {self.method} got a result with {missing}, and tasks/result gives one without it",
                fix="Give the result of the request as it is, with all its members.",
                about=early,
            )
        await self._judge_end(task_id, status)
        await self._judge_list(task_id)
        ids = [task_id, await self.create(), await self.create()]
        self.sheet.expect(
            "TK-15",
            not are_guessable(ids),
            f"the ids of tasks can be guessed: {', '.join(ids)}",
            fix="Take a random UUID, or as many random bits.",
        )
        if (await self.ask("tasks/get", {"taskId": ids[-1]})).is_result:
            await self._judge_two_ids(ids[-1])

    async def judge_cancel(self) -> None:
        """A task that is cancelled while it runs stays so, also when its work comes to an end all the same.

        Raises:
            Skip: It cannot be cancelled, or was too fast.
        """
        if "cancel" not in self.declared:
            raise Skip("tasks.cancel is not declared")
        if self._took is None:
            await self.settle(await self.create())
        task_id = await self.create()
        reply = await self.ask("tasks/cancel", {"taskId": task_id})
        if reply.code == _INVALID_PARAMS:
            raise Skip("the task had ended before it could be cancelled")
        wrong = wrong_with_task(reply.result) if reply.is_result else f"it got {reply.summary}"
        if not wrong and reply.result["status"] != "cancelled":
            wrong = f"the task is still {reply.result['status']!r}"
        fix = "Mark the task as cancelled first, answer with it, and never change it again."
        self.sheet.expect("TK-09", not wrong, f"tasks/cancel of a running task: {wrong}", fix=fix, about=reply)
        for pause in (_OFTEN, min(self._took or 0.0, _LONGEST) + self.grace):
            await asyncio.sleep(pause)
            again = await self.ask("tasks/get", {"taskId": task_id})
            if wrong or not again.is_result:  # who has cancelled a task may forget it
                return
            now = again.result.get("status")
            self.sheet.expect("TK-09", now == "cancelled", f"a task that was cancelled is {now!r} later", fix=fix, about=again)

    async def settle(self, task_id: str) -> tuple[Any, list[Reply]]:
        """Polls until a task has ended, or needs input, or takes too long; returns the last status and all answers."""
        seen: list[Reply] = []
        loop = asyncio.get_running_loop()
        end = loop.time() + self.timeouts
        status: Any = None
        for _ in range(_POLLS):
            reply = await self.ask("tasks/get", {"taskId": task_id})
            seen.append(reply)
            status = reply.result.get("status")
            if status in TERMINAL:
                self._took = loop.time() - self._began
            if status != "working" or loop.time() > end:
                break
            await asyncio.sleep(_pause(reply.result.get("pollInterval")))
        return status, seen

    def _missing_in(self, result: Mapping[str, Any]) -> str:
        """A member that the result of the same plain request has, and must have again: what it says may well be another thing."""
        plain = self.plain or {}
        if plain.get("isError") is True or result.get("isError") is True:
            return ""
        if isinstance(plain.get("content"), list) and not isinstance(result.get("content"), list):
            return "an array in content"
        return "structuredContent" if "structuredContent" in plain and "structuredContent" not in result else ""

    async def _judge_get(self, task_id: str) -> None:
        reply = await self.ask("tasks/get", {"taskId": task_id})
        wrong = wrong_with_task(reply.result) if reply.is_result else f"it got {reply.summary}"
        if not wrong and reply.result["taskId"] != task_id:
            wrong = "it is another task"
        fix = "Answer with the members of the task themselves, not inside of another member."
        self.sheet.expect("TK-07", not wrong, f"tasks/get of a task that was just made: {wrong}", fix=fix, about=reply)
        unknown = await self.ask("tasks/get", {"taskId": NO_SUCH_TASK})
        self.sheet.expect(
            "TK-07",
            unknown.code == _INVALID_PARAMS,
            f"tasks/get of a task that is not there got {unknown.summary}",
            fix="Answer with the error -32602.",
            about=unknown,
        )

    async def _judge_two_ids(self, task_id: str) -> None:
        try:
            mixed = await self.ask("tasks/get", {"taskId": task_id, "_meta": {RELATED: {"taskId": NO_SUCH_TASK}}})
        except Skip as silence:
            # Others of the kind were answered, so it is the second id that is in the way.
            found, told, about = None, str(silence), None
        else:
            found, told, about = mixed.result.get("taskId"), f"it got {mixed.summary}", mixed
        self.sheet.expect(
            "TK-11",
            found == task_id,
            f"tasks/get with one id in taskId and another in _meta did not get the one of taskId: {told}",
            fix="In tasks/get, tasks/result and tasks/cancel, look at taskId alone.",
            about=about,
        )

    async def _judge_end(self, task_id: str, status: Any) -> None:
        if status not in TERMINAL:
            return
        for _ in range(2):
            reply = await self.ask("tasks/get", {"taskId": task_id})
            if reply.is_result:
                now = reply.result.get("status")
                why = f"a task that was {status} is {now!r} later"
                self.sheet.expect("TK-06", now == status, why, fix="Never change a task that has ended.", about=reply)
        if "cancel" in self.declared:
            reply = await self.ask("tasks/cancel", {"taskId": task_id})
            self.sheet.expect(
                "TK-09",
                reply.code == _INVALID_PARAMS,
                f"tasks/cancel of a task that has ended got {reply.summary}",
                fix="Answer with the error -32602.",
                about=reply,
            )

    async def _judge_list(self, task_id: str) -> None:
        if "list" not in self.declared:
            self.sheet.skip("TK-10", "tasks.list is not declared")
            return
        found: list[Any] = []
        params: dict[str, Any] = {}
        for _ in range(_PAGES):
            reply = await self.ask("tasks/list", params)
            tasks = reply.result.get("tasks")
            found += [_members(each).get("taskId") for each in tasks] if isinstance(tasks, list) else []
            cursor = reply.result.get("nextCursor")
            if not isinstance(cursor, str):
                break
            params = {"cursor": cursor}
        else:
            raise Skip(f"tasks/list has more than {_PAGES} pages")
        known = await self.ask("tasks/get", {"taskId": task_id})
        if known.is_result:
            why = f"tasks/get knows a task that is not among the {len(found)} of tasks/list"
            self.sheet.expect("TK-10", task_id in found, why, fix="List every task that can still be asked for.")
        bad = await self.ask("tasks/list", {"cursor": "twopipes-check-no-such-cursor"})
        self.sheet.expect(
            "TK-10",
            bad.code == _INVALID_PARAMS,
            f"tasks/list with a cursor that was never given out got {bad.summary}",
            fix="Answer with the error -32602.",
            about=bad,
        )


def wrong_with_task(task: Mapping[str, Any], *, ttl: str = "ttl", interval: str = "pollInterval") -> str:
    """What is wrong with the members of a task; nothing, if they are right.

    ``ttl`` and ``interval`` are the names of two members, which the extension has changed.
    """
    for name in ("taskId", "createdAt", "lastUpdatedAt"):
        if not isinstance(task.get(name), str):
            return f"{name} is missing, or no text"
    if task.get("status") not in STATUSES:
        return f"its status {task.get('status')!r} is none of those there are"
    if ttl not in task or not (task[ttl] is None or _is_number(task[ttl])):
        return f"{ttl} is missing, or neither a number nor null"
    if interval in task and not _is_number(task[interval]):
        return f"{interval} is no number"
    return "" if isinstance(task.get("statusMessage", ""), str) else "statusMessage is no text"


def wrong_with_capability(declared: Any, *requests: str) -> str:
    """What is wrong with a capability for tasks; nothing, if it is right.

    Args:
        declared: The capability.
        *requests: What can be a task, with dots: ``tools.call``.
    """
    if not isinstance(declared, dict):
        return "it is no object"
    for name in ("list", "cancel", "requests"):
        if not isinstance(declared.get(name, {}), dict):
            return f"{name} is no object"
    for request in requests:
        at: Any = declared.get("requests", {})
        for name in request.split("."):
            at = at.get(name, {})
            if not isinstance(at, dict):
                return f"requests.{request} is no object"
    return ""


def are_guessable(ids: Sequence[str]) -> bool:
    """Tells whether ids are very short, or count. Others may be guessable as well, and are not accused."""
    if any(len(each) < _SHORTEST for each in ids):
        return True
    skeletons = {re.sub(r"\d+", "#", each) for each in ids}
    if len(skeletons) != 1:
        return False
    columns = list(zip(*([int(digits) for digits in re.findall(r"\d+", each)] for each in ids), strict=True))
    moving = [column for column in columns if len(set(column)) > 1]
    return len(moving) == 1 and all(
        0 < abs(after - before) < _NEAR for before, after in zip(moving[0], moving[0][1:], strict=False)
    )


def _pause(interval: Any) -> float:
    return min(_SELDOM, max(_OFTEN, interval / 1000)) if _is_number(interval) else _OFTEN


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bare(result: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "_meta"}


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
