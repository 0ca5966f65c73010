"""Tasks, the extension of the modern revisions."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="/extensions/tasks/overview", since="2026-07-28")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "TX-01": _rule(
        must="The extension is declared as an object: by servers in server/discover, by clients in each request",
        fix='Declare "extensions": {"io.modelcontextprotocol/tasks": {}}: servers in server/discover, clients in each request.',
    ),
    "TX-02": _server(
        must="A request that does not declare the extension never becomes a task",
        fix=(
            "Before you create a task, look for the extension in the clientCapabilities of the same request; if you"
            " need it, reject the request with -32021, with the extension in data.requiredCapabilities.extensions."
        ),
    ),
    "TX-03": _server(
        must="A task is a flat result of type task, and no other result has that type",
        fix=(
            "Respond with taskId, status, createdAt, lastUpdatedAt and ttlMs beside resultType, and create tasks"
            " only for the requests that the extension names."
        ),
    ),
    "TX-04": _client(
        must="A client accepts a task as the result of tools/call only",
        fix="Accept a task as the result of tools/call only, and poll it with tasks/get until it has ended.",
    ),
    "TX-05": _server(
        must="A task can be requested as soon as its result has arrived",
        partly="Only on the same connection",
        fix="Store the task before you respond with its id.",
    ),
    "TX-06": _server(
        must="tasks/get returns the state and what belongs to it: open questions, the result, or the error",
        lenient="The text has the type complete, two of its examples have task: both are accepted",
        partly="Only the states that a task goes through by itself: it is not made to fail or to ask",
        fix=(
            "Put the state into the result, with resultType complete, and with result, error or inputRequests as"
            " the status requires."
        ),
    ),
    "TX-07": _server(
        must="tasks/update and tasks/cancel are acknowledged with an empty result",
        fix='Respond with {"resultType": "complete"} and nothing else; the effect may come later.',
    ),
    "TX-08": _server(
        should="Unexpected answers in tasks/update are ignored",
        partly="Unknown keys are tried; answered keys, partial sets and repeated keys are not",
        fix="Ignore answers whose keys are not open.",
    ),
    "TX-09": _server(
        must="An unknown task is rejected with -32602, and a caller that does not declare the extension with -32021",
        partly="Tried with tasks/get; not with tasks/update and tasks/cancel, where it is a SHOULD",
        fix="Look for the extension first, and reject a request without it with -32021; reject an unknown task with -32602.",
    ),
    "TX-10": _server(
        must="A tool result with isError completes a task; failed is for protocol errors",
        partly="This needs a tool named fail, as test servers have it; protocol errors are not caused",
        fix="Complete the task with the result; failed is for protocol errors.",
    ),
    "TX-11": _server(
        must="Nothing of the older tasks remains: no tasks/result, no tasks/list, no capability, and no task member",
        fix=(
            "Reject tasks/result and tasks/list with -32601, ignore the task member, and declare the extension instead"
            " of the capability tasks."
        ),
    ),
    "TX-12": _server(
        may="A listen for tasks is acknowledged with the task ids, and rejected if the extension is not declared",
        partly="Only for servers that announce tasks on a listen; the notifications are not judged",
        fix="Acknowledge only ids of known tasks, and reject a listen for tasks without the extension with -32021.",
    ),
    "TX-13": _rule(
        must="Tasks have no progress, no log messages and no notifications/cancelled",
        partly_server="Only for a task that is still running when it is requested; a listen for it is not judged",
        fix="Cancel a task with tasks/cancel only, and report its progress in statusMessage.",
    ),
    "TX-14": _client(
        should="A client polls no more often than the server asks, and answers each question once",
        partly="Whether tasks survive a restart of the client is not tried",
        fix="Wait for pollIntervalMs between two polls, and remember which questions were answered.",
    ),
    "TX-15": _server(
        must="Task ids cannot be guessed",
        partly=(
            "Short or sequential ids can be guessed; whether others are random is not visible, nor how calls are authorized,"
            " or what a restarted server does"
        ),
        fix="Use a random UUID, or as many random bits.",
    ),
    "TX-16": _server(
        must="The extension has no meaning in a session with a handshake",
        since="2025-11-25",
        until="2025-11-25",
        fix="Create tasks of the extension in modern revisions only.",
    ),
}
