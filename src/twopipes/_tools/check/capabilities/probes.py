"""What servers declare, and what they do with the capabilities of a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopipes._codes import CAPABILITY_MISSING
from twopipes._protocol.revisions import SERVER_CAPABILITIES
from twopipes._tools.check.explore import explored, is_refused_well, wants
from twopipes._tools.check.messages import CannotOpen, NoResponse, members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import ELICIT, SAMPLE
from twopipes._tools.check.setups import asking_calls, input_requests
from twopipes._tools.check.verdict import Quotable

# A client that supports forms, and whose model is not offered tools.
_PLAIN: Mapping[str, Any] = {"elicitation": {}, "sampling": {}}
_CALLS = 8
_PROMPTS = 5


@probe("CP-01", judged=False)
async def working_features_are_declared(case: Case) -> None:
    """Requests every list, and a completion, even if the server did not declare them."""
    for feature in ("tools", "prompts", "resources"):
        response = await case.conversation.request(f"{feature}/list")
        # An empty list counts as a feature that is not there.
        listed = None if case.features.has(feature) else response.result.get(feature)
        if response.is_result or not case.features.has(feature):
            case.expect("CP-01", not listed, f"the server did not declare {feature}, but lists some", about=response)
    if case.features.has("completions") or not SERVER_CAPABILITIES["completions"].has(case.revision):
        return
    for prompt in case.features.prompts[:_PROMPTS]:
        arguments = prompt.get("arguments")
        for argument in arguments[:1] if isinstance(arguments, list) else ():
            ref = {"type": "ref/prompt", "name": prompt.get("name")}
            params = {"ref": ref, "argument": {"name": members(argument).get("name"), "value": ""}}
            response = await case.conversation.request("completion/complete", params)
            values = members(response.result.get("completion")).get("values")
            case.expect("CP-01", not values, "the server did not declare completions, but completes an argument", about=response)


@probe("CP-03")
async def capabilities_are_objects(case: Case) -> None:
    """Looks at the declared capabilities and their flags."""
    declared = case.conversation.capabilities
    for name in ("tools", "prompts", "resources", "logging", "completions", "experimental"):
        if name in declared:
            value = declared[name]
            flags = [members(value)[flag] for flag in ("listChanged", "subscribe") if flag in members(value)]
            is_right = isinstance(value, dict) and all(isinstance(flag, bool) for flag in flags)
            case.expect("CP-03", is_right, f"the capability {name} is {value!r}", about=case.conversation.opening)


@probe("CP-04", needs=("call", "question"), client_capabilities=_PLAIN)
async def clients_with_forms_get_no_urls(case: Case) -> None:
    """Calls tools as a client that declares an empty elicitation capability, which means forms only."""
    asked = await _asked_for(case, ELICIT)
    if case.is_modern:
        await _expect_urls_to_be_rejected(case)
    if not asked:
        case.give_up("the server asks the user nothing")
    wrong = [seen for params, seen in asked if params.get("mode") == "url"]
    case.forbid("CP-04", wrong, "the client declared an empty elicitation, which means forms, and the server sent a URL")


async def _expect_urls_to_be_rejected(case: Case) -> None:
    visits = [each for each in (await explored(case)).questions if wants(each, ELICIT, "url")]
    for name, call in {str(each.call.get("name")): each.call for each in visits}.items():
        response = await case.conversation.request("tools/call", call)
        if not input_requests(response):  # questions are judged by the probe itself
            is_right = await is_refused_well(case.conversation, call, response, "url")
            why = f"a call of {name}, which needs a URL visit, got {response.summary}, although the client supports only forms"
            case.expect("CP-04", is_right, why, about=response)


@probe("CP-05", needs=("call", "question"), client_capabilities=_PLAIN)
async def undeclared_sampling_tools_are_not_used(case: Case) -> None:
    """Calls tools as a client that declares an empty sampling capability."""
    asked = await _asked_for(case, SAMPLE)
    if not asked:
        case.give_up("the server asks the client's model nothing")
    wrong = [seen for params, seen in asked if params.get("tools") or params.get("toolChoice")]
    case.forbid("CP-05", wrong, "the client did not declare sampling.tools, and the server offers tools to its model")


async def _asked_for(case: Case, method: str) -> list[tuple[dict[str, Any], Quotable]]:
    """Call tools, and return the params of all questions of one kind."""
    conversation = case.conversation
    found: list[tuple[dict[str, Any], Quotable]] = []
    since = conversation.position
    words = ("ask", "elicit", "sampl", "url")
    calls = sorted(case.safe_calls, key=lambda call: not any(word in call.name.lower() for word in words))
    for call in calls[:_CALLS]:
        response = await conversation.try_request("tools/call", call.params)
        entries = input_requests(response).values()
        found += [(members(entry.get("params")), response) for entry in entries if entry.get("method") == method]
    return found + [(line.params, line) for line in conversation.received_lines[since:] if line.method == method]


@probe("CP-06", needs="call")
async def calls_that_need_undeclared_capabilities_are_rejected(case: Case) -> None:
    """Repeats calls that ask questions, as a client that declares no capabilities."""
    for asking in await asking_calls(case, case.conversation):
        response = await case.conversation.request("tools/call", asking.call.params, client_capabilities={})
        result = response.result
        # A server that can do without the answer need not reject the call.
        is_served = result.get("resultType") == "complete" and result.get("isError") is not True
        needed = ", ".join(sorted({str(each.get("method")) for each in asking.requests.values()}))
        summary = "questions" if input_requests(response) else response.summary
        why = f"a call of {asking.call.name}, which needs {needed}, got {summary}, although the client declares nothing"
        case.expect("CP-06", is_served or response.code == CAPABILITY_MISSING, why, about=response)


@probe("CP-08", needs="call")
async def undeclared_extensions_are_not_used(case: Case) -> None:
    """Calls tools as a client that declares no extension."""
    for call in case.safe_calls[:_CALLS]:
        response = await case.conversation.request("tools/call", call.params)
        kind = response.result.get("resultType", "complete")
        why = f"the client declared no extension, and a call of {call.name} got a result of type {kind!r}"
        case.expect("CP-08", kind in {"complete", "input_required"}, why, about=response)


@probe("CP-09")
async def unknown_capabilities_change_nothing(case: Case) -> None:
    """Declares unknown client capabilities."""
    unknown = {"x-unknown": {"deep": [1, {"er": None}]}, "experimental": {"com.example/thing": {}}}
    conversation = case.conversation if case.is_modern else await case.open_conversation(opened=False)
    try:
        if not case.is_modern:
            await conversation.open(case.revision, unknown)
        response = await conversation.request(case.harmless, client_capabilities=unknown)
    except (CannotOpen, NoResponse) as error:
        case.expect("CP-09", False, f"with unknown client capabilities: {error}")
        return
    case.expect("CP-09", response.is_result, f"with unknown client capabilities, {case.harmless} got {response.summary}")
