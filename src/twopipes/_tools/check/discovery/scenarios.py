"""Requests that stand alone, and discovery, from the side of a server."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twopipes._protocol.revisions import LEGACY, META_SERVER_INFO, META_VERSION, MODERN
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, asked_for, scenario
from twopipes._tools.check.healthy_responses import Fault
from twopipes._tools.check.verdict import Skip

# Requests with one and the same fate. Whoever asks that often does not learn.
_CIRCLES = 6
_WEIRD = "weird"
_METHODS = (
    *("server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete"),
    *("resources/list", "resources/templates/list", "resources/read", "subscriptions/listen"),
)


@scenario("VN-05", judged=False)
async def refuses_every_version(fake: FakeServer) -> None:
    """Whatever is asked gets -32022 with a list: the client tries the list, or gives up, but it does not go on for ever."""
    refused: list[ClientMessage] = []

    def refuse(message: ClientMessage) -> Any:
        if not message.is_modern:
            return None
        refused.append(message)
        data = {"supported": list(MODERN), "requested": message.meta.get(META_VERSION)}
        return Fault(-32022, "that version is not served here", data)

    for method in _METHODS:
        fake.on[method] = refuse
    await fake.wait_for(lambda message: message.is_request and message.is_modern)
    circle = await fake.until(lambda: _circle(refused), fake.timeouts.client)
    if circle is not None:
        fake.end_server()
    if not refused:
        raise Skip("the client sent no request that was refused for its version")
    fix = "Try a version of data.supported once, as a new request; if that is refused as well, tell the user."
    fake.expect(
        "VN-05",
        circle is None,
        f"the client has sent {circle} more than {_CIRCLES} times, and each time the version was refused",
        fix=fix,
    )
    unlisted = next((message for message in refused[1:] if message.meta.get(META_VERSION) not in MODERN), None)
    why = f"the client went on with version {unlisted.meta.get(META_VERSION)!r}, which is not on the list" if unlisted else ""
    fake.expect("VN-05", unlisted is None, why, fix=fix, about=unlisted)
    for connection in fake.connections:
        ids = [repr(message.id) for message in refused if message.connection is connection]
        fake.expect("VN-05", len(ids) == len(set(ids)), "the client sent a refused request again under the same id", fix=fix)


def _circle(refused: list[ClientMessage]) -> str | None:
    """What was asked for again and again, if anything was: a tour on which each request is refused once is no circle."""
    often = Counter(map(asked_for, refused)).most_common(1)
    return often[0][0] if often and often[0][1] > _CIRCLES else None


@scenario("VN-10", eras=True, judged=False)
async def is_too_old_to_say_the_type_of_its_lists(fake: FakeServer) -> None:
    """A server of the old era, whose results have no resultType: a client that knows the new one takes them for complete ones."""
    _need_calls(fake)
    legacy = max((each for each in fake.baselines if each in LEGACY), default=None)
    if legacy is None:
        raise Skip("the client speaks no revision whose results have no resultType")
    fake.healthy.speaks = (legacy,)
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect(
        "VN-10",
        fake.requests("tools/call"),
        "the list of tools came without a resultType, and the client called none of them, as it does where there is one",
        fix="Take a result without a resultType for one of the type complete: those of older servers have none.",
    )


@scenario("VN-11", judged=False)
async def gives_a_list_of_a_type_that_nobody_knows(fake: FakeServer) -> None:
    """The list of tools is of the type weird, and has a tool that is listed nowhere else."""
    _need_calls(fake)
    tools = [{**fake.healthy.tools[0], "name": _WEIRD}]
    fake.on["tools/list"] = lambda _said: {"resultType": _WEIRD, "tools": tools, "ttlMs": 0, "cacheScope": "private"}
    await fake.wait_for("tools/list")
    await fake.client_exited()
    used = next((message for message in fake.requests("tools/call") if message.params.get("name") == _WEIRD), None)
    fake.expect(
        "VN-11",
        used is None,
        f"the client used a list of tools with the resultType {_WEIRD!r}: it called a tool of it",
        fix="Treat a result whose resultType you do not know as an error.",
        about=used,
    )


def _need_calls(fake: FakeServer) -> None:
    """Whether a list was used shows in the calls that follow, and in nothing else."""
    if fake.baseline is None or not any(asked.startswith("tools/call") for asked in fake.baseline.asked):
        raise Skip("the client calls no tools of its own accord, so the check cannot tell what it makes of a list")


@scenario("VN-14")
async def calls_itself_otherwise(fake: FakeServer) -> None:
    """The server has another name and another version: the client does what it always does."""

    def rename(message: ClientMessage) -> dict[str, Any] | None:
        if not message.is_modern:
            return None
        healthy = fake.healthy.response("server/discover", message.params, is_modern=True)
        return {**healthy, "_meta": {META_SERVER_INFO: {"name": "some-other-server", "version": "0.0.0-odd"}}}

    fake.on["server/discover"] = rename
    await fake.wait_for("server/discover")
    await fake.client_exited()
    fake.expect(
        "VN-14",
        not fake.what_differs,
        f"when the server called itself some-other-server, {fake.what_differs}",
        fix="Show serverInfo to people; what a server can do stands in its capabilities.",
    )
