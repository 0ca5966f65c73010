"""Subscriptions of clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE
from twopipes._tools.check.messages import ClientMessage, asked_for, same_id
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

_LISTEN = "subscriptions/listen"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_CANCELLED = "notifications/cancelled"
# Requests that a client may send beside a listen.
_BESIDE = (
    *("tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete"),
    *("resources/list", "resources/templates/list", "resources/read"),
)


def _notification(method: str, request_id: Any, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": {META_SUBSCRIPTION_ID: request_id}}}


def _result(message: ClientMessage) -> dict[str, Any]:
    result = {"resultType": "complete", "_meta": {META_SUBSCRIPTION_ID: message.id}}
    return {"jsonrpc": "2.0", "id": message.id, "result": result}


def _cancel(message: ClientMessage) -> dict[str, Any]:
    return _notification(_CANCELLED, message.id, requestId=message.id)


@scenario("SU-11")
async def is_listened_to(fake: FakeServer) -> None:
    """A healthy server: how the client ends its listens is judged."""
    await fake.exited_after(_LISTEN)
    listens = fake.requests(_LISTEN)
    ended = [message for message in fake.notifications(_CANCELLED) if any(_means(message, each) for each in listens)]
    wrong = [message for message in ended if not any(same_id(message.params.get("requestId"), each.id) for each in listens)]
    wrong += [message for message in fake.requests() if _is_another_way_to_end(message.method or "")]
    if not ended and not wrong:
        fake.give_up("the client ended none of its listens before it exited")
    fake.forbid("SU-11", wrong, "the client ended a listen, but not by notifications/cancelled with the id of the request")


def _means(message: ClientMessage, listen: ClientMessage) -> bool:
    """Return whether a cancellation is meant for a listen, even if the JSON type of the id is wrong."""
    return str(message.params.get("requestId")) == str(listen.id)


def _is_another_way_to_end(method: str) -> bool:
    return method == "resources/unsubscribe" or (method.startswith("subscriptions/") and method != _LISTEN)


async def _judge_listening(fake: FakeServer, rule: str, when: str, handler: Callable[[ClientMessage], Any]) -> None:
    """Judge a rule by whether the client behaves as usual if its listens are handled in this way."""
    fake.on[_LISTEN] = handler
    await fake.exited_after(_LISTEN)
    # A client that listens until it is stopped may exit in order when a listen ends.
    has_exited = fake.exit is not None and fake.exit.code == 0 and not fake.what_is_missing
    fake.expect(rule, has_exited or not fake.what_differs, f"{when}, {fake.what_differs}")


@scenario("SU-03")
async def sends_other_messages_before_it_acknowledges(fake: FakeServer) -> None:
    """The acknowledgement of a listen that is not the client's, and a change for it, come first."""

    def interleave(message: ClientMessage) -> None:
        message.connection.send(_notification(_ACKNOWLEDGED, "another", notifications={"toolsListChanged": True}))
        message.connection.send(_notification("notifications/tools/list_changed", "another"))

    await _judge_listening(fake, "SU-03", "after messages of another subscription before the acknowledgement", interleave)


@scenario("SU-07")
async def acknowledges_nothing(fake: FakeServer) -> None:
    """A listen is acknowledged, without any of the requested notifications."""

    def refuse_all(message: ClientMessage) -> Any:
        message.connection.send(_notification(_ACKNOWLEDGED, message.id, notifications={}))
        return SILENCE

    await _judge_listening(fake, "SU-07", "after an acknowledgement without notifications", refuse_all)


async def _end_listens(fake: FakeServer, how: str, ending: Callable[[ClientMessage], Sequence[dict[str, Any]]]) -> None:
    def acknowledge_and_end(message: ClientMessage) -> Any:
        fake.reply(message, fake.healthy_response(message))
        for each in ending(message):
            message.connection.send(each)
        return SILENCE

    await _judge_listening(fake, "SU-15", f"after the server ended a subscription with {how}", acknowledge_and_end)


@scenario("SU-15")
async def ends_a_listen_by_a_result(fake: FakeServer) -> None:
    """The listen gets a result."""
    await _end_listens(fake, "a result", lambda message: [_result(message)])


@scenario("SU-15")
async def ends_a_listen_by_a_cancel(fake: FakeServer) -> None:
    """The listen is cancelled, and gets no result."""
    await _end_listens(fake, "notifications/cancelled", lambda message: [_cancel(message)])


@scenario("SU-15")
async def ends_a_listen_by_a_cancel_and_a_result(fake: FakeServer) -> None:
    """The listen is cancelled and gets a result, as the pages taken together require."""
    await _end_listens(fake, "notifications/cancelled and then a result", lambda message: [_cancel(message), _result(message)])


@scenario("SU-15", judged=False)
async def ends_a_listen_by_a_result_and_a_cancel(fake: FakeServer) -> None:
    """The listen gets a result and is cancelled, in the wrong order."""
    await _end_listens(fake, "a result and then notifications/cancelled", lambda message: [_result(message), _cancel(message)])


@scenario("SU-16")
async def exits_during_a_listen(fake: FakeServer) -> None:
    """The server exits at a request beside a listen. A client that repeats the request must also repeat the listen."""
    lost: list[ClientMessage] = []

    def exit_once(message: ClientMessage) -> Any:
        if lost or not _open_listens(message):
            return None
        lost.append(message)
        fake.end_server(1)
        return SILENCE

    for method in _BESIDE:
        fake.on[method] = exit_once
    first = (await fake.wait_for(_LISTEN)).connection
    await fake.until(lambda: lost or None, fake.timeouts.brief)
    if not lost and not first.is_over and _open_listens(first.received_lines[-1]):
        fake.end_server(1)  # without a request beside it, the client can still show that it keeps the rule
    await fake.client_exited()
    later = [message for message in fake.requests() if message.connection.number > first.number]
    if not later:
        raise Skip("the client did not start the server again, or the server did not have to exit")
    again = [message for message in later if message.method == _LISTEN]
    # The client may have dropped the listen with the lost request, unless it repeats that request.
    if not again and not (lost and asked_for(lost[0]) in map(asked_for, later)):
        raise Skip("the client started the server again, and nothing shows that it still listens")
    fake.expect("SU-16", again, "the client restarted a server that had exited, and did not repeat the listen", about=later[-1])


def _open_listens(message: ClientMessage) -> list[ClientMessage]:
    """Return the listens on the same connection that were open when the client sent a message."""
    before = [each for each in message.connection.received_lines if each.number <= message.number]
    ended = [each for each in before if each.method == _CANCELLED]
    return [each for each in before if each.method == _LISTEN and each.is_request and not any(_means(end, each) for end in ended)]
