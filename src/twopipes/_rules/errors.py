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
        title="A line that is not JSON is answered with -32700",
        untestable_client="A broken line from a server may have been meant as a response, and responses are not answered",
        lenient=(
            "JSON-RPC wants the error with the id null, and MCP has no such id: up to 2025-06-18 every error needs an id,"
            " later it is left out if it could not be read. So silence is a warning, and up to 2025-06-18 it is accepted"
        ),
        fix="Respond to a line that is not JSON with the error -32700, without an id.",
    ),
    _rule(
        id="ER-02",
        level="MUST",
        basis="json-rpc",
        title="JSON that is not a request is answered with -32600",
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
    _rule(
        id="ER-03",
        level="MUST",
        basis="json-rpc",
        title="An unknown method, or a method of an undeclared feature, is rejected with -32601",
        partly_server="Of undeclared features, the lists of tools, prompts and resources are tried",
        partly_client="One unknown method is tried; undeclared features belong to ER-15 and CP-02",
        fix="Respond to an unknown or undeclared method with the error -32601.",
    ),
    _rule(
        id="ER-04",
        level="SHOULD",
        side="server",
        title="Unknown names and invalid params are rejected with -32602",
        page="server/tools",
        fix="Reject unknown names and invalid params with -32602; isError is for tools that failed.",
    ),
    _rule(
        id="ER-05",
        level="SHOULD",
        title="An internal failure, other than a failed tool, is reported as -32603",
        page="server/resources",
        untestable_client="A client cannot be made to fail from outside while it answers",
        partly_server="Only listed resources that fail by themselves; of the codes, only -32700 and 0 are certainly wrong",
        fix="Respond with -32603 if the source of a resource fails.",
    ),
    _modern(
        id="ER-06",
        level="MUST",
        title="From -32099 to -32020, only codes that the specification defines are used, each for its purpose",
        untestable_client="A client sends no errors in modern revisions",
        fix="From -32099 to -32020, use only -32021 and -32022, each for its purpose.",
    ),
    _modern(
        id="ER-07",
        level="SHOULD",
        title="Custom codes are outside the reserved range, and unknown codes inside it are treated as plain errors",
        lenient=(
            "Only new implementations must avoid -32019 to -32000, and their age is not visible from outside: those codes are"
            " accepted"
        ),
        fix="Choose custom codes outside -32768 to -32000.",
    ),
    _modern(
        id="ER-08",
        level="MUST",
        side="server",
        title="-32002 and -32042 are no longer used",
        fix="Use -32602 for a resource that does not exist, and a result of type input_required for a URL to visit.",
    ),
    _modern(
        id="ER-09",
        level="MUST",
        side="server",
        title="-32022 names the supported versions and the requested one",
        modern_page="basic/versioning",
        partly="Whether every listed version is served is not tried",
        fix="Put the versions that you serve into data.supported, and the requested one into data.requested.",
    ),
    _modern(
        id="ER-10",
        level="MUST",
        side="server",
        title="-32021 names the required client capabilities, as an object of capabilities",
        fix="Put an object of client capabilities into data.requiredCapabilities.",
    ),
    _rule(
        id="ER-11",
        level="MAY",
        side="server",
        title="-32042 lists the URLs that the user must visit first, and is used for nothing else",
        page="client/elicitation",
        since="2025-11-25",
        until="2025-11-25",
        # Using the code is optional (MAY); its purpose and its data are a MUST.
        must_since="2025-11-25",
        partly="Tried with a tool, a prompt and a method that do not exist",
        fix="Use -32042 only for URLs that the user must visit first; list them in data.elicitations like questions.",
    ),
    _legacy(
        id="ER-12",
        level="SHOULD",
        side="server",
        title="A resource that does not exist is rejected with -32002",
        page="server/resources",
        fix="Respond with the error -32002.",
    ),
    _modern(
        id="ER-13",
        level="MUST",
        side="server",
        title="A resource that does not exist is rejected with -32602",
        page="server/resources",
        fix="Respond with the error -32602.",
    ),
    _modern(
        id="ER-14",
        level="SHOULD",
        side="client",
        title="-32002 from an older server is understood as not found",
        page="server/resources",
        untestable="How a client interprets a code is visible to its user, not to the server",
    ),
    _legacy(
        id="ER-15",
        level="SHOULD",
        side="client",
        title="Refused sampling is -1, unsupported roots are -32601, an internal failure is -32603",
        page="client/sampling",
        partly="Only undeclared roots; a refusal by the user belongs to SA-10, and a failure cannot be caused from outside",
        fix="Reject what you did not declare with the error -32601.",
    ),
    _rule(
        id="ER-16",
        level="SHOULD",
        basis="inference",
        title="A timeout or a closed pipe is never reported as an error response of the peer",
        untestable="How a failure is reported to the caller does not go over the wire",
        lenient="The page of the modern revision mentions it; the others are silent",
    ),
    _modern(
        id="ER-17",
        level="SHOULD",
        basis="inference",
        side="server",
        title="If two things are wrong, the outer one is reported: shape, _meta, version, method, params, capability",
        lenient="The text does not say which of two faults is reported",
        fix="Check the shape first, then _meta, the version, the method, the params, and the capabilities last.",
    ),
)
