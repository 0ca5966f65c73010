"""Tools."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/tools")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")
_INSIDE = "It happens inside the client, and does not go over the wire"

RULES = (
    _server(
        id="TL-01",
        level="MUST",
        basis="schema",
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
        fix="Send arguments as an object or not at all; a server treats missing arguments as an empty object.",
    ),
    _server(
        id="TL-03",
        level="MUST",
        basis="schema",
        title="A tool result has content, an array that may be empty; isError is a boolean",
        fix="Respond to tools/call with content, an array; isError, if present, is true or false.",
    ),
    _server(
        id="TL-04",
        level="SHOULD",
        title="A call of an unknown tool is an error, not a failed tool",
        fix="Respond with -32602: no tool has failed, the request is wrong.",
    ),
    _server(
        id="TL-05",
        level="SHOULD",
        title="A tool that fails returns a result with isError, not an error",
        partly="Only tools with the names that test servers use for failures: fail, boom, test_error_handling",
        fix="Catch the exceptions of a tool, and return content that describes the failure, with isError set to true.",
    ),
    _server(
        id="TL-06",
        level="SHOULD",
        title="Invalid arguments are reported with isError, so that a model can correct them",
        since="2025-11-25",
        lenient="An example in the schema answers invalid arguments with -32602, against the page: it counts as a warning",
        fix="Return content that describes what is wrong with the arguments, with isError set to true.",
    ),
    _client(
        id="TL-07",
        level="SHOULD",
        title="The text of a failed tool is passed to the model",
        since="2025-11-25",
        untestable="What a model gets does not go over the wire",
    ),
    _client(
        id="TL-08",
        level="MUST",
        title="Tool annotations are untrusted hints, with defaults for missing ones",
        since="2025-03-26",
        untestable=_INSIDE,
    ),
    _client(
        id="TL-09",
        level="SHOULD",
        basis="schema",
        title="A tool is displayed by its title, else by the title in its annotations, else by its name",
        since="2025-06-18",
        untestable="What a client displays does not go over the wire",
    ),
    _server(
        id="TL-10",
        level="MUST",
        title="A tool with an outputSchema returns structuredContent that matches it, unless it fails",
        since="2025-06-18",
        partly=(
            "One set of arguments for each tool that may be called; a tool cannot be made to break its schema from outside."
            " More than the type and the required members is checked only with twopipes[validate]"
        ),
        fix="Validate the output of a tool against its outputSchema before you send it; return isError if that fails.",
    ),
    _server(
        id="TL-11",
        level="MUST",
        basis="schema",
        title="An outputSchema describes an object, and structuredContent is an object",
        since="2025-06-18",
        until="2025-11-25",
        fix="Make structuredContent an object, and outputSchema its schema: wrap a list or a number in a member.",
    ),
    _rule(
        id="TL-12",
        level="MUST",
        basis="schema",
        title="An outputSchema may describe any value, and structuredContent may be any JSON value, including null",
        since="2026-07-28",
        partly_server="Only if a tool that may be called has such an output",
        partly_client="Only that the client continues; whether the value reaches the caller is not visible",
        fix="Accept any schema as outputSchema, and any JSON value that matches it as structuredContent.",
    ),
    _server(
        id="TL-13",
        level="SHOULD",
        title="Structured output is also in a text block, as JSON",
        since="2025-06-18",
        fix="Add a text block with the structured value as JSON, for clients that do not know structuredContent.",
    ),
    _client(
        id="TL-14",
        level="SHOULD",
        title="The client validates structured output against the schema of the tool",
        since="2025-06-18",
        untestable=_INSIDE,
    ),
    _server(
        id="TL-15",
        level="SHOULD",
        title="Tool names have 1 to 128 of the characters A-Z a-z 0-9 _ - . and are unique and case-sensitive",
        since="2025-11-25",
        fix="Name tools with 1 to 128 of the characters A-Z a-z 0-9 _ - . and use each name once; compare names exactly.",
    ),
    _server(
        id="TL-16",
        level="SHOULD",
        title="Tools are listed in the same order every time, as long as they are the same",
        since="2026-07-28",
        fix="List tools in the order of their registration, or sorted by name; a set has no order.",
    ),
    _server(
        id="TL-17",
        level="SHOULD",
        title="A server with tools.listChanged announces changes of its tools; in modern revisions only to listens",
        partly=("The list of a server cannot be changed from outside: this needs a tool named mutate, as test servers have it"),
        fix="Announce changes, in modern revisions only to listens that ask for them, or do not declare listChanged.",
    ),
    _client(
        id="TL-18",
        level="MAY",
        title="Over stdio, an invalid x-mcp-header in the schema of one tool does not affect the other tools",
        since="2026-07-28",
        lenient="Over stdio a client may ignore the annotation or leave out that tool: both are accepted",
        fix="Read x-mcp-header only over HTTP; elsewhere ignore it, or leave out that tool alone.",
    ),
    _client(
        id="TL-19",
        level="SHOULD",
        title=("Tools of the same name from several servers are distinguished, and not by the name that a server gives itself"),
        since="2026-07-28",
        untestable="It needs a client with several servers at once; the check gives it one",
    ),
    _server(
        id="TL-20",
        level="MUST",
        title="Arguments are validated before use: hostile ones are rejected, and the server continues",
        partly="Four kinds of arguments to one tool; rate limits and the handling of outputs are not judged",
        fix="Check arguments against the schema of the tool first, with limits for depth and size, and reject invalid ones.",
    ),
    _server(
        id="TL-21",
        level="MUST",
        basis="schema",
        title="execution.taskSupport, if present, is forbidden, optional or required",
        since="2025-11-25",
        until="2025-11-25",
        fix="Set execution.taskSupport to forbidden, optional or required, or leave execution out.",
    ),
    _client(
        id="TL-22",
        level="SHOULD",
        basis="inference",
        title="Unknown keywords of a schema reach the user of the tool",
        since="2025-11-25",
        untestable=_INSIDE,
        lenient="No sentence says what a client does with unknown keywords",
    ),
)
