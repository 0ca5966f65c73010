"""Resources, from the side of a server."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer, scenario

_GONE = ("resources/subscribe", "resources/unsubscribe")


@scenario("RS-05")
async def waits_for_a_subscription(fake: FakeServer) -> None:
    """A client that wants to know of changes listens, and uses neither of the old methods."""
    await fake.client_exited()
    old = next((message for message in fake.requests() if message.method in _GONE), None)
    listens = any("resourceSubscriptions" in _wishes(message.params) for message in fake.requests("subscriptions/listen"))
    if old is None and not listens:
        fake.give_up("the client does not subscribe to resources")
    fake.expect(
        "RS-05",
        old is None,
        f"the client sent {old.method if old else ''}, which does not exist in {fake.revision}",
        fix="Send subscriptions/listen with the URIs in notifications.resourceSubscriptions.",
        about=old,
    )


def _wishes(params: dict[str, object]) -> dict[str, object]:
    wanted = params.get("notifications")
    return wanted if isinstance(wanted, dict) else {}
