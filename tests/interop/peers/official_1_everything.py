"""The tour of the official Python SDK 1.x, which supports only the handshake: ``official_1_everything.py JOB``."""

from contextlib import asynccontextmanager
from importlib.metadata import version

from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl
from tour import ROOT, Host, all_pages, dumped, ended, main, tour


class Guest:
    """The session behind the interface that the tour uses."""

    def __init__(self, session, host):
        self.session = session
        self.host = host
        self.last_token = None

    async def tools(self):
        return await all_pages(lambda cursor: self.session.list_tools(params=self._from(cursor)), "tools")

    async def resources(self):
        return (await all_pages(lambda cursor: self.session.list_resources(params=self._from(cursor)), "resources"))[0]

    async def templates(self):
        listed = await all_pages(
            lambda cursor: self.session.list_resource_templates(params=self._from(cursor)), "resourceTemplates"
        )
        return listed[0]

    async def prompts(self):
        return (await all_pages(lambda cursor: self.session.list_prompts(params=self._from(cursor)), "prompts"))[0]

    @staticmethod
    def _from(cursor):
        return types.PaginatedRequestParams(cursor=cursor)

    async def call(self, name, arguments, note=None):
        async def report(*progress):
            note(*progress)

        return dumped(await self.session.call_tool(name, arguments, progress_callback=note and report))

    async def read(self, uri):
        return dumped(await self.session.read_resource(AnyUrl(uri)))["contents"]

    async def get(self, name, arguments):
        return dumped(await self.session.get_prompt(name, arguments))["messages"]

    async def complete_prompt(self, name, argument, typed):
        return await self._complete(types.PromptReference(type="ref/prompt", name=name), argument, typed)

    async def complete_template(self, uri, variable, typed):
        return await self._complete(types.ResourceTemplateReference(type="ref/resource", uri=uri), variable, typed)

    async def _complete(self, reference, argument, typed):
        return dumped(await self.session.complete(reference, {"name": argument, "value": typed}))["completion"]

    async def log_from(self, level):
        await self.session.set_logging_level(level)
        await self.call("log", {})

    @asynccontextmanager
    async def watching(self, uri):
        await self.session.subscribe_resource(AnyUrl(uri))
        yield self.host.changes.get
        await self.session.unsubscribe_resource(AnyUrl(uri))

    async def cancel(self, call):
        # It does not notify the server when a call is abandoned, so a host must. Its progress tokens are its request ids.
        params = types.CancelledNotificationParams(requestId=self.last_token, reason="the tour has seen enough")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        return await ended(call)


async def make_tour(job):
    host = Host()

    async def elicit(context, params):
        if isinstance(params, types.ElicitRequestURLParams):
            return types.ElicitResult(action=host.visit(params.message, params.url))
        action, content = host.fill_in(params.message, params.requestedSchema)
        return types.ElicitResult(action=action, content=content)

    async def sample(context, params):
        (message,) = params.messages
        thought = types.TextContent(type="text", text=host.think(message.content.text))
        return types.CreateMessageResult(role="assistant", content=thought, model="none")

    async def roots(context):
        return types.ListRootsResult(roots=[types.Root(uri=ROOT)])

    async def log(params):
        host.logged.put_nowait([params.level, params.data, params.logger])

    async def notice(message):
        if isinstance(message, Exception):
            raise message
        if isinstance(message, types.ServerNotification):
            if isinstance(message.root, types.ProgressNotification):
                guest.last_token = message.root.params.progressToken
            host.notice(message.root.method, dumped(message.root).get("params"))

    if "url" in job:
        transport = streamable_http_client(job["url"])
    else:
        transport = stdio_client(StdioServerParameters(command=job["command"][0], args=job["command"][1:]))
    async with (
        transport as (incoming, outgoing, *_),
        ClientSession(
            incoming,
            outgoing,
            elicitation_callback=elicit,
            sampling_callback=sample,
            list_roots_callback=roots,
            logging_callback=log,
            message_handler=notice,
        ) as session,
    ):
        guest = Guest(session, host)
        opened = await session.initialize()
        found = await tour(guest, host)
        return {"peer": f"mcp {version('mcp')}", "revision": opened.protocolVersion, **found}


main(make_tour)
