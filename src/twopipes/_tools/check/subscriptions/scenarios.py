"""Subscriptions, from the side of a server that somebody listens to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, asked_for, scenario
from twopipes._tools.check.healthy_responses import SILENCE
from twopipes._tools.check.server_reply import same_id
from twopipes._tools.check.verdict import Skip

_LISTEN = "subscriptions/listen"
_CANCELLED = "notifications/cancelled"
# What may be asked beside a listen.
_BESIDE = (
    *("tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete"),
    *("resources/list", "resources/templates/list", "resources/read"),
)


def _notification(method: str, request_id: Any, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": {META_SUBSCRIPTION_ID: request_id}}}


def _result(message: ClientMessage) -> dict[str, Any]:
    result = {"resultType": "complete", "_meta": {META_SUBSCRIPTION_ID: message.id}}
    return {"jsonrpc": "2.0", "id": message.id, "result": result}


@scenario("SU-11")
async def is_listened_to(fake: FakeServer) -> None:
    """Nothing special: how does a client stop to listen?"""
    await fake.wait_for(_LISTEN)
    await fake.client_exited()
    listens = fake.requests(_LISTEN)
    stopped = [message for message in fake.notifications(_CANCELLED) if any(_means(message, each) for each in listens)]
    wrong = [message for message in stopped if not any(same_id(message.params.get("requestId"), each.id) for each in listens)]
    wrong += [message for message in fake.requests() if _is_another_way_to_stop(message)]
    if not stopped and not wrong:
        fake.skip("SU-11", "the client ended none of its listens before it left")
        return
    fake.expect(
        "SU-11",
        not wrong,
        "the client ended a listen by something else than notifications/cancelled with the id of the request",
        fix="Send notifications/cancelled, with the id of the listen, in its JSON type, as requestId.",
        about=wrong[0] if wrong else None,
    )


@scenario("SU-03")
async def says_other_things_before_it_acknowledges(fake: FakeServer) -> None:
    """The acknowledgement of a listen that is not the client's, and a change for that, come first."""

    def interleave(message: ClientMessage) -> None:
        other = "somebody-else"
        message.connection.send(
            _notification("notifications/subscriptions/acknowledged", other, notifications={"toolsListChanged": True})
        )
        message.connection.send(_notification("notifications/tools/list_changed", other))

    fake.on[_LISTEN] = interleave
    await fake.wait_for(_LISTEN)
    await fake.client_exited()
    fake.expect(
        "SU-03",
        not _what_differs(fake),
        f"when messages of another subscription came before the acknowledgement, {_what_differs(fake)}",
        fix="Wait for the message that carries the id of your listen; leave the others alone.",
    )


@scenario("SU-07")
async def acknowledges_nothing(fake: FakeServer) -> None:
    """A listen is acknowledged, and nothing of what it asks for is promised."""

    def refuse_all(message: ClientMessage) -> Any:
        message.connection.send(_notification("notifications/subscriptions/acknowledged", message.id, notifications={}))
        return SILENCE

    fake.on[_LISTEN] = refuse_all
    await fake.wait_for(_LISTEN)
    await fake.client_exited()
    fake.expect(
        "SU-07",
        not _what_differs(fake),
        f"when a server acknowledged nothing of what was asked for, {_what_differs(fake)}",
        fix="Look into the acknowledgement, and ask from time to time for what the server does not tell.",
    )


async def _ends(fake: FakeServer, told: str, ending: Callable[[ClientMessage], Sequence[dict[str, Any]]]) -> None:
    def acknowledge_and_end(message: ClientMessage) -> Any:
        fake.reply(message, fake.healthy_response(message))
        for each in ending(message):
            message.connection.send(each)
        return SILENCE

    fake.on[_LISTEN] = acknowledge_and_end
    await fake.wait_for(_LISTEN)
    await fake.client_exited()
    fake.expect(
        "SU-15",
        not _what_differs(fake),
        f"when the server ended a subscription by {told}, {_what_differs(fake)}",
        fix="Take whichever comes first for the end, and drop the other.",
    )


def _cancel(message: ClientMessage) -> dict[str, Any]:
    return _notification(_CANCELLED, message.id, requestId=message.id)


@scenario("SU-15")
async def ends_a_listen_by_a_result(fake: FakeServer) -> None:
    """The listen is answered."""
    await _ends(fake, "a result", lambda message: [_result(message)])


@scenario("SU-15")
async def ends_a_listen_by_a_cancel(fake: FakeServer) -> None:
    """The listen is cancelled, and never answered."""
    await _ends(fake, "notifications/cancelled", lambda message: [_cancel(message)])


@scenario("SU-15")
async def ends_a_listen_by_a_cancel_and_a_result(fake: FakeServer) -> None:
    """Both, as the pages taken together want it."""
    await _ends(fake, "notifications/cancelled and then a result", lambda message: [_cancel(message), _result(message)])


@scenario("SU-15", judged=False)
async def ends_a_listen_by_a_result_and_a_cancel(fake: FakeServer) -> None:
    """Both, the wrong way round."""
    await _ends(fake, "a result and then notifications/cancelled", lambda message: [_result(message), _cancel(message)])


@scenario("SU-16")
async def dies_while_somebody_listens(fake: FakeServer) -> None:
    """The server ends at what is asked beside a listen. Whoever asks that again of a new server has to listen again as well."""
    lost: list[ClientMessage] = []

    def die(message: ClientMessage) -> Any:
        if lost or not _open_listens(message):
            return None
        lost.append(message)
        fake.end_server(1)
        return SILENCE

    for method in _BESIDE:
        fake.on[method] = die
    first = (await fake.wait_for(_LISTEN)).connection
    await fake.until(lambda: lost or None, fake.timeouts.brief)
    if not lost and not first.is_over and _open_listens(first.received_lines[-1]):
        fake.end_server(1)  # nothing is asked beside it: the client can still show that it keeps the rule
    await fake.client_exited()
    later = [message for message in fake.requests() if message.connection.number > first.number]
    if not later:
        raise Skip("the client did not start the server again after it had died, or the server did not have to die")
    again = [message for message in later if message.method == _LISTEN]
    # With what was lost, the listen may have been let go of, by an exception for one; not by whoever asks the same once more.
    if not again and not (lost and asked_for(lost[0]) in map(asked_for, later)):
        raise Skip("the client started the server again, and nothing shows that it still wanted to listen")
    fake.expect(
        "SU-16",
        again,
        "the client started a server again that had died while it listened, and went on without its listen",
        fix="Send every open listen again on a new connection; the server does not know of it.",
        about=later[-1],
    )


def _open_listens(message: ClientMessage) -> list[ClientMessage]:
    """The listens that were open when the client said something, on the same connection."""
    before = [each for each in message.connection.received_lines if each.number <= message.number]
    ended = [each for each in before if each.method == _CANCELLED]
    return [each for each in before if each.method == _LISTEN and each.is_request and not any(_means(end, each) for end in ended)]


def _what_differs(fake: FakeServer) -> str:
    """What the client did otherwise. One that listens until it is stopped may well be content, and leave, when a listen ends."""
    missing = fake.what_differs.startswith("it did not ask")
    return fake.what_differs if missing or fake.exit is None or fake.exit.code != 0 else ""


def _means(message: ClientMessage, listen: ClientMessage) -> bool:
    """Whether a cancel is meant for a listen, be the JSON type right or not."""
    return str(message.params.get("requestId")) == str(listen.id)


def _is_another_way_to_stop(message: ClientMessage) -> bool:
    method = message.method or ""
    return method == "resources/unsubscribe" or (method.startswith("subscriptions/") and method != _LISTEN)
