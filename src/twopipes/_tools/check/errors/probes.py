"""Error codes, from the side of a client that asks for what is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from twopipes._codes import CAPABILITY_MISSING, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_REVISION, URLS_REQUIRED
from twopipes._protocol.revisions import META_CAPABILITIES, META_VERSION, RESERVED_CODES
from twopipes._tools.check.conversation import ALL_CAPABILITIES, NoResponse, Response
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import required_of

_Tried = AsyncIterator[tuple[str, Response]]

_NO_METHOD = "twopipes-check/no-such-method"
_NO_NAME = "twopipes-check-no-such-name"
_NO_VERSION = "1900-01-01"
_CALLS = 8
_READS = 10
_LISTS = {"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list"}

_STANDARD = {-32700, -32600, -32601, -32602, -32603}
_OF_THE_PROTOCOL = range(-32099, -32019)
# Only new implementations are to stay out of these, and the check cannot tell from outside how old one is.
_OF_OLD_IMPLEMENTATIONS = range(-32019, -31999)
_DEFINED = {-32021, -32022}
_OF_THE_OLD_ERA = {-32002, -32042}
# What a request was made for: something that does not exist, a resource among them; a tool; a tool that asks for a visit.
_UNKNOWN, _MISSING, _CALLED, _VISIT = "unknown", "missing", "called", "visit"
# What an exception becomes in the hands of somebody who did not think of it; all others may be meant as they are.
_THOUGHTLESS = {-32700, 0}


@probe("ER-03", "JR-08", "JR-16", "JR-17")
async def a_method_that_nobody_knows_is_refused(case: Case) -> None:
    """A request by an unknown name is answered: with its id, a code that is a number, a message, and the code -32601."""
    conversation, before = case.conversation, case.conversation.position
    fix = "Answer every request. For a method that is not there: the error -32601 (Method not found), with the id of the request."
    try:
        response = await conversation.request(_NO_METHOD)
    except NoResponse:
        stray = next((line for line in conversation.received_lines[before:] if any("error" in part for part in line.parts)), None)
        case.expect(
            "JR-17", stray is None, "an error came without the id of its request, which could be read", fix=fix, about=stray
        )
        case.expect("JR-16", False, "a request for a method that does not exist got no answer", fix=fix)
        case.expect("ER-03", False, "a request for a method that does not exist got no answer", fix=fix)
        return
    why = f"a method that does not exist got {response.summary}, not the error -32601"
    case.expect("JR-16", response.error, why, fix=fix, about=response)
    case.expect("ER-03", response.code == METHOD_NOT_FOUND, why, fix=fix, about=response)
    case.expect("JR-17", True, "")
    if "error" in response.message:
        code, message = response.error.get("code"), response.error.get("message")
        case.expect(
            "JR-08",
            isinstance(code, int) and not isinstance(code, bool) and isinstance(message, str),
            f"the error has the code {code!r} and the message {message!r}",
            fix="An error has a code, which is a whole number, and a message, which is a text; anything else goes into data.",
            about=response,
        )
    for capability, method in _LISTS.items():
        if case.features.has(capability):
            continue
        response = await conversation.request(method)
        if response.error:  # whoever serves it after all should declare it, which is another rule
            why = f"{method}, which belongs to {capability}, and that was not declared, got {response.summary}, not -32601"
            case.expect("ER-03", response.code == METHOD_NOT_FOUND, why, fix=fix, about=response)


@probe("ER-04", silence_fails=True)
async def wrong_names_and_params_are_told_apart(case: Case) -> None:
    """Names that do not exist, params that are missing, a cursor and a level out of thin air: each gets -32602."""
    tried = 0
    async for what, response in _wrong(case):
        tried += 1
        case.expect(
            "ER-04",
            response.code == INVALID_PARAMS,
            f"{what} got {response.summary} instead of the error -32602",
            fix="Answer with the error -32602 (Invalid params); results, and isError in them, are for what a tool has done.",
            about=response,
        )
    if not tried:
        case.give_up("the server has neither tools nor prompts, nor pages, nor log levels")


async def _wrong(case: Case) -> _Tried:
    conversation, features = case.conversation, case.features
    if features.has("tools"):
        yield (
            "the call of a tool that does not exist",
            await conversation.request("tools/call", {"name": _NO_NAME, "arguments": {}}),
        )
        yield "a tools/call without a name", await conversation.request("tools/call", {})
    if features.has("prompts"):
        yield "a prompt that does not exist", await conversation.request("prompts/get", {"name": _NO_NAME})
        if (needy := next(filter(_needs_an_argument, features.prompts), None)) is not None:
            name = needy.get("name")
            yield (
                f"the prompt {name!r} without the argument that it requires",
                await conversation.request("prompts/get", {"name": name}),
            )
            odd = {key: {"twopipes": ["check"]} for key in required_of(needy)}
            response = await conversation.request("prompts/get", {"name": name, "arguments": odd})
            if response.error:  # whoever serves it breaks another rule
                yield f"the prompt {name!r} with an object for each argument that it requires", response
    for capability, method in _LISTS.items():
        # A server that has no pages need not look at cursors.
        if features.has(capability) and "nextCursor" in (await conversation.request(method)).result:
            yield f"{method} with a cursor that was never issued", await conversation.request(method, {"cursor": _NO_NAME})
            break
    if features.has("logging") and not case.is_modern:
        yield "a log level that does not exist", await conversation.request("logging/setLevel", {"level": _NO_NAME})


def _needs_an_argument(prompt: Mapping[str, Any]) -> bool:
    arguments = prompt.get("arguments")
    found = arguments if isinstance(arguments, list) else []
    return any(isinstance(each, dict) and each.get("required") is True for each in found)


@probe("ER-05", needs="resources")
async def a_resource_that_fails_is_an_internal_error(case: Case) -> None:
    """The listed resources are read; should one of them fail, the code is looked at."""
    failed = 0
    for resource in case.features.resources[:_READS]:
        response = await case.conversation.request("resources/read", {"uri": resource.get("uri")})
        if response.error:
            failed += 1
            case.expect(
                "ER-05",
                _code(response) not in _THOUGHTLESS,
                f"the resource {resource.get('uri')!r} is listed; reading it got {response.summary}",
                fix="Answer with -32603 (Internal error) when what is behind a resource has failed.",
                about=response,
            )
    if not failed:
        case.give_up("no resource that is listed failed, and the check cannot make one fail")


@probe("ER-06", "ER-07", "ER-08")
async def codes_are_those_of_the_revision(case: Case) -> None:
    """Whatever can be got wrong is; none of the codes is one that this revision keeps for something else, or has given up."""
    async for what, kind, response in _errors_of_all_kinds(case):
        code = _code(response)
        is_old = code in _OF_THE_OLD_ERA
        if is_old or kind in {_MISSING, _VISIT}:  # nothing else was ever answered with those
            case.expect(
                "ER-08",
                not is_old,
                f"{what} got the code {code}, which this revision does not use any more",
                fix="A resource that is not there is -32602 now; for an address to visit a result of type input_required asks.",
                about=response,
            )
        if not response.error:
            continue
        _judge_purpose(case, what, kind, response)
        case.expect(
            "ER-07",
            code not in RESERVED_CODES
            or code in _STANDARD
            or code in _OF_THE_PROTOCOL
            or is_old
            or code in _OF_OLD_IMPLEMENTATIONS,
            f"{what} got the code {code}, which lies in the range that is reserved for JSON-RPC",
            fix="Choose codes of your own outside of -32768 to -32000.",
            about=response,
        )
    case.give_up("there was neither a resource that does not exist nor a tool ask_url to ask for a visit to an address")


def _judge_purpose(case: Case, what: str, kind: str, response: Response) -> None:
    code = _code(response)
    fix = "Of -32020 to -32099 use -32021 and -32022 alone, each for what it means."
    case.expect(
        "ER-06",
        code not in _OF_THE_PROTOCOL or code in _DEFINED,
        f"{what} got the code {code}, which is reserved and has no meaning on this transport",
        fix=fix,
        about=response,
    )
    why = f"{what} got -32022, and the version of the request is one that the server serves"
    case.expect("ER-06", code != UNSUPPORTED_REVISION, why, fix=fix, about=response)
    if kind in {_UNKNOWN, _MISSING}:
        why = f"{what} got -32021, and no capability of a client brings into being what does not exist"
        case.expect("ER-06", code != CAPABILITY_MISSING, why, fix=fix, about=response)


def _code(response: Response) -> int | None:
    return response.code if isinstance(response.code, int) else None


async def _errors_of_all_kinds(case: Case) -> AsyncIterator[tuple[str, str, Response]]:
    """What was tried, what for, and the error; of a request for a visit, whatever came."""
    conversation, features = case.conversation, case.features
    tried: list[tuple[str, str, str, dict[str, Any]]] = [("a method that does not exist", _UNKNOWN, _NO_METHOD, {})]
    if features.has("tools"):
        tried.append(("a tool that does not exist", _UNKNOWN, "tools/call", {"name": _NO_NAME, "arguments": {}}))
        safe = features.safe_calls(case.permissions)
        poor = "by a client that can answer nothing,"
        calls = safe[:_CALLS] + _askers(case)
        tried += [(f"the tool {call.name!r}, {poor}", _CALLED, "tools/call", call.params) for call in calls]
        tried += [(f"the tool {call.name!r}", _VISIT, "tools/call", call.params) for call in safe if call.name == "ask_url"]
    if features.has("prompts"):
        tried.append(("a prompt that does not exist", _UNKNOWN, "prompts/get", {"name": _NO_NAME}))
    if features.has("resources"):
        tried.append(("a resource that does not exist", _MISSING, "resources/read", {"uri": _missing_uri(case)}))
    for what, kind, method, params in tried:
        response = await conversation.request(method, params, client_capabilities=ALL_CAPABILITIES if kind == _VISIT else None)
        if response.error or kind == _VISIT:
            yield what, kind, response


def _askers(case: Case) -> list[Any]:
    """The tools that test servers ask questions with, where they may be called."""
    return [call for call in case.features.safe_calls(case.permissions)[_CALLS:] if call.name in {"ask", "ask_url", "sample"}]


@probe("ER-09")
async def a_version_that_is_not_spoken_is_named(case: Case) -> None:
    """A request by a version that never was: if the answer is -32022, it says which versions there are and which it was."""
    response = await case.conversation.request(case.harmless, meta={META_VERSION: _NO_VERSION})
    if response.code != UNSUPPORTED_REVISION:
        case.give_up(f"a version that does not exist got {response.summary}, and not -32022")
    data = response.error.get("data")
    data = data if isinstance(data, dict) else {}
    supported = data.get("supported")
    case.expect(
        "ER-09",
        isinstance(supported, list) and supported and all(isinstance(each, str) for each in supported),
        f"the data of -32022 has no array of versions in supported: {supported!r}",
        fix='Send {"supported": [...], "requested": "..."} as the data of the error.',
        about=response,
    )
    case.expect(
        "ER-09",
        data.get("requested") == _NO_VERSION,
        f"the data of -32022 says {data.get('requested')!r} in requested, and {_NO_VERSION!r} was asked for",
        fix="Repeat in requested the version that the request named.",
        about=response,
    )


@probe("ER-10", needs="call")
async def a_missing_capability_is_named(case: Case) -> None:
    """Tools are called by a client that can answer nothing: an answer of -32021 says what it would have to be able to do."""
    calls = case.features.safe_calls(case.permissions)
    for call in sorted(calls, key=lambda call: call.name not in {"ask", "ask_url", "sample", "roots_tool"})[:_CALLS]:
        response = await case.conversation.request("tools/call", call.params)
        if response.code == CAPABILITY_MISSING:
            data = response.error.get("data")
            required = data.get("requiredCapabilities") if isinstance(data, dict) else None
            case.expect(
                "ER-10",
                isinstance(required, dict) and required and all(isinstance(each, dict) for each in required.values()),
                f"-32021 has {required!r} as its data.requiredCapabilities",
                fix='Name them as a client declares them: {"requiredCapabilities": {"elicitation": {}}}.',
                about=response,
            )
    if not case.verdicts:
        case.give_up("no tool that may be called needs a capability that was not declared")


@probe("ER-11", needs="call", client_capabilities=ALL_CAPABILITIES)
async def addresses_to_visit_are_listed(case: Case) -> None:
    """Tools are called by a client that can send its user to a page: an answer of -32042 lists the pages."""
    calls = case.features.safe_calls(case.permissions)
    for call in sorted(calls, key=lambda call: call.name != "ask_url")[:_CALLS]:
        response = await case.conversation.request("tools/call", call.params)
        if response.code == URLS_REQUIRED:
            data = response.error.get("data")
            entries = data.get("elicitations") if isinstance(data, dict) else None
            case.expect(
                "ER-11",
                isinstance(entries, list) and entries and all(map(_is_address, entries)),
                f"-32042 has {entries!r} as its data.elicitations",
                fix='List at least one: {"mode": "url", "elicitationId": "...", "url": "...", "message": "..."}.',
                about=response,
            )
    await _judge_other_uses(case)
    if not case.verdicts:
        case.give_up("no tool that may be called was answered with -32042")


async def _judge_other_uses(case: Case) -> None:
    """What does not exist is no reason to send anybody anywhere."""
    tried: list[tuple[str, str, dict[str, Any]]] = [
        ("a method that does not exist", _NO_METHOD, {}),
        ("a tool that does not exist", "tools/call", {"name": _NO_NAME, "arguments": {}}),
    ]
    if case.features.has("prompts"):
        tried.append(("a prompt that does not exist", "prompts/get", {"name": _NO_NAME}))
    for what, method, params in tried:
        response = await case.conversation.request(method, params)
        if response.code == URLS_REQUIRED:
            fix = "Use -32042 alone where the user has to visit an address before the request can be served."
            case.expect("ER-11", False, f"{what} got {response.summary}", fix=fix, about=response)


def _is_address(entry: Any) -> bool:
    members = entry if isinstance(entry, dict) else {}
    return members.get("mode") == "url" and all(isinstance(members.get(key), str) for key in ("elicitationId", "url", "message"))


@probe("ER-12", "ER-13", needs="resources", silence_fails=True)
async def a_resource_that_is_not_there_is_told(case: Case) -> None:
    """A URI like those that are listed, but of nothing: -32602 on the stateless wire, -32002 before."""
    uri = _missing_uri(case)
    response = await case.conversation.request("resources/read", {"uri": uri})
    if response.is_result:
        case.give_up(f"the server has something at {uri}, which was meant not to exist")
    if response.code == METHOD_NOT_FOUND:
        case.give_up("the server declares resources and does not have resources/read")
    rule, code = ("ER-13", -32602) if case.is_modern else ("ER-12", -32002)
    case.expect(
        rule,
        response.code == code,
        f"a resource that does not exist got {response.summary} instead of the error {code}",
        fix=f"Answer with the error {code} when there is nothing at a URI.",
        about=response,
    )


def _missing_uri(case: Case) -> str:
    listed: Iterator[Any] = (resource.get("uri") for resource in case.features.resources)
    like = next(
        (uri for uri in listed if isinstance(uri, str) and not uri.startswith(("http:", "https:"))), "twopipes-check://note"
    )
    return f"{like}-{_NO_NAME}"


@probe("ER-17", judged=False)
async def the_outer_fault_is_told(case: Case) -> None:
    """Requests with two faults each: the one that a reader comes upon first is the one that is told."""
    conversation = case.conversation

    def strange(request: dict[str, Any]) -> None:
        request["params"]["_meta"][META_VERSION] = _NO_VERSION

    def incapable(request: dict[str, Any]) -> None:
        del request["params"]["_meta"][META_CAPABILITIES]

    def shapeless(request: dict[str, Any]) -> None:
        strange(request)
        request["method"] = 5

    faults: list[tuple[str, Callable[[dict[str, Any]], None], int]] = [
        ("an unknown version and an unknown method", strange, -32022),
        ("no capabilities in _meta and an unknown method", incapable, -32602),
        ("a number for a method and an unknown version", shapeless, -32600),
    ]
    for what, spoil, code in faults:
        request = conversation.message(_NO_METHOD)
        spoil(request)
        conversation.send(request)
        response = await conversation.response_if_any(request["id"])
        if response is None:
            continue  # which is another rule
        case.expect(
            "ER-17",
            response.code == code,
            f"a request with {what} got {response.summary}; the first of the two faults would be {code}",
            fix="Look at the shape first, then at _meta, the version, the method, the params, and the capabilities last.",
            about=response,
        )
