"""Tools."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/tools")
_INSIDE = "It happens inside the client, and nothing of it crosses the wire"

RULES = (
    _rule(
        id="TL-01",
        level="MUST",
        basis="schema",
        side="server",
        title='Each tool has a name, and an inputSchema that says "type":"object"',
        fix='Give every tool a name, and an inputSchema with "type": "object".',
    ),
    _rule(
        id="TL-02",
        level="MUST",
        basis="schema",
        title="A call names its tool, and its arguments, where there are any, are an object; without them it is served as well",
        inferred_for="server",
        lenient=(
            "The schema says what clients send, and lets them leave arguments out; that a server serves such a call is our reading"
        ),
        partly_server="Tried with one tool that works with an empty object; a call without a name belongs to ER-04",
        fix="Send the tool's name, and arguments as an object or not at all.",
    ),
    _rule(
        id="TL-03",
        level="MUST",
        basis="schema",
        side="server",
        title="The result of a tool has content, an array, even if it is empty; isError is a boolean",
        fix="Answer tools/call with content, an array; isError, if it is there, is true or false.",
    ),
    _rule(id="TL-04", level="SHOULD", side="server", title="A call of a tool that is not there is an error, and not a failed tool"),
    _rule(
        id="TL-05",
        level="SHOULD",
        side="server",
        title="A tool that fails answers with a result that has isError, and not an error",
        partly="Only tools that are called as test servers call those that fail: fail, boom, test_error_handling",
    ),
    _rule(
        id="TL-06",
        level="SHOULD",
        side="server",
        title="Arguments that the tool cannot take are told by isError, so that a model can mend them",
        since="2025-11-25",
        lenient="An example of the schema answers wrong arguments with -32602, against the page: it counts as a warning",
    ),
    _rule(
        id="TL-07",
        level="SHOULD",
        side="client",
        title="What a failed tool says is given to the model",
        since="2025-11-25",
        untestable="What a model is given does not cross the wire",
    ),
    _rule(
        id="TL-08",
        level="MUST",
        side="client",
        title="The annotations of tools are hints that nobody relies on, with defaults for those that are missing",
        since="2025-03-26",
        untestable=_INSIDE,
    ),
    _rule(
        id="TL-09",
        level="SHOULD",
        basis="schema",
        side="client",
        title="A tool is shown by its title, else by the title of its annotations, else by its name",
        since="2025-06-18",
        untestable="What a client shows to people does not cross the wire",
    ),
    _rule(
        id="TL-10",
        level="MUST",
        side="server",
        title="A tool with an outputSchema gives structuredContent that fits it, unless it fails",
        since="2025-06-18",
        partly=(
            "One set of arguments for each tool that may be called; nobody outside can make a tool break its promise. More than"
            " the type and the required members is seen with twopipes[validate] alone"
        ),
        fix=("Check what a tool returns against its outputSchema before it is sent; answer with isError where that fails."),
    ),
    _rule(
        id="TL-11",
        level="MUST",
        basis="schema",
        side="server",
        title="An outputSchema describes an object, and structuredContent is one",
        since="2025-06-18",
        until="2025-11-25",
        fix="Let structuredContent be an object in this revision; put a list or a number into a member of one.",
    ),
    _rule(
        id="TL-12",
        level="MUST",
        basis="schema",
        title="An outputSchema may describe anything, and structuredContent may be any JSON value, null included, as it is",
        since="2026-07-28",
        partly_server="Only where a tool that may be called has such an output",
        partly_client="Only that the client goes on; whether the value reaches whoever made the call is not seen",
    ),
    _rule(
        id="TL-13",
        level="SHOULD",
        side="server",
        title="Structured output stands in a block of text as well, as JSON",
        since="2025-06-18",
    ),
    _rule(
        id="TL-14",
        level="SHOULD",
        side="client",
        title="The client checks structured output against the tool's schema",
        since="2025-06-18",
        untestable=_INSIDE,
    ),
    _rule(
        id="TL-15",
        level="SHOULD",
        side="server",
        title="Names of tools are 1 to 128 of A-Z a-z 0-9 _ - . and unique, and upper case is not lower case",
        since="2025-11-25",
        fix="Name tools by 1 to 128 of A-Z a-z 0-9 _ - . and each name once.",
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
        title="A server that has declared listChanged tells when its tools change; on the stateless wire only those who listen",
        partly="Nobody outside can change the list of a server: it takes a tool by the name of mutate, as test servers have it",
    ),
    _rule(
        id="TL-18",
        level="MAY",
        side="client",
        title="A wrong x-mcp-header in one tool's schema is no reason, over stdio, to do without the other tools",
        since="2026-07-28",
        lenient="Over stdio a client may overlook the annotation; whether it does, or leaves that tool out, is let pass",
    ),
    _rule(
        id="TL-19",
        level="SHOULD",
        side="client",
        title="Tools of the same name from several servers are told apart, and not by the name that a server gives itself",
        since="2026-07-28",
        untestable="It takes a client that has several servers at once; the check gives it one",
    ),
    _rule(
        id="TL-20",
        level="MUST",
        side="server",
        title="Arguments are checked before they are used: hostile ones are refused, and the server goes on",
        partly="Four kinds of arguments to one tool; rate limits, and what is done to outputs, are not judged",
    ),
    _rule(
        id="TL-21",
        level="MUST",
        basis="schema",
        side="server",
        title="execution.taskSupport, where a tool has it, is forbidden, optional or required",
        since="2025-11-25",
        until="2025-11-25",
    ),
    _rule(
        id="TL-22",
        level="SHOULD",
        basis="inference",
        side="client",
        title="Keywords of a schema that the client does not know reach whoever uses the tool",
        since="2025-11-25",
        untestable=_INSIDE,
        lenient="No sentence says what a client does with keywords that it does not know",
    ),
)
