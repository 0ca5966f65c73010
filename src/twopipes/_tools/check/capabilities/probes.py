"""Capabilities, from the side of a client: what the server declares, and what it makes of what the client declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopipes._protocol.revisions import SERVER_CAPABILITIES
from twopipes._tools.check.conversation import CannotOpen, NoResponse
from twopipes._tools.check.explore import explored, is_refused_well, wants
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.questions import ELICIT, members
from twopipes._tools.check.setups import asking_calls, input_requests
from twopipes._tools.check.verdict import Quotable

_LISTS = {"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list"}
_MISSING = -32021
# What a client declares that takes forms, and whose model takes no tools.
_PLAIN: Mapping[str, Any] = {"elicitation": {}, "sampling": {}}
_CALLS = 8
_PROMPTS = 5


@probe("CP-01", judged=False)
async def what_works_is_declared(case: Case) -> None:
    """What was not declared is asked for all the same: whoever has something to give should have said so."""
    conversation = case.conversation
    for feature, method in _LISTS.items():
        response = await conversation.request(method)
        if case.features.has(feature):
            if response.is_result:
                case.expect("CP-01", True, "")
            continue
        listed = response.result.get(feature)
        case.expect(
            "CP-01",
            not listed,  # an empty list gives nothing, and so uses nothing
            f"the server did not declare {feature}, and lists {len(listed) if isinstance(listed, list) else 'some'}",
            fix=f"Put {feature} into the capabilities.",
            about=response,
        )
    if not case.features.has("completions") and SERVER_CAPABILITIES["completions"].has(case.revision):
        await _expect_no_completion(case)


async def _expect_no_completion(case: Case) -> None:
    for prompt in case.features.prompts[:_PROMPTS]:
        arguments = prompt.get("arguments")
        for argument in arguments[:1] if isinstance(arguments, list) else ():
            asked = {"name": members(argument).get("name"), "value": ""}
            ref = {"type": "ref/prompt", "name": prompt.get("name")}
            response = await case.conversation.request("completion/complete", {"ref": ref, "argument": asked})
            case.expect(
                "CP-01",
                not members(response.result.get("completion")).get("values"),
                "the server did not declare completions, and completes an argument",
                fix="Put completions into the capabilities.",
                about=response,
            )


@probe("CP-03")
async def capabilities_have_their_shape(case: Case) -> None:
    """What the server declares is objects, with flags that are true or false."""
    declared = case.conversation.capabilities
    for name in ("tools", "prompts", "resources", "logging", "completions", "experimental"):
        if name not in declared:
            continue
        value = declared[name]
        flags = {flag: members(value)[flag] for flag in ("listChanged", "subscribe") if flag in members(value)}
        case.expect(
            "CP-03",
            isinstance(value, dict) and all(isinstance(flag, bool) for flag in flags.values()),
            f"the capability {name} is {value!r}; it is an object, and its flags are true or false",
            about=case.conversation.opening,
        )


@probe("CP-04", needs=("call", "question"), client_capabilities=_PLAIN)
async def no_addresses_for_whoever_takes_forms(case: Case) -> None:
    """A client that declares elicitation with nothing in it is asked by forms, and never to visit an address."""
    asked = await _asked_for(case, "elicitation/create")
    if case.is_modern:
        await _expect_addresses_to_be_refused(case)
    if not asked:
        case.give_up("the server asks the user nothing")
    wrong = next(((params, seen) for params, seen in asked if params.get("mode") == "url"), None)
    case.expect(
        "CP-04",
        wrong is None,
        "the client declared elicitation with nothing in it, which means forms, and the server asks it to visit an address",
        fix="Ask by url only where elicitation.url is declared.",
        about=None if wrong is None else wrong[1],
    )


async def _expect_addresses_to_be_refused(case: Case) -> None:
    """Calls that send a client which can answer everything to an address are served without that, or refused with -32021."""
    visits = [each for each in (await explored(case)).questions if wants(each, ELICIT, "url")]
    for name, call in {str(each.call.get("name")): each.call for each in visits}.items():
        response = await case.conversation.request("tools/call", call)
        if input_requests(response):
            continue  # what is asked is judged beside this
        case.expect(
            "CP-04",
            await is_refused_well(case.conversation, call, response, "url"),
            f"a call of {name}, which sends its user to an address, by a client that takes forms alone, was answered with "
            f"{response.summary}",
            fix=f"Do without, or refuse it with {_MISSING} and data.requiredCapabilities.",
            about=response,
        )


@probe("CP-05", needs=("call", "question"), client_capabilities=_PLAIN)
async def no_tools_for_whoever_did_not_declare_them(case: Case) -> None:
    """A client that declares sampling with nothing in it is not asked to hand tools to its model."""
    asked = await _asked_for(case, "sampling/createMessage")
    if not asked:
        case.give_up("the server asks the client's model nothing")
    wrong = next(((params, seen) for params, seen in asked if params.get("tools") or params.get("toolChoice")), None)
    case.expect(
        "CP-05",
        wrong is None,
        "the client did not declare sampling.tools, and the server asks it with tools",
        fix="Send tools and toolChoice only where sampling.tools is declared.",
        about=None if wrong is None else wrong[1],
    )


async def _asked_for(case: Case, method: str) -> list[tuple[dict[str, Any], Quotable]]:
    """The params of all questions of a kind that come while tools are called."""
    conversation = case.conversation
    found: list[tuple[dict[str, Any], Quotable]] = []
    since = conversation.position
    for call in _likely(case):
        try:
            response = await conversation.request("tools/call", call.params)
        except NoResponse:
            continue
        found += [
            (members(each.get("params")), response) for each in input_requests(response).values() if each.get("method") == method
        ]
    found += [(line.params, line) for line in conversation.received_lines[since:] if line.method == method]
    return found


def _likely(case: Case) -> list[SafeCall]:
    calls = case.features.safe_calls(case.permissions)
    words = ("ask", "elicit", "sampl", "url")
    return sorted(calls, key=lambda call: not any(word in call.name.lower() for word in words))[:_CALLS]


@probe("CP-06", needs="call")
async def what_needs_the_undeclared_is_refused(case: Case) -> None:
    """Calls that ask a client which can answer everything are made once more by one that can answer nothing."""
    conversation = case.conversation
    for asking in await asking_calls(case, conversation):
        response = await conversation.request("tools/call", asking.call.params, client_capabilities={})
        is_served = (
            response.is_result and response.result.get("resultType") == "complete" and response.result.get("isError") is not True
        )
        needed = ", ".join(sorted({str(each.get("method")) for each in asking.requests.values()}))
        why = "questions" if input_requests(response) else response.summary
        case.expect(
            "CP-06",
            is_served or response.code == _MISSING,  # whoever can do without it need not refuse
            f"a call of {asking.call.name}, which needs {needed}, by a client that declares nothing, was answered with {why}",
            fix=f"Refuse it with {_MISSING} and data.requiredCapabilities.",
            about=response,
        )


@probe("CP-08", needs="call")
async def nothing_of_an_extension_comes_unasked(case: Case) -> None:
    """Tools are called by a client that declares no extension: what comes back are results of the core."""
    conversation = case.conversation
    for call in case.features.safe_calls(case.permissions)[:_CALLS]:
        response = await conversation.request("tools/call", call.params)
        kind = response.result.get("resultType", "complete")
        case.expect(
            "CP-08",
            kind in {"complete", "input_required"},
            f"the client declared no extension, and a call of {call.name} was answered with a result of type {kind!r}",
            fix="Use an extension only for requests whose client lists it in extensions.",
            about=response,
        )


@probe("CP-09")
async def unknown_capabilities_change_nothing(case: Case) -> None:
    """A client that declares unknown capabilities is served like any other."""
    strange = {"x-unknown": {"deep": [1, {"er": None}]}, "experimental": {"com.example/thing": {}}}
    fix = "Read the capabilities that are known, and leave all others alone."
    if case.is_modern:
        response = await case.conversation.request(case.harmless, client_capabilities=strange)
        case.expect(
            "CP-09", response.is_result, f"a request with unknown capabilities got {response.summary}", fix=fix, about=response
        )
        return
    conversation = await case.open_conversation(opened=False)
    try:
        await conversation.open(case.revision, strange)
        response = await conversation.request(case.harmless)
    except (CannotOpen, NoResponse) as error:
        case.expect("CP-09", False, f"after an initialize with unknown capabilities: {error}", fix=fix)
        return
    case.expect(
        "CP-09",
        response.is_result,
        f"after an initialize with unknown capabilities, {case.harmless} got {response.summary}",
        fix=fix,
    )
