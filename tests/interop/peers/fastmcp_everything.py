"""The tour of FastMCP's client: ``fastmcp_everything.py JOB``."""

import warnings
from contextlib import asynccontextmanager
from importlib.metadata import version

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp.client.subscriptions import ToolsListChanged, listen
from tour import LEVEL_KEY, ROOT, Host, all_pages, dumped, ended, main, tour

warnings.simplefilter("ignore")


class Guest:
    """The client behind the interface that the tour uses."""

    def __init__(self, client, host):
        self.client = client
        self.host = host
        self.modern = client.protocol_version >= "2026"

    async def tools(self):
        return await all_pages(lambda cursor: self.client.list_tools_mcp(cursor=cursor), "tools")

    async def resources(self):
        return [dumped(resource) for resource in await self.client.list_resources()]

    async def templates(self):
        return [dumped(template) for template in await self.client.list_resource_templates()]

    async def prompts(self):
        return [dumped(prompt) for prompt in await self.client.list_prompts()]

    async def call(self, name, arguments, note=None, meta=None):
        async def report(*progress):
            note(*progress)

        return dumped(await self.client.call_tool_mcp(name, arguments, progress_handler=note and report, meta=meta))

    async def read(self, uri):
        return [dumped(contents) for contents in await self.client.read_resource(uri)]

    async def get(self, name, arguments):
        return dumped(await self.client.get_prompt(name, arguments))["messages"]

    async def complete_prompt(self, name, argument, typed):
        return await self._complete(types.PromptReference(name=name), argument, typed)

    async def complete_template(self, uri, variable, typed):
        return await self._complete(types.ResourceTemplateReference(uri=uri), variable, typed)

    async def _complete(self, reference, argument, typed):
        return dumped(await self.client.complete(reference, {"name": argument, "value": typed}))

    async def log_from(self, level):
        if self.modern:
            await self.call("log", {}, meta={LEVEL_KEY: level})
        else:
            await self.client.set_logging_level(level)
            await self.call("log", {})

    @asynccontextmanager
    async def watching(self, uri):
        # It has no method for this in either era; use the session below it.
        if self.modern:
            async with listen(self.client.session, tools_list_changed=True, resource_subscriptions=[uri]) as events:

                async def next_event():
                    event = await anext(events)
                    if isinstance(event, ToolsListChanged):
                        return ["notifications/tools/list_changed"]
                    return ["notifications/resources/updated", event.uri]

                yield next_event
        else:
            await self.client.session.subscribe_resource(uri)
            yield self.host.changes.get
            await self.client.session.unsubscribe_resource(uri)

    async def cancel(self, call):
        return await ended(call)


async def make_tour(job):
    host = Host()

    async def elicit(message, form, params, context):
        if isinstance(params, types.ElicitRequestURLParams):
            return ElicitResult(action=host.visit(message, params.url))
        action, content = host.fill_in(message, params.requested_schema)
        return ElicitResult(action=action, content=content)

    async def sample(messages, params, context):
        (message,) = messages
        return host.think(message.content.text)

    async def log(message):
        host.logged.put_nowait([message.level, message.data, message.logger])

    async def notice(message):
        if isinstance(message, Exception):
            raise message
        host.notice(message.method, dumped(message).get("params"))

    async with Client(
        job.get("url") or StdioTransport(job["command"][0], job["command"][1:], keep_alive=False),
        mode=job["mode"],
        elicitation_handler=elicit,
        sampling_handler=sample,
        roots=[ROOT],
        log_handler=log,
        message_handler=notice,
    ) as client:
        found = await tour(Guest(client, host), host)
        return {"peer": f"fastmcp {version('fastmcp')}", "revision": client.protocol_version, **found}


main(make_tour)
