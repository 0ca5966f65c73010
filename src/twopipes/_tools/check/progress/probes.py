"""Progress, from the side of a client that wants to hear of it."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation, NoResponse, ReceivedLine
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import SlowCall, open_question, progress_of, slow_call
from twopipes._tools.check.verdict import Skip

_PROGRESS = "notifications/progress"
_OVER = {"completed", "failed", "cancelled"}
# How often a task is asked for its state.
_POLLS = 50


def _progress(line: list[ReceivedLine]) -> list[ReceivedLine]:
    return [each for each in line if each.method == _PROGRESS]


async def _reporting(case: Case) -> SlowCall:
    slow = await slow_call(case)
    if not slow.notes:
        case.give_up("the server told of no progress, which it need not")
    return slow


@probe("PR-02", needs="call")
async def without_a_token_there_is_no_progress(case: Case) -> None:
    """A slow call that gives no token hears nothing; one that gives a token hears of that alone."""
    slow = await _reporting(case)
    conversation = case.conversation
    since = conversation.position
    await conversation.request("tools/call", slow.params, within=_patience(case, slow))
    await conversation.quiet()
    stray = next(iter(_progress(conversation.received_lines[since:])), None)
    fix = "Send progress only if the request has a progressToken in its _meta, and with that token."
    case.expect("PR-02", stray is None, "progress was told of a call that gave no token", fix=fix, about=stray)
    since = conversation.position
    await conversation.request("tools/call", slow.params, meta={"progressToken": "mine"}, within=_patience(case, slow))
    other = next((line for line in _progress(conversation.received_lines[since:]) if not progress_of(line, "mine")), None)
    named = None if other is None else other.params.get("progressToken")
    case.expect("PR-02", other is None, f'progress of a call with the token "mine" came under {named!r}', fix=fix, about=other)


@probe("PR-03", "PR-04", "PR-07", needs="call")
async def progress_rises_and_ends_with_the_answer(case: Case) -> None:
    """The progress of a slow call is followed to its end and a while beyond; on the stateless wire, beside a subscription."""
    slow = await _reporting(case)
    conversation, token = case.conversation, "followed"
    listening = None
    if case.is_modern:
        wanted = {"notifications": {"toolsListChanged": True}}
        listening = conversation.start("subscriptions/listen", wanted, meta={"progressToken": "listening"})
    since = conversation.position
    response = await conversation.request("tools/call", slow.params, meta={"progressToken": token}, within=_patience(case, slow))
    await conversation.quiet()
    notes = [line for line in conversation.received_lines[since:] if progress_of(line, token)]
    if not notes:
        case.give_up("the server told of no progress")
    _expect_rising(case, notes)
    after = next((line for line in notes if line.number > response.received_line.number), None)
    case.expect(
        "PR-04",
        after is None,
        "progress was told after the answer",
        fix="Write what is left of the progress before the answer, or drop it.",
        about=after,
    )
    told = _progress(conversation.received_lines[since:])
    of_listen = next((line for line in told if _has_tag(line) or progress_of(line, "listening")), None)
    case.expect(
        "PR-07",
        of_listen is None,
        "progress is tagged with a subscriptionId, or belongs to a subscription",
        fix="Send progress for the request that gave the token, without a subscriptionId.",
        about=of_listen,
    )
    if listening is not None:
        conversation.notify("notifications/cancelled", {"requestId": listening})


def _has_tag(line: ReceivedLine) -> bool:
    meta = line.params.get("_meta")
    return isinstance(meta, dict) and META_SUBSCRIPTION_ID in meta


def _expect_rising(case: Case, notes: list[ReceivedLine]) -> None:
    last: float | None = None
    for line in notes:
        value: Any = line.params.get("progress")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        total = line.params.get("total", 0)
        case.expect(
            "PR-03",
            is_number and (last is None or value > last) and isinstance(total, int | float) and not isinstance(total, bool),
            f"progress goes from {last!r} to {value!r} (total {line.params.get('total')!r}); it is a number that rises each time",
            fix="Send a number that is greater than the one before; where nothing has changed, send nothing.",
            about=line,
        )
        last = value if is_number else last


@probe("PR-08", needs="call")
async def tokens_keep_their_type(case: Case) -> None:
    """Two slow calls at once, with the tokens 7 and "7": each hears of its own."""
    slow = await _reporting(case)
    conversation = case.conversation
    since = conversation.position
    tokens = (7, "7")
    calls = [conversation.start("tools/call", slow.params, meta={"progressToken": token}) for token in tokens]
    for each in calls:
        await conversation.response_to(each, within=_patience(case, slow))
    told = _progress(conversation.received_lines[since:])
    if not told:
        case.give_up("the server told of no progress")
    for token in tokens:
        case.expect(
            "PR-08",
            any(progress_of(line, token) for line in told),
            f'of two calls with the tokens 7 and "7", nothing was told under {token!r}, but under '
            f"{', '.join(sorted({repr(line.params.get('progressToken')) for line in told}))}",
            fix="Give the token back as it came, with its JSON type.",
            about=told[0],
        )


@probe("PR-01", needs=("call", "question"), client_capabilities=ALL_CAPABILITIES)
async def tokens_of_its_own_questions(case: Case) -> None:
    """Where a server with a handshake asks, and wants to hear of progress itself, its token is looked at."""
    if case.is_modern:
        case.give_up("on the stateless wire a server sends no requests, and so no tokens")
    conversation = case.conversation
    opened = await open_question(case, conversation)
    meta = opened.question.params.get("_meta")
    if not isinstance(meta, dict) or "progressToken" not in meta:
        case.give_up("the server asks without a progress token, which it may")
    token = meta["progressToken"]
    case.expect(
        "PR-01",
        isinstance(token, str | int) and not isinstance(token, bool),
        f"the server asks with the progressToken {token!r}",
        fix="Take a string or an integer.",
        about=opened.question,
    )


@probe("PR-06", fresh_conversation=True, needs=("call", "tasks.requests.tools.call"))
async def progress_of_a_task(case: Case) -> None:
    """A slow call is made a task; its progress keeps the token until the task is over, and then stops."""
    conversation = case.conversation
    params = _task_call(case)
    token = "of-a-task"  # noqa: S105 - a progress token
    since = conversation.position
    created = await conversation.request("tools/call", {**params, "task": {"ttl": 60000}}, meta={"progressToken": token})
    task = created.result.get("task")
    task_id = task.get("taskId") if isinstance(task, dict) else None
    if task_id is None:
        case.give_up(f"the call did not become a task: {created.summary}")
    over = await _until_over(conversation, task_id)
    await conversation.quiet()
    told = _progress(conversation.received_lines[since:])
    if not told:
        case.give_up("the server told of no progress of its task, which it need not")
    other = next((line for line in told if not progress_of(line, token)), None)
    case.expect("PR-06", other is None, f"the progress of a task came under another token than {token!r}", about=other)
    late = next((line for line in told if over is not None and line.number > over.number), None)
    case.expect(
        "PR-06",
        late is None,
        "progress of a task was told after the task was over",
        fix="Stop telling of progress when the task has a status that is final.",
        about=late,
    )


def _task_call(case: Case) -> dict[str, Any]:
    for call in case.features.safe_calls(case.permissions):
        execution = call.tool.get("execution")
        if isinstance(execution, dict) and execution.get("taskSupport") in {"optional", "required"}:
            return call.params
    raise Skip("no tool that may be called can be a task")


async def _until_over(conversation: LiveConversation, task_id: Any) -> ReceivedLine | None:
    """Polls a task; returns the line that says that it is over, or ``None`` if none does."""
    for _ in range(_POLLS):
        try:
            response = await conversation.request("tasks/get", {"taskId": task_id})
        except NoResponse:
            return None
        if response.result.get("status") in _OVER:
            return response.received_line
        await conversation.until(lambda: None, conversation.timeouts.grace)
    return None


def _patience(case: Case, slow: SlowCall) -> float:
    timeouts: float = case.timeouts.response + 3 * slow.took
    return timeouts
