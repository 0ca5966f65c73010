"""Capabilities, from the side of a server: what the client declares, and whether it is true."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import CLIENT_CAPABILITIES, META_CAPABILITIES
from twopipes._tools.check.declared_questions import QUESTIONS, elicitation_modes
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.questions import members
from twopipes._tools.check.verdict import Skip

# What extensions add to the protocol. Whoever invents a method of its own may do with it what it likes.
_OF_EXTENSIONS = ("tasks/", "ui/")
_REFUSALS = {-32601, -32602}


@scenario("CP-02", judged=False)
async def asks_for_the_undeclared(fake: FakeServer) -> None:
    """The server asks for each thing that a client may answer, declared or not: an answer comes only to what was declared."""
    kinds = [each for each in QUESTIONS if CLIENT_CAPABILITIES[each].has(fake.revision)]
    answers: dict[str, ClientMessage] = {}
    cans: list[dict[str, Any]] = []

    def asks(kind: str) -> Any:
        async def ask(message: ClientMessage) -> Any:
            method, params = QUESTIONS[kind]
            cans.append(message.connection.client_capabilities)
            if message.is_modern:
                brought = message.params.get("inputResponses")
                if isinstance(brought, dict):
                    if kind in brought:
                        answers[kind] = message
                    return text("Thank you.")
                return {"resultType": "input_required", "inputRequests": {kind: {"method": method, "params": params}}}
            response = await fake.ask(method, params)
            if response is not None and "result" in response.members:
                answers[kind] = response
            return text("Thank you.")

        return ask

    for kind in kinds:
        fake.add_tool(f"ask_for_{kind}", asks(kind))
    await fake.wait_for(lambda message: str(message.params.get("name")).startswith("ask_for_"))
    await fake.client_exited()
    if not answers and any(kind in client_capabilities for client_capabilities in cans for kind in kinds):
        raise Skip("the client answered nothing of what it declares")
    for kind in kinds:
        undeclared = kind in answers and not any(kind in client_capabilities for client_capabilities in cans)
        fake.expect(
            "CP-02",
            not undeclared,
            f"the client answered {QUESTIONS[kind][0]}, and did not declare {kind}",
            fix=f"Declare {kind}, or refuse the question.",
            about=answers.get(kind),
        )


@scenario("CP-03")
async def looks_at_what_is_declared(fake: FakeServer) -> None:
    """Nothing special: the capabilities that the client declares are looked at."""
    await fake.client_exited()
    declared = [(message, _declared(message)) for message in fake.requests() if _declared(message) is not None]
    if not declared:
        raise Skip("the client declares no capabilities")
    for message, capabilities in declared:
        # The stateless wire has no roots.listChanged, but its schema leaves the object open: a leftover one is accepted.
        flag = members(members(capabilities).get("roots")).get("listChanged")
        shapes = [
            name for name in ("roots", "sampling", "elicitation") if not isinstance(members(capabilities).get(name, {}), dict)
        ]
        fake.expect("CP-03", not shapes, f"the capability {', '.join(shapes)} must be an object", about=message)
        fake.expect(
            "CP-03", fake.is_modern or flag is None or isinstance(flag, bool), f"roots.listChanged is {flag!r}", about=message
        )


def _declared(message: ClientMessage) -> Any:
    return message.params.get("capabilities") if message.method == "initialize" else message.meta.get(META_CAPABILITIES)


@scenario("CP-04")
async def asks_by_a_form(fake: FakeServer) -> None:
    """A client that declares elicitation is asked in a way that it declares."""
    asked: list[str] = []
    refused: list[ClientMessage] = []
    served: list[ClientMessage] = []

    async def ask(message: ClientMessage) -> Any:
        modes = elicitation_modes(message.connection.client_capabilities)
        if not modes:
            return text("Nothing to ask.")
        method, params = QUESTIONS["elicitation"]
        if "form" not in modes:
            params = {"mode": "url", "message": "Please visit.", "url": "https://example.com/visit"}
            params |= {} if message.is_modern else {"elicitationId": "fake-elicitation"}
        asked.append(method)
        if message.is_modern:
            if "inputResponses" in message.params:
                served.append(message)
                return text("Thank you.")
            return {"resultType": "input_required", "inputRequests": {"who": {"method": method, "params": params}}}
        response = await fake.ask(method, params)
        if response is not None:
            code = members(response.members.get("error")).get("code")
            (served if "result" in response.members else refused if code in _REFUSALS else []).append(response)
        return text("Thank you.")

    fake.add_tool("ask_the_user", ask)
    await fake.wait_for(lambda message: message.params.get("name") == "ask_the_user")
    await fake.client_exited()
    declared = next((message.connection.client_capabilities.get("elicitation") for message in fake.requests()), None)
    if isinstance(declared, dict) and not asked:
        raise Skip(f"the client declares elicitation as {declared!r}, which has no meaning")
    if not asked:
        raise Skip("the client does not declare elicitation")
    if not served and not refused:
        raise Skip("the client did not answer; perhaps there was no user to ask")
    fake.expect(
        "CP-04",
        not refused,
        f"the client declares elicitation as {declared!r}, and refuses a question of that kind",
        fix="Declare form and url only where they can be shown; an empty object means form.",
        about=refused[0] if refused else None,
    )


@scenario("CP-05")
async def looks_at_what_the_model_may_be_given(fake: FakeServer) -> None:
    """Nothing special: how the client allows tools and context for its model. That it refuses them otherwise is SA-05."""
    await fake.client_exited()
    found = [(message, members(members(_declared(message)).get("sampling"))) for message in fake.requests()]
    given = [(message, name, sampling[name]) for message, sampling in found for name in ("tools", "context") if name in sampling]
    if not given:
        raise Skip("the client declares neither sampling.tools nor sampling.context")
    for message, name, value in given:
        fake.expect(
            "CP-05",
            isinstance(value, dict),
            f"the client declares sampling.{name} as {value!r}, and not as an object",
            fix="Declare an empty object, or leave it out.",
            about=message,
        )


@scenario("CP-08")
async def declares_no_extension(fake: FakeServer) -> None:
    """Nothing special: a server that declares no extension is asked for nothing that only an extension has."""
    await fake.wait_for(lambda message: message.is_request)
    await fake.client_exited()
    used = next((message for message in fake.requests() if (message.method or "").startswith(_OF_EXTENSIONS)), None)
    fake.expect(
        "CP-08",
        used is None,
        f"the server declares no extension, and the client sent {None if used is None else used.method}",
        fix="Look for the extension in the capabilities of the server before using it.",
        about=used,
    )


@scenario("CP-09")
async def declares_what_nobody_knows(fake: FakeServer) -> None:
    """The server declares capabilities that the protocol does not know."""
    fake.healthy.capabilities |= {"x-unknown": {"deep": [1, {"er": None}]}, "experimental": {"com.example/thing": {}}}
    await fake.wait_for(lambda message: message.is_request)
    await fake.client_exited()
    fake.expect(
        "CP-09",
        not fake.what_differs,
        f"when the server declared unknown capabilities, {fake.what_differs}",
        fix="Read the capabilities that are known, and leave all others alone.",
    )
