"""Elicitation: questions to the user."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="client/elicitation", since="2025-06-18")

RULES = (
    _rule(
        id="EL-01",
        level="MUST",
        side="server",
        title="A form has a message and a flat schema of an object",
        fix="Ask with a message and a requestedSchema of type object whose properties are plain values.",
    ),
    _rule(
        id="EL-02",
        level="MUST",
        side="server",
        basis="schema",
        title="Fields of a form are texts, numbers, yes-or-no and choices, with the limits that belong to them",
    ),
    _rule(
        id="EL-03",
        level="MUST",
        side="server",
        basis="schema",
        title="In 2025-06-18 a form has texts, numbers, yes-or-no, and single choices as enum and enumNames; no lists of choices",
        until="2025-06-18",
        lenient="Fields are open objects: a default that 2025-06-18 does not know does no harm, and is let pass",
    ),
    _rule(
        id="EL-04",
        level="MAY",
        basis="schema",
        title="All ways to write choices and defaults are understood, and the answers fit them",
        since="2025-11-25",
        untestable_server="It permits something; whether the choices are well made is judged by EL-02",
    ),
    _rule(
        id="EL-05",
        level="SHOULD",
        side="client",
        title="Forms are filled in with their defaults beforehand",
        since="2025-11-25",
        partly="What the user sees is not seen; only whether any default comes back where fields were left as they were",
        lenient="It is said of clients that support defaults, which nothing declares: who fills in all forms alike is passed over",
    ),
    _rule(
        id="EL-06",
        level="MUST",
        side="client",
        basis="schema",
        title="An answer says accept, decline or cancel, and has content only if a form was accepted",
        fix="Answer with accept, decline or cancel; content goes with accept alone.",
    ),
    _rule(id="EL-07", level="MUST", side="client", title="A question without a mode is a form", since="2025-11-25"),
    _rule(
        id="EL-08",
        level="MUST",
        side="server",
        title="Nobody is asked in a mode that the client did not declare; on the stateless wire, -32021 where it cannot go on",
        since="2025-11-25",
    ),
    _rule(
        id="EL-09",
        level="MUST",
        side="client",
        title="A question in a mode that was not declared is answered with -32602",
        since="2025-11-25",
        until="2025-11-25",
    ),
    _rule(
        id="EL-10",
        level="MUST",
        side="server",
        basis="schema",
        title="A question with an address has url and message, and in 2025-11-25, but not later, an elicitationId",
        since="2025-11-25",
    ),
    _rule(
        id="EL-11",
        level="MUST",
        side="client",
        basis="schema",
        title="Whoever accepts an address agrees to go there; no content comes with it",
        since="2025-11-25",
    ),
    _rule(
        id="EL-12",
        level="MAY",
        # Nobody has to tell of it; whoever does has to name the question, and whoever hears of another has to ignore it.
        must_since="2025-11-25",
        title="The end of a visit is told with the id of a question that this client was asked; unknown ids are ignored",
        since="2025-11-25",
        until="2025-11-25",
    ),
    _rule(
        id="EL-13",
        level="MUST",
        side="server",
        title="Secrets are not asked for by forms, and addresses do not carry any",
        partly=(
            "Only names of fields, and of parameters in addresses, that mean nothing but a secret; what is asked for in other"
            " words, and what lets somebody in by other means, is not seen; nor is https wanted"
        ),
    ),
    _rule(
        id="EL-14",
        level="MUST",
        side="client",
        title="An address is not opened or looked up before the user agrees",
        since="2025-11-25",
        partly="What is shown is not seen; nor, where the user agrees, whether the page was opened before that",
    ),
    _rule(
        id="EL-15",
        level="SHOULD",
        must_since="2026-07-28",
        side="server",
        title="A user who declines or cancels, and a client that fails, are dealt with",
    ),
    _rule(
        id="EL-16",
        level="SHOULD",
        title="What a form is filled in with fits its schema, and the server makes sure of it",
        partly_server="Only a word where a number belongs, and only where the result tells whether it was taken",
        partly_client="Only what the user of this run fills in",
    ),
)
