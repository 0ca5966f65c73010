"""What clients declare, and whether they keep to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopipes._protocol.revisions import CLIENT_CAPABILITIES, META_CAPABILITIES
from twopipes._tools.check.asking_tools import QUESTIONS, AskingTool, Round, elicitation_modes
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.messages import ClientMessage, members
from twopipes._tools.check.questions import ELICIT
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip


def _declared(message: ClientMessage) -> Any:
    return message.params.get("capabilities") if message.method == "initialize" else message.meta.get(META_CAPABILITIES)


@scenario("CP-02", judged=False)
async def asks_for_undeclared_capabilities(fake: FakeServer) -> None:
    """Asks every question that a client can answer, declared or not."""
    kinds = [each for each in QUESTIONS if CLIENT_CAPABILITIES[each].has(fake.revision)]
    tools = {
        kind: AskingTool(fake, f"ask_for_{kind}", Round(questions={kind: QUESTIONS[kind]}, state=None), undeclared=True)
        for kind in kinds
    }
    await fake.exited_after(lambda message: str(message.params.get("name")).startswith("ask_for_"))
    calls = [call for tool in tools.values() for call in tool.calls]
    declared = {
        kind
        for call in calls
        for kind in kinds
        if kind in members(_declared(call) if call.is_modern else call.connection.client_capabilities)
    }
    replies = {kind: reply for tool in tools.values() for kind, reply in tool.replies.items() if reply.result is not None}
    if not replies and declared:
        raise Skip("the client answered no question, although it declares that it can")
    for kind in kinds:
        wrong = replies.get(kind) if kind not in declared else None
        why = f"the client answered {QUESTIONS[kind][0]}, but did not declare {kind}"
        fake.forbid("CP-02", None if wrong is None else wrong.about, why)


@scenario("CP-03")
async def looks_at_the_capabilities(fake: FakeServer) -> None:
    """Looks at the capabilities that the client declares."""
    await fake.client_exited()
    declared = [(message, members(_declared(message))) for message in fake.requests() if _declared(message) is not None]
    if not declared:
        raise Skip("the client declares no capabilities")
    for message, capabilities in declared:
        shapes = [name for name in ("roots", "sampling", "elicitation") if not isinstance(capabilities.get(name, {}), dict)]
        fake.expect("CP-03", not shapes, f"the capability {', '.join(shapes)} is not an object", about=message)
        # Modern revisions have no roots.listChanged, but their schema leaves the object open.
        flag = None if fake.is_modern else members(capabilities.get("roots")).get("listChanged")
        fake.expect("CP-03", flag is None or isinstance(flag, bool), f"roots.listChanged is {flag!r}", about=message)


@scenario("CP-04")
async def asks_in_a_declared_mode(fake: FakeServer) -> None:
    """Asks the user something, in a mode that the client declares."""
    visit = {"mode": "url", "message": "Please visit.", "url": "https://example.com/visit"}
    visit |= {} if fake.is_modern else {"elicitationId": "fake-elicitation"}

    def questions(client_capabilities: Mapping[str, Any]) -> Mapping[str, tuple[str, Any]]:
        modes = elicitation_modes(client_capabilities)
        return {"who": QUESTIONS["elicitation"] if "form" in modes else (ELICIT, visit)} if modes else {}

    tool = AskingTool(fake, "ask_the_user", Round(questions=questions, state=None), undeclared=True)
    await fake.exited_after(lambda message: message.params.get("name") == tool.name)
    declared = next((message.connection.client_capabilities.get("elicitation") for message in fake.requests()), None)
    if not tool.asked:
        is_odd = isinstance(declared, dict)
        raise Skip(f"elicitation is {declared!r}, which means no mode" if is_odd else "the client does not declare elicitation")
    reply = tool.reply("who")
    is_rejected = reply.code in {-32601, -32602}
    if reply.result is None and not is_rejected and not tool.retries:
        raise Skip("the client did not answer; perhaps there was no user to ask")
    why = f"the client declares elicitation as {declared!r}, but rejects a question of that kind"
    fake.expect("CP-04", not is_rejected, why, about=reply.about)


@scenario("CP-05")
async def looks_at_the_sampling_capability(fake: FakeServer) -> None:
    """Looks at how the client declares tools and context for its model; that it rejects them otherwise is SA-05."""
    await fake.client_exited()
    found = [(message, members(members(_declared(message)).get("sampling"))) for message in fake.requests()]
    given = [(message, name, sampling[name]) for message, sampling in found for name in ("tools", "context") if name in sampling]
    if not given:
        raise Skip("the client declares neither sampling.tools nor sampling.context")
    for message, name, value in given:
        fake.expect("CP-05", isinstance(value, dict), f"sampling.{name} is {value!r}, not an object", about=message)


@scenario("CP-08")
async def declares_no_extension(fake: FakeServer) -> None:
    """Declares no extension, and looks for requests that only an extension has."""
    await fake.exited_after(lambda message: message.is_request)
    # Only the official extensions: other clients may use their own methods as they like.
    used = [message for message in fake.requests() if (message.method or "").startswith(("tasks/", "ui/"))]
    fake.forbid("CP-08", used, lambda message: f"the server declares no extension, and the client sent {message.method}")


@scenario("CP-09")
async def declares_unknown_capabilities(fake: FakeServer) -> None:
    """Declares capabilities that the protocol does not have."""
    fake.healthy.capabilities |= {"x-unknown": {"deep": [1, {"er": None}]}, "experimental": {"com.example/thing": {}}}
    await fake.exited_after(lambda message: message.is_request)
    fake.expect_as_usual("CP-09", "when the server declared unknown capabilities")
