"""Caching, from the side of a server.

What a client keeps shows only in what it does not ask for. So each scenario has something beside that may not be kept: a client
that asks for that twice, and for the other thing once, has kept the other thing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import SILENCE, Fault, RawResult
from twopipes._tools.check.quotes import exchanges
from twopipes._tools.check.verdict import Skip

_READ = "resources/read"
_LONG = 60_000
_SHORT = 5
# Requests for a list, during one call, that are not needed.
_POLLING = 5
# Seconds. The least time in which a client that polls every few milliseconds shows itself.
_HOLD = 0.2
_FIRST = 2
_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def _listed(*names: str) -> list[dict[str, Any]]:
    return [{"uri": f"fake://{name}", "name": name, "mimeType": "text/plain"} for name in names]


def _contents(message: ClientMessage, **hints: Any) -> RawResult:
    contents = [{"uri": message.params.get("uri"), "mimeType": "text/plain", "text": "A note."}]
    return RawResult({"resultType": "complete", "contents": contents, "cacheScope": "private", **hints})


def _reads(fake: FakeServer) -> Counter[str]:
    """How often each resource was read, without the answers to questions."""
    plain = [
        message
        for message in fake.requests(_READ)
        if "inputResponses" not in message.params and "requestState" not in message.params
    ]
    return Counter(str(message.params.get("uri")).removeprefix("fake://") for message in plain)


@scenario("CH-03")
async def gives_what_is_stale_at_once(fake: FakeServer) -> None:
    """Three resources that are stale at once, for three reasons, are listed twice each."""
    names = ("zero", "negative", "silent")
    fake.healthy.resources = _listed(*names, *names)
    hints = {"fake://zero": {"ttlMs": 0}, "fake://negative": {"ttlMs": -5}}
    fake.on[_READ] = lambda message: _contents(message, **hints.get(str(message.params.get("uri")), {}))
    await fake.wait_for(_READ)
    await fake.client_exited()
    reads = _reads(fake)
    if reads["zero"] < _FIRST:
        raise Skip("the client does not read a resource twice that is listed twice")
    for name, what in (("negative", "a negative ttlMs"), ("silent", "no ttlMs")):
        fake.expect(
            "CH-03",
            reads[name] >= _FIRST,
            f"a resource with {what} was kept, while one with ttlMs 0 was read again",
            fix="Take a ttlMs that is missing or negative for 0: stale at once.",
            about=exchanges(fake, _READ),
        )


@scenario("CH-03")
async def goes_stale_soon(fake: FakeServer) -> None:
    """The list of tools is good for five milliseconds, and then a call takes its time."""
    fake.on["tools/list"] = lambda _said: {"tools": fake.healthy.tools, "ttlMs": _SHORT}
    while_held: list[int] = []

    async def hold(_said: ClientMessage) -> None:
        if not while_held:
            before = len(fake.requests("tools/list"))
            while_held.append(0)
            await asyncio.sleep(max(_HOLD, fake.timeouts.grace))
            while_held[0] = len(fake.requests("tools/list")) - before

    fake.on["tools/call"] = hold
    await fake.wait_for("tools/call")
    await fake.client_exited()
    fake.expect(
        "CH-03",
        while_held[0] < _POLLING,
        f"during one call, the client asked {while_held[0]} times for a list that was good for {_SHORT} ms: it polls",
        fix="Ask again when the list is needed and stale; if you poll, use jitter and backoff.",
        about=exchanges(fake, "tools/list"),
    )


@scenario("CH-04")
async def gives_what_may_be_kept(fake: FakeServer) -> None:
    """Of five resources, those that are read last may be kept for a minute."""
    names = ("one", "two", "three", "four", "five")
    fake.healthy.resources = _listed(*names)
    fake.on[_READ] = lambda message: _contents(message, ttlMs=_LONG if len(_reads(fake)) > _FIRST else 0)
    await fake.wait_for(_READ)
    await fake.client_exited()
    reads = _reads(fake)
    if len(reads) <= _FIRST:
        raise Skip("the client does not read the resources that are listed")
    missing = [name for name in names if name not in reads]
    fake.expect(
        "CH-04",
        not missing,
        f"the client read {', '.join(reads)}; then results could be kept, and it did not read {', '.join(missing)} any more",
        fix="Keep results under the method and all params that matter: the uri, the cursor.",
        about=exchanges(fake, _READ),
    )


@scenario("CH-05")
async def asks_before_it_gives(fake: FakeServer) -> None:
    """A resource that is given after a question, and says that it may be kept, is listed twice."""
    fake.healthy.resources = _listed("note", "gated", "note", "gated")

    def read(message: ClientMessage) -> Any:
        if message.params.get("uri") != "fake://gated" or "elicitation" not in message.connection.client_capabilities:
            return _contents(message, ttlMs=0)
        if "inputResponses" in message.params or "requestState" in message.params:
            return _contents(message, ttlMs=_LONG)
        question = {"method": "elicitation/create", "params": {"message": "Who wants to know?", "requestedSchema": _FORM}}
        return {"resultType": "input_required", "inputRequests": {"who": question}, "requestState": "fake-gated"}

    fake.on[_READ] = read
    await fake.wait_for(lambda message: message.method == _READ and "inputResponses" in message.params)
    await fake.client_exited()
    reads = _reads(fake)
    if reads["note"] < _FIRST:
        raise Skip("the client does not read a resource twice that is listed twice")
    fake.expect(
        "CH-05",
        reads["gated"] >= _FIRST,
        "a result that the client got by answering a question was kept: the second time, it did not ask for it",
        fix="Do not keep the results of requests with inputResponses or requestState, whatever they say of themselves.",
        about=exchanges(fake, _READ),
    )


@scenario("CH-07")
async def announces_a_change(fake: FakeServer) -> None:
    """The list of tools may be kept for a minute, and whoever listens is told at once that it has changed."""
    fake.on["tools/list"] = lambda _said: {"tools": fake.healthy.tools, "ttlMs": _LONG}

    def listen(message: ClientMessage) -> Any:
        message.connection.send(fake.healthy.acknowledgement(message.id, message.params))
        if _wants_tools(message):
            changed = {"_meta": {META_SUBSCRIPTION_ID: message.id}}
            message.connection.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": changed})
        return SILENCE

    fake.on["subscriptions/listen"] = listen
    told = await fake.wait_for(lambda message: message.method == "subscriptions/listen" and _wants_tools(message))
    await fake.client_exited()
    before, after = (
        {message.method for message in fake.requests() if (message.number > told.number) is later} for later in (False, True)
    )
    again = "tools/list" in after
    if "tools/list" not in before or not (again or "prompts/list" in before & after):
        raise Skip("the client did not need a list again after the change")
    fake.expect(
        "CH-07",
        again,
        "after the change of the list of tools was announced, the client asked again for the prompts, but not for the tools",
        fix="Drop what was kept of a list when its change is announced, however long it would have been good.",
        about=exchanges(fake, "tools/list"),
    )


def _wants_tools(message: ClientMessage) -> bool:
    wanted = message.params.get("notifications")
    return isinstance(wanted, dict) and wanted.get("toolsListChanged") is True


@scenario("CH-09")
async def refuses_its_own_cursor(fake: FakeServer) -> None:
    """The first page may be kept for a minute; when the client comes for the second, its cursor is not good any more."""
    refused: list[ClientMessage] = []

    def response(message: ClientMessage) -> Any:
        if refused:
            return {"tools": fake.healthy.tools}
        if message.params.get("cursor") is None:
            return {"tools": fake.healthy.tools[:1], "nextCursor": "second", "ttlMs": _LONG}
        refused.append(message)
        return Fault(-32602, "that cursor is not good any more; begin again")

    fake.on["tools/list"] = response
    await fake.wait_for(lambda message: message.method == "tools/list" and message.params.get("cursor") is not None)
    await fake.client_exited()
    again = [message for message in fake.requests("tools/list") if message.number > refused[0].number]
    fake.expect(
        "CH-09",
        any(message.params.get("cursor") is None for message in again),
        "after its cursor was refused with -32602, the client did not ask for the list from its beginning",
        fix="Drop the pages that are there, and ask without a cursor, once.",
        about=refused[0],
    )
