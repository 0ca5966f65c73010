"""Capabilities."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/lifecycle", modern_page="basic/versioning")

RULES = (
    _rule(
        id="CP-01",
        level="MUST",
        side="server",
        title="A server declares what it has: tools, prompts, resources, logging, and completions where there is a word for it",
        fix="Declare the capability for what you serve, or do not serve it.",
    ),
    _rule(
        id="CP-02",
        level="MUST",
        side="client",
        title="A client declares what it answers: roots, sampling, elicitation; and answers nothing else",
    ),
    _rule(
        id="CP-03",
        level="MUST",
        basis="schema",
        title="Capabilities are objects, and the flags in them are true or false",
        lenient="Objects of capabilities are open: flags that a revision does not know are let pass",
        partly="Only the capabilities and flags that the protocol knows",
        fix="Make each capability an object, and its flags true or false.",
    ),
    _rule(
        id="CP-04",
        level="MUST",
        since="2025-11-25",
        page="client/elicitation",
        modern_page="client/elicitation",
        title="An elicitation capability with nothing in it means forms alone; whoever declares it can show one of the two kinds",
        partly_server="Only that nobody who takes forms is sent to an address, and that this is refused with -32021 if stateless",
    ),
    _rule(
        id="CP-05",
        level="MUST",
        basis="schema",
        since="2025-11-25",
        page="client/sampling",
        modern_page="client/sampling",
        title="sampling.tools and sampling.context are objects; without the first, no tools are handed to the client's model",
        partly_server="Only tools; context belongs to SA-08",
        partly_client="Only the shape of what is declared; that tools are refused otherwise belongs to SA-05",
    ),
    _rule(
        id="CP-06",
        level="MUST",
        side="server",
        since="2026-07-28",
        title="A request that needs what its client did not declare is refused with -32021",
    ),
    _rule(
        id="CP-07",
        level="MUST",
        since="2026-07-28",
        title="Extensions are declared by names with a prefix, each with an object of settings",
        fix="Name an extension with a prefix, such as com.example/thing, and give it an object of settings.",
    ),
    _rule(
        id="CP-08", level="MUST", since="2026-07-28", title="Nothing of an extension is used that the other side did not declare"
    ),
    _rule(id="CP-09", level="MUST", basis="schema", title="Capabilities that nobody knows are accepted, and change nothing"),
)
