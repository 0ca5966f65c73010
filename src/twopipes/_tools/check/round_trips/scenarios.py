"""Multi round-trip requests, from the side of a server: results that ask, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopipes._protocol.revisions import META_CAPABILITIES, META_VERSION
from twopipes._tools.check.asking_tools import AskingTool, Exchange, Round, easy_questions
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.questions import declares, members, shown

__all__ = ["judge_a_no"]

_NO = ("decline", "cancel")
_CARRIED = ("inputResponses", "requestState")
_ODD_STATES = ('\u0000\u00e9 = \n\t"\\', "", "x" * 100 * 1024, '{"looks":"like JSON"}', None)
# Seconds between two retries of a call that gets nothing but a state, on the average. Whoever pauses at all takes longer.
_NO_PAUSE = 0.015


@scenario("MR-05", "MR-06", "MR-08", "MR-09", "MR-19")
async def asks_all_at_once(fake: FakeServer) -> None:
    """Two tools ask for all that the client can answer, and one between them asks for nothing."""
    first = AskingTool(fake, "ask-first", Round(questions=easy_questions("first-"), state="the state of the first"))
    fake.add_tool("ask-nothing", text("Nothing."))
    second = AskingTool(fake, "ask-second", Round(questions=easy_questions("second-"), state="the state of the second"))
    await fake.client_exited()
    first.require()
    retry = first.retry()
    for asker in (first, second):
        for call, again in zip(asker.calls, asker.retries, strict=False):
            _judge_a_retry(fake, asker, call, again)
    carrying = [message for message in fake.requests() if message not in (*first.retries, *second.retries) and _carries(message)]
    fake.expect(
        "MR-09",
        not carrying,
        f"a request without a question carries {' and '.join(_carries(carrying[0])) if carrying else ''}",
        fix="Keep state and answers with the call that they belong to, and forget them with it.",
        about=carrying[0] if carrying else retry,
    )
    fake.give_up("the client said yes to all that it was asked, so the check cannot tell how it says no")


def _carries(message: ClientMessage) -> list[str]:
    return [name for name in _CARRIED if name in message.params]


def _judge_a_retry(fake: FakeServer, asker: AskingTool, call: ClientMessage, again: ClientMessage) -> None:
    same = {key: value for key, value in call.params.items() if key != "_meta"}
    sent = {key: value for key, value in again.params.items() if key not in ("_meta", *_CARRIED)}
    fix = "Send the same method and params again, with inputResponses, requestState and _meta of their own."
    fake.expect("MR-05", same == sent, f"{shown(same)} was sent again as {shown(sent)}", fix=fix, about=asker.about(again))
    answers = again.params.get("inputResponses")
    fake.expect(
        "MR-05",
        members(answers).keys() == asker.asked[0].keys(),
        f"the questions {', '.join(asker.asked[0])} were answered under the keys {', '.join(members(answers)) or '(none)'}",
        fix="Answer all questions, each under its own key, before you send the call again.",
        about=asker.about(again),
    )
    missing = [key for key in (META_VERSION, META_CAPABILITIES) if key not in again.meta]
    fake.expect(
        "MR-05", not missing, f"the call was sent again without {', '.join(missing)} in _meta", fix=fix, about=asker.about(again)
    )
    fake.expect(
        "MR-08",
        (type(call.id), call.id) != (type(again.id), again.id),
        f"the call was sent again with the same id {shown(call.id)}",
        fix="Give it a new id: it is a request like any other.",
        about=asker.about(again),
    )
    for key, response in members(answers).items():
        wrapped = sorted({"jsonrpc", "id", "resultType", "result"} & members(response).keys())
        fake.expect(
            "MR-06",
            isinstance(response, dict) and not wrapped,
            f"the answer to {shown(key)} is no bare result: {shown(response)}",
            fix="Put the result itself under the key, without an envelope around it.",
            about=asker.about(again),
        )
        judge_a_no(fake, response, about=asker.about(again))
    strange = sorted(members(answers).keys() - asker.asked[0].keys())
    fake.expect(
        "MR-09",
        again.params.get("requestState") == asker.state and not strange,
        f"{asker.name} was sent again with the state {shown(again.params.get('requestState'))} and the answers "
        f"{', '.join(members(answers))}, which are not its own",
        fix="Keep state and answers with the call that they belong to.",
        about=asker.about(again),
    )


def judge_a_no(fake: FakeServer, response: Any, *, about: Exchange | None) -> None:
    """Judges MR-19 by an answer that says no, or that is none; what says yes shows nothing of it."""
    is_none = not isinstance(response, dict) or not response or "error" in response or "code" in response
    if is_none or response.get("action") in _NO:
        fake.expect(
            "MR-19",
            not is_none,
            f"a question was answered with what is no answer: {shown(response)}",
            fix="Say decline or cancel to a form; where the model or the roots cannot be had, do not send the call again.",
            about=about,
        )


def _one_of(prefix: str) -> Any:
    """The first question that the client can answer; none, and then the state alone goes along."""

    def choose(client_capabilities: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
        found = [(key, each) for key, each in easy_questions(prefix).items() if declares(client_capabilities, *each)]
        return dict(found[:1])

    return choose


@scenario("MR-07")
async def gives_odd_states(fake: FakeServer) -> None:
    """Results that ask have states of strange characters, an empty one, a very long one, and none."""
    askers = [
        AskingTool(fake, f"ask-with-state-{number}", Round(questions=_one_of(""), state=state))
        for number, state in enumerate(_ODD_STATES)
    ]
    await fake.client_exited()
    fix = "Keep requestState as it came, as text, and send it back; where none came, leave the member out."
    if not any(asker.retries for asker in askers):
        for asker in askers:
            asker.retry()
    for asker in askers:
        for retry in asker.retries[:1]:
            came = retry.params.get("requestState")
            fake.expect(
                "MR-07",
                came == asker.state if asker.state is not None else "requestState" not in retry.params,
                f"the state {shown(asker.state)} came back as {shown(came)}"
                if asker.state is not None
                else f"no state was given, and {shown(came)} came back",
                fix=fix,
                about=asker.about(retry),
            )


@scenario("MR-10")
async def gives_nothing_but_a_state(fake: FakeServer) -> None:
    """A result asks nothing and gives a state, again and again, for a while."""
    window = max(0.2, 5 * fake.timeouts.grace)
    most = int(window / _NO_PAUSE)
    rounds = [Round(questions={}, state=f"not yet, {number}") for number in range(most)]
    asker = AskingTool(fake, "come-back-later", *rounds)
    asker.stop = lambda: bool(asker.calls) and fake.now() - asker.calls[0].at > window
    await fake.client_exited()
    if not asker.retries:
        asker.require()
        fake.give_up("the client does not send such a call again, which is its right")
    fake.expect(
        "MR-10",
        len(asker.retries) < most,
        f"a call that got nothing but a state was sent again {len(asker.retries)} times within {window:g} s",
        fix="Pause before each retry, longer each time, and give up after some.",
        about=asker.about(asker.retries[-1]),
    )


@scenario("MR-11")
async def asks_in_rounds(fake: FakeServer) -> None:
    """A tool asks, and asks again when it has the answer."""
    rounds: Sequence[Round] = [
        Round(questions=_one_of("one-"), state="state one"),
        Round(questions=_one_of("two-"), state="state two"),
    ]
    asker = AskingTool(fake, "ask-in-rounds", *rounds)
    await fake.client_exited()
    latest = asker.retry(1)
    answers = members(latest.params.get("inputResponses")).keys()
    fake.expect(
        "MR-11",
        latest.params.get("requestState") == "state two" and answers <= asker.asked[1].keys(),
        f"after the second round came the state {shown(latest.params.get('requestState'))} and the answers {', '.join(answers)}",
        fix="Send the latest state and the answers to the latest questions, and nothing of earlier rounds.",
        about=asker.about(latest),
    )
