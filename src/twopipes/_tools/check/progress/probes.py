"""Progress, from the side of a client that wants to hear of it."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.conversation import ABLE, Heard, LiveConversation, Unanswered
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import SlowCall, open_question, progress_of, slow_call
from twopipes._tools.check.verdict import Skip

_PROGRESS = "notifications/progress"
_OVER = {"completed", "failed", "cancelled"}
# How often a task is asked for its state.
_POLLS = 50


def _progress(heard: list[Heard]) -> list[Heard]:
    return [each for each in heard if each.method == _PROGRESS]


async def _reporting(case: Case) -> SlowCall:
    slow = await slow_call(case)
    if not slow.notes:
        case.give_up("the server told of no progress, which it need not")
    return slow


@probe("PR-02", needs="call")
async def without_a_token_there_is_no_progress(case: Case) -> None:
    """A slow call that gives no token hears nothing; one that gives a token hears of that alone."""
    slow = await _reporting(case)
    talk = case.talk
    since = talk.position
    await talk.request("tools/call", slow.params, within=_patience(case, slow))
    await talk.quiet()
    stray = next(iter(_progress(talk.heard_lines[since:])), None)
    mend = "Send progress only if the request has a progressToken in its _meta, and with that token."
    case.expect("PR-02", stray is None, "progress was told of a call that gave no token", mend=mend, about=stray)
    since = talk.position
    await talk.request("tools/call", slow.params, meta={"progressToken": "mine"}, within=_patience(case, slow))
    other = next((heard for heard in _progress(talk.heard_lines[since:]) if not progress_of(heard, "mine")), None)
    named = None if other is None else other.params.get("progressToken")
    case.expect("PR-02", other is None, f'progress of a call with the token "mine" came under {named!r}', mend=mend, about=other)


@probe("PR-03", "PR-04", "PR-07", needs="call")
async def progress_rises_and_ends_with_the_answer(case: Case) -> None:
    """The progress of a slow call is followed to its end and a while beyond; on the stateless wire, beside a subscription."""
    slow = await _reporting(case)
    talk, token = case.talk, "followed"
    listening = None
    if case.is_modern:
        wanted = {"notifications": {"toolsListChanged": True}}
        listening = talk.start("subscriptions/listen", wanted, meta={"progressToken": "listening"})
    since = talk.position
    answer = await talk.request("tools/call", slow.params, meta={"progressToken": token}, within=_patience(case, slow))
    await talk.quiet()
    notes = [heard for heard in talk.heard_lines[since:] if progress_of(heard, token)]
    if not notes:
        case.give_up("the server told of no progress")
    _expect_rising(case, notes)
    after = next((heard for heard in notes if heard.number > answer.heard.number), None)
    case.expect(
        "PR-04",
        after is None,
        "progress was told after the answer",
        mend="Write what is left of the progress before the answer, or drop it.",
        about=after,
    )
    told = _progress(talk.heard_lines[since:])
    of_listen = next((heard for heard in told if _has_tag(heard) or progress_of(heard, "listening")), None)
    case.expect(
        "PR-07",
        of_listen is None,
        "progress is tagged with a subscriptionId, or belongs to a subscription",
        mend="Send progress for the request that gave the token, without a subscriptionId.",
        about=of_listen,
    )
    if listening is not None:
        talk.notify("notifications/cancelled", {"requestId": listening})


def _has_tag(heard: Heard) -> bool:
    meta = heard.params.get("_meta")
    return isinstance(meta, dict) and META_SUBSCRIPTION_ID in meta


def _expect_rising(case: Case, notes: list[Heard]) -> None:
    last: float | None = None
    for heard in notes:
        value: Any = heard.params.get("progress")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        total = heard.params.get("total", 0)
        case.expect(
            "PR-03",
            is_number and (last is None or value > last) and isinstance(total, int | float) and not isinstance(total, bool),
            f"progress goes from {last!r} to {value!r} (total {heard.params.get('total')!r}); it is a number that rises each time",
            mend="Send a number that is greater than the one before; where nothing has changed, send nothing.",
            about=heard,
        )
        last = value if is_number else last


@probe("PR-08", needs="call")
async def tokens_keep_their_type(case: Case) -> None:
    """Two slow calls at once, with the tokens 7 and "7": each hears of its own."""
    slow = await _reporting(case)
    talk = case.talk
    since = talk.position
    tokens = (7, "7")
    calls = [talk.start("tools/call", slow.params, meta={"progressToken": token}) for token in tokens]
    for each in calls:
        await talk.answer_to(each, within=_patience(case, slow))
    told = _progress(talk.heard_lines[since:])
    if not told:
        case.give_up("the server told of no progress")
    for token in tokens:
        case.expect(
            "PR-08",
            any(progress_of(heard, token) for heard in told),
            f'of two calls with the tokens 7 and "7", nothing was told under {token!r}, but under '
            f"{', '.join(sorted({repr(heard.params.get('progressToken')) for heard in told}))}",
            mend="Give the token back as it came, with its JSON type.",
            about=told[0],
        )


@probe("PR-01", needs=("call", "question"), can=ABLE)
async def tokens_of_its_own_questions(case: Case) -> None:
    """Where a server with a handshake asks, and wants to hear of progress itself, its token is looked at."""
    if case.is_modern:
        case.give_up("on the stateless wire a server sends no requests, and so no tokens")
    talk = case.talk
    opened = await open_question(case, talk)
    meta = opened.question.params.get("_meta")
    if not isinstance(meta, dict) or "progressToken" not in meta:
        case.give_up("the server asks without a progress token, which it may")
    token = meta["progressToken"]
    case.expect(
        "PR-01",
        isinstance(token, str | int) and not isinstance(token, bool),
        f"the server asks with the progressToken {token!r}",
        mend="Take a string or an integer.",
        about=opened.question,
    )


@probe("PR-06", fresh=True, needs=("call", "tasks.requests.tools.call"))
async def progress_of_a_task(case: Case) -> None:
    """A slow call is made a task; its progress keeps the token until the task is over, and then stops."""
    talk = case.talk
    params = _task_call(case)
    token = "of-a-task"  # noqa: S105 - a progress token
    since = talk.position
    created = await talk.request("tools/call", {**params, "task": {"ttl": 60000}}, meta={"progressToken": token})
    task = created.result.get("task")
    task_id = task.get("taskId") if isinstance(task, dict) else None
    if task_id is None:
        case.give_up(f"the call did not become a task: {created.told}")
    over = await _until_over(talk, task_id)
    await talk.quiet()
    told = _progress(talk.heard_lines[since:])
    if not told:
        case.give_up("the server told of no progress of its task, which it need not")
    other = next((heard for heard in told if not progress_of(heard, token)), None)
    case.expect("PR-06", other is None, f"the progress of a task came under another token than {token!r}", about=other)
    late = next((heard for heard in told if over is not None and heard.number > over.number), None)
    case.expect(
        "PR-06",
        late is None,
        "progress of a task was told after the task was over",
        mend="Stop telling of progress when the task has a status that is final.",
        about=late,
    )


def _task_call(case: Case) -> dict[str, Any]:
    for call in case.features.safe_calls(case.permissions):
        execution = call.tool.get("execution")
        if isinstance(execution, dict) and execution.get("taskSupport") in {"optional", "required"}:
            return call.params
    raise Skip("no tool that may be called can be a task")


async def _until_over(talk: LiveConversation, task_id: Any) -> Heard | None:
    """Polls a task; returns the line that says that it is over, or ``None`` if none does."""
    for _ in range(_POLLS):
        try:
            answer = await talk.request("tasks/get", {"taskId": task_id})
        except Unanswered:
            return None
        if answer.result.get("status") in _OVER:
            return answer.heard
        await talk.until(lambda: None, talk.waits.grace)
    return None


def _patience(case: Case, slow: SlowCall) -> float:
    patience: float = case.waits.answer + 3 * slow.took
    return patience
