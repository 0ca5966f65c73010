"""The tour of ``examples/everything.py`` that every Python client runs.

Each client is wrapped in an adapter, called a guest. Its results are plain dictionaries with the names used on the wire, so that
the test can compare the tours of different clients.
"""

import asyncio
import json
import sys

# Seconds; a safety net: a missing notification should show up as a traceback of the client, not as silence.
NET = 40.0
FOR_EVER = {"steps": 1_000_000, "seconds": 0.01}
# The user's answers to forms, by the first field of the form.
FORMS = {"name": {"name": "Ada", "age": 36}, "favourite": {"favourite": "green", "others": ["red", "blue"]}}
ROOT = "file:///home/ada"
LEVEL_KEY = "io.modelcontextprotocol/logLevel"


class Host:
    """The host application: answers questions, and keeps notifications."""

    def __init__(self):
        self.action = "accept"
        self.questions = []
        self.logged = asyncio.Queue()
        self.changes = asyncio.Queue()

    def visit(self, message, url):
        """Return the action of the user who is shown a URL."""
        self.questions.append(f"{message} {url}")
        return self.action

    def fill_in(self, message, schema):
        """Return the action of the user, and the content of the form."""
        self.questions.append(message)
        return self.action, FORMS[next(iter(schema["properties"]))] if self.action == "accept" else None

    @staticmethod
    def think(prompt):
        """Return the text that the model generates."""
        return f"the model heard: {prompt}"

    def notice(self, method, params):
        """Keep a notification about a change."""
        if method.endswith(("list_changed", "updated")):
            self.changes.put_nowait([method, params["uri"]] if method.endswith("updated") else [method])


def dumped(model):
    """Return the model as it was on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def text_of(result):
    return result["content"][0]["text"]


async def all_pages(list_page, items):
    """Return the items of all pages, and the number of pages."""
    found, pages, cursor = [], 0, None
    while pages == 0 or cursor:
        page = dumped(await list_page(cursor))
        found += page[items]
        pages += 1
        cursor = page.get("nextCursor")
    return found, pages


async def tour(guest, host):
    """Use every feature once."""
    found = {}
    tools, found["pages"] = await guest.tools()
    found["tools"] = [tool["name"] for tool in tools]
    calls = {
        "echo": {"text": "h\u00e9llo\n\u2028"},
        "structured": {"city": "Bergen", "celsius": 7.5},
        "numbers": {"count": 3},
        "fail": {},
        "boom": {},
    }
    found["calls"] = {name: await guest.call(name, arguments) for name, arguments in calls.items()}

    try:
        found["blocks"] = (await guest.call("blocks", {}))["content"]
    except Exception as error:
        found["blocks"] = str(error)

    found["resources"] = [resource["uri"] for resource in await guest.resources()]
    found["templates"] = [template["uriTemplate"] for template in await guest.templates()]
    found["read"] = {uri: await guest.read(uri) for uri in ("note://first", "image://pixel", "note://second")}
    found["prompts"] = [prompt["name"] for prompt in await guest.prompts()]
    found["review"] = await guest.get("review", {"code": "pass", "language": "rust"})
    found["dialogue"] = await guest.get("dialogue", {"topic": "tea"})
    found["completed"] = [
        await guest.complete_prompt("dialogue", "topic", "topic-1"),
        await guest.complete_prompt("review", "language", "r"),
        await guest.complete_template("note://{name}", "name", "s"),
    ]

    asked = {}
    for name in ("ask", "ask_twice", "ask_at_once", "ask_from_a_thread", "ask_url"):
        asked[name] = text_of(await guest.call(name, {}))
    asked["gated://secret"] = await guest.read("gated://secret")
    asked["gated_prompt"] = await guest.get("gated_prompt", {})
    host.action = "decline"
    asked["ask, declined"] = text_of(await guest.call("ask", {}))
    asked["sample"] = text_of(await guest.call("sample", {"prompt": "hm"}))
    asked["roots"] = (await guest.call("roots_tool", {}))["structuredContent"]["result"]
    found["asked"] = asked
    found["questions"] = host.questions

    await guest.log_from("warning")
    found["logged"] = [await host.logged.get()]
    while found["logged"][-1][0] != "emergency":
        found["logged"].append(await host.logged.get())

    progress = []
    found["slow"] = text_of(await guest.call("slow", {"steps": 3}, lambda *report: progress.append(report)))
    found["progress"] = progress

    async with guest.watching("note://first") as next_change:
        changes = []
        await guest.call("touch", {"text": "A new note."})
        changes.append(await next_change())
        found["touched"] = await guest.read("note://first")
        for _ in range(2):
            await guest.call("mutate", {})
            changes.append(await next_change())
            changes.append([tool["name"] for tool in (await guest.tools())[0] if tool["name"] == "extra"])
        found["changes"] = changes

    # The call to be cancelled is known to be running once it has reported progress.
    working = asyncio.Event()
    call = asyncio.create_task(guest.call("slow", FOR_EVER, lambda *_: working.set()))
    await working.wait()
    found["cancelled"] = await guest.cancel(call)
    found["afterwards"] = text_of(await guest.call("echo", {"text": "still here"}))
    await guest.call("touch", {"text": "Not watched."})
    return found


async def ended(call):
    """Cancel a task on the client's side, and return how it ends."""
    call.cancel()
    (outcome,) = await asyncio.gather(call, return_exceptions=True)
    return type(outcome).__name__


def main(make_tour):
    """Run the tour that the test asks for, and print the findings."""

    async def bounded():
        async with asyncio.timeout(NET):
            return await make_tour(json.loads(sys.argv[1]))

    print(json.dumps(asyncio.run(bounded())))
