"""Streamable HTTP: the headers that repeat a message, and the statuses of errors."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import LATEST_LEGACY, MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/transports", modern_page="basic/transports/streamable-http", since="2025-06-18")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")
_modern = partial(_rule, since=MODERN[0])
_modern_server = partial(_modern, side="server")
_modern_client = partial(_modern, side="client")

_NO_TOOL = "Needs a tool with x-mcp-header that may be called"

RULES = {
    # The version
    "HT-50": _client(
        must="Every request after the handshake, and every modern one, has the header MCP-Protocol-Version",
        fix="Send MCP-Protocol-Version with every POST, GET and DELETE, except the POST of initialize.",
    ),
    "HT-51": _client(
        should="MCP-Protocol-Version is the version that was negotiated, or the one in the body of a modern request",
        must_since=MODERN[0],
        fix="Take the header from the result of initialize, or from the _meta of the request that is sent.",
    ),
    "HT-52": _server(
        must="A version that the server does not support gets 400, in modern revisions with the error -32022",
        fix="Respond with 400 if MCP-Protocol-Version names a version that you do not support; name the supported ones in -32022.",
    ),
    "HT-53": _server(
        should="A legacy request without MCP-Protocol-Version is served by the version of its session, or as 2025-03-26",
        until=LATEST_LEGACY,
        fix="Without the header, use the version that was negotiated in the session.",
    ),
    "HT-54": _modern_server(
        must="A modern request without MCP-Protocol-Version is rejected with 400 and -32020",
        lenient="A server that speaks a legacy revision may take it for one of 2025-03-26, so any 4xx status is accepted there",
        fix="Respond with 400 and the error -32020 if the header is missing.",
    ),
    "HT-55": _modern_server(
        must="A modern request whose MCP-Protocol-Version differs from its body is rejected with 400 and -32020",
        lenient=(
            "If one of the two is a version that the server does not support, -32022 is accepted as well; a server of both eras"
            " may take a request with a legacy version in the header for a legacy one, and reject it with any 4xx status"
        ),
        fix="Compare the header with the protocolVersion in _meta.",
    ),
    # Statuses
    "HT-56": _modern_server(
        must="An unknown method gets 404 with the error -32601",
        fix="Respond with the status 404 if the error is -32601.",
    ),
    "HT-57": _modern_server(
        must="A request without the required members of _meta gets 400 with the error -32602",
        modern_page="basic",
        fix="Respond with the status 400 if the version or the capabilities are missing in _meta.",
    ),
    "HT-58": _modern_server(
        must="A request without a client capability that it needs gets 400 with the error -32021",
        modern_page="basic",
        fix="Respond with the status 400 if the error is -32021.",
    ),
    # Method and name
    "HT-59": _modern_client(
        must="Each modern request has its method in the header Mcp-Method",
        fix="Send Mcp-Method with the method of the body.",
    ),
    "HT-60": _modern_client(
        must="Calls, reads and prompts have the name or the URI in the header Mcp-Name",
        fix="Send Mcp-Name with params.name of tools/call and prompts/get, and with params.uri of resources/read.",
    ),
    "HT-61": _modern_client(
        must="A value that is not safe in a header is sent as =?base64?...?=, and so is one that looks like that",
        fix="Encode values with characters outside 0x20 to 0x7E, with spaces at an end, or of the form =?base64?...?=.",
    ),
    "HT-62": _modern_server(
        must="A request whose Mcp-Method is missing or differs from its body is rejected with 400 and -32020",
        fix="Compare Mcp-Method with the method of the body, before the request is served.",
    ),
    "HT-63": _modern_server(
        must="A call, read or prompt whose Mcp-Name is missing or differs from its body is rejected with 400 and -32020",
        fix="Compare Mcp-Name with params.name or params.uri, before the request is served.",
    ),
    "HT-64": _modern_server(
        must="Values of Mcp-Name and Mcp-Param are decoded before they are compared",
        fix="Decode a value of the form =?base64?...?= to UTF-8, and compare the result with the body.",
    ),
    "HT-65": _rule(
        must="Names of headers are compared without case, their values with it",
        since=MODERN[0],
        fix="Look headers up in lower case, and compare their values exactly.",
    ),
    # x-mcp-header
    "HT-66": _modern_server(
        must="x-mcp-header is a unique token, at a property of type string, integer or boolean that is reached by properties alone",
        modern_page="server/tools",
        fix="Use letters, digits and hyphens, each name once, at plain properties: not in items, anyOf, $ref or a number.",
    ),
    "HT-67": _modern_server(
        should="Sensitive parameters have no x-mcp-header",
        modern_page="server/tools",
        untestable="Which parameters are sensitive is not visible",
        fix="Remove x-mcp-header from passwords, keys and personal data: proxies log headers.",
    ),
    "HT-68": _modern_client(
        must="Arguments with x-mcp-header are sent as Mcp-Param headers: text as it is, decimal integers, true or false",
        fix="Read the inputSchema of the tool, and send each annotated argument as Mcp-Param-NAME.",
    ),
    "HT-69": _modern_client(
        must="An argument that is missing or null has no Mcp-Param header",
        fix="Leave the header out if the argument is not given, or is null.",
    ),
    "HT-70": _modern_client(
        must="A tool with an invalid x-mcp-header is left out, and the others are used",
        modern_page="server/tools",
        fix="Validate x-mcp-header when tools are listed, and drop the tools that break a rule of it.",
    ),
    "HT-71": _modern_client(
        should="A dropped tool is logged with the reason",
        modern_page="server/tools",
        untestable="Logs of a client are not visible",
        fix="Log a warning with the name of the tool and what is wrong with its x-mcp-header.",
    ),
    "HT-72": _modern_client(
        should="After -32020 a client lists the tools again, and retries with the headers of the new schema",
        fix="On -32020 for a call, send tools/list, build the Mcp-Param headers from the result, and send the call once more.",
    ),
    "HT-73": _modern_server(
        must="A Mcp-Param header that differs from its argument, or is missing although the argument is given, gets 400 and -32020",
        partly=_NO_TOOL,
        fix="Compare each annotated argument with its header, before the tool is called.",
    ),
    "HT-74": _modern_server(
        must="An argument that is missing or null needs no Mcp-Param header",
        partly=_NO_TOOL,
        fix="Expect a header only for arguments that are given and not null.",
    ),
    "HT-75": _modern_server(
        must="A Mcp-Param header with invalid characters gets 400 and -32020",
        partly=_NO_TOOL,
        fix="Reject values outside 0x20 to 0x7E and tab, and values of the form =?base64?...?= that are not base64 of UTF-8.",
    ),
    "HT-76": _modern_server(
        should="Integers in Mcp-Param headers are compared as numbers",
        partly=_NO_TOOL,
        fix="Parse the header of an integer argument as a number: 42.0 equals 42.",
    ),
    "HT-77": _modern_server(
        should="A Mcp-Param header that no tool asks for is ignored",
        basis="inference",
        lenient="The text binds intermediaries; a server that rejects unknown headers breaks clients with an older list of tools",
        fix="Look only at the headers that the schema of the tool names.",
    ),
}
