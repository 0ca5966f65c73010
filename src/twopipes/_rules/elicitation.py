"""Elicitation: questions to the user."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="client/elicitation", since="2025-06-18")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "EL-01": _server(
        must="A form has a message and a flat object schema",
        fix="Send a message, and a requestedSchema of type object whose properties are plain values.",
    ),
    "EL-02": _server(
        must="Form fields are strings, numbers, booleans and choices, with the constraints of their type",
        basis="schema",
        fix="Make each field a string, a number, an integer, a boolean or a choice of strings.",
    ),
    "EL-03": _server(
        must=(
            "In 2025-06-18 forms have strings, numbers, booleans, and single choices with enum and enumNames, but no multiple"
            " choices"
        ),
        basis="schema",
        until="2025-06-18",
        lenient="Field schemas are open objects: a default, which 2025-06-18 does not define, is accepted",
        fix="Use only the fields that the agreed revision has.",
    ),
    "EL-04": _rule(
        may="All ways to write choices and defaults are understood, and the answers match them",
        basis="schema",
        since="2025-11-25",
        untestable_server="It is a permission; whether the choices are well formed is judged by EL-02",
        fix="Support enum, oneOf, enumNames and arrays of enum or anyOf; answer a multiple choice with an array.",
    ),
    "EL-05": _client(
        should="Forms are pre-filled with their defaults",
        since="2025-11-25",
        partly="What the user sees is not visible; only whether a default comes back for a field that was left unchanged",
        lenient=(
            "It applies to clients that support defaults, which no capability declares: a client that fills in every form the"
            " same way is not judged"
        ),
        fix="Fill in the defaults before the user sees the form, and send unchanged fields as well.",
    ),
    "EL-06": _client(
        must="An answer is accept, decline or cancel, and has content only if a form was accepted",
        basis="schema",
        fix="Answer with accept, decline or cancel; send content only with accept.",
    ),
    "EL-07": _client(
        must="A question without a mode is a form",
        since="2025-11-25",
        fix="Treat a question without a mode as a form.",
    ),
    "EL-08": _server(
        must=(
            "A server does not ask in a mode that the client did not declare; in a modern revision it sends -32021 if it"
            " cannot continue"
        ),
        since="2025-11-25",
        fix="Ask only in modes that the client declares ({} means forms); do without, or reject with -32021 if modern.",
    ),
    "EL-09": _client(
        must="A question in an undeclared mode is rejected with -32602",
        since="2025-11-25",
        until="2025-11-25",
        fix="Reject a question in an undeclared mode with -32602.",
    ),
    "EL-10": _server(
        must="A URL question has url and message; in 2025-11-25, but not later, it also has an elicitationId",
        basis="schema",
        since="2025-11-25",
        fix="Send mode, url and message; an elicitationId only in 2025-11-25.",
    ),
    "EL-11": _client(
        must="Accepting a URL means consent to visit it; the answer has no content",
        basis="schema",
        since="2025-11-25",
        fix='Answer with {"action": "accept"} and no content.',
    ),
    "EL-12": _rule(
        may="notifications/elicitation/complete has the id of a question that this client was asked; unknown ids are ignored",
        # The notification is optional (MAY); its content, and ignoring unknown ids, are a MUST.
        must_since="2025-11-25",
        since="2025-11-25",
        until="2025-11-25",
        fix="Servers: send the elicitationId of a question to the client that was asked. Clients: ignore unknown ids.",
    ),
    "EL-13": _server(
        must="Forms do not ask for secrets, and URLs do not contain any",
        partly=(
            "Only names of fields and of URL parameters that clearly mean a secret. Other wordings and other kinds of"
            " credentials are not detected, and https is not required"
        ),
        fix="Ask for secrets on a page of your own, with a question in url mode, and put none into the URL.",
    ),
    "EL-14": _client(
        must="A URL is not opened or resolved before the user agrees",
        since="2025-11-25",
        partly="What the user sees is not visible; nor, if the user agrees, whether the page was opened earlier",
        fix="Show the URL, and open nothing before the user agrees, not even a preview.",
    ),
    "EL-15": _server(
        should="The server handles a user who declines or cancels, and a client that fails",
        must_since="2026-07-28",
        fix="Treat decline, cancel and errors as answers, and respond to the call.",
    ),
    "EL-16": _rule(
        should="The content of a form matches its schema, and the server validates it",
        partly_server="Only a word in place of a number, and only if the result shows whether it was accepted",
        partly_client="Only what the user of this run enters",
        fix="Validate the content against requestedSchema. A server asks again or reports an error if it does not match.",
    ),
}
