"""Experimental tasks of 2025-11-25, for servers and for clients that declare them."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/utilities/tasks", since="2025-11-25", until="2025-11-25")

RULES = {
    "TK-01": _rule(
        must="The tasks capability consists of objects: list, cancel, and the requests that can be tasks",
        fix='Declare only objects: {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}, or as much of it as applies.',
    ),
    "TK-02": _rule(
        must="A receiver that does not declare tasks for a request ignores a task member in it",
        fix="Ignore the member task unless you declare tasks for that request.",
    ),
    "TK-03": _rule(
        must="A tool that must run as a task rejects a plain call with -32601",
        side="server",
        lenient="The page has -32601 in one place and -32600 in another: both are accepted",
        partly="That a tool which cannot be a task rejects a task (a SHOULD) is not tried",
        fix="Reject the call with -32601.",
    ),
    "TK-04": _rule(
        must="A client makes a call a task if server and tool allow it, and always if the tool requires it",
        side="client",
        partly="A client that does not know tasks is accepted",
        fix="Before a call, look at tasks.requests.tools.call of the server and at execution.taskSupport of the tool.",
    ),
    "TK-05": _rule(
        must="A request that is to be a task is answered at once with the complete task, in the state working",
        partly_server="The time is not measured: the text does not say how long it may take",
        fix='Respond at once with {"task": {...}}: taskId, status "working", createdAt, lastUpdatedAt and ttl.',
    ),
    "TK-06": _rule(
        must="A task that is completed, failed or cancelled stays so",
        fix="Never change a task that has ended.",
    ),
    "TK-07": _rule(
        must="tasks/get returns the task itself, and -32602 for an unknown one",
        fix="Respond with the members of the task themselves, not inside another member; reject an unknown task with -32602.",
    ),
    "TK-08": _rule(
        must="tasks/result waits for the end, and returns the result of the request, with the id of the task",
        partly_server=(
            "For a tool that can also be called plainly, the members of both results are compared, not their values; errors"
            " are not tried"
        ),
        fix=(
            "Let tasks/result wait until the task has ended, and return the stored result of the request with all"
            " its members, and with the id of the task in its _meta."
        ),
    ),
    "TK-09": _rule(
        must="tasks/cancel returns the task as cancelled, and -32602 for one that has ended",
        partly="Work that continues after the cancellation is watched as long as the same work took before, and at most 5 s",
        fix=(
            "Mark the task as cancelled first, respond with it, and never change it again; reject tasks/cancel of"
            " an ended task with -32602."
        ),
    ),
    "TK-10": _rule(
        must="tasks/list has every task that tasks/get knows, and rejects an unknown cursor with -32602",
        fix="List every task that tasks/get returns, and reject an unknown cursor with -32602.",
    ),
    "TK-11": _rule(
        must="Messages of a task carry its id; in tasks/get, tasks/result and tasks/cancel the taskId counts",
        partly="Results, questions and tasks/get are judged; two ids in tasks/result and tasks/cancel are not tried",
        fix=(
            "Put the id of the task into the _meta of its messages, under io.modelcontextprotocol/related-task; in"
            " tasks/get, tasks/result and tasks/cancel read only taskId."
        ),
    ),
    "TK-12": _rule(
        may="A requester polls a task, and not too often; notifications about a task contain the whole task",
        fix=(
            "Poll with tasks/get at the pollInterval of the task, or wait in tasks/result; put all members of the"
            " task into notifications."
        ),
    ),
    "TK-13": _rule(
        should="A task that needs input has the state input_required, and asks while tasks/result is open",
        partly_server="Only for servers with a tool named ask that may be called, can be a task, and asks the user something",
        fix=(
            "Set the status to input_required and ask while tasks/result is open; a requester that sees this status"
            " sends tasks/result."
        ),
    ),
    "TK-14": _rule(
        should="A tool result with isError makes a task failed, and tasks/result still returns it",
        partly_server="Only for servers with a tool named fail that may be called, can be a task, and returns isError",
        untestable_client="Only tools have results with isError, and clients have no tools",
        fix="End the task as failed, and keep the result for tasks/result.",
    ),
    "TK-15": _rule(
        must="Task ids cannot be guessed",
        partly="Short or sequential ids can be guessed; whether others are random is not visible, nor who else may list them",
        fix="Use a random UUID, or as many random bits.",
    ),
}
