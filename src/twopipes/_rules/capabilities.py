"""Capabilities."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/lifecycle", modern_page="basic/versioning")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "CP-01": _server(
        must=(
            "A server declares every feature it has: tools, prompts, resources, logging, and completions where that"
            " capability exists"
        ),
        fix="Declare the capability of each feature that you serve, or do not serve it.",
    ),
    "CP-02": _client(
        must="A client declares what it can answer (roots, sampling, elicitation), and answers nothing else",
        fix="Declare each capability that you answer for, and reject the other questions.",
    ),
    "CP-03": _rule(
        must="Capabilities are objects, and their flags are true or false",
        basis="schema",
        lenient="Capability objects are open: flags that a revision does not define are accepted",
        partly="Only the capabilities and flags that the protocol defines",
        fix="Make each capability an object, and its flags true or false.",
    ),
    "CP-04": _rule(
        must="An empty elicitation capability means forms only; a client that declares elicitation supports at least one mode",
        since="2025-11-25",
        page="client/elicitation",
        modern_page="client/elicitation",
        partly_server=(
            "Only that a client with forms is not asked to visit a URL, and that a modern server rejects such a call with -32021"
        ),
        fix="Send URLs only to clients that declare elicitation.url, or reject with -32021; declare only modes that you support.",
    ),
    "CP-05": _rule(
        must=(
            "sampling.tools and sampling.context are objects; without sampling.tools, the server offers no tools to the"
            " client's model"
        ),
        basis="schema",
        since="2025-11-25",
        page="client/sampling",
        modern_page="client/sampling",
        partly_server="Only tools; context belongs to SA-08",
        partly_client="Only the shape of the declaration; rejecting undeclared tools belongs to SA-05",
        fix="Send tools and toolChoice only if sampling.tools is declared; declare tools and context as objects.",
    ),
    "CP-06": _server(
        must="A request that needs a capability its client did not declare is rejected with -32021",
        since="2026-07-28",
        fix="Do without the capability, or reject the call with -32021 and data.requiredCapabilities.",
    ),
    "CP-07": _rule(
        must="Extensions are declared by names with a prefix, each with an object of settings",
        since="2026-07-28",
        fix="Give the extension a name with a prefix, such as com.example/thing, and an object of settings.",
    ),
    "CP-08": _rule(
        must="No part of an extension is used unless the other side declared it",
        since="2026-07-28",
        fix="Use an extension only if the other side lists it in its extensions.",
    ),
    "CP-09": _rule(
        must="Unknown capabilities are accepted, and change nothing",
        basis="schema",
        fix="Read the capabilities that you know, and ignore all others.",
    ),
}
