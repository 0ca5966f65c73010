"""Resources, from the side of a server."""

from __future__ import annotations

from twopipes._tools.check.fake_server import Pose, scenario

_GONE = ("resources/subscribe", "resources/unsubscribe")


@scenario("RS-05")
async def waits_for_a_subscription(pose: Pose) -> None:
    """A client that wants to know of changes listens, and uses neither of the old methods."""
    await pose.left()
    old = next((said for said in pose.requests() if said.method in _GONE), None)
    listens = any("resourceSubscriptions" in _wishes(said.params) for said in pose.requests("subscriptions/listen"))
    if old is None and not listens:
        pose.give_up("the client does not subscribe to resources")
    pose.expect(
        "RS-05",
        old is None,
        f"the client sent {old.method if old else ''}, which does not exist in {pose.revision}",
        mend="Send subscriptions/listen with the URIs in notifications.resourceSubscriptions.",
        about=old,
    )


def _wishes(params: dict[str, object]) -> dict[str, object]:
    wanted = params.get("notifications")
    return wanted if isinstance(wanted, dict) else {}
