"""Tools."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/tools")
_INSIDE = "It happens inside the client, and does not go over the wire"

RULES = (
    _rule(
        id="TL-01",
        level="MUST",
        basis="schema",
        side="server",
        title='Each tool has a name, and an inputSchema with "type":"object"',
        fix='Give every tool a name, and an inputSchema with "type": "object".',
    ),
    _rule(
        id="TL-02",
        level="MUST",
        basis="schema",
        title="A call has the name of its tool, and arguments as an object or none; a call without arguments is served",
        inferred_for="server",
        lenient=(
            "The schema says what clients send, and lets them leave out arguments; that a server serves such a call is our reading"
        ),
        partly_server="Tried with one tool that works with an empty object; a call without a name belongs to ER-04",
        fix="Send the name of the tool, and arguments as an object or not at all.",
    ),
    _rule(
        id="TL-03",
        level="MUST",
        basis="schema",
        side="server",
        title="A tool result has content, an array that may be empty; isError is a boolean",
        fix="Respond to tools/call with content, an array; isError, if present, is true or false.",
    ),
    _rule(id="TL-04", level="SHOULD", side="server", title="A call of an unknown tool is an error, not a failed tool"),
    _rule(
        id="TL-05",
        level="SHOULD",
        side="server",
        title="A tool that fails returns a result with isError, not an error",
        partly="Only tools with the names that test servers use for failures: fail, boom, test_error_handling",
    ),
    _rule(
        id="TL-06",
        level="SHOULD",
        side="server",
        title="Invalid arguments are reported with isError, so that a model can correct them",
        since="2025-11-25",
        lenient="An example in the schema answers invalid arguments with -32602, against the page: it counts as a warning",
    ),
    _rule(
        id="TL-07",
        level="SHOULD",
        side="client",
        title="The text of a failed tool is passed to the model",
        since="2025-11-25",
        untestable="What a model gets does not go over the wire",
    ),
    _rule(
        id="TL-08",
        level="MUST",
        side="client",
        title="Tool annotations are untrusted hints, with defaults for missing ones",
        since="2025-03-26",
        untestable=_INSIDE,
    ),
    _rule(
        id="TL-09",
        level="SHOULD",
        basis="schema",
        side="client",
        title="A tool is displayed by its title, else by the title in its annotations, else by its name",
        since="2025-06-18",
        untestable="What a client displays does not go over the wire",
    ),
    _rule(
        id="TL-10",
        level="MUST",
        side="server",
        title="A tool with an outputSchema returns structuredContent that matches it, unless it fails",
        since="2025-06-18",
        partly=(
            "One set of arguments for each tool that may be called; a tool cannot be made to break its schema from outside."
            " More than the type and the required members is checked only with twopipes[validate]"
        ),
        fix="Validate the output of a tool against its outputSchema before you send it; return isError if that fails.",
    ),
    _rule(
        id="TL-11",
        level="MUST",
        basis="schema",
        side="server",
        title="An outputSchema describes an object, and structuredContent is an object",
        since="2025-06-18",
        until="2025-11-25",
        fix="Make structuredContent an object in this revision; wrap a list or a number in a member.",
    ),
    _rule(
        id="TL-12",
        level="MUST",
        basis="schema",
        title="An outputSchema may describe any value, and structuredContent may be any JSON value, including null",
        since="2026-07-28",
        partly_server="Only if a tool that may be called has such an output",
        partly_client="Only that the client continues; whether the value reaches the caller is not visible",
    ),
    _rule(
        id="TL-13",
        level="SHOULD",
        side="server",
        title="Structured output is also in a text block, as JSON",
        since="2025-06-18",
    ),
    _rule(
        id="TL-14",
        level="SHOULD",
        side="client",
        title="The client validates structured output against the schema of the tool",
        since="2025-06-18",
        untestable=_INSIDE,
    ),
    _rule(
        id="TL-15",
        level="SHOULD",
        side="server",
        title="Tool names have 1 to 128 of the characters A-Z a-z 0-9 _ - . and are unique and case-sensitive",
        since="2025-11-25",
        fix="Name tools with 1 to 128 of the characters A-Z a-z 0-9 _ - . and use each name once.",
    ),
    _rule(
        id="TL-16",
        level="SHOULD",
        side="server",
        title="Tools are listed in the same order every time, as long as they are the same",
        since="2026-07-28",
    ),
    _rule(
        id="TL-17",
        level="SHOULD",
        side="server",
        title="A server with tools.listChanged announces changes of its tools; in modern revisions only to listens",
        partly=("The list of a server cannot be changed from outside: this needs a tool named mutate, as test servers have it"),
    ),
    _rule(
        id="TL-18",
        level="MAY",
        side="client",
        title="Over stdio, an invalid x-mcp-header in the schema of one tool does not affect the other tools",
        since="2026-07-28",
        lenient="Over stdio a client may ignore the annotation or leave out that tool: both are accepted",
    ),
    _rule(
        id="TL-19",
        level="SHOULD",
        side="client",
        title=("Tools of the same name from several servers are distinguished, and not by the name that a server gives itself"),
        since="2026-07-28",
        untestable="It needs a client with several servers at once; the check gives it one",
    ),
    _rule(
        id="TL-20",
        level="MUST",
        side="server",
        title="Arguments are validated before use: hostile ones are rejected, and the server continues",
        partly="Four kinds of arguments to one tool; rate limits and the handling of outputs are not judged",
    ),
    _rule(
        id="TL-21",
        level="MUST",
        basis="schema",
        side="server",
        title="execution.taskSupport, if present, is forbidden, optional or required",
        since="2025-11-25",
        until="2025-11-25",
    ),
    _rule(
        id="TL-22",
        level="SHOULD",
        basis="inference",
        side="client",
        title="Unknown keywords of a schema reach the user of the tool",
        since="2025-11-25",
        untestable=_INSIDE,
        lenient="No sentence says what a client does with unknown keywords",
    ),
)
