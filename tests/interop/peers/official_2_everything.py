"""The tour of the official Python SDK 2.x: ``official_2_everything.py JOB``."""

import warnings
from contextlib import asynccontextmanager
from importlib.metadata import version

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import ToolsListChanged
from tour import LEVEL_KEY, ROOT, Host, all_pages, dumped, ended, main, tour

# Half of the methods that the tour uses are deprecated; the warnings would only be noise.
warnings.simplefilter("ignore")


class Guest:
    """The client behind the interface that the tour uses."""

    def __init__(self, client, host):
        self.client = client
        self.host = host
        self.modern = client.protocol_version >= "2026"

    async def tools(self):
        return await all_pages(lambda cursor: self.client.list_tools(cursor=cursor), "tools")

    async def resources(self):
        return (await all_pages(lambda cursor: self.client.list_resources(cursor=cursor), "resources"))[0]

    async def templates(self):
        return (await all_pages(lambda cursor: self.client.list_resource_templates(cursor=cursor), "resourceTemplates"))[0]

    async def prompts(self):
        return (await all_pages(lambda cursor: self.client.list_prompts(cursor=cursor), "prompts"))[0]

    async def call(self, name, arguments, note=None, meta=None):
        async def report(*progress):
            note(*progress)

        return dumped(await self.client.call_tool(name, arguments, progress_callback=note and report, meta=meta))

    async def read(self, uri):
        return dumped(await self.client.read_resource(uri))["contents"]

    async def get(self, name, arguments):
        return dumped(await self.client.get_prompt(name, arguments))["messages"]

    async def complete_prompt(self, name, argument, typed):
        return await self._complete(types.PromptReference(name=name), argument, typed)

    async def complete_template(self, uri, variable, typed):
        return await self._complete(types.ResourceTemplateReference(uri=uri), variable, typed)

    async def _complete(self, reference, argument, typed):
        return dumped(await self.client.complete(reference, {"name": argument, "value": typed}))["completion"]

    async def log_from(self, level):
        if self.modern:
            await self.call("log", {}, meta={LEVEL_KEY: level})
        else:
            await self.client.set_logging_level(level)
            await self.call("log", {})

    @asynccontextmanager
    async def watching(self, uri):
        if self.modern:
            async with self.client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as events:

                async def next_event():
                    event = await anext(events)
                    if isinstance(event, ToolsListChanged):
                        return ["notifications/tools/list_changed"]
                    return ["notifications/resources/updated", event.uri]

                yield next_event
        else:
            await self.client.subscribe_resource(uri)
            yield self.host.changes.get
            await self.client.unsubscribe_resource(uri)

    async def cancel(self, call):
        return await ended(call)


async def make_tour(job):
    host = Host()

    async def elicit(context, params):
        if isinstance(params, types.ElicitRequestURLParams):
            return types.ElicitResult(action=host.visit(params.message, params.url))
        action, content = host.fill_in(params.message, params.requested_schema)
        return types.ElicitResult(action=action, content=content)

    async def sample(context, params):
        (message,) = params.messages
        thought = types.TextContent(text=host.think(message.content.text))
        return types.CreateMessageResult(role="assistant", content=thought, model="none")

    async def roots(context):
        return types.ListRootsResult(roots=[types.Root(uri=ROOT)])

    async def log(params):
        host.logged.put_nowait([params.level, params.data, params.logger])

    async def notice(message):
        if isinstance(message, Exception):
            raise message
        host.notice(message.method, dumped(message).get("params"))

    async with Client(
        job.get("url") or StdioServerParameters(command=job["command"][0], args=job["command"][1:]),
        mode=job["mode"],
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=roots,
        logging_callback=log,
        message_handler=notice,
    ) as client:
        found = await tour(Guest(client, host), host)
        return {"peer": f"mcp {version('mcp')}", "revision": client.protocol_version, **found}


main(make_tour)
