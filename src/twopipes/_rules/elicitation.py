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
        title="A form has a message and a flat object schema",
        fix="Send a message, and a requestedSchema of type object whose properties are plain values.",
    ),
    _rule(
        id="EL-02",
        level="MUST",
        side="server",
        basis="schema",
        title="Form fields are strings, numbers, booleans and choices, with the constraints of their type",
        fix="Make each field a string, a number, an integer, a boolean or a choice of strings.",
    ),
    _rule(
        id="EL-03",
        level="MUST",
        side="server",
        basis="schema",
        title=(
            "In 2025-06-18 forms have strings, numbers, booleans, and single choices with enum and enumNames, but no multiple"
            " choices"
        ),
        until="2025-06-18",
        lenient="Field schemas are open objects: a default, which 2025-06-18 does not define, is accepted",
        fix="Use only the fields that the agreed revision has.",
    ),
    _rule(
        id="EL-04",
        level="MAY",
        basis="schema",
        title="All ways to write choices and defaults are understood, and the answers match them",
        since="2025-11-25",
        untestable_server="It is a permission; whether the choices are well formed is judged by EL-02",
        fix="Support enum, oneOf, enumNames and arrays of enum or anyOf; answer a multiple choice with an array.",
    ),
    _rule(
        id="EL-05",
        level="SHOULD",
        side="client",
        title="Forms are pre-filled with their defaults",
        since="2025-11-25",
        partly="What the user sees is not visible; only whether a default comes back for a field that was left unchanged",
        lenient=(
            "It applies to clients that support defaults, which no capability declares: a client that fills in every form the"
            " same way is not judged"
        ),
        fix="Fill in the defaults before the user sees the form, and send unchanged fields as well.",
    ),
    _rule(
        id="EL-06",
        level="MUST",
        side="client",
        basis="schema",
        title="An answer is accept, decline or cancel, and has content only if a form was accepted",
        fix="Answer with accept, decline or cancel; send content only with accept.",
    ),
    _rule(
        id="EL-07",
        level="MUST",
        side="client",
        title="A question without a mode is a form",
        since="2025-11-25",
        fix="Treat a question without a mode as a form.",
    ),
    _rule(
        id="EL-08",
        level="MUST",
        side="server",
        title=(
            "A server does not ask in a mode that the client did not declare; in a modern revision it sends -32021 if it"
            " cannot continue"
        ),
        since="2025-11-25",
        fix="Ask only in modes that the client declares ({} means forms); do without, or reject with -32021 if modern.",
    ),
    _rule(
        id="EL-09",
        level="MUST",
        side="client",
        title="A question in an undeclared mode is rejected with -32602",
        since="2025-11-25",
        until="2025-11-25",
        fix="Reject a question in an undeclared mode with -32602.",
    ),
    _rule(
        id="EL-10",
        level="MUST",
        side="server",
        basis="schema",
        title="A URL question has url and message; in 2025-11-25, but not later, it also has an elicitationId",
        since="2025-11-25",
        fix="Send mode, url and message; an elicitationId only in 2025-11-25.",
    ),
    _rule(
        id="EL-11",
        level="MUST",
        side="client",
        basis="schema",
        title="Accepting a URL means consent to visit it; the answer has no content",
        since="2025-11-25",
        fix='Answer with {"action": "accept"} and no content.',
    ),
    _rule(
        id="EL-12",
        level="MAY",
        # The notification is optional (MAY); its content, and ignoring unknown ids, are a MUST.
        must_since="2025-11-25",
        title=("notifications/elicitation/complete has the id of a question that this client was asked; unknown ids are ignored"),
        since="2025-11-25",
        until="2025-11-25",
        fix="Servers: send the elicitationId of a question to the client that was asked. Clients: ignore unknown ids.",
    ),
    _rule(
        id="EL-13",
        level="MUST",
        side="server",
        title="Forms do not ask for secrets, and URLs do not contain any",
        partly=(
            "Only names of fields and of URL parameters that clearly mean a secret. Other wordings and other kinds of"
            " credentials are not detected, and https is not required"
        ),
        fix="Ask for secrets on a page of your own, with a question in url mode, and put none into the URL.",
    ),
    _rule(
        id="EL-14",
        level="MUST",
        side="client",
        title="A URL is not opened or resolved before the user agrees",
        since="2025-11-25",
        partly="What the user sees is not visible; nor, if the user agrees, whether the page was opened earlier",
        fix="Show the URL, and open nothing before the user agrees, not even a preview.",
    ),
    _rule(
        id="EL-15",
        level="SHOULD",
        must_since="2026-07-28",
        side="server",
        title="The server handles a user who declines or cancels, and a client that fails",
        fix="Treat decline, cancel and errors as answers, and respond to the call.",
    ),
    _rule(
        id="EL-16",
        level="SHOULD",
        title="The content of a form matches its schema, and the server validates it",
        partly_server="Only a word in place of a number, and only if the result shows whether it was accepted",
        partly_client="Only what the user of this run enters",
        fix="Validate the content against requestedSchema. A server asks again or reports an error if it does not match.",
    ),
)
