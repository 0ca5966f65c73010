"""Roots of clients."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._tools.check.asking_tools import AskingTool, Round
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.messages import ClientMessage, members
from twopipes._tools.check.questions import ROOTS, declares, root_faults
from twopipes._tools.check.scenario import scenario
from twopipes._trace.judges.values import shown

_KEY = "where"
_QUESTION = {_KEY: (ROOTS, None)}


@scenario("RT-01", "RT-02", "RT-03", "RT-05")
async def asks_for_roots(fake: FakeServer) -> None:
    """The client is asked twice for its roots, by a request or in a result."""
    # A legacy client without roots can reject the question, so it is asked as well.
    first = AskingTool(fake, "roots", Round(questions=_QUESTION), undeclared=not fake.is_modern)
    questions = Round(questions=lambda _: {} if _is_unanswered(first) else _QUESTION)
    again = AskingTool(fake, "roots-again", questions, undeclared=not fake.is_modern)
    pings = _pinged_beside(fake, first)
    await fake.client_exited()
    changes = fake.notifications("notifications/roots/list_changed")
    if fake.is_modern and changes:
        fake.forbid("RT-05", changes, "the client announced a change of its roots, which modern revisions do not have")
    if _is_unanswered(first):
        _judge_silence(fake, first.calls[0], pings)
    _judge_answer(fake, first)
    answers = [each.replies[_KEY] for each in (first, again) if _KEY in each.replies and each.replies[_KEY].result]
    for each in answers:
        faults = list(root_faults(members(each.result)))
        fake.expect("RT-01", not faults, "; ".join(faults), about=each.about)
    if not answers:
        fake.give_up(f"the client answered roots/list with {first.reply(_KEY).summary}")
    if len(answers) == 1 or answers[0].result == answers[1].result:
        fake.give_up("the roots of the client did not change meanwhile")
    if fake.is_modern:
        fake.expect("RT-05", not changes)
        return
    if members(first.calls[0].connection.client_capabilities.get("roots")).get("listChanged") is not True:
        fake.give_up("the client does not declare roots.listChanged")
    one, two = (each.about.message.number if each.about is not None else 0 for each in answers)
    why = "the client was asked twice for its roots, gave different answers, and did not announce the change"
    fake.expect("RT-03", any(one < each.number < two for each in changes), why, about=answers[1].about)


def _judge_silence(fake: FakeServer, call: ClientMessage, pings: list[ClientMessage]) -> None:
    is_late = any(message not in pings for message in fake.responses())
    if pings and not is_late and declares(call.connection.client_capabilities, ROOTS) and not fake.was_cut_short(call.at):
        why = "the client declares roots, and did not answer roots/list, although it answered a ping meanwhile"
        fake.expect("RT-02", False, why, about=fake.sent_with(f'"{ROOTS}"'))
    fake.give_up("the client did not answer roots/list in time")


def _judge_answer(fake: FakeServer, asker: AskingTool) -> None:
    reply = asker.reply(_KEY)
    if not declares(asker.calls[0].connection.client_capabilities, ROOTS):
        if reply.code == METHOD_NOT_FOUND:
            fake.expect("RT-02", True)
        fake.give_up("the client does not declare roots")
    if reply.about is None:
        fake.give_up("the client did not answer")
    answer = shown(reply.result) if reply.error is None else reply.summary
    why = f"the client declares roots, and answered roots/list with {answer}"
    fake.expect("RT-02", isinstance(members(reply.result).get("roots"), list), why, about=reply.about)


def _is_unanswered(asker: AskingTool) -> bool:
    """Return whether a legacy client was asked and did not answer."""
    reply = asker.replies.get(_KEY)
    return bool(asker.asked) and not asker.calls[0].is_modern and (reply is None or reply.about is None)


def _pinged_beside(fake: FakeServer, asker: AskingTool) -> list[ClientMessage]:
    """Send a ping together with the question of a session, to see whether the client answers anything."""
    answers: list[ClientMessage] = []
    play = fake.healthy.results[asker.name]

    async def ping(message: ClientMessage) -> None:
        if not message.is_modern and (response := await fake.ask("ping", within=fake.timeouts.brief)) is not None:
            answers.append(response)

    async def both(message: ClientMessage) -> Any:
        response, _ = await asyncio.gather(play(message), ping(message))
        return response

    fake.healthy.results[asker.name] = both
    return answers
