"""Multi round-trip requests of clients: the retries of calls whose results ask for input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopipes._protocol.revisions import META_CAPABILITIES, META_VERSION
from twopipes._tools.check.asking_tools import AskingTool, Exchange, Round, easy_questions
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.messages import ClientMessage, members, same_id
from twopipes._tools.check.questions import declares
from twopipes._tools.check.scenario import scenario
from twopipes._trace.judges.values import shown

_RETRY_MEMBERS = ("inputResponses", "requestState")
_UNUSUAL_STATES = ('\u0000\u00e9 = \n\t"\\', "", "x" * 100 * 1024, '{"looks":"like JSON"}', None)
# Seconds between two retries of a call that got only a state, on average. Any pause takes longer.
_NO_PAUSE = 0.015


@scenario("MR-05", "MR-06", "MR-08", "MR-09", "MR-19")
async def asks_everything_at_once(fake: FakeServer) -> None:
    """Two tools ask for everything that the client can answer, and one between them asks for nothing."""
    first = AskingTool(fake, "ask-first", Round(questions=easy_questions("first-"), state="the state of the first"))
    fake.add_tool("ask-nothing", text("Nothing."))
    second = AskingTool(fake, "ask-second", Round(questions=easy_questions("second-"), state="the state of the second"))
    await fake.client_exited()
    first.retry()  # skips if there is none
    for asker in (first, second):
        for call, again in zip(asker.calls, asker.retries, strict=False):
            _judge_retry(fake, asker, call, again)
            _judge_answers(fake, asker, again)
    others = [message for message in fake.requests() if message not in (*first.retries, *second.retries)]
    stray = [message for message in others if message.params.keys() & {*_RETRY_MEMBERS}]
    fake.forbid("MR-09", stray, "a request that is not a retry has inputResponses or requestState")
    fake.give_up("the client accepted every question, so the check cannot tell how it declines")


def _judge_retry(fake: FakeServer, asker: AskingTool, call: ClientMessage, again: ClientMessage) -> None:
    about = asker.about(again)
    wanted = {key: value for key, value in call.params.items() if key != "_meta"}
    sent = {key: value for key, value in again.params.items() if key not in ("_meta", *_RETRY_MEMBERS)}
    fake.expect("MR-05", wanted == sent, f"the params {shown(wanted)} became {shown(sent)} in the retry", about=about)
    keys = members(again.params.get("inputResponses")).keys()
    why = f"the questions {', '.join(asker.asked[0])} were answered under the keys {', '.join(keys) or '(none)'}"
    fake.expect("MR-05", keys == asker.asked[0].keys(), why, about=about)
    missing = [key for key in (META_VERSION, META_CAPABILITIES) if key not in again.meta]
    fake.expect("MR-05", not missing, f"the _meta of the retry has no {', '.join(missing)}", about=about)
    fake.expect("MR-08", not same_id(call.id, again.id), f"the retry has the same id {shown(call.id)}", about=about)
    state, strange = again.params.get("requestState"), keys - asker.asked[0].keys()
    why = f"the retry of {asker.name} has the state {shown(state)} and the answers {', '.join(keys)}, which are not its own"
    fake.expect("MR-09", state == asker.state and not strange, why, about=about)


def _judge_answers(fake: FakeServer, asker: AskingTool, again: ClientMessage) -> None:
    for key, answer in members(again.params.get("inputResponses")).items():
        is_bare = isinstance(answer, dict) and not {"jsonrpc", "id", "resultType", "result"} & answer.keys()
        fake.expect("MR-06", is_bare, f"the answer to {shown(key)} is not a bare result: {shown(answer)}", about=asker.about(again))
        judge_a_no(fake, answer, about=asker.about(again))


def judge_a_no(fake: FakeServer, response: Any, *, about: Exchange | None) -> None:
    """Judge MR-19 by an answer that declines, or that is not an answer. One that accepts shows nothing."""
    is_none = not isinstance(response, dict) or not response or "error" in response or "code" in response
    if is_none or response.get("action") in ("decline", "cancel"):
        fake.expect("MR-19", not is_none, f"{shown(response)} is not an answer to a question", about=about)


def _one_question(prefix: str) -> Any:
    """Return a source of the first question that the client can answer, if there is one."""

    def choose(client_capabilities: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
        found = [(key, each) for key, each in easy_questions(prefix).items() if declares(client_capabilities, *each)]
        return dict(found[:1])

    return choose


@scenario("MR-07")
async def sends_unusual_states(fake: FakeServer) -> None:
    """Results that ask have states of unusual characters, an empty one, a very long one, and none."""
    askers = [
        AskingTool(fake, f"ask-with-state-{number}", Round(questions=_one_question(""), state=state))
        for number, state in enumerate(_UNUSUAL_STATES)
    ]
    await fake.client_exited()
    if not any(asker.retries for asker in askers):
        for asker in askers:
            asker.retry()  # skips with the reason
    for asker in askers:
        for retry in asker.retries[:1]:
            found = retry.params.get("requestState")
            is_same = "requestState" not in retry.params if asker.state is None else found == asker.state
            fake.expect("MR-07", is_same, f"the state {shown(asker.state)} came back as {shown(found)}", about=asker.about(retry))


@scenario("MR-10")
async def returns_only_a_state(fake: FakeServer) -> None:
    """A result asks nothing and has a state, again and again, for a while."""
    window = max(0.2, 5 * fake.timeouts.grace)
    most = int(window / _NO_PAUSE)
    asker = AskingTool(fake, "come-back-later", *(Round(questions={}, state=f"not yet, {number}") for number in range(most)))
    asker.stop = lambda: bool(asker.calls) and fake.now() - asker.calls[0].at > window
    await fake.client_exited()
    if not asker.retries:
        asker.require()
        fake.give_up("the client does not retry such a call, which is allowed")
    why = f"a call that got only a state was sent again {len(asker.retries)} times within {window:g} s"
    fake.expect("MR-10", len(asker.retries) < most, why, about=asker.about(asker.retries[-1]))


@scenario("MR-11")
async def asks_in_rounds(fake: FakeServer) -> None:
    """A tool asks, and asks again after the answer."""
    rounds = [Round(questions=_one_question(f"{number}-"), state=f"state {number}") for number in ("one", "two")]
    asker = AskingTool(fake, "ask-in-rounds", *rounds)
    await fake.client_exited()
    latest = asker.retry(1)
    state, answers = latest.params.get("requestState"), members(latest.params.get("inputResponses")).keys()
    why = f"the retry after the second round has the state {shown(state)} and the answers {', '.join(answers)}"
    fake.expect("MR-11", state == "state two" and answers <= asker.asked[1].keys(), why, about=asker.about(latest))
