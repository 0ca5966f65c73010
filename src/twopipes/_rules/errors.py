"""Error codes."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")
_legacy = partial(_rule, until="2025-11-25")
_modern = partial(_rule, since="2026-07-28")

RULES = (
    _rule(
        id="ER-01",
        level="MUST",
        basis="inference",
        title="A line that is no JSON is answered with -32700",
        untestable_client="A broken line of a server may have been meant as an answer, and nobody answers those",
        lenient=(
            "JSON-RPC wants the error with the id null, and MCP knows no such id: up to 2025-06-18 each error has to have"
            " one, later it is left out where it could not be read. So silence is a warning, and up to 2025-06-18 nothing"
        ),
    ),
    _rule(
        id="ER-02",
        level="MUST",
        basis="json-rpc",
        title="JSON that is no request is answered with -32600",
        lenient="JSON-RPC has an example with the id null: -32600 is taken with the id of the message, with null, and without",
        partly_server=(
            "Tried with a number for a method, and without a method, where silence is let pass: it may have been an answer"
        ),
        partly_client="A client that stays silent is let pass: the line may have been noise to it",
    ),
    _rule(
        id="ER-03",
        level="MUST",
        basis="json-rpc",
        title="A method that is not there, or belongs to a feature that was not declared, is answered with -32601",
        partly_server="Of features that were not declared, the lists of tools, prompts and resources are tried",
        partly_client="One method that does not exist is tried; what was not declared belongs to ER-15 and CP-02",
    ),
    _rule(
        id="ER-04",
        level="SHOULD",
        side="server",
        title="Unknown names and wrong params are answered with -32602",
        page="server/tools",
    ),
    _rule(
        id="ER-05",
        level="SHOULD",
        title="A failure inside, other than that of a tool, is answered with -32603",
        page="server/resources",
        untestable_client="Nobody outside can make a client fail while it answers",
        partly_server="Only listed resources that fail of themselves; and of the codes, -32700 and 0 alone are surely not meant",
    ),
    _modern(
        id="ER-06",
        level="MUST",
        title="Of the codes from -32099 to -32020, only those that the specification defines are used, each for its own purpose",
        untestable_client="A client sends no errors on the stateless wire",
        fix="Of -32020 to -32099 use -32021 and -32022 alone, each for what it means.",
    ),
    _modern(
        id="ER-07",
        level="SHOULD",
        title="Codes of one's own lie outside of the reserved range, and nobody reads more than an error into those inside",
        lenient=(
            "New implementations alone are to stay out of -32019 to -32000, and nobody can tell from outside how old one"
            " is: those codes are let pass"
        ),
        fix="Choose codes of your own outside of -32768 to -32000.",
    ),
    _modern(
        id="ER-08",
        level="MUST",
        side="server",
        title="-32002 and -32042 are not used any more",
        fix="Use -32602 for a resource that is not there, and a result of type input_required for an address to visit.",
    ),
    _modern(
        id="ER-09",
        level="MUST",
        side="server",
        title="-32022 says which versions are supported, and which was asked for",
        modern_page="basic/versioning",
        partly="Whether all versions that it lists are served is not tried",
        fix="Put the versions that you serve into data.supported, and the one that was asked for into data.requested.",
    ),
    _modern(
        id="ER-10",
        level="MUST",
        side="server",
        title="-32021 says which client capabilities are required, as an object of capabilities",
        fix="Put an object of client capabilities into data.requiredCapabilities.",
    ),
    _rule(
        id="ER-11",
        level="MAY",
        side="server",
        title="-32042 lists the addresses that the user must visit first, and is used for nothing else",
        page="client/elicitation",
        since="2025-11-25",
        until="2025-11-25",
        # That it may be used at all is the MAY; how, and for what, is a MUST.
        must_since="2025-11-25",
        partly="Of what it is not for, a tool, a prompt and a method that do not exist are tried",
    ),
    _legacy(
        id="ER-12",
        level="SHOULD",
        side="server",
        title="A resource that is not there is answered with -32002",
        page="server/resources",
    ),
    _modern(
        id="ER-13",
        level="MUST",
        side="server",
        title="A resource that is not there is answered with -32602",
        page="server/resources",
    ),
    _modern(
        id="ER-14",
        level="SHOULD",
        side="client",
        title="-32002 of an older server is understood as not found",
        page="server/resources",
        untestable="What a client makes of a code, it tells its user and not the server",
    ),
    _legacy(
        id="ER-15",
        level="SHOULD",
        side="client",
        title="Refused sampling is -1, roots that are not supported -32601, a failure inside -32603",
        page="client/sampling",
        partly="Only roots that were not declared; a refusal of the user belongs to SA-10, and nobody outside can make it fail",
    ),
    _rule(
        id="ER-16",
        level="SHOULD",
        basis="inference",
        title="A timeout or a closed pipe is never shown as if the peer had answered with an error",
        untestable="How a failure is shown to whoever made the call does not go over the wire",
        lenient="The page of the stateless revision says so in passing; the others are silent",
    ),
    _modern(
        id="ER-17",
        level="SHOULD",
        basis="inference",
        side="server",
        title="Where two things are wrong, the outer one is told: shape, _meta, version, method, params, capability",
        lenient="Which of two faults is told is left open",
    ),
)
