"""Tasks, the extension of the modern revisions."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="/extensions/tasks/overview", since="2026-07-28")

RULES = (
    _rule(
        id="TX-01",
        level="MUST",
        title="The extension is declared as an object: by servers in server/discover, by clients in each request",
    ),
    _rule(id="TX-02", level="MUST", side="server", title="A request that does not declare the extension never becomes a task"),
    _rule(
        id="TX-03",
        level="MUST",
        side="server",
        title="A task is a flat result of type task, and no other result has that type",
        fix="Create tasks only for the requests that the extension names.",
    ),
    _rule(id="TX-04", level="MUST", side="client", title="A client accepts a task as the result of tools/call only"),
    _rule(
        id="TX-05",
        level="MUST",
        side="server",
        title="A task can be requested as soon as its result has arrived",
        partly="Only on the same connection",
    ),
    _rule(
        id="TX-06",
        level="MUST",
        side="server",
        title="tasks/get returns the state and what belongs to it: open questions, the result, or the error",
        lenient="The text has the type complete, two of its examples have task: both are accepted",
        partly="Only the states that a task goes through by itself: it is not made to fail or to ask",
    ),
    _rule(id="TX-07", level="MUST", side="server", title="tasks/update and tasks/cancel are acknowledged with an empty result"),
    _rule(
        id="TX-08",
        level="SHOULD",
        side="server",
        title="Unexpected answers in tasks/update are ignored",
        partly="Unknown keys are tried; answered keys, partial sets and repeated keys are not",
    ),
    _rule(
        id="TX-09",
        level="MUST",
        side="server",
        title="An unknown task is rejected with -32602, and a caller that does not declare the extension with -32021",
        partly="Tried with tasks/get; not with tasks/update and tasks/cancel, where it is a SHOULD",
    ),
    _rule(
        id="TX-10",
        level="MUST",
        side="server",
        title="A tool result with isError completes a task; failed is for protocol errors",
        partly="This needs a tool named fail, as test servers have it; protocol errors are not caused",
    ),
    _rule(
        id="TX-11",
        level="MUST",
        side="server",
        title="Nothing of the older tasks remains: no tasks/result, no tasks/list, no capability, and no task member",
    ),
    _rule(
        id="TX-12",
        level="MAY",
        side="server",
        title="A listen for tasks is acknowledged with the task ids, and rejected if the extension is not declared",
        partly="Only for servers that announce tasks on a listen; the notifications are not judged",
    ),
    _rule(
        id="TX-13",
        level="MUST",
        title="Tasks have no progress, no log messages and no notifications/cancelled",
        partly_server="Only for a task that is still running when it is requested; a listen for it is not judged",
    ),
    _rule(
        id="TX-14",
        level="SHOULD",
        side="client",
        title="A client polls no more often than the server asks, and answers each question once",
        partly="Whether tasks survive a restart of the client is not tried",
    ),
    _rule(
        id="TX-15",
        level="MUST",
        side="server",
        title="Task ids cannot be guessed",
        partly=(
            "Short or sequential ids can be guessed; whether others are random is not visible, nor how calls are authorized,"
            " or what a restarted server does"
        ),
    ),
    _rule(
        id="TX-16",
        level="MUST",
        side="server",
        since="2025-11-25",
        until="2025-11-25",
        title="The extension has no meaning in a session with a handshake",
    ),
)
