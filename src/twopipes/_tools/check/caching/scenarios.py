"""Caching by clients.

What a client caches shows only in the requests that it does not send. So each scenario also offers something that must not be
cached: a client that requests that twice, and the other thing once, has cached the other thing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.asking_tools import QUESTIONS
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE, Fault, RawResult
from twopipes._tools.check.messages import ClientMessage
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

_READ = "resources/read"
# Milliseconds.
_LONG = 60_000
_SHORT = 5
# Requests for a list during one call that show polling.
_POLLING = 5
# Seconds. The least time in which a client that polls every few milliseconds is noticed.
_HOLD = 0.2
_READ_ONCE_ONLY = "the client does not read a resource twice that is listed twice"


def _listed(*names: str) -> list[dict[str, Any]]:
    return [{"uri": f"fake://{name}", "name": name, "mimeType": "text/plain"} for name in names]


def _contents(message: ClientMessage, **hints: Any) -> RawResult:
    contents = [{"uri": message.params.get("uri"), "mimeType": "text/plain", "text": "A note."}]
    return RawResult({"resultType": "complete", "contents": contents, "cacheScope": "private", **hints})


def _is_retry(message: ClientMessage) -> bool:
    return "inputResponses" in message.params or "requestState" in message.params


def _reads(fake: FakeServer) -> Counter[str]:
    """Return how often each resource was read, without the answers to questions."""
    plain = [message for message in fake.requests(_READ) if not _is_retry(message)]
    return Counter(str(message.params.get("uri")).removeprefix("fake://") for message in plain)


@scenario("CH-03")
async def returns_resources_that_are_already_stale(fake: FakeServer) -> None:
    """Lists three resources twice: with a ttlMs of 0, with a negative one, and without one."""
    names = ("zero", "negative", "missing")
    fake.healthy.resources = _listed(*names, *names)
    hints = {"fake://zero": {"ttlMs": 0}, "fake://negative": {"ttlMs": -5}}
    fake.on[_READ] = lambda message: _contents(message, **hints.get(str(message.params.get("uri")), {}))
    await fake.exited_after(_READ)
    reads = _reads(fake)
    if reads["zero"] < 2:
        raise Skip(_READ_ONCE_ONLY)
    for name, what in (("negative", "a negative ttlMs"), ("missing", "no ttlMs")):
        why = f"the client cached a resource with {what}, but read one with ttlMs 0 again"
        fake.expect("CH-03", reads[name] >= 2, why, about=fake.exchanges(_READ))


@scenario("CH-03")
async def returns_a_list_that_is_soon_stale(fake: FakeServer) -> None:
    """Returns a list of tools that is fresh for five milliseconds, and delays the first call."""
    fake.on["tools/list"] = lambda _message: {"tools": fake.healthy.tools, "ttlMs": _SHORT}
    counts: list[int] = []

    async def hold(_message: ClientMessage) -> None:
        if not counts:
            counts.append(len(fake.requests("tools/list")))
            await asyncio.sleep(max(_HOLD, fake.timeouts.grace))
            counts.append(len(fake.requests("tools/list")))

    await fake.exited_after("tools/call", hold)
    count = counts[-1] - counts[0]
    why = f"during one call, the client polled: it requested a list with ttlMs {_SHORT} {count} times"
    fake.expect("CH-03", count < _POLLING, why, about=fake.exchanges("tools/list"))


@scenario("CH-04")
async def returns_resources_that_may_be_cached(fake: FakeServer) -> None:
    """Lists five resources. From the third one read on, results may be cached for a minute."""
    names = ("one", "two", "three", "four", "five")
    fake.healthy.resources = _listed(*names)
    fake.on[_READ] = lambda message: _contents(message, ttlMs=_LONG if len(_reads(fake)) > 2 else 0)
    await fake.exited_after(_READ)
    reads = _reads(fake)
    if len(reads) <= 2:
        raise Skip("the client does not read the resources that are listed")
    missing = ", ".join(name for name in names if name not in reads)
    why = f"the client read {', '.join(reads)}; once results could be cached, it did not read {missing}"
    fake.expect("CH-04", not missing, why, about=fake.exchanges(_READ))


@scenario("CH-05")
async def asks_before_it_returns_a_resource(fake: FakeServer) -> None:
    """Lists twice a resource that is returned after a question, with a hint that it may be cached."""
    fake.healthy.resources = _listed("note", "gated", "note", "gated")
    method, params = QUESTIONS["elicitation"]

    def read(message: ClientMessage) -> Any:
        if message.params.get("uri") != "fake://gated" or "elicitation" not in message.connection.client_capabilities:
            return _contents(message, ttlMs=0)
        if _is_retry(message):
            return _contents(message, ttlMs=_LONG)
        question = {"method": method, "params": params}
        return {"resultType": "input_required", "inputRequests": {"who": question}, "requestState": "fake-gated"}

    fake.on[_READ] = read
    await fake.exited_after(lambda message: message.method == _READ and "inputResponses" in message.params)
    reads = _reads(fake)
    if reads["note"] < 2:
        raise Skip(_READ_ONCE_ONLY)
    why = "the client cached a result that it got by answering a question: it did not request it a second time"
    fake.expect("CH-05", reads["gated"] >= 2, why, about=fake.exchanges(_READ))


@scenario("CH-07")
async def announces_a_change(fake: FakeServer) -> None:
    """Returns a list of tools that may be cached for a minute, and announces a change of it at once."""
    fake.on["tools/list"] = lambda _message: {"tools": fake.healthy.tools, "ttlMs": _LONG}

    def subscribes(message: ClientMessage) -> bool:
        wanted = message.params.get("notifications")
        is_listen = message.method == "subscriptions/listen"
        return is_listen and isinstance(wanted, dict) and wanted.get("toolsListChanged") is True

    def listen(message: ClientMessage) -> Any:
        message.connection.send(fake.healthy.acknowledgement(message.id, message.params))
        if subscribes(message):
            message.connection.notify("notifications/tools/list_changed", {"_meta": {META_SUBSCRIPTION_ID: message.id}})
        return SILENCE

    fake.on["subscriptions/listen"] = listen
    announced = await fake.exited_after(subscribes)
    before = {message.method for message in fake.requests() if message.number <= announced.number}
    after = {message.method for message in fake.requests() if message.number > announced.number}
    again = "tools/list" in after
    if "tools/list" not in before or not (again or "prompts/list" in before & after):
        raise Skip("the client did not need a list again after the change")
    why = "after the list of tools changed, the client requested the prompts again, but not the tools"
    fake.expect("CH-07", again, why, about=fake.exchanges("tools/list"))


@scenario("CH-09")
async def rejects_its_own_cursor(fake: FakeServer) -> None:
    """Returns a first page that may be cached for a minute, and rejects the cursor of the second."""
    rejected: list[ClientMessage] = []

    def respond(message: ClientMessage) -> Any:
        if rejected:
            return {"tools": fake.healthy.tools}
        if message.params.get("cursor") is None:
            return {"tools": fake.healthy.tools[:1], "nextCursor": "second", "ttlMs": _LONG}
        rejected.append(message)
        return Fault(-32602, "the cursor has expired; request the list from its start")

    fake.on["tools/list"] = respond
    await fake.exited_after(lambda message: message.method == "tools/list" and message.params.get("cursor") is not None)
    later = [message for message in fake.requests("tools/list") if message.number > rejected[0].number]
    why = "after its cursor was rejected with -32602, the client did not request the list from its start"
    fake.expect("CH-09", any(message.params.get("cursor") is None for message in later), why, about=rejected[0])
