"""Cancellation, where the server is the one who asked: with a handshake it gives up its question when the call is cancelled."""

from __future__ import annotations

from typing import Any

from twopipes._tools.check.conversation import ALL_CAPABILITIES, NoResponse, ReceivedLine, same_id
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import open_question

# A server that knows tasks may make one of its question.
_ABLE_OF_TASKS = {
    **ALL_CAPABILITIES,
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


@probe("CA-01", "CA-02", "CA-06", "CA-11", "CA-12", needs=("call", "question"), client_capabilities=_ABLE_OF_TASKS)
async def a_question_is_given_up_with_its_call(case: Case) -> None:
    """A call is cancelled while the server waits for an answer of the client; what it does about its question is looked at."""
    if case.is_modern:
        case.give_up("on the stateless wire a server asks nothing that it could give up")
    conversation = case.conversation
    opened = await open_question(case, conversation)
    question = opened.question
    is_task = "task" in question.params
    if is_task:
        conversation.send({"jsonrpc": "2.0", "id": question.message["id"], "result": {"task": _WORKING}})
    since = conversation.position
    conversation.notify("notifications/cancelled", {"requestId": opened.call})
    message = await conversation.quiet(since=since)
    given_up = next((line for line in message if line.method == "notifications/cancelled"), None)
    if is_task:
        _judge_task(case, question, given_up, message)
    else:
        case.skip("CA-11", "the server made no task of its question")
    if given_up is None:
        case.give_up("the server did not give up its own question when its call was cancelled, which it need not")
    _judge_notification(case, question, given_up)
    await _answer_late(case, question)


def _judge_task(case: Case, question: ReceivedLine, given_up: ReceivedLine | None, message: list[ReceivedLine]) -> None:
    by_notification = given_up is not None and same_id(given_up.params.get("requestId"), question.message["id"])
    if by_notification or any(line.method == "tasks/cancel" for line in message):
        case.expect(
            "CA-11",
            not by_notification,
            f"the server gave up {question.method}, which is a task, by notifications/cancelled",
            fix="Send tasks/cancel with the id of the task.",
            about=given_up,
        )
    else:
        case.skip("CA-11", "the server did not give up its task")


def _judge_notification(case: Case, question: ReceivedLine, given_up: ReceivedLine) -> None:
    named: Any = given_up.params.get("requestId")
    asked = question.message["id"]
    case.expect(
        "CA-12",
        isinstance(named, str | int) and not isinstance(named, bool),
        f"the server sent a notifications/cancelled whose requestId is {named!r}",
        fix="Put the id of the request that is given up into requestId.",
        about=given_up,
    )
    own = [part["id"] for line in case.conversation.received_lines for part in line.parts if "method" in part and "id" in part]
    case.expect(
        "CA-02",
        any(same_id(named, each) for each in own),
        f"the server cancelled {named!r}, and its own requests were {', '.join(map(repr, own))}",
        fix="Cancel only requests that this side has sent.",
        about=given_up,
    )
    reason = given_up.params.get("reason", "")
    case.expect(
        "CA-01",
        same_id(named, asked) and isinstance(reason, str),
        f"the server gave up its request {asked!r} by cancelling {named!r}, with the reason {reason!r}",
        fix="Name the request by its id, of the same JSON type; a reason is a string.",
        about=given_up,
    )


async def _answer_late(case: Case, question: ReceivedLine) -> None:
    conversation = case.conversation
    since = conversation.position
    conversation.send({"jsonrpc": "2.0", "id": question.message["id"], "result": _LATE[question.method or ""]})
    fix = "Look the request up by the id of the answer; if it is not there any more, drop the answer."
    message = await conversation.quiet(since=since)
    complaint = next((line for line in message if any("error" in part for part in line.parts)), None)
    case.expect(
        "CA-06", complaint is None, "an answer to a question that was given up was met with an error", fix=fix, about=complaint
    )
    try:
        await conversation.request(case.harmless)
    except NoResponse:
        case.expect("CA-06", False, "after an answer to a question that was given up, the server answers no more", fix=fix)
