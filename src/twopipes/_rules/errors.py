"""Error codes."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic")
_server = partial(_rule, side="server")
_legacy = partial(_rule, until="2025-11-25")
_modern = partial(_rule, since="2026-07-28")

RULES = {
    "ER-01": _rule(
        must="A line that is not JSON is answered with -32700",
        basis="inference",
        untestable_client="A broken line from a server may have been meant as a response, and responses are not answered",
        lenient=(
            "JSON-RPC requires the error with the id null, and MCP has no such id: up to 2025-06-18 every error needs an id,"
            " later it is left out if it could not be read. So silence is a warning, and up to 2025-06-18 it is accepted"
        ),
        fix="Respond to a line that is not JSON with the error -32700, without an id.",
    ),
    "ER-02": _rule(
        must="JSON that is not a request is answered with -32600",
        basis="json-rpc",
        lenient=(
            "JSON-RPC has an example with the id null: -32600 is accepted with the id of the message, with null, and without an id"
        ),
        partly_server=(
            "Tried with a number as the method, and without a method; there silence is accepted, because the line may have"
            " been a response"
        ),
        partly_client="A client that stays silent is accepted: it may treat the line as noise",
        fix="Respond with the error -32600, and with the id if it could be read.",
    ),
    "ER-03": _rule(
        must="An unknown method, or a method of an undeclared feature, is rejected with -32601",
        basis="json-rpc",
        partly_server="Of undeclared features, the lists of tools, prompts and resources are tried",
        partly_client="One unknown method is tried; undeclared features belong to ER-15 and CP-02",
        fix="Respond to an unknown or undeclared method with the error -32601.",
    ),
    "ER-04": _server(
        should="Unknown names and invalid params are rejected with -32602",
        page="server/tools",
        fix="Reject unknown names and invalid params with -32602; isError is for tools that failed.",
    ),
    "ER-05": _rule(
        should="An internal failure, other than a failed tool, is reported as -32603",
        page="server/resources",
        untestable_client="A client cannot be made to fail from outside while it answers",
        partly_server="Only listed resources that fail by themselves; of the codes, only -32700 and 0 are certainly wrong",
        fix="Respond with -32603 if the source of a resource fails.",
    ),
    "ER-06": _modern(
        must="From -32099 to -32020, only codes that the specification defines are used, each for its purpose",
        untestable_client="A client sends no errors in modern revisions",
        fix="From -32099 to -32020, use only -32021 and -32022, each for its purpose.",
    ),
    "ER-07": _modern(
        should="Custom codes are outside the reserved range, and unknown codes inside it are treated as plain errors",
        lenient=(
            "Only new implementations must avoid -32019 to -32000, and their age is not visible from outside: those codes are"
            " accepted"
        ),
        fix="Choose custom codes outside -32768 to -32000.",
    ),
    "ER-08": _modern(
        must="-32002 and -32042 are no longer used",
        side="server",
        fix="Use -32602 for a resource that does not exist, and a result of type input_required for a URL to visit.",
    ),
    "ER-09": _modern(
        must="-32022 names the supported versions and the requested one",
        side="server",
        modern_page="basic/versioning",
        partly="Whether every listed version is served is not tried",
        fix="Put the versions that you serve into data.supported, and the requested one into data.requested.",
    ),
    "ER-10": _modern(
        must="-32021 names the required client capabilities, as an object of capabilities",
        side="server",
        fix="Put an object of client capabilities into data.requiredCapabilities.",
    ),
    "ER-11": _server(
        may="-32042 lists the URLs that the user must visit first, and is used for nothing else",
        page="client/elicitation",
        since="2025-11-25",
        until="2025-11-25",
        # Using the code is optional (MAY); its purpose and its data are a MUST.
        must_since="2025-11-25",
        partly="Tried with a tool, a prompt and a method that do not exist",
        fix="Use -32042 only for URLs that the user must visit first; list them in data.elicitations like questions.",
    ),
    "ER-12": _legacy(
        should="A resource that does not exist is rejected with -32002",
        side="server",
        page="server/resources",
        fix="Respond with the error -32002.",
    ),
    "ER-13": _modern(
        must="A resource that does not exist is rejected with -32602",
        side="server",
        page="server/resources",
        fix="Respond with the error -32602.",
    ),
    "ER-14": _modern(
        should="-32002 from an older server is understood as not found",
        side="client",
        page="server/resources",
        untestable="How a client interprets a code is visible to its user, not to the server",
    ),
    "ER-15": _legacy(
        should="Refused sampling is -1, unsupported roots are -32601, an internal failure is -32603",
        side="client",
        page="client/sampling",
        partly="Only undeclared roots; a refusal by the user belongs to SA-10, and a failure cannot be caused from outside",
        fix="Reject what you did not declare with the error -32601.",
    ),
    "ER-16": _rule(
        should="A timeout or a closed pipe is never reported as an error response of the peer",
        basis="inference",
        untestable="How a failure is reported to the caller does not go over the wire",
        lenient="The page of the modern revision mentions it; the others are silent",
    ),
    "ER-17": _modern(
        should="If two things are wrong, the outer one is reported: shape, _meta, version, method, params, capability",
        basis="inference",
        side="server",
        lenient="The text does not say which of two faults is reported",
        fix="Check the shape first, then _meta, the version, the method, the params, and the capabilities last.",
    ),
}
