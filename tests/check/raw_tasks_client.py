"""A hand-written client in memory. It listens, has tasks of both eras, and breaks the rules that a test names."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from check.raw_tasks import CAPABILITIES, EXTENSION, LEGACY, MODERN, VERSION, WORK, RawPeer, Rejected, Task, TaskStore
from twopipes import TwopipesError
from twopipes._channels.base import Channel
from twopipes._channels.memory import memory_pair
from twopipes._tools.check.client_run import InProcessDriver, Launcher


class Hand(RawPeer):
    """A client's end of a connection, with what its revision wants in each request."""

    def __init__(self, channel: Channel, answer: Callable[..., Any]) -> None:
        super().__init__(channel, answer)
        self.revision = MODERN
        self.declares: dict[str, Any] = {}

    def start(self, method: str, params: dict[str, Any]) -> int:
        if self.revision == MODERN:
            params = {**params, "_meta": {VERSION: MODERN, CAPABILITIES: self.declares}}
        return super().start(method, params)


@asynccontextmanager
async def hand_to(launcher: Launcher, answer: Callable[..., Any] | None = None) -> AsyncIterator[Hand]:
    """A connection to the fake server."""

    async def refuse(_speaker: RawPeer, _message: dict[str, Any]) -> Any:
        raise Rejected(-32601)

    ours, theirs = memory_pair()
    serving = asyncio.create_task(launcher.serve(channel=theirs))
    peer = Hand(ours, answer or refuse)
    reading = asyncio.create_task(peer.read())
    try:
        yield peer
    finally:
        with suppress(TwopipesError):
            await ours.close_write()
        await asyncio.wait([serving], timeout=1)
        await ours.close()
        reading.cancel()
        serving.cancel()
        await asyncio.gather(reading, serving, return_exceptions=True)


def listening_client(gives_up: Callable[[Hand, int], bool] = lambda _hand, _listen: False, *, listens_again: bool = True) -> Any:
    """A client that listens before anything else, and starts the server again if it dies.

    Args:
        gives_up: Called with the client and the id of its listen; returns whether to end the listen.
        listens_again: Whether it remembers its listen after a restart.
    """

    async def go(launcher: Launcher) -> None:
        for attempt in range(2):
            async with hand_to(launcher) as peer:
                with suppress(ConnectionError, TwopipesError):
                    await peer.request("server/discover", {})
                    listen = -1
                    if listens_again or not attempt:
                        listen = peer.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
                    await peer.request("prompts/list", {})
                    if gives_up(peer, listen):
                        return
                    await peer.request("tools/list", {})
                    return

    return InProcessDriver(go)


def tags_of(peer: Hand, method: str) -> list[Any]:
    """The ids of the subscriptions for which a notification came."""
    found = [each["params"] for each in peer.received if each.get("method") == method]
    return [each["_meta"]["io.modelcontextprotocol/subscriptionId"] for each in found]


ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def task_client(*faults: str, revision: str = LEGACY) -> Any:
    """A client that knows tasks: it runs them for a server, and lets a server run them."""

    async def legacy(launcher: Launcher) -> None:
        store = TaskStore(faults)

        async def work(task: Task) -> None:
            task.result = {"action": "decline"}
            await asyncio.sleep(WORK)
            task.end("completed")

        async def answer(_speaker: RawPeer, message: dict[str, Any]) -> Any:
            method, params = message["method"], message.get("params", {})
            if method.startswith("tasks/"):
                return await store.answer(method, params)
            if method == "elicitation/create":
                takes_tasks = "undeclared" not in faults or "eager" in faults
                if "task" in params and takes_tasks:
                    return {"task": store.shown(store.begin(work))}
                return {"action": "decline"}
            if "id" in message:
                raise Rejected(-32601)
            return None

        async with hand_to(launcher, answer) as peer:
            peer.revision = LEGACY
            try:
                await _legacy_tour(peer, set(faults))
            finally:
                await store.close()

    async def modern(launcher: Launcher) -> None:
        async with hand_to(launcher) as peer:
            peer.declares = {"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}}
            await _modern_tour(peer, set(faults))

    return InProcessDriver(legacy if revision == LEGACY else modern)


async def _legacy_tour(peer: Hand, faults: set[str]) -> None:
    tasks = {"list": "list-is-true" in faults or {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}}
    can = {"elicitation": {}} if "undeclared" in faults else {"elicitation": {}, "tasks": tasks}
    opening = {"protocolVersion": LEGACY, "capabilities": can, "clientInfo": {"name": "peer", "version": "1"}}
    server = (await peer.request("initialize", opening))["result"]["capabilities"]
    peer.send({"method": "notifications/initialized"})
    for tool in (await peer.request("tools/list", {}))["result"]["tools"]:
        support = tool.get("execution", {}).get("taskSupport", "forbidden") if "tasks" in server else "forbidden"
        if "all-tasks" in faults or (support != "forbidden" and not ("plain-calls" in faults and support == "required")):
            made = await peer.request("tools/call", {"name": tool["name"], "arguments": {}, "task": {"ttl": 1000}})
            if "task" in made.get("result", {}) and "waits-to-be-told" not in faults:
                await _legacy_wait(peer, made["result"]["task"], faults)
        else:
            await peer.request("tools/call", {"name": tool["name"], "arguments": {}})


async def _legacy_wait(peer: Hand, task: dict[str, Any], faults: set[str]) -> None:
    for _ in range(5):
        got = (await peer.request("tasks/get", {"taskId": task["taskId"]}))["result"]
        if got["status"] == "input_required" and "leaves-it-in-need" not in faults:
            await peer.request("tasks/result", {"taskId": task["taskId"]})
        if got["status"] == "completed":
            break
        await asyncio.sleep(0 if "hasty" in faults else got["pollInterval"] / 1000)
    if "leaves-it-in-need" not in faults:
        await peer.request("tasks/result", {"taskId": task["taskId"]})


async def _modern_tour(peer: Hand, faults: set[str]) -> None:
    await peer.request("server/discover", {})
    for tool in (await peer.request("tools/list", {}))["result"]["tools"]:
        call = peer.start("tools/call", {"name": tool["name"], "arguments": {}})
        made = (await peer.open[call])["result"]
        if made["resultType"] != "task" or "drops-tasks" in faults:
            continue
        if "cancels-the-call" in faults:
            peer.send({"method": "notifications/cancelled", "params": {"requestId": call}})
        await _modern_wait(peer, made["taskId"], faults)
    for prompt in (await peer.request("prompts/list", {}))["result"]["prompts"]:
        got = (await peer.request("prompts/get", {"name": prompt["name"]}))["result"]
        if got["resultType"] == "task" and "tasks-everywhere" in faults:
            await peer.request("tasks/get", {"taskId": got["taskId"]})


async def _modern_wait(peer: Hand, task_id: str, faults: set[str]) -> None:
    declares = peer.declares
    if "forgets-the-extension" in faults:
        peer.declares = {}
    answered: set[str] = set()
    for _ in range(6):
        got = (await peer.request("tasks/get", {"taskId": task_id}))["result"]
        if got["status"] == "completed":
            break
        asked = [each for each in got.get("inputRequests", {}) if each not in answered or "repeats-itself" in faults]
        if asked:
            answered.update(asked)
            replies = {each: {"action": "decline"} for each in asked}
            await peer.request("tasks/update", {"taskId": task_id, "inputResponses": replies})
        await asyncio.sleep(0 if "hasty" in faults else got["pollIntervalMs"] / 1000)
    peer.declares = declares
