"""Sampling, from the side of a server."""

from __future__ import annotations

import re
from typing import Any

from twopipes._protocol.revisions import SAMPLING_CONTENT_ARRAYS
from twopipes._tools.check.asking_tools import AskingTool, Reply, Round, sampling
from twopipes._tools.check.fake_server import FakeServer, scenario
from twopipes._tools.check.questions import SAMPLE, blocks_of, content_faults, declares, members, sample_faults
from twopipes._tools.check.verdict import Skip

# Words for one token. No tokeniser makes so many of so little; what is within it may be anything.
_FAR_BEYOND = 100
_REFUSAL = re.compile(r"reject|refus|denied|deny|declin|not allowed by the user|user said no", re.IGNORECASE)
_REFUSED = -1
_TOOL = {"name": "clock", "description": "Tells the time.", "inputSchema": {"type": "object", "properties": {}}}
# Rounds after which the conversation counts as endless.
_ENDLESS = 40


@scenario("SA-02", "SA-03", "SA-09", "SA-10", revisions="each")
async def asks_the_model(fake: FakeServer) -> None:
    """The model is asked for one token, with content of one block and, where there is such a thing, of several."""
    several = [{"type": "text", "text": "Say"}, {"type": "text", "text": "hello."}]
    plain = AskingTool(fake, "sample", Round(questions={"say": sampling("Say hello.", maxTokens=1)}))
    takes_arrays = SAMPLING_CONTENT_ARRAYS.has(fake.revision)
    messages = [{"role": "user", "content": several}]
    listed = AskingTool(fake, "sample-several", Round(questions={"say": sampling("", messages=messages)})) if takes_arrays else None
    await fake.client_exited()
    reply = plain.reply("say")
    _judge_a_refusal(fake, reply)
    result = plain.answered("say").result
    faults = list(sample_faults(result))
    fake.expect("SA-02", not faults, "; ".join(faults), fix="Answer with role, content and model.", about=reply.about)
    faults = list(content_faults(result.get("content"), fake.revision))
    fake.expect("SA-03", not faults, "; ".join(faults), fix="Answer with one block of a known type.", about=reply.about)
    words = sum(len(str(block.get("text", "")).split()) for block in blocks_of(result.get("content")))
    fake.expect(
        "SA-09",
        words <= _FAR_BEYOND,
        f"the model was asked for one token at most, and {words} words came",
        fix="Hand maxTokens on to the model.",
        about=reply.about,
    )
    if listed is not None and "say" in listed.replies:
        fake.expect(
            "SA-03",
            isinstance(listed.replies["say"].result, dict),
            f"a message of one block was answered, and one of an array of blocks got {listed.replies['say'].summary}",
            fix="Take content as one block or as an array of them.",
            about=listed.replies["say"].about,
        )


def _judge_a_refusal(fake: FakeServer, reply: Reply) -> None:
    if reply.error is None:
        fake.skip("SA-10", "the user did not refuse" if reply.result is not None else "the client did not answer")
    elif reply.code != _REFUSED and not _REFUSAL.search(str(members(reply.error).get("message"))):
        fake.skip("SA-10", f"the client answered with {reply.summary}, which may be no refusal of the user")
    else:
        fake.expect(
            "SA-10",
            reply.code == _REFUSED,
            f"the user refused, and the answer was {reply.summary}",
            fix="Answer with the code -1 when the user does not want it.",
            about=reply.about,
        )


@scenario("SA-05", "SA-07")
async def offers_tools_to_the_model(fake: FakeServer) -> None:
    """The model is offered a tool, and told not to use it; a client that cannot do that says so."""
    offer = sampling("What is the time?", tools=[_TOOL], toolChoice={"mode": "none"})
    asker = AskingTool(fake, "sample-with-tools", Round(questions={"say": offer}), undeclared=not fake.is_modern)
    await fake.client_exited()
    reply = asker.reply("say")
    client_capabilities = asker.calls[0].connection.client_capabilities
    if declares(client_capabilities, *offer):
        content = asker.answered("say").result.get("content")
        used = [block for block in blocks_of(content) if block.get("type") == "tool_use"]
        fake.skip("SA-05", "the client declares sampling.tools")
        fake.expect(
            "SA-07",
            not used,
            "with toolChoice none, the model used a tool",
            fix="Hand toolChoice on to the model, or leave the tools out.",
            about=reply.about,
        )
        return
    if not declares(client_capabilities, SAMPLE):
        fake.give_up("the client did not declare sampling")
    fake.skip("SA-07", "the client does not declare sampling.tools")
    if reply.about is None:
        fake.give_up("the client did not answer")
    fake.expect(
        "SA-05",
        reply.error is not None,
        "the client does not declare sampling.tools, was offered tools, and answered with a result as if there were none",
        fix="Answer with an error (-32602) when tools come that you did not declare.",
        about=reply.about,
    )


@scenario("SA-12", revisions=("2026-07-28",))
async def uses_tools_for_ever(fake: FakeServer) -> None:
    """A model that uses a tool is given its result, and asked again, and again."""
    offer = sampling("What is the time?", tools=[_TOOL])
    rounds = [Round(questions={"say": offer}, state=f"round {number}") for number in range(_ENDLESS)]
    asker = AskingTool(fake, "sample-for-ever", *rounds)
    asker.stop = lambda: asker.retries != [] and not _uses_a_tool(asker.replies["say"].result)
    await fake.client_exited()
    if not _uses_a_tool(asker.answered("say").result):
        raise Skip("the model of the client uses no tools, so that there was no loop")
    fake.expect(
        "SA-12",
        len(asker.retries) < _ENDLESS,
        f"the client went along with {len(asker.retries)} rounds of one call, in each of which its model used the same tool",
        fix="Count the rounds of a call, and stop after some.",
    )


def _uses_a_tool(result: Any) -> bool:
    return any(block.get("type") == "tool_use" for block in blocks_of(members(result).get("content")))
