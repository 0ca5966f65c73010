"""Hand-written tasks for both sides: a server with tasks in both eras and an app, and the parts of a client that runs tasks.

Our server and client have no tasks, so the rules about them are tried on these. ``faults`` names the faults; by default there are
none.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from check.time_scale import scaled
from twopipes import TwopipesError
from twopipes._channels.base import Channel
from twopipes._channels.memory import memory_pair
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.server_source import ChannelTarget

RELATED = "io.modelcontextprotocol/related-task"
EXTENSION = "io.modelcontextprotocol/tasks"
UI = "io.modelcontextprotocol/ui"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LEGACY, MODERN = "2025-11-25", "2026-07-28"
# Seconds that the work of a task takes: longer than a few messages in memory.
WORK = 0.15
WAITS = ProbeTimeouts(start=5, response=1, grace=0.02, exit=2, step=2)
ENDED = {"completed", "failed", "cancelled"}


class Rejected(Exception):
    """A request is rejected with an error."""

    def __init__(self, code: int, data: Any = None) -> None:
        super().__init__(f"error {code}")
        self.error = {"code": code, "message": "no", **({"data": data} if data is not None else {})}


class Task:
    """One task."""

    def __init__(self, task_id: str) -> None:
        self.id = task_id
        self.status = "working"
        self.result: dict[str, Any] = {}
        self.over = asyncio.Event()
        self.wanted = asyncio.Event()  # the result is requested
        self.seen_ended = 0
        self.questions: dict[str, Any] = {}

    def end(self, status: str) -> None:
        if self.status not in ENDED:
            self.status = status
            self.over.set()


class TaskStore:
    """The tasks that one side runs, as in 2025-11-25."""

    def __init__(self, faults: Iterable[str] = ()) -> None:
        self.faults = set(faults)
        self.tasks: dict[str, Task] = {}
        self.running: set[asyncio.Task[None]] = set()

    def begin(self, work: Callable[[Task], Awaitable[None]]) -> Task:
        task = Task(f"task-{len(self.tasks):06}" if "counts" in self.faults else str(uuid.uuid4()))
        self.tasks[task.id] = task

        async def run() -> None:
            await work(task)

        running = asyncio.create_task(run())
        self.running.add(running)
        running.add_done_callback(self.running.discard)
        return task

    async def close(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)

    def shown(self, task: Task) -> dict[str, Any]:
        shown = {"taskId": task.id, "status": task.status, "createdAt": "2025-11-25T10:00:00Z", "pollInterval": 20}
        if "without-ttl" not in self.faults:
            shown["ttl"] = None
        return {**shown, "lastUpdatedAt": "2025-11-25T10:00:01Z"}

    def find(self, params: dict[str, Any]) -> Task:
        wanted = params.get("taskId")
        if "meta-wins" in self.faults:
            wanted = params.get("_meta", {}).get(RELATED, {}).get("taskId", wanted)
        if wanted not in self.tasks:
            raise Rejected(-32603 if "unknown-is-internal" in self.faults else -32602)
        return self.tasks[wanted]

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "tasks/list":
            if params.get("cursor") not in {None, "second"}:
                raise Rejected(-32602)
            tasks = [self.shown(each) for each in self.tasks.values()]
            if "forgets-in-list" in self.faults:
                tasks = []
            return {"tasks": tasks[1:]} if "cursor" in params else {"tasks": tasks[:1], "nextCursor": "second"}
        task = self.find(params)
        if method == "tasks/get":
            shown = self.shown(task)
            if task.status in ENDED:
                task.seen_ended += 1
                if "comes-back" in self.faults and task.seen_ended > 1:
                    shown["status"] = "working"
            return {"task": shown} if "wraps" in self.faults else shown
        if method == "tasks/result":
            task.wanted.set()
            if "early-result" not in self.faults:
                await task.over.wait()
            meta = {} if "unrelated-result" in self.faults else {"_meta": {RELATED: {"taskId": task.id}}}
            return {"text": "Done.", **meta} if "bare-text" in self.faults else {**task.result, **meta}
        if task.status in ENDED and "cancels-the-dead" not in self.faults:
            raise Rejected(-32602)
        if "cancels-later" not in self.faults:
            task.end("cancelled")
        return self.shown(task)


class RawPeer:
    """One end of a connection: serves requests and notifications, and sends requests."""

    def __init__(self, channel: Channel, answer: Callable[["RawPeer", dict[str, Any]], Awaitable[Any]]) -> None:
        self.channel = channel
        self.received: list[dict[str, Any]] = []
        self.open: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self.can: dict[str, Any] = {}
        self._answer = answer
        self._ids = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, message: dict[str, Any]) -> None:
        self.channel.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def start(self, method: str, params: dict[str, Any]) -> int:
        self._ids += 1
        self.open[self._ids] = asyncio.get_running_loop().create_future()
        self.send({"id": self._ids, "method": method, "params": params})
        return self._ids

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self.open[self.start(method, params)]

    async def read(self) -> None:
        rest = b""
        try:
            while data := await self.channel.read():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        except TwopipesError:
            pass
        finally:
            for future in self.open.values():
                if not future.done():
                    future.set_exception(ConnectionError("the connection is over"))
                    future.exception()  # retrieved, so that asyncio does not warn; a waiter still gets it
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, message: dict[str, Any]) -> None:
        self.received.append(message)
        if "method" not in message:
            future = self.open.get(message.get("id"))
            if future is not None and not future.done():
                future.set_result(message)
            return
        task = asyncio.create_task(self._reply(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, message: dict[str, Any]) -> None:
        try:
            kind = {"result": await self._answer(self, message)}
        except Rejected as refused:
            kind = {"error": refused.error}
        if "id" in message and kind.get("result", True) is not None:
            self.send({"id": message["id"], **kind})


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}] if said else [], **more}


SAFE = {"readOnlyHint": True}
TOOLS = {"greet": "forbidden", "slow": "optional", "needy": "required", "fail": "optional", "ask": "optional"}


class TaskServer:
    """A server with tasks of both eras, and a tool with an app."""

    def __init__(self, faults: Iterable[str] = ()) -> None:
        self.faults = set(faults)
        self.store = TaskStore(self.faults)

    async def serve(self, channel: Channel) -> None:
        try:
            await RawPeer(channel, self.answer).read()
        finally:
            await self.store.close()
            await channel.close()

    async def answer(self, peer: RawPeer, message: dict[str, Any]) -> Any:
        method, params = message["method"], message.get("params", {})
        meta = params.get("_meta", {})
        if VERSION in meta:
            result = await self.modern(peer, message, meta.get(CAPABILITIES, {}))
            return None if result is None else {"resultType": "complete", **result}
        if method == "initialize":
            peer.can = params["capabilities"]
            if params["protocolVersion"] != LEGACY:
                return {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "tasks", "version": "1"}}
            tasks = {"list": "list-is-true" in self.faults or {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
            capabilities = {"tools": {}, "tasks": tasks}
            return {"protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": {"name": "tasks", "version": "1"}}
        if method.startswith("tasks/"):
            return await self.store.answer(method, params)
        if method == "tools/call":
            return await self.legacy_call(peer, params)
        return self.plain(method, LEGACY)

    def plain(self, method: str, revision: str) -> Any:
        if method.startswith("notifications/") or (method == "ping" and revision == LEGACY):
            return {}
        if method != "tools/list":
            raise Rejected(-32601)
        tools: list[dict[str, Any]] = []
        for name, support in TOOLS.items():
            more = {"execution": {"taskSupport": support}} if revision == LEGACY and support != "forbidden" else {}
            tools.append({"name": name, "inputSchema": {"type": "object"}, "annotations": SAFE, **more})
        if revision == MODERN:
            uri = "https://example.com/page" if "page-elsewhere" in self.faults else "ui://tasks/page"
            app = {"_meta": {"ui": {"resourceUri": uri}}}
            tools.append({"name": "dashboard", "inputSchema": {"type": "object"}, "annotations": SAFE, **app})
        return {"tools": tools}

    # 2025-11-25

    async def legacy_call(self, peer: RawPeer, params: dict[str, Any]) -> Any:
        name = params["name"]
        if "extension-after-a-handshake" in self.faults and EXTENSION in peer.can.get("extensions", {}):
            return {"resultType": "task", **self.modern_shown(self.store.begin(self.work(peer, name)))}
        if TOOLS.get(name) == "required" and "task" not in params and "runs-plainly" not in self.faults:
            raise Rejected(-32601)
        if "task" in params:
            if TOOLS.get(name, "forbidden") == "forbidden":
                raise Rejected(-32601)
            return {"task": self.store.shown(self.store.begin(self.work(peer, name)))}
        return text("It failed.", isError=True) if name == "fail" else text("Done.")

    def work(self, peer: RawPeer, name: str) -> Callable[[Task], Awaitable[None]]:
        async def work(task: Task) -> None:
            task.result = text("Done.")
            if name == "ask":
                await self.question(peer, task)
            await asyncio.sleep(WORK)
            if name == "fail":
                task.result = text("It failed.", isError=True)
            fails = name == "fail" and "fail-completes" not in self.faults
            if "overwrites" in self.faults:
                task.status = "working"
            task.end("failed" if fails else "completed")
            shown = {"taskId": task.id} if "tells-half" in self.faults else self.store.shown(task)
            peer.send({"method": "notifications/tasks/status", "params": shown})

        return work

    async def question(self, peer: RawPeer, task: Task) -> None:
        if "never-in-need" not in self.faults:
            task.status = "input_required"
        await task.wanted.wait()
        meta = {} if "unrelated-question" in self.faults else {"_meta": {RELATED: {"taskId": task.id}}}
        await peer.request(
            "elicitation/create", {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}, **meta}
        )
        task.status = "working"

    # The extension

    async def modern(self, peer: RawPeer, message: dict[str, Any], can: dict[str, Any]) -> Any:
        method, params = message["method"], message["params"]
        declared = EXTENSION in can.get("extensions", {})
        if method == "server/discover":
            extensions = {EXTENSION: "extension-is-true" in self.faults or {}, UI: {}}
            capabilities = {"tools": {}, "resources": {}, "extensions": extensions}
            return {"supportedVersions": [MODERN, LEGACY], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"}
        if method == "tools/call":
            return self.modern_call(peer, message, params["name"], declared=declared)
        if method == "subscriptions/listen":
            return self.listen(peer, message, params["notifications"], declared=declared)
        if method in {"tasks/get", "tasks/update", "tasks/cancel"}:
            if not declared and "serves-strangers" not in self.faults:
                raise Rejected(-32021, {"requiredCapabilities": {"extensions": {EXTENSION: {}}}})
            return self.about_task(method, params)
        if method == "resources/list":
            return {"resources": [{"uri": "ui://tasks/page", "name": "page"}], "ttlMs": 0, "cacheScope": "private"}
        if method == "resources/templates/list":
            return {"resourceTemplates": [], "ttlMs": 0, "cacheScope": "private"}
        if method == "resources/read":
            kind = "text/html" if "page-of-another-type" in self.faults else "text/html;profile=mcp-app"
            return {"contents": [{"uri": params["uri"], "mimeType": kind, "text": "<p>"}], "ttlMs": 0, "cacheScope": "private"}
        if "lists-become-tasks" in self.faults and declared:
            return {"resultType": "task", **self.plain(method, MODERN), "ttlMs": 0, "cacheScope": "private"}
        return {**self.plain(method, MODERN), "ttlMs": 0, "cacheScope": "private"}

    def modern_call(self, peer: RawPeer, message: dict[str, Any], name: str, *, declared: bool) -> Any:
        if name in {"greet", "dashboard"}:
            return text("" if name == "dashboard" and "app-without-text" in self.faults else "Done.")
        if not declared and "unasked-tasks" not in self.faults:
            return text("It failed.", isError=True) if name == "fail" else text("Done.")
        token = message["params"]["_meta"].get("progressToken")

        async def work(task: Task) -> None:
            task.result = text("It failed.", isError=True) if name == "fail" else text("Done.")
            if name == "ask":
                task.status, task.questions = "input_required", {"who": {"method": "elicitation/create", "params": {}}}
                return
            await asyncio.sleep(WORK)
            if token is not None and "tells-progress" in self.faults:
                peer.send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
            if "tells-the-log" in self.faults:
                peer.send({"method": "notifications/message", "params": {"level": "info", "data": "half of it is done"}})
            cancelled = any(each.get("params", {}).get("requestId") == message["id"] for each in peer.received if "id" not in each)
            if cancelled and "cancelled-cancels" in self.faults:
                task.end("cancelled")
            task.end("failed" if name == "fail" and "fail-fails" in self.faults else "completed")

        return {"resultType": "task", **self.modern_shown(self.store.begin(work))}

    def modern_shown(self, task: Task) -> dict[str, Any]:
        shown = self.store.shown(task)
        shown |= {"pollIntervalMs": shown.pop("pollInterval"), **({"ttlMs": shown.pop("ttl")} if "ttl" in shown else {})}
        return shown

    def about_task(self, method: str, params: dict[str, Any]) -> Any:
        task = self.store.find(params)
        if method == "tasks/get":
            task.seen_ended += 1
            if "late-tasks" in self.faults and task.seen_ended == 1:
                raise Rejected(-32602)
            belongs = {"completed": {"result": task.result}, "failed": {"error": {"code": -32603, "message": "no"}}}
            more = {"inputRequests": task.questions} if task.questions else belongs.get(task.status, {})
            return {**self.modern_shown(task), **({} if "keeps-results" in self.faults else more)}
        if method == "tasks/update" and "strict-updates" in self.faults and params["inputResponses"].keys() - task.questions.keys():
            raise Rejected(-32602)
        if method == "tasks/cancel":
            task.end("cancelled")
        return self.modern_shown(task) if "long-acknowledgements" in self.faults else {}

    def listen(self, peer: RawPeer, message: dict[str, Any], wanted: dict[str, Any], *, declared: bool) -> None:
        ids = wanted.get("taskIds", [])
        if ids and not declared and "tells-strangers" not in self.faults:
            code = -32602 if "refuses-strangers-in-its-own-way" in self.faults else -32021
            raise Rejected(code, {"requiredCapabilities": {"extensions": {EXTENSION: {}}}})
        if "tells-of-anything" not in self.faults:
            ids = [each for each in ids if each in self.store.tasks]
        shown = {"notifications": {"taskIds": ids} if ids else {}, "_meta": {SUBSCRIPTION: message["id"]}}
        peer.send({"method": "notifications/subscriptions/acknowledged", "params": shown})


def task_server(*faults: str) -> ChannelTarget:
    """A server with tasks, and these faults, as the check takes it."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[Channel]:
        ours, theirs = memory_pair()
        serving = asyncio.create_task(TaskServer(faults).serve(theirs))
        try:
            yield ours
        finally:
            await ours.close()
            await asyncio.wait([serving], timeout=1)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await theirs.close()

    return ChannelTarget(connect, timeouts=scaled(WAITS))
