"""Self-contained requests and discovery, as clients use them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twopipes._protocol.revisions import LEGACY, META_SERVER_INFO, META_VERSION, MODERN
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import Fault
from twopipes._tools.check.messages import ClientMessage, asked_for
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

# Identical requests that are accepted although each was rejected.
_MOST = 6
_METHODS = (
    *("server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete"),
    *("resources/list", "resources/templates/list", "resources/read", "subscriptions/listen"),
)


@scenario("VN-05", judged=False)
async def rejects_every_version(fake: FakeServer) -> None:
    """Rejects every request with -32022 and a list of versions."""
    rejected: list[ClientMessage] = []

    def reject(message: ClientMessage) -> Any:
        if not message.is_modern:
            return None
        rejected.append(message)
        data = {"supported": list(MODERN), "requested": message.meta.get(META_VERSION)}
        return Fault(-32022, "unsupported protocol version", data)

    def repeated() -> str | None:
        often = Counter(map(asked_for, rejected)).most_common(1)
        return often[0][0] if often and often[0][1] > _MOST else None

    fake.on |= dict.fromkeys(_METHODS, reject)
    await fake.wait_for(lambda message: message.is_request and message.is_modern)
    found = await fake.until(repeated, fake.timeouts.client)
    if found is not None:
        fake.end_server()
    if not rejected:
        raise Skip("the client sent no request that was rejected for its version")
    fake.expect("VN-05", found is None, f"the client sent {found} more than {_MOST} times, although each one got -32022")
    unlisted = [message for message in rejected[1:] if message.meta.get(META_VERSION) not in MODERN]
    fake.forbid("VN-05", unlisted, lambda message: f"the client continued with {message.meta[META_VERSION]!r}, an unlisted version")
    for connection in fake.connections:
        ids = [repr(message.id) for message in rejected if message.connection is connection]
        fake.expect("VN-05", len(ids) == len(set(ids)), "the client sent a rejected request again with the same id")


@scenario("VN-10", eras=True, judged=False)
async def returns_lists_without_a_result_type(fake: FakeServer) -> None:
    """Is a legacy server, whose results have no resultType, for a client of both eras."""
    _need_calls(fake)
    legacy = max((each for each in fake.baselines if each in LEGACY), default=None)
    if legacy is None:
        raise Skip("the client speaks no revision whose results have no resultType")
    fake.healthy.speaks = (legacy,)
    await fake.exited_after("tools/list")
    why = "the list of tools had no resultType, and the client called none of the tools, as it does otherwise"
    fake.expect("VN-10", fake.requests("tools/call"), why)


@scenario("VN-11", judged=False)
async def returns_a_list_of_an_unknown_type(fake: FakeServer) -> None:
    """Returns a list of tools of the type weird, with a tool that is listed nowhere else."""
    _need_calls(fake)
    tools = [{**fake.healthy.tools[0], "name": "weird"}]
    fake.on["tools/list"] = lambda _message: {"resultType": "weird", "tools": tools, "ttlMs": 0, "cacheScope": "private"}
    await fake.exited_after("tools/list")
    fake.forbid("VN-11", fake.call_of("weird"), "the client called a tool from a list with the resultType 'weird'")


def _need_calls(fake: FakeServer) -> None:
    # Whether a list was used shows only in the calls that follow.
    if fake.baseline is None or not any(asked.startswith("tools/call") for asked in fake.baseline.asked):
        raise Skip("the client does not call tools by itself, so it is not visible whether it uses a list")


@scenario("VN-14")
async def has_another_name(fake: FakeServer) -> None:
    """Has another name and version than the healthy server."""

    def rename(message: ClientMessage) -> dict[str, Any] | None:
        if not message.is_modern:
            return None
        healthy = fake.healthy.response("server/discover", message.params, is_modern=True)
        return {**healthy, "_meta": {META_SERVER_INFO: {"name": "some-other-server", "version": "0.0.0-odd"}}}

    await fake.exited_after("server/discover", rename)
    fake.expect_as_usual("VN-14", "when the server had another name")
