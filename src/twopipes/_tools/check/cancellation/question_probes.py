"""Cancellation, where the server is the one who asked: with a handshake it gives up its question when the call is cancelled."""

from __future__ import annotations

from typing import Any

from twopipes._tools.check.conversation import ABLE, Heard, Unanswered, same_id
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import open_question

# A server that knows tasks may make one of its question.
_ABLE_OF_TASKS = {
    **ABLE,
    "tasks": {"cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
}
_WORKING = {
    "taskId": "check-task-1",
    "status": "working",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
    "ttl": 60000,
}
_LATE = {
    "elicitation/create": {"action": "decline"},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Too late."}, "model": "none"},
    "roots/list": {"roots": []},
}


@probe("CA-01", "CA-02", "CA-06", "CA-11", "CA-12", needs=("call", "question"), can=_ABLE_OF_TASKS)
async def a_question_is_given_up_with_its_call(case: Case) -> None:
    """A call is cancelled while the server waits for an answer of the client; what it does about its question is looked at."""
    if case.is_modern:
        case.give_up("on the stateless wire a server asks nothing that it could give up")
    talk = case.talk
    opened = await open_question(case, talk)
    question = opened.question
    is_task = "task" in question.params
    if is_task:
        talk.send({"jsonrpc": "2.0", "id": question.message["id"], "result": {"task": _WORKING}})
    since = talk.position
    talk.notify("notifications/cancelled", {"requestId": opened.call})
    said = await talk.quiet(since=since)
    given_up = next((heard for heard in said if heard.method == "notifications/cancelled"), None)
    if is_task:
        _judge_task(case, question, given_up, said)
    else:
        case.skip("CA-11", "the server made no task of its question")
    if given_up is None:
        case.give_up("the server did not give up its own question when its call was cancelled, which it need not")
    _judge_notification(case, question, given_up)
    await _answer_late(case, question)


def _judge_task(case: Case, question: Heard, given_up: Heard | None, said: list[Heard]) -> None:
    by_notification = given_up is not None and same_id(given_up.params.get("requestId"), question.message["id"])
    if by_notification or any(heard.method == "tasks/cancel" for heard in said):
        case.expect(
            "CA-11",
            not by_notification,
            f"the server gave up {question.method}, which is a task, by notifications/cancelled",
            mend="Send tasks/cancel with the id of the task.",
            about=given_up,
        )
    else:
        case.skip("CA-11", "the server did not give up its task")


def _judge_notification(case: Case, question: Heard, given_up: Heard) -> None:
    named: Any = given_up.params.get("requestId")
    asked = question.message["id"]
    case.expect(
        "CA-12",
        isinstance(named, str | int) and not isinstance(named, bool),
        f"the server sent a notifications/cancelled whose requestId is {named!r}",
        mend="Put the id of the request that is given up into requestId.",
        about=given_up,
    )
    own = [part["id"] for heard in case.talk.heard_lines for part in heard.parts if "method" in part and "id" in part]
    case.expect(
        "CA-02",
        any(same_id(named, each) for each in own),
        f"the server cancelled {named!r}, and its own requests were {', '.join(map(repr, own))}",
        mend="Cancel only requests that this side has sent.",
        about=given_up,
    )
    reason = given_up.params.get("reason", "")
    case.expect(
        "CA-01",
        same_id(named, asked) and isinstance(reason, str),
        f"the server gave up its request {asked!r} by cancelling {named!r}, with the reason {reason!r}",
        mend="Name the request by its id, of the same JSON type; a reason is a string.",
        about=given_up,
    )


async def _answer_late(case: Case, question: Heard) -> None:
    talk = case.talk
    since = talk.position
    talk.send({"jsonrpc": "2.0", "id": question.message["id"], "result": _LATE[question.method or ""]})
    mend = "Look the request up by the id of the answer; if it is not there any more, drop the answer."
    said = await talk.quiet(since=since)
    complaint = next((heard for heard in said if any("error" in part for part in heard.parts)), None)
    case.expect(
        "CA-06", complaint is None, "an answer to a question that was given up was met with an error", mend=mend, about=complaint
    )
    try:
        await talk.request(case.harmless)
    except Unanswered:
        case.expect("CA-06", False, "after an answer to a question that was given up, the server answers no more", mend=mend)
