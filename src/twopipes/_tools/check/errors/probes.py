"""Error codes of servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from twopipes._codes import (
    CAPABILITY_MISSING,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_REVISION,
    URLS_REQUIRED,
)
from twopipes._protocol.revisions import META_VERSION, RESERVED_CODES
from twopipes._tools.check.conversation import ALL_CAPABILITIES
from twopipes._tools.check.messages import Response, members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import required_of

_NO_METHOD = "twopipes-check/no-such-method"
_NO_NAME = "twopipes-check-no-such-name"
_NO_VERSION = "1900-01-01"
_CALLS = 8
_READS = 10
_LISTS = ("tools", "prompts", "resources")

_STANDARD = {-32700, -32600, -32601, -32602, -32603}
_PROTOCOL = range(-32099, -32019)
# Only new implementations must avoid these, and the age of an implementation is not visible.
_OLD_IMPLEMENTATIONS = range(-32019, -31999)
_DEFINED = {CAPABILITY_MISSING, UNSUPPORTED_REVISION}
_LEGACY = {RESOURCE_NOT_FOUND, URLS_REQUIRED}
# The purpose of a request: something unknown, and a resource in particular; a tool; a tool that asks for a URL visit.
_UNKNOWN, _MISSING, _CALLED, _VISIT = "unknown", "missing", "called", "visit"
# The codes of an unhandled exception; all others may be intended.
_UNINTENDED = {-32700, 0}


@probe("ER-03", "JR-08", "JR-16", "JR-17")
async def unknown_methods_are_rejected(case: Case) -> None:
    """Sends an unknown method, and the lists that the server does not declare."""
    conversation, before = case.conversation, case.conversation.position
    response = await conversation.try_request(_NO_METHOD)
    if response.silence:
        stray = [line for line in conversation.received_lines[before:] if any("error" in part for part in line.parts)]
        case.forbid("JR-17", stray, "an error lacks the id of its request, which could be read")
        for rule in ("JR-16", "ER-03"):
            case.expect(rule, False, "a request for an unknown method got no response")
        return
    case.expect("JR-16", response.error, f"an unknown method got {response.summary}", about=response)
    case.expect_code("ER-03", response, METHOD_NOT_FOUND, "an unknown method")
    case.expect("JR-17", True, "")
    if "error" in response.message:
        code, message = response.error.get("code"), response.error.get("message")
        is_right = isinstance(code, int) and not isinstance(code, bool) and isinstance(message, str)
        case.expect("JR-08", is_right, f"an error has the code {code!r} and the message {message!r}", about=response)
    for capability in _LISTS:
        if not case.features.has(capability):
            response = await conversation.request(f"{capability}/list")
            if response.error:  # serving an undeclared list is judged by CP-01
                case.expect_code("ER-03", response, METHOD_NOT_FOUND, f"{capability}/list, which was not declared,")


@probe("ER-04", silence_fails=True)
async def invalid_params_are_rejected(case: Case) -> None:
    """Sends unknown names, an unknown cursor and log level, and requests without their params."""
    async for what, response in _with_invalid_params(case):
        case.expect_code("ER-04", response, INVALID_PARAMS, what)
    if not case.verdicts:
        case.give_up("the server has neither tools nor prompts, nor pages, nor log levels")


async def _with_invalid_params(case: Case) -> AsyncIterator[tuple[str, Response]]:
    request, features = case.conversation.request, case.features
    if features.has("tools"):
        yield "a call of an unknown tool", await request("tools/call", {"name": _NO_NAME, "arguments": {}})
        yield "a tools/call without a name", await request("tools/call", {})
    if features.has("prompts"):
        yield "an unknown prompt", await request("prompts/get", {"name": _NO_NAME})
        if (prompt := next(filter(required_of, features.prompts), None)) is not None:
            name = prompt.get("name")
            yield f"the prompt {name!r} without its required arguments", await request("prompts/get", {"name": name})
            odd = {key: {"twopipes": ["check"]} for key in required_of(prompt)}
            response = await request("prompts/get", {"name": name, "arguments": odd})
            if response.error:  # serving it is judged by another rule
                yield f"the prompt {name!r} with objects as its arguments", response
    for capability in _LISTS:
        # A server without pages may ignore cursors.
        if features.has(capability) and "nextCursor" in (await request(f"{capability}/list")).result:
            yield f"{capability}/list with an unknown cursor", await request(f"{capability}/list", {"cursor": _NO_NAME})
            break
    if features.has("logging") and not case.is_modern:
        yield "an unknown log level", await request("logging/setLevel", {"level": _NO_NAME})


@probe("ER-05", needs="resources")
async def failing_resources_are_internal_errors(case: Case) -> None:
    """Reads the listed resources, and looks at the codes of those that fail."""
    for resource in case.features.resources[:_READS]:
        response = await case.conversation.request("resources/read", {"uri": resource.get("uri")})
        if response.error:
            why = f"reading the listed resource {resource.get('uri')!r} got {response.summary}"
            case.expect("ER-05", _code(response) not in _UNINTENDED, why, about=response)
    if not case.verdicts:
        case.give_up("no listed resource failed, and the check cannot make one fail")


@probe("ER-06", "ER-07", "ER-08")
async def codes_are_those_of_the_revision(case: Case) -> None:
    """Causes errors of all kinds, and looks for codes that are reserved or no longer used."""
    async for what, purpose, response in _errors_of_all_kinds(case):
        code = _code(response)
        got = f"{what} got the code {code}"
        if code in _LEGACY or purpose in {_MISSING, _VISIT}:  # the codes were never used for anything else
            case.expect("ER-08", code not in _LEGACY, f"{got}, which this revision no longer has", about=response)
        if not response.error:
            continue
        is_defined = code not in _PROTOCOL or code in _DEFINED
        case.expect("ER-06", is_defined, f"{got}, which is reserved and not defined for this transport", about=response)
        case.expect("ER-06", code != UNSUPPORTED_REVISION, f"{got}, but its version is supported", about=response)
        if purpose in {_UNKNOWN, _MISSING}:
            case.expect("ER-06", code != CAPABILITY_MISSING, f"{got}, but no capability is missing", about=response)
        is_free = code not in RESERVED_CODES or code in _STANDARD | _LEGACY or code in _PROTOCOL or code in _OLD_IMPLEMENTATIONS
        case.expect("ER-07", is_free, f"{got}, which is in the range that JSON-RPC reserves", about=response)
    case.give_up("there was neither an unknown resource nor a tool ask_url that asks for a URL visit")


def _code(response: Response) -> int | None:
    return response.code if isinstance(response.code, int) else None


async def _errors_of_all_kinds(case: Case) -> AsyncIterator[tuple[str, str, Response]]:
    """Yield what was tried, its purpose, and the error; for a URL visit, any response."""
    tried: list[tuple[str, str, str, dict[str, Any]]] = [("an unknown method", _UNKNOWN, _NO_METHOD, {})]
    if case.features.has("tools"):
        tried.append(("an unknown tool", _UNKNOWN, "tools/call", {"name": _NO_NAME, "arguments": {}}))
        safe = case.safe_calls
        # Also the tools with which test servers ask questions.
        calls = safe[:_CALLS] + [call for call in safe[_CALLS:] if call.name in {"ask", "ask_url", "sample"}]
        tried += [(f"{call.name!r}, for a client without capabilities,", _CALLED, "tools/call", call.params) for call in calls]
        tried += [(f"the tool {call.name!r}", _VISIT, "tools/call", call.params) for call in safe if call.name == "ask_url"]
    if case.features.has("prompts"):
        tried.append(("an unknown prompt", _UNKNOWN, "prompts/get", {"name": _NO_NAME}))
    if case.features.has("resources"):
        tried.append(("an unknown resource", _MISSING, "resources/read", {"uri": _unknown_uri(case)}))
    for what, purpose, method, params in tried:
        client_capabilities = ALL_CAPABILITIES if purpose == _VISIT else None
        response = await case.conversation.request(method, params, client_capabilities=client_capabilities)
        if response.error or purpose == _VISIT:
            yield what, purpose, response


@probe("ER-09")
async def unsupported_versions_are_named(case: Case) -> None:
    """Sends a request of a version that does not exist, and looks at the data of -32022."""
    response = await case.conversation.request(case.harmless, meta={META_VERSION: _NO_VERSION})
    if response.code != UNSUPPORTED_REVISION:
        case.give_up(f"a version that does not exist got {response.summary}, not -32022")
    data = members(response.error.get("data"))
    supported, requested = data.get("supported"), data.get("requested")
    is_list = isinstance(supported, list) and supported and all(isinstance(each, str) for each in supported)
    case.expect("ER-09", is_list, f"data.supported of -32022 is {supported!r}, not an array of versions", about=response)
    why = f"data.requested of -32022 is {requested!r}, although {_NO_VERSION!r} was requested"
    case.expect("ER-09", requested == _NO_VERSION, why, about=response)


@probe("ER-10", needs="call")
async def missing_capabilities_are_named(case: Case) -> None:
    """Calls tools as a client without capabilities, and looks at the data of -32021."""
    for call in sorted(case.safe_calls, key=lambda call: call.name not in {"ask", "ask_url", "sample", "roots_tool"})[:_CALLS]:
        response = await case.conversation.request("tools/call", call.params)
        if response.code == CAPABILITY_MISSING:
            required = members(response.error.get("data")).get("requiredCapabilities")
            is_right = isinstance(required, dict) and required and all(isinstance(each, dict) for each in required.values())
            case.expect("ER-10", is_right, f"data.requiredCapabilities of -32021 is {required!r}", about=response)
    if not case.verdicts:
        case.give_up("no tool that may be called needs an undeclared capability")


@probe("ER-11", needs="call", client_capabilities=ALL_CAPABILITIES)
async def required_urls_are_listed(case: Case) -> None:
    """Calls tools as a client that supports URLs, and looks at the data of -32042; unknown names must not get that code."""
    request = case.conversation.request
    for call in sorted(case.safe_calls, key=lambda call: call.name != "ask_url")[:_CALLS]:
        response = await request("tools/call", call.params)
        if response.code == URLS_REQUIRED:
            entries = members(response.error.get("data")).get("elicitations")
            is_right = isinstance(entries, list) and entries and all(map(_is_url_entry, entries))
            case.expect("ER-11", is_right, f"data.elicitations of -32042 is {entries!r}", about=response)
    tried = {"method": (_NO_METHOD, {}), "tool": ("tools/call", {"name": _NO_NAME, "arguments": {}})}
    if case.features.has("prompts"):
        tried["prompt"] = ("prompts/get", {"name": _NO_NAME})
    for what, (method, params) in tried.items():
        response = await request(method, params)
        if response.code == URLS_REQUIRED:
            case.expect("ER-11", False, f"an unknown {what} got {response.summary}", about=response)
    if not case.verdicts:
        case.give_up("no tool that may be called got -32042")


def _is_url_entry(entry: Any) -> bool:
    found = members(entry)
    return found.get("mode") == "url" and all(isinstance(found.get(key), str) for key in ("elicitationId", "url", "message"))


@probe("ER-12", "ER-13", needs="resources", silence_fails=True)
async def unknown_resources_are_rejected(case: Case) -> None:
    """Reads a URI that is similar to a listed one, but does not exist."""
    uri = _unknown_uri(case)
    response = await case.conversation.request("resources/read", {"uri": uri})
    if response.is_result:
        case.give_up(f"the server has a resource at {uri}, which should not exist")
    if response.code == METHOD_NOT_FOUND:
        case.give_up("the server declares resources, but does not have resources/read")
    rule, code = ("ER-13", INVALID_PARAMS) if case.is_modern else ("ER-12", RESOURCE_NOT_FOUND)
    case.expect_code(rule, response, code, "an unknown resource")


def _unknown_uri(case: Case) -> str:
    listed = [resource.get("uri") for resource in case.features.resources]
    similar = [uri for uri in listed if isinstance(uri, str) and not uri.startswith(("http:", "https:"))]
    return f"{(*similar, 'twopipes-check://note')[0]}-{_NO_NAME}"


@probe("ER-17", judged=False)
async def the_outer_of_two_faults_is_reported(case: Case) -> None:
    """Sends requests with two faults each."""
    build = case.conversation.message
    unknown_version = {META_VERSION: _NO_VERSION}
    incomplete = build(_NO_METHOD, bare=True, meta={META_VERSION: case.revision})
    faults: list[tuple[str, dict[str, Any], int]] = [
        ("an unknown version and an unknown method", build(_NO_METHOD, meta=unknown_version), UNSUPPORTED_REVISION),
        ("no capabilities in _meta and an unknown method", incomplete, INVALID_PARAMS),
        ("a number as the method and an unknown version", {**build("", meta=unknown_version), "method": 5}, INVALID_REQUEST),
    ]
    for what, request, code in faults:
        case.conversation.send(request)
        response = await case.conversation.response_if_any(request["id"])
        if response is not None:  # silence is judged by another rule
            case.expect_code("ER-17", response, code, f"a request with {what}")
