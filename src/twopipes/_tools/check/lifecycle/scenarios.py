"""The handshake, from the side of a server."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._protocol.revisions import LEGACY
from twopipes._tools.check.fake_server import Pose, Said, scenario
from twopipes._tools.check.healthy_responses import SERVER_INFO, SILENCE, Fault
from twopipes._tools.check.verdict import Skip
from twopipes._trace.format import Event

_STRANGE = "1999-01-01"
# What may come before a session is open: a client that knows both eras asks server/discover, and everybody may ping.
_EARLY = {"initialize", "server/discover", "ping"}
# What belongs to other capabilities than tools.
_OF_OTHERS = (
    *("resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe"),
    *("prompts/list", "prompts/get", "completion/complete", "logging/setLevel"),
)


@scenario("LC-01", "LC-05")
async def is_slow_to_answer_the_handshake(pose: Pose) -> None:
    """The result of initialize takes a while: nothing but ping is asked before it comes."""
    asked_early: list[Said] = []

    async def dawdle(said: Said) -> None:
        await asyncio.sleep(2 * pose.patience.grace)
        heard = said.connection.heard_lines
        asked_early.extend(each for each in heard if each.is_request and each.method not in _EARLY and not each.is_modern)

    pose.on["initialize"] = dawdle
    handshake = await pose.heard("initialize")
    await pose.left()
    before = [said for said in asked_early if said.number < handshake.number]
    pose.expect(
        "LC-01",
        not before,
        f"the client asked {before[0].method if before else 'something'} before initialize",
        mend="Open a session by initialize; nothing but the probe of a client of both eras comes before it.",
        about=before[0] if before else None,
    )
    after = [said for said in asked_early if said.number > handshake.number]
    pose.expect(
        "LC-05",
        not after,
        f"the client asked {after[0].method if after else 'something'} before initialize was answered",
        mend="Wait for the result of initialize before you ask anything.",
        about=after[0] if after else None,
    )


@scenario("LC-07", judged=False)  # the version is the client's choice, and not that of the run
async def agrees_to_whatever_the_client_asks_for(pose: Pose) -> None:
    """The server supports just the version that the client asks for: then the client supports it as well."""

    def agree(said: Said) -> dict[str, Any]:
        # As in the healthy answer otherwise.
        asked = said.params.get("protocolVersion")
        return {"protocolVersion": asked, "capabilities": dict(pose.posture.capabilities), "serverInfo": SERVER_INFO}

    pose.on["initialize"] = agree
    handshake = await pose.heard("initialize")
    asked = handshake.params.get("protocolVersion")
    mend = "Ask for the newest version that you support."
    if not pose.expect("LC-07", isinstance(asked, str), f"the client asks for the version {asked!r}", mend=mend, about=handshake):
        return
    went_on = await pose.until(lambda: _what_followed(pose, handshake), pose.patience.client)
    await pose.left()
    pose.expect(
        "LC-07",
        went_on,
        f"the client asked for {asked!r}, the server agreed to that, and the client did not go on",
        mend=mend,
        about=handshake,
    )


def _what_followed(pose: Pose, handshake: Said) -> Said | None:
    """The first thing by which a client shows that it has a session now."""
    openings = _EARLY | {"notifications/cancelled"}
    later = (said for said in pose.heard_lines if said.number > handshake.number and said.method is not None)
    return next((said for said in later if said.method not in openings), None)


@scenario("LC-10", judged=False)
async def answers_with_a_version_from_nowhere(pose: Pose) -> None:
    """The server names a version that nobody supports: the client asks nothing more of it, and leaves."""

    def offer(said: Said) -> dict[str, Any]:
        return {**pose.posture.answer("initialize", said.params, is_modern=False), "protocolVersion": _STRANGE}

    pose.on["initialize"] = offer
    handshake = await pose.heard("initialize")
    await pose.left()
    more = _what_followed(pose, handshake)
    pose.expect(
        "LC-10",
        more is None,
        f"the server chose {_STRANGE}, and the client went on with {more.method if more else 'something'}",
        mend="Look at the version in the result of initialize; if you do not support it, close the connection and say why.",
        about=more,
    )
    if pose.was_cut_short(handshake.at):
        return
    pose.expect(
        "LC-10",
        more is not None or _has_left(pose, handshake),
        f"the server chose {_STRANGE}, and the client stayed connected until it was ended",
        mend="Close the connection to a server whose version you do not support, and say why.",
        about=handshake,
    )


def _has_left(pose: Pose, handshake: Said) -> bool:
    """Whether the client let go of a connection of its own accord, before the check had to end it."""
    events = [each for each in handshake.connection.entries if isinstance(each, Event) and each.name == "eof"]
    return pose.left_at is not None or any(event.at < pose.patience.client for event in events)


@scenario("LC-11", judged=False)
async def has_nothing_but_tools(pose: Pose) -> None:
    """The server declares tools and nothing else, and so nothing else is asked of it."""
    pose.posture.capabilities = {"tools": {}}
    # The first revision has no capability for completion, so that nobody can say that it was not declared.
    undeclared = [each for each in _OF_OTHERS if each != "completion/complete" or pose.revision > LEGACY[0]]
    for method in undeclared:
        pose.on[method] = lambda said: Fault(-32601, f"there is no method {said.method!r} here")
    handshake = await pose.heard("initialize")
    await pose.left()
    if _what_followed(pose, handshake) is None:
        raise Skip("the client had no session with a server that has nothing but tools")
    asked = [said for said in pose.requests() if said.method in undeclared and not said.is_modern]
    methods = dict.fromkeys(said.method or "" for said in asked)
    pose.expect(
        "LC-11",
        not asked,
        f"the server declares tools and nothing else, and the client sent {', '.join(methods)}",
        mend="Look at the capabilities in the result of initialize, and leave alone what is not among them.",
        about=asked[0] if asked else None,
    )


@scenario("LC-12")
async def never_answers_the_handshake(pose: Pose) -> None:
    """The handshake gets no answer: however the client gives it up, it does not cancel it."""
    pose.on["initialize"] = lambda _said: SILENCE
    handshake = await pose.heard("initialize")
    gave_up = await pose.until(
        lambda: handshake.connection.input_ended_at or _cancels(pose, handshake) or None, pose.patience.stimulus
    )
    if gave_up is None and not pose.is_over:
        pose.end_server()
        pose.give_up(f"the client was still waiting for the answer to initialize after {pose.patience.stimulus:g} s")
    await pose.left()
    cancel = _cancels(pose, handshake)
    pose.expect(
        "LC-12",
        cancel is None,
        "the client gave initialize up with notifications/cancelled",
        mend="Close the connection instead: there is nothing on it without a handshake.",
        about=cancel,
    )


def _cancels(pose: Pose, handshake: Said) -> Said | None:
    told = pose.notifications("notifications/cancelled")
    return next((said for said in told if said.params.get("requestId") == handshake.id), None)


@scenario("LC-13", needs_process=True)
async def refuses_the_handshake(pose: Pose) -> None:
    """The handshake gets an error: the client does not die of it."""
    pose.on["initialize"] = lambda _said: Fault(-32603, "this server is out of order")
    await pose.heard("initialize")
    await pose.left()
    if pose.exit is None:
        pose.give_up("the client did not end by itself, so that nobody can tell how it would have")
    pose.expect(
        "LC-13",
        pose.exit.signal is None,
        f"the server refused the handshake, and the client ended with {pose.exit.describe()}",
        mend="Tell the user what the server said, and go on or end in good order.",
    )
