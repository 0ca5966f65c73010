"""Prompts."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/prompts")

RULES = (
    _rule(
        id="PM-01",
        level="MUST",
        basis="schema",
        side="server",
        title="A listed prompt has a name, and so have its arguments; what else is said of those is of the right type",
        fix="Give each prompt a name, and each of its arguments a name.",
    ),
    _rule(
        id="PM-02",
        level="MUST",
        basis="schema",
        title="A prompt is asked for by its name, and its arguments are strings; others are refused",
        inferred_for="server",
        lenient=(
            "The schema says what clients send, and the page that prompt inputs are validated; with which code a server refuses"
            " an argument that is no string is not said here (see ER-04): any error will do"
        ),
        partly_client="Only arguments that the client gives; it cannot be made to give any",
        partly_server="Tried with an object for one argument; a number, which may be taken for its digits, is not sent",
        fix="Send every argument of a prompt as a string, also one that means a number.",
    ),
    _rule(
        id="PM-03",
        level="MUST",
        basis="schema",
        side="server",
        title="A prompt is an array of messages, each with a role (user or assistant) and exactly one block of content",
        fix="Answer with messages, each with the role user or assistant and one block of content.",
    ),
    _rule(
        id="PM-04",
        level="SHOULD",
        side="server",
        title="A prompt that is not there, or a required argument that is missing, is refused with -32602",
        partly="Failures inside (-32603) are not tried: nobody outside can make a prompt fail",
    ),
    _rule(
        id="PM-05",
        level="SHOULD",
        side="server",
        title="A server that has declared listChanged tells when its prompts change; on the stateless wire only those who listen",
        partly=(
            "Nobody outside can change the list of a server: it takes a tool by the name of mutate_prompts, as test servers have it"
        ),
    ),
    _rule(
        id="PM-06",
        level="MUST",
        side="server",
        title="A resource in a prompt has its URI and a text or a blob (a missing MIME type is not counted: the schema lets it be)",
        lenient="The page wants a MIME type, the schema does not: a missing one is let pass",
    ),
    _rule(
        id="PM-07",
        level="MAY",
        side="server",
        title="A prompt may be answered with a question",
        since="2026-07-28",
        untestable="It permits something; how such a question must look is said by the rules of section MR",
    ),
)
