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
        title=(
            "A server declares every feature it has: tools, prompts, resources, logging, and completions where that"
            " capability exists"
        ),
        fix="Declare the capability of each feature that you serve, or do not serve it.",
    ),
    _rule(
        id="CP-02",
        level="MUST",
        side="client",
        title="A client declares what it can answer (roots, sampling, elicitation), and answers nothing else",
        fix="Declare each capability that you answer for, and reject the other questions.",
    ),
    _rule(
        id="CP-03",
        level="MUST",
        basis="schema",
        title="Capabilities are objects, and their flags are true or false",
        lenient="Capability objects are open: flags that a revision does not define are accepted",
        partly="Only the capabilities and flags that the protocol defines",
        fix="Make each capability an object, and its flags true or false.",
    ),
    _rule(
        id="CP-04",
        level="MUST",
        since="2025-11-25",
        page="client/elicitation",
        modern_page="client/elicitation",
        title=("An empty elicitation capability means forms only; a client that declares elicitation supports at least one mode"),
        partly_server=(
            "Only that a client with forms is not asked to visit a URL, and that a modern server rejects such a call with -32021"
        ),
        fix="Send URLs only to clients that declare elicitation.url, or reject with -32021; declare only modes that you support.",
    ),
    _rule(
        id="CP-05",
        level="MUST",
        basis="schema",
        since="2025-11-25",
        page="client/sampling",
        modern_page="client/sampling",
        title=(
            "sampling.tools and sampling.context are objects; without sampling.tools, the server offers no tools to the"
            " client's model"
        ),
        partly_server="Only tools; context belongs to SA-08",
        partly_client="Only the shape of the declaration; rejecting undeclared tools belongs to SA-05",
        fix="Send tools and toolChoice only if sampling.tools is declared; declare tools and context as objects.",
    ),
    _rule(
        id="CP-06",
        level="MUST",
        side="server",
        since="2026-07-28",
        title="A request that needs a capability its client did not declare is rejected with -32021",
        fix="Do without the capability, or reject the call with -32021 and data.requiredCapabilities.",
    ),
    _rule(
        id="CP-07",
        level="MUST",
        since="2026-07-28",
        title="Extensions are declared by names with a prefix, each with an object of settings",
        fix="Give the extension a name with a prefix, such as com.example/thing, and an object of settings.",
    ),
    _rule(
        id="CP-08",
        level="MUST",
        since="2026-07-28",
        title="No part of an extension is used unless the other side declared it",
        fix="Use an extension only if the other side lists it in its extensions.",
    ),
    _rule(
        id="CP-09",
        level="MUST",
        basis="schema",
        title="Unknown capabilities are accepted, and change nothing",
        fix="Read the capabilities that you know, and ignore all others.",
    ),
)
