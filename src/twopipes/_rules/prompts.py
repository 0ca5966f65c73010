"""Prompts."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/prompts")
_server = partial(_rule, side="server")

RULES = {
    "PM-01": _server(
        must="A listed prompt has a name, and so have its arguments; the other members have the right types",
        basis="schema",
        fix="Make name, title and description strings and required a boolean; every prompt and argument needs a name.",
    ),
    "PM-02": _rule(
        must="prompts/get has a name, and its arguments are strings; other arguments are rejected",
        basis="schema",
        inferred_for="server",
        lenient=(
            "The schema says what clients send, and the page says that prompt inputs are validated. The code for an argument"
            " that is not a string is not specified (see ER-04): any error is accepted"
        ),
        partly_client="Only arguments that the client sends; it cannot be made to send any",
        partly_server="Tried with an object as one argument; a number, which may be read as its digits, is not sent",
        fix="Send every argument of a prompt as a string, even a number; a server rejects other types with -32602.",
    ),
    "PM-03": _server(
        must="A prompt result is an array of messages, each with a role (user or assistant) and exactly one content block",
        basis="schema",
        fix="Respond with messages, each with the role user or assistant and one content block.",
    ),
    "PM-04": _server(
        should="An unknown prompt, or a missing required argument, is rejected with -32602",
        partly="Internal failures (-32603) are not tried: a prompt cannot be made to fail from outside",
        fix="Respond with -32602, and name in its message what is missing.",
    ),
    "PM-05": _server(
        should="A server with prompts.listChanged announces changes of its prompts; in modern revisions only to listens",
        partly=(
            "The list of a server cannot be changed from outside: this needs a tool named mutate_prompts, as test servers have it"
        ),
        fix="Announce changes, in modern revisions only to listens that ask for them, or do not declare listChanged.",
    ),
    "PM-06": _server(
        must="A resource in a prompt has a URI, and text or a blob",
        lenient="The page requires a MIME type, the schema does not: a missing one is accepted",
        fix="Embed resources with uri, mimeType and text (or blob, in base64).",
    ),
    "PM-07": _server(
        may="prompts/get may return a result that asks for input",
        since="2026-07-28",
        untestable="It is a permission; the rules of section MR say how such a result must look",
    ),
}
