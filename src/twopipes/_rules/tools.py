"""Tools."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/tools")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")
_INSIDE = "It happens inside the client, and does not go over the wire"

RULES = {
    "TL-01": _server(
        must='Each tool has a name, and an inputSchema with "type":"object"',
        basis="schema",
        fix='Give every tool a name, and an inputSchema with "type": "object".',
    ),
    "TL-02": _rule(
        must="A call has the name of its tool, and arguments as an object or none; a call without arguments is served",
        basis="schema",
        inferred_for="server",
        lenient=(
            "The schema says what clients send, and lets them leave out arguments; that a server serves such a call is our reading"
        ),
        partly_server="Tried with one tool that works with an empty object; a call without a name belongs to ER-04",
        fix="Send arguments as an object or not at all; a server treats missing arguments as an empty object.",
    ),
    "TL-03": _server(
        must="A tool result has content, an array that may be empty; isError is a boolean",
        basis="schema",
        fix="Respond to tools/call with content, an array; isError, if present, is true or false.",
    ),
    "TL-04": _server(
        should="A call of an unknown tool is an error, not a failed tool",
        fix="Respond with -32602: no tool has failed, the request is wrong.",
    ),
    "TL-05": _server(
        should="A tool that fails returns a result with isError, not an error",
        partly="Only tools with the names that test servers use for failures: fail, boom, test_error_handling",
        fix="Catch the exceptions of a tool, and return content that describes the failure, with isError set to true.",
    ),
    "TL-06": _server(
        should="Invalid arguments are reported with isError, so that a model can correct them",
        since="2025-11-25",
        lenient="An example in the schema answers invalid arguments with -32602, against the page: it counts as a warning",
        fix="Return content that describes what is wrong with the arguments, with isError set to true.",
    ),
    "TL-07": _client(
        should="The text of a failed tool is passed to the model",
        since="2025-11-25",
        untestable="What a model gets does not go over the wire",
    ),
    "TL-08": _client(
        must="Tool annotations are untrusted hints, with defaults for missing ones",
        since="2025-03-26",
        untestable=_INSIDE,
    ),
    "TL-09": _client(
        should="A tool is displayed by its title, else by the title in its annotations, else by its name",
        basis="schema",
        since="2025-06-18",
        untestable="What a client displays does not go over the wire",
    ),
    "TL-10": _server(
        must="A tool with an outputSchema returns structuredContent that matches it, unless it fails",
        since="2025-06-18",
        partly=(
            "One set of arguments for each tool that may be called; a tool cannot be made to break its schema from outside."
            " More than the type and the required members is checked only with twopipes[validate]"
        ),
        fix="Validate the output of a tool against its outputSchema before you send it; return isError if that fails.",
    ),
    "TL-11": _server(
        must="An outputSchema describes an object, and structuredContent is an object",
        basis="schema",
        since="2025-06-18",
        until="2025-11-25",
        fix="Make structuredContent an object, and outputSchema its schema: wrap a list or a number in a member.",
    ),
    "TL-12": _rule(
        must="An outputSchema may describe any value, and structuredContent may be any JSON value, including null",
        basis="schema",
        since="2026-07-28",
        partly_server="Only if a tool that may be called has such an output",
        partly_client="Only that the client continues; whether the value reaches the caller is not visible",
        fix="Accept any schema as outputSchema, and any JSON value that matches it as structuredContent.",
    ),
    "TL-13": _server(
        should="Structured output is also in a text block, as JSON",
        since="2025-06-18",
        fix="Add a text block with the structured value as JSON, for clients that do not know structuredContent.",
    ),
    "TL-14": _client(
        should="The client validates structured output against the schema of the tool",
        since="2025-06-18",
        untestable=_INSIDE,
    ),
    "TL-15": _server(
        should="Tool names have 1 to 128 of the characters A-Z a-z 0-9 _ - . and are unique and case-sensitive",
        since="2025-11-25",
        fix="Name tools with 1 to 128 of the characters A-Z a-z 0-9 _ - . and use each name once; compare names exactly.",
    ),
    "TL-16": _server(
        should="Tools are listed in the same order every time, as long as they are the same",
        since="2026-07-28",
        fix="List tools in the order of their registration, or sorted by name; a set has no order.",
    ),
    "TL-17": _server(
        should="A server with tools.listChanged announces changes of its tools; in modern revisions only to listens",
        partly=("The list of a server cannot be changed from outside: this needs a tool named mutate, as test servers have it"),
        fix="Announce changes, in modern revisions only to listens that ask for them, or do not declare listChanged.",
    ),
    "TL-18": _client(
        may="Over stdio, an invalid x-mcp-header in the schema of one tool does not affect the other tools",
        since="2026-07-28",
        lenient="Over stdio a client may ignore the annotation or leave out that tool: both are accepted",
        fix="Read x-mcp-header only over HTTP; elsewhere ignore it, or leave out that tool alone.",
    ),
    "TL-19": _client(
        should="Tools of the same name from several servers are distinguished, and not by the name that a server gives itself",
        since="2026-07-28",
        untestable="It needs a client with several servers at once; the check gives it one",
    ),
    "TL-20": _server(
        must="Arguments are validated before use: hostile ones are rejected, and the server continues",
        partly="Four kinds of arguments to one tool; rate limits and the handling of outputs are not judged",
        fix="Check arguments against the schema of the tool first, with limits for depth and size, and reject invalid ones.",
    ),
    "TL-21": _server(
        must="execution.taskSupport, if present, is forbidden, optional or required",
        basis="schema",
        since="2025-11-25",
        until="2025-11-25",
        fix="Set execution.taskSupport to forbidden, optional or required, or leave execution out.",
    ),
    "TL-22": _client(
        should="Unknown keywords of a schema reach the user of the tool",
        basis="inference",
        since="2025-11-25",
        untestable=_INSIDE,
        lenient="No sentence says what a client does with unknown keywords",
    ),
}
