"""Tasks as an extension of the stateless wire."""

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
        fix="Make tasks of the requests that the extension names, and of no others.",
    ),
    _rule(id="TX-04", level="MUST", side="client", title="A client takes a task for an answer to tools/call, and to nothing else"),
    _rule(
        id="TX-05",
        level="MUST",
        side="server",
        title="A task can be asked for as soon as its answer is there",
        partly="On the same connection alone",
    ),
    _rule(
        id="TX-06",
        level="MUST",
        side="server",
        title="tasks/get gives the state and what belongs to it: open questions, the result, or the error",
        lenient="The text has the type complete, two of its examples have task: both are let pass",
        partly="Only the states that a task goes through by itself: it is not made to fail or to ask",
    ),
    _rule(id="TX-07", level="MUST", side="server", title="tasks/update and tasks/cancel are acknowledged with an empty result"),
    _rule(
        id="TX-08",
        level="SHOULD",
        side="server",
        title="Answers that nobody asked for, in tasks/update, are passed over",
        partly="Unknown keys are tried; keys that were answered, partial sets, and keys that come twice are not",
    ),
    _rule(
        id="TX-09",
        level="MUST",
        side="server",
        title="A task that is not there is answered with -32602, and a caller that does not declare the extension with -32021",
        partly="Tried with tasks/get; not with tasks/update and tasks/cancel, where it is a SHOULD",
    ),
    _rule(
        id="TX-10",
        level="MUST",
        side="server",
        title="A tool result with isError completes a task; failed is for protocol errors",
        partly="It takes a tool by the name of fail, as test servers have it; protocol errors are not made",
    ),
    _rule(
        id="TX-11",
        level="MUST",
        side="server",
        title="Nothing is left of the older tasks: no tasks/result, no tasks/list, no capability, and no task member",
    ),
    _rule(
        id="TX-12",
        level="MAY",
        side="server",
        title="A listen for tasks is acknowledged with the ids that will be told of, and refused if the extension is not declared",
        partly="Only of servers that tell of tasks on a listen; the notifications about them are not looked at",
    ),
    _rule(
        id="TX-13",
        level="MUST",
        title="Tasks have no progress, no log messages and no notifications/cancelled",
        partly_server="Only of a task that is still at work when it is asked for; a listen for it is not looked at",
    ),
    _rule(
        id="TX-14",
        level="SHOULD",
        side="client",
        title="A client polls as seldom as it is asked to, and answers each question once",
        partly="Whether tasks are remembered beyond a restart of the client is not tried",
    ),
    _rule(
        id="TX-15",
        level="MUST",
        side="server",
        title="The ids of tasks cannot be guessed",
        partly=(
            "Ids that are short or count can be guessed; that others are random is not seen; nor how calls are authorized,"
            " or what a restarted server says"
        ),
    ),
    _rule(
        id="TX-16",
        level="MUST",
        side="server",
        since="2025-11-25",
        until="2025-11-25",
        title="The extension means nothing in a conversation with a handshake",
    ),
)
