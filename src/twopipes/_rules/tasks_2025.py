"""Tasks as 2025-11-25 has them, on trial: of whoever declares them, be it a server that is called or a client that is asked."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/utilities/tasks", since="2025-11-25", until="2025-11-25")

RULES = (
    _rule(
        id="TK-01",
        level="MUST",
        title="The capability for tasks is made of objects: list, cancel, and the requests that can be tasks",
    ),
    _rule(id="TK-02", level="MUST", title="Whoever does not declare tasks for a request passes over a task member in it"),
    _rule(
        id="TK-03",
        level="MUST",
        side="server",
        title="A tool that has to be a task refuses a plain call with -32601",
        lenient="The page has -32601 in one place and -32600 in another: both are let pass",
        partly="That a tool which cannot be a task refuses to be one (a SHOULD) is not tried",
    ),
    _rule(
        id="TK-04",
        level="MUST",
        side="client",
        title="A client makes a task of a call where server and tool allow it, and always where the tool requires it",
        partly="A client that knows nothing of tasks is let pass",
    ),
    _rule(
        id="TK-05",
        level="MUST",
        title="A request that is to be a task is answered with the task, working and whole, at once",
        partly_server="That it is answered at once is not measured: how long that may take, nobody says",
    ),
    _rule(id="TK-06", level="MUST", title="A task that is completed, failed or cancelled stays so"),
    _rule(id="TK-07", level="MUST", title="tasks/get gives the task itself, and -32602 for one that is not there"),
    _rule(
        id="TK-08",
        level="MUST",
        title="tasks/result waits for the end, and gives what the request would have got, with the task's id",
        partly_server=(
            "Of a tool that can be called plainly as well, the members of both results are compared, and not what they say;"
            " errors are not tried"
        ),
    ),
    _rule(
        id="TK-09",
        level="MUST",
        title="tasks/cancel gives the task back as cancelled, and -32602 for one that has ended",
        partly="Work that goes on after it was cancelled is waited for as long as the same took before, and no more than 5 s",
    ),
    _rule(id="TK-10", level="MUST", title="tasks/list has every task that tasks/get knows, and answers a bad cursor with -32602"),
    _rule(
        id="TK-11",
        level="MUST",
        title="Messages of a task carry its id; in tasks/get, tasks/result and tasks/cancel the taskId counts",
        partly="Results, questions and tasks/get are looked at; two ids in tasks/result and tasks/cancel are not tried",
    ),
    _rule(
        id="TK-12", level="MAY", title="Whoever waits for a task polls, and not too often; notifications about it are whole tasks"
    ),
    _rule(
        id="TK-13",
        level="SHOULD",
        title="A task that needs input says so, and asks while tasks/result is open",
        partly_server="Only of servers with a tool called ask that may be called, can be a task, and asks the user something",
    ),
    _rule(
        id="TK-14",
        level="SHOULD",
        title="A tool result with isError ends a task as failed, and tasks/result still gives it",
        partly_server="Only of servers with a tool called fail that may be called, can be a task, and has a result with isError",
        untestable_client="Only tools have results with isError, and clients have no tools",
    ),
    _rule(
        id="TK-15",
        level="MUST",
        title="The ids of tasks cannot be guessed",
        partly="Ids that are short or count can be guessed; that others are random is not seen; nor who else may list them",
    ),
)
