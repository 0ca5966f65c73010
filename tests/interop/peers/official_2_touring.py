"""Use every feature of a server with the client of the official Python SDK 2.x: ``official_2_touring.py CMD...``."""

import asyncio
import sys
import warnings
from contextlib import suppress

import mcp_types as types
from mcp import Client, StdioServerParameters

# Half of the methods used here are deprecated; the warnings would only be noise.
warnings.simplefilter("ignore")
# Seconds to wait for a response, and pages of a list: values that a host would choose.
PATIENCE, PAGES = 5, 20


async def elicit(context, params):
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content={"name": "Anna"})


async def sample(context, params):
    return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Hi"), model="none")


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/anna")])


async def ignore(*report):
    pass


async def listed(list_page, items):
    found, cursor = [], None
    with suppress(Exception):
        for _ in range(PAGES):
            page = await list_page(cursor=cursor)
            found += getattr(page, items)
            cursor = page.next_cursor
            if cursor is None:
                break
    return found


async def main(command, *arguments):
    async with Client(
        StdioServerParameters(command=command, args=arguments),
        mode="auto",
        read_timeout_seconds=PATIENCE,
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=roots,
        logging_callback=ignore,
    ) as client:
        is_modern, can = client.protocol_version >= "2026", client.server_capabilities
        for tool in await listed(client.list_tools, "tools"):
            with suppress(Exception):
                await client.call_tool(tool.name, {}, progress_callback=ignore)
        for resource in await listed(client.list_resources, "resources") if can.resources else ():
            with suppress(Exception):
                await client.read_resource(resource.uri)
        if can.resources:
            await listed(client.list_resource_templates, "resource_templates")
        for prompt in await listed(client.list_prompts, "prompts") if can.prompts else ():
            with suppress(Exception):
                await client.get_prompt(prompt.name, {each.name: "3" for each in prompt.arguments or ()})
        with suppress(Exception):
            note = types.ResourceTemplateReference(uri="fake://notes/{name}")
            # The first revision has completion, but no capability for it.
            if can.completions or client.protocol_version == "2024-11-05":
                await client.complete(note, {"name": "name", "value": "a"})
        with suppress(Exception):
            if is_modern:
                notes = ["fake://note"] if can.resources and can.resources.subscribe else None
                async with client.listen(tools_list_changed=True, resource_subscriptions=notes):
                    await client.list_tools()
            else:
                if can.logging:
                    await client.set_logging_level("info")
                if can.resources and can.resources.subscribe:
                    await client.subscribe_resource("fake://note")
                    await client.unsubscribe_resource("fake://note")
                await client.send_ping()


asyncio.run(main(*sys.argv[1:]))
