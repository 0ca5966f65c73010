"""Roots, from the side of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from twopipes._tools.check.asking_tools import AskingTool, Questions, Round
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.questions import ROOTS, declares, members, root_faults, shown
from twopipes._tools.check.quotes import sent_with

_ALL = {"where": (ROOTS, None)}
_CHANGED = "notifications/roots/list_changed"


@scenario("RT-01", "RT-02", "RT-03", "RT-05")
async def asks_for_roots(fake: FakeServer) -> None:
    """The client is asked twice for its roots, by a request or in a result."""
    # Whoever has none is asked all the same where it can say so; there is no such way without a handshake.
    first = AskingTool(fake, "roots", Round(questions=_ALL), undeclared=not fake.is_modern)
    again = AskingTool(fake, "roots-again", Round(questions=_unless_unanswered(first)), undeclared=not fake.is_modern)
    pinged = _pinged_beside(fake, first)
    await fake.client_exited()
    told_of = fake.notifications(_CHANGED)
    if fake.is_modern and told_of:
        fake.expect(
            "RT-05",
            condition=False,
            why="the client told that its roots have changed, which the stateless wire does not know",
            fix="Leave the notification out; servers ask for roots when they need them.",
            about=told_of[0],
        )
    if _is_unanswered(first):
        call = first.calls[0]
        is_late = any(message not in pinged for message in fake.responses())
        if pinged and not is_late and declares(call.connection.client_capabilities, ROOTS) and not fake.was_cut_short(call.at):
            fake.expect(
                "RT-02",
                condition=False,
                why="the client declares roots, and did not answer roots/list, though it answered a ping meanwhile",
                fix='Answer with {"roots": [...]}; an empty array if there are none.',
                about=sent_with(fake, f'"{ROOTS}"'),
            )
        fake.give_up("the client did not answer roots/list in time")
    reply = first.reply("where")
    if not declares(first.calls[0].connection.client_capabilities, ROOTS):
        if reply.code == -32601:
            fake.expect("RT-02", condition=True, why="")
        fake.give_up("the client did not declare roots")
    if reply.about is None:
        fake.give_up("the client did not answer")
    fake.expect(
        "RT-02",
        isinstance(members(reply.result).get("roots"), list),
        f"the client declares roots, and answered roots/list with {shown(reply.result) if reply.error is None else reply.summary}",
        fix='Answer with {"roots": [...]}; an empty array if there are none.',
        about=reply.about,
    )
    answers = [each.replies["where"] for each in (first, again) if "where" in each.replies and each.replies["where"].result]
    for each in answers:
        faults = list(root_faults(members(each.result)))
        fake.expect("RT-01", not faults, "; ".join(faults), fix="Give file:// URIs, percent-encoded.", about=each.about)
    if not answers:
        fake.give_up(f"the client answered roots/list with {reply.summary}")
    if len(answers) == 1 or answers[0].result == answers[1].result:
        fake.give_up("the roots of the client did not change meanwhile")
    one, two = (each.about.message.number if each.about is not None else 0 for each in answers)
    if fake.is_modern:
        fake.expect("RT-05", not told_of, "")
        return
    if members(first.calls[0].connection.client_capabilities.get("roots")).get("listChanged") is not True:
        fake.give_up("the client did not declare roots.listChanged")
    fake.expect(
        "RT-03",
        any(one < each.number < two for each in told_of),
        "the client was asked twice for its roots, gave different ones, and did not tell meanwhile that they have changed",
        fix=f"Send {_CHANGED} when they change, or do not declare roots.listChanged.",
        about=answers[1].about,
    )


def _is_unanswered(asker: AskingTool) -> bool:
    """Whether a client with a handshake was asked, and has said nothing to it."""
    reply = asker.replies.get("where")
    return bool(asker.asked) and not asker.calls[0].is_modern and (reply is None or reply.about is None)


def _unless_unanswered(asker: AskingTool) -> Any:
    """The same question once more; not of somebody who has not answered it once."""

    def choose(_can: Mapping[str, Any]) -> Questions:
        return {} if _is_unanswered(asker) else _ALL

    return choose


def _pinged_beside(fake: FakeServer, asker: AskingTool) -> list[ClientMessage]:
    """Sends a ping right behind the question of a session: whoever answers that one alone does not want to answer the other."""
    pinged: list[ClientMessage] = []
    play = fake.healthy.results[asker.name]

    async def ping(message: ClientMessage) -> None:
        if not message.is_modern and (response := await fake.ask("ping", within=fake.timeouts.brief)) is not None:
            pinged.append(response)

    async def both(message: ClientMessage) -> Any:
        response, _ = await asyncio.gather(play(message), ping(message))
        return response

    fake.healthy.results[asker.name] = both
    return pinged
