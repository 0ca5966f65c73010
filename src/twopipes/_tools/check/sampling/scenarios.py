"""Sampling of clients."""

from __future__ import annotations

import re
from typing import Any

from twopipes._codes import USER_REFUSED
from twopipes._protocol.revisions import SAMPLING_CONTENT_ARRAYS
from twopipes._tools.check.asking_tools import AskingTool, Reply, Round, sampling
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.messages import members
from twopipes._tools.check.questions import SAMPLE, blocks_of, content_faults, declares, sample_faults
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

# More words than any tokeniser makes of one token.
_FAR_TOO_MANY = 100
_REFUSAL = re.compile(r"reject|refus|denied|deny|declin|not allowed by the user|user said no", re.IGNORECASE)
_TOOL = {"name": "clock", "description": "Tells the time.", "inputSchema": {"type": "object", "properties": {}}}
# Rounds after which a loop counts as endless.
_ENDLESS = 40


@scenario("SA-02", "SA-03", "SA-09", "SA-10", revisions="each")
async def asks_the_model(fake: FakeServer) -> None:
    """The model is asked for one token, with content of one block and, if the revision has them, of several."""
    plain = AskingTool(fake, "sample", Round(questions={"say": sampling("Say hello.", maxTokens=1)}))
    several = None
    if SAMPLING_CONTENT_ARRAYS.has(fake.revision):
        messages = [{"role": "user", "content": [{"type": "text", "text": word} for word in ("Say", "hello.")]}]
        several = AskingTool(fake, "sample-several", Round(questions={"say": sampling("", messages=messages)}))
    await fake.client_exited()
    reply = plain.reply("say")
    _judge_refusal(fake, reply)
    result = plain.answered("say").result
    for rule, found in (("SA-02", sample_faults(result)), ("SA-03", content_faults(result.get("content"), fake.revision))):
        faults = list(found)
        fake.expect(rule, not faults, "; ".join(faults), about=reply.about)
    words = sum(len(str(block.get("text", "")).split()) for block in blocks_of(result.get("content")))
    fake.expect("SA-09", words <= _FAR_TOO_MANY, f"the model was asked for one token, and gave {words} words", about=reply.about)
    if several is not None and "say" in several.replies:
        reply = several.replies["say"]
        why = f"a message of one block was answered, and one with an array of blocks got {reply.summary}"
        fake.expect("SA-03", isinstance(reply.result, dict), why, about=reply.about)


def _judge_refusal(fake: FakeServer, reply: Reply) -> None:
    if reply.error is None:
        fake.skip("SA-10", "the user did not refuse" if reply.result is not None else "the client did not answer")
    elif reply.code != USER_REFUSED and not _REFUSAL.search(str(members(reply.error).get("message"))):
        fake.skip("SA-10", f"the client answered with {reply.summary}, which may not be a refusal of the user")
    else:
        fake.expect("SA-10", reply.code == USER_REFUSED, f"the user refused, and the answer was {reply.summary}", about=reply.about)


@scenario("SA-05", "SA-07")
async def offers_tools_to_the_model(fake: FakeServer) -> None:
    """The model is offered a tool that it may not use; a client without sampling.tools rejects that."""
    offer = sampling("What is the time?", tools=[_TOOL], toolChoice={"mode": "none"})
    asker = AskingTool(fake, "sample-with-tools", Round(questions={"say": offer}), undeclared=not fake.is_modern)
    await fake.client_exited()
    reply = asker.reply("say")
    client_capabilities = asker.calls[0].connection.client_capabilities
    if declares(client_capabilities, *offer):
        uses_tool = _uses_tool(asker.answered("say").result)
        fake.skip("SA-05", "the client declares sampling.tools")
        fake.expect("SA-07", not uses_tool, "with toolChoice none, the model used a tool", about=reply.about)
        return
    if not declares(client_capabilities, SAMPLE):
        fake.give_up("the client does not declare sampling")
    fake.skip("SA-07", "the client does not declare sampling.tools")
    if reply.about is None:
        fake.give_up("the client did not answer")
    why = "the client does not declare sampling.tools, was offered tools, and answered with a result"
    fake.expect("SA-05", reply.error is not None, why, about=reply.about)


@scenario("SA-12", revisions=("2026-07-28",))
async def uses_tools_endlessly(fake: FakeServer) -> None:
    """The model is asked again each time it uses a tool."""
    offer = sampling("What is the time?", tools=[_TOOL])
    rounds = [Round(questions={"say": offer}, state=f"round {number}") for number in range(_ENDLESS)]
    asker = AskingTool(fake, "sample-for-ever", *rounds)
    asker.stop = lambda: asker.retries != [] and not _uses_tool(asker.replies["say"].result)
    await fake.client_exited()
    if not _uses_tool(asker.answered("say").result):
        raise Skip("the model of the client uses no tools, so there was no loop")
    why = f"the client continued for {len(asker.retries)} rounds of one call, in each of which its model used the same tool"
    fake.expect("SA-12", len(asker.retries) < _ENDLESS, why)


def _uses_tool(result: Any) -> bool:
    return any(block.get("type") == "tool_use" for block in blocks_of(members(result).get("content")))
