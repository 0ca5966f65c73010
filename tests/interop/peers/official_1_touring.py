"""Use every feature of a server with the client of the official Python SDK 1.x: ``official_1_touring.py CMD...``."""

import asyncio
import sys
from contextlib import suppress
from datetime import timedelta

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client, types
from pydantic import AnyUrl

# Seconds to wait for a response, and pages of a list: values that a host would choose.
PATIENCE, PAGES = timedelta(seconds=5), 20


async def elicit(context, params):
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content={"name": "Anna"})


async def sample(context, params):
    return types.CreateMessageResult(role="assistant", content=types.TextContent(type="text", text="Hi"), model="none")


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/anna")])


async def ignore(*report):
    pass


async def listed(list_page, items):
    found, cursor = [], None
    with suppress(Exception):
        for _ in range(PAGES):
            page = await list_page(params=types.PaginatedRequestParams(cursor=cursor))
            found += getattr(page, items)
            cursor = page.nextCursor
            if cursor is None:
                break
    return found


async def main(command, *arguments):
    async with (
        stdio_client(StdioServerParameters(command=command, args=arguments)) as streams,
        ClientSession(
            *streams,
            read_timeout_seconds=PATIENCE,
            elicitation_callback=elicit,
            sampling_callback=sample,
            list_roots_callback=roots,
            logging_callback=ignore,
        ) as session,
    ):
        opened = await session.initialize()
        can = opened.capabilities
        for tool in await listed(session.list_tools, "tools"):
            with suppress(Exception):
                await session.call_tool(tool.name, {}, progress_callback=ignore)
        for resource in await listed(session.list_resources, "resources") if can.resources else ():
            with suppress(Exception):
                await session.read_resource(resource.uri)
        if can.resources:
            await listed(session.list_resource_templates, "resourceTemplates")
        for prompt in await listed(session.list_prompts, "prompts") if can.prompts else ():
            with suppress(Exception):
                await session.get_prompt(prompt.name, {each.name: "3" for each in prompt.arguments or ()})
        with suppress(Exception):
            note = types.ResourceTemplateReference(type="ref/resource", uri="fake://notes/{name}")
            # The first revision has completion, but no capability for it.
            if can.completions or opened.protocolVersion == "2024-11-05":
                await session.complete(note, {"name": "name", "value": "a"})
        with suppress(Exception):
            if can.logging:
                await session.set_logging_level("info")
            if can.resources and can.resources.subscribe:
                await session.subscribe_resource(AnyUrl("fake://note"))
                await session.unsubscribe_resource(AnyUrl("fake://note"))
            await session.send_ping()


try:
    asyncio.run(main(*sys.argv[1:]))
except* anyio.BrokenResourceError:
    pass  # the reader of this SDK fails if a message arrives while it closes; the tour is over by then
