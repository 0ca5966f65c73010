"""HTTP in modern revisions: the headers that repeat a request, and the statuses of errors."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from msgspec.json import encode

from twopipes._codes import CAPABILITY_MISSING, HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_REVISION
from twopipes._http.headers import InvalidAnnotation, encode_value, param_headers
from twopipes._protocol.revisions import LEGACY, META_CAPABILITIES, META_VERSION, MODERN
from twopipes._tools.check.http.setups import (
    BAD_REQUEST,
    NOT_FOUND,
    ask,
    expect_mismatch,
    http_of,
    is_refused,
    repeated_calls,
    sent,
    speaks_legacy,
)
from twopipes._tools.check.messages import members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.verdict import Quote

_UNKNOWN = "1999-12-31"
_NO_METHOD = "twopipes/none"
_CALLS = 8


@probe("HT-52", "HT-54", "HT-55", needs="http", revisions=MODERN, judged=False)
async def modern_versions_are_checked(case: Case) -> None:
    """Sends requests whose version is unknown, missing in the headers, or another one there."""
    both = await ask(case, case.harmless, meta={META_VERSION: _UNKNOWN})
    is_right = both.status == BAD_REQUEST and both.code == UNSUPPORTED_REVISION
    case.expect("HT-52", is_right, f"the version {_UNKNOWN} got {both.summary} instead of 400 with -32022", about=both)
    missing = await ask(case, case.harmless, headers={"MCP-Protocol-Version": None})
    what = "a modern request without MCP-Protocol-Version"
    if is_refused(missing) and await speaks_legacy(case):
        case.expect("HT-54", True)
    else:
        expect_mismatch(case, "HT-54", missing, what)
    for version in (LEGACY[-1], _UNKNOWN):
        other = await ask(case, case.harmless, headers={"MCP-Protocol-Version": version})
        is_right = other.status == BAD_REQUEST and other.code in {HEADER_MISMATCH, UNSUPPORTED_REVISION}
        # A server of both eras may choose the era by the header, and then rejects a legacy request without a session.
        is_right |= version in LEGACY and is_refused(other) and await speaks_legacy(case)
        why = f"a request of {case.revision} with MCP-Protocol-Version {version} got {other.summary} instead of 400 with -32020"
        case.expect("HT-55", is_right, why, about=other)


@probe("HT-56", "HT-57", needs="http", revisions=MODERN, judged=False)
async def errors_have_their_status(case: Case) -> None:
    """Sends an unknown method, and requests whose _meta lacks something."""
    unknown = await ask(case, _NO_METHOD)
    is_right = unknown.status == NOT_FOUND and unknown.code == METHOD_NOT_FOUND
    case.expect("HT-56", is_right, f"an unknown method got {unknown.summary} instead of 404 with -32601", about=unknown)
    for missing, accepted in ((META_CAPABILITIES, {INVALID_PARAMS}), (META_VERSION, {INVALID_PARAMS, HEADER_MISMATCH})):
        message = case.conversation.message(case.harmless)
        del message["params"]["_meta"][missing]
        exchange = await sent(case, message)
        why = f"a request without {missing} got {exchange.summary} instead of 400 with -32602"
        case.expect("HT-57", exchange.status == BAD_REQUEST and exchange.code in accepted, why, about=exchange)


@probe("HT-58", needs=("http", "call"), revisions=MODERN, judged=False)
async def missing_capabilities_get_400(case: Case) -> None:
    """Calls tools as a client without capabilities, and looks at the status of -32021."""
    for call in sorted(case.safe_calls, key=lambda call: call.name not in {"ask", "ask_url", "sample", "roots_tool"})[:_CALLS]:
        exchange = await ask(case, "tools/call", call.params)
        # A stream that has begun cannot change its status.
        if exchange.code == CAPABILITY_MISSING and not exchange.is_stream:
            why = f"the error -32021 has the status {exchange.status} instead of 400"
            case.expect("HT-58", exchange.status == BAD_REQUEST, why, about=exchange)
    if not case.verdicts:
        case.give_up("no tool that may be called needs an undeclared capability")


@probe("HT-62", "HT-65", needs="http", revisions=MODERN, judged=False)
async def methods_are_compared(case: Case) -> None:
    """Sends requests whose Mcp-Method is missing, another one, or written in another case."""
    expect_mismatch(case, "HT-62", await ask(case, case.harmless, headers={"Mcp-Method": None}), "a request without Mcp-Method")
    other = await ask(case, case.harmless, headers={"Mcp-Method": "tools/call"})
    expect_mismatch(case, "HT-62", other, f"{case.harmless} with the Mcp-Method tools/call")
    upper = await ask(case, case.harmless, headers={"Mcp-Method": case.harmless.upper()})
    expect_mismatch(case, "HT-65", upper, f"{case.harmless} with the Mcp-Method {case.harmless.upper()}")
    headers = http_of(case).headers_for(case.conversation.message(case.harmless))
    for change in (str.upper, str.lower):
        renamed: dict[str, str | None] = {change(name): value for name, value in headers.items()}
        exchange = await ask(case, case.harmless, headers=renamed)
        why = f"a request whose headers have names like {change('Mcp-Method')} got {exchange.summary}"
        case.expect("HT-65", exchange.is_result, why, about=exchange)


def _named_requests(case: Case) -> list[tuple[str, dict[str, Any], str]]:
    """Return harmless requests that have a name: method, params and the name."""
    found: list[tuple[str, dict[str, Any], str]] = [("resources/read", {"uri": uri}, uri) for uri in case.features.uris[:1]]
    for prompt in case.features.prompts:
        if isinstance(name := prompt.get("name"), str) and not prompt.get("arguments"):
            found.append(("prompts/get", {"name": name}, name))
            break
    found += [("tools/call", call.params, call.name) for call in case.safe_calls[:1]]
    return found


@probe("HT-63", "HT-64", needs="http", revisions=MODERN, judged=False)
async def names_are_compared(case: Case) -> None:
    """Sends a read, a prompt and a call whose Mcp-Name is missing, another one, or encoded."""
    for method, params, name in _named_requests(case):
        missing = await ask(case, method, params, headers={"Mcp-Name": None})
        expect_mismatch(case, "HT-63", missing, f"{method} without Mcp-Name")
        other = await ask(case, method, params, headers={"Mcp-Name": "twopipes-other"})
        expect_mismatch(case, "HT-63", other, f"{method} with the Mcp-Name of another one")
        in_base64 = f"=?base64?{b64encode(name.encode()).decode()}?="
        exchange = await ask(case, method, params, headers={"Mcp-Name": in_base64})
        why = f"{method} with its Mcp-Name in base64 got {exchange.summary}"
        case.expect("HT-64", exchange.code != HEADER_MISMATCH, why, about=exchange)


@probe("HT-66", needs=("http", "tools"), revisions=MODERN)
async def header_annotations_are_valid(case: Case) -> None:
    """Reads x-mcp-header in the schemas of all tools."""
    if not any(b'"x-mcp-header"' in encode(tool) for tool in case.features.tools):
        case.give_up("no tool has x-mcp-header")
    for tool in case.features.tools:
        why = ""
        try:
            param_headers(tool.get("inputSchema"))
        except InvalidAnnotation as error:
            why = str(error)
        case.expect("HT-66", not why, f"tool {tool.get('name')}: {why}", about=Quote(received=(encode(tool),)))


@probe("HT-73", "HT-74", "HT-75", "HT-76", needs=("http", "call"), revisions=MODERN, judged=False)
async def repeated_arguments_are_compared(case: Case) -> None:
    """Calls tools with arguments whose Mcp-Param is missing, another one, malformed, or another form of the same number."""
    for repeated in repeated_calls(case):
        name, params = repeated.header.name, repeated.with_value(repeated.value)
        missing = await ask(case, "tools/call", params, headers={name: None})
        expect_mismatch(case, "HT-73", missing, f"a call without {name}")
        other = await ask(case, "tools/call", params, headers={name: "7" if repeated.kind == "integer" else "twopipes-other"})
        expect_mismatch(case, "HT-73", other, f"a call with another {name}")
        malformed = await ask(case, "tools/call", params, headers={name: "=?base64?***?="})
        expect_mismatch(case, "HT-75", malformed, f"a call whose {name} is not base64")
        for absent in (repeated.with_value(None), _without(params, repeated.header.path)):
            exchange = await ask(case, "tools/call", absent, headers={name: None})
            why = f"a call without an argument got {exchange.summary} because of the missing {name}"
            case.expect("HT-74", exchange.code != HEADER_MISMATCH, why, about=exchange)
        if repeated.kind == "integer":
            exchange = await ask(case, "tools/call", params, headers={name: f"{repeated.value}.0"})
            why = f"a call with {repeated.value} and {name}: {repeated.value}.0 got {exchange.summary}"
            case.expect("HT-76", exchange.code != HEADER_MISMATCH, why, about=exchange)


def _without(params: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    arguments = {**params["arguments"]}
    if len(path) == 1:
        arguments.pop(path[0], None)
    else:
        inner = members(arguments.get(path[0]))
        arguments[path[0]] = {key: value for key, value in inner.items() if key != path[1]}
    return {**params, "arguments": arguments}


@probe("HT-64", needs=("http", "call"), revisions=MODERN, judged=False)
async def encoded_arguments_are_decoded(case: Case) -> None:
    """Calls tools with a text argument that a header can contain only in base64."""
    for repeated in repeated_calls(case):
        if repeated.kind == "string" and repeated.value == "text":
            for value in ("Zürich", " padded ", "=?base64?text?="):
                exchange = await ask(case, "tools/call", repeated.with_value(value))
                why = f"a call with {value!r} and {repeated.header.name}: {encode_value(value)} got {exchange.summary}"
                case.expect("HT-64", exchange.code != HEADER_MISMATCH, why, about=exchange)


@probe("HT-77", needs="http", revisions=MODERN, judged=False)
async def unknown_arguments_are_ignored(case: Case) -> None:
    """Sends a Mcp-Param header that no tool has."""
    for method, params, _name in _named_requests(case)[-1:] or [(case.harmless, {}, "")]:
        exchange = await ask(case, method, params, headers={"Mcp-Param-Twopipes-Unknown": "text"})
        why = f"{method} with a Mcp-Param that it does not have got {exchange.summary}"
        case.expect("HT-77", exchange.is_result, why, about=exchange)
